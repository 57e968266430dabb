/* The VM-NC entries of one VNI, from delta to exact tables. */
#include "agent/fwd/fib_impl.h"

/* What one put or delete can retire at most: tries to make room in exact.c, a value. */
enum { RETIRE_A_ROW = 16 };

static struct exact *vm_table(struct fib *f, const struct fib_key *k)
{
    return k->is_v6 ? &f->v6 : &f->v4;
}

/* The slots of the VNI whose entries change, as they are asked for. */
struct slots {
    bool is_known[2]; /* by family: is_v6 */
    uint64_t slot[2];
};

static uint64_t slot_of(const struct fib *f, uint32_t vni, bool is_v6, struct slots *s)
{
    if (!s->is_known[is_v6]) {
        s->is_known[is_v6] = true;
        s->slot[is_v6] = slot_find(f, vni, is_v6);
    }
    return s->slot[is_v6];
}

static enum rc vm_put(struct fib *f, const struct table_change *c,
                      const struct delta_step *s, struct slots *slots)
{
    struct fib_key key;
    struct nc_value value;
    struct exact_entry entry;
    bool existed;
    uint64_t old;
    uint32_t code;
    enum rc rc;

    if (vm_key_parse(s->after.key, s->after.key_len, &key) ||
        nc_parse(&s->after, &value)) {
        return RC_INVALID;
    }
    if (!s->before.key && f->v4.count + f->v6.count >= f->limits.max_vm_nc) {
        return RC_FULL;
    }
    if (!retire_reserve(&f->retire, RETIRE_A_ROW)) {
        return RC_NO_MEMORY;
    }
    rc = nc_acquire(f, &value, &code);
    if (rc) {
        return rc;
    }
    entry = vm_entry(c->vni, &key, code);
    exact_entry_mark(vm_table(f, &key), &entry,
                     !s->before.key &&
                         mark_is_due(f, slot_of(f, c->vni, key.is_v6, slots), &key));
    rc = exact_put(vm_table(f, &key), &entry, &existed, &old);
    if (rc) {
        nc_release(f, code);
    } else if (existed) {
        nc_release(f, (uint32_t)old);
    }
    return rc;
}

void vm_put_pass(struct fib *f, const struct table_change *c, struct refusal *refused)
{
    struct delta d = delta_of(c->before, c->after, TABLE_VM_NC);
    struct slots slots = { 0 };
    struct delta_step s;

    while (delta_next(&d, &s)) {
        enum rc rc = s.after.key ? vm_put(f, c, &s, &slots) : RC_OK;

        if (rc) {
            refuse(refused, c, &s.after, BATCH_PUT, rc);
        }
    }
}

static enum rc vm_delete(struct fib *f, const struct table_change *c,
                         const struct row *row)
{
    struct fib_key key;
    struct exact_entry entry;
    uint64_t old;

    if (vm_key_parse(row->key, row->key_len, &key)) {
        return RC_INVALID;
    }
    entry = vm_entry(c->vni, &key, 0);
    if (!retire_reserve(&f->retire, RETIRE_A_ROW)) {
        exact_mark(vm_table(f, &key), &entry, /* it stays */
                   mark_is_due(f, slot_find(f, c->vni, key.is_v6), &key));
        return RC_NO_MEMORY;
    }
    if (exact_del(vm_table(f, &key), &entry, &old)) {
        nc_release(f, (uint32_t)old);
    }
    return RC_OK;
}

void vm_delete_pass(struct fib *f, const struct table_change *c,
                    struct refusal *refused)
{
    struct delta d = delta_of(c->before, c->after, TABLE_VM_NC);
    struct delta_step s;

    if (!c->before) {
        return;
    }
    while (delta_next(&d, &s)) {
        enum rc rc = s.after.key ? RC_OK : vm_delete(f, c, &s.before);

        if (rc) {
            refuse(refused, c, &s.before, BATCH_DELETE, rc);
        }
    }
}

void vm_unmark_pass(struct fib *f, const struct table_change *c,
                    struct refusal *refused)
{
    struct delta d = delta_of(c->before, c->after, TABLE_VM_NC);
    struct delta_step s;
    struct fib_key key;

    (void)refused;
    while (c->counts.deleted > 0 && delta_next(&d, &s)) {
        if (!s.after.key && !vm_key_parse(s.before.key, s.before.key_len, &key)) {
            struct exact_entry entry = vm_entry(c->vni, &key, 0);

            exact_mark(vm_table(f, &key), &entry, false);
        }
    }
}
