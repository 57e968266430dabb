/* validate_static: what a batch of entries must keep to, whatever the region holds. */
#include "controller/core/core_internal.h"

/* Keys of a batch, to find one that comes twice. */
struct seen {
    struct seen_key {
        uint64_t hash; /* 0: empty */
        uint32_t vni;
        uint8_t table;
        uint8_t key_len;
        const uint8_t *key;
    } * at;
    uint32_t mask;
};

/* False: the key was there already. */
static bool seen_add(struct seen *s, const struct batch_run *run, const struct row *row)
{
    uint64_t hash = row_key_hash(row) ^
                    row_set_key(run->vni, run->table) * UINT64_C(0x9e3779b97f4a7c15);
    struct seen_key *k;

    hash |= 1;
    for (uint32_t i = (uint32_t)(hash >> 32) & s->mask;; i = (i + 1) & s->mask) {
        k = &s->at[i];
        if (k->hash == 0) {
            break;
        }
        if (k->hash == hash && k->vni == run->vni && k->table == run->table &&
            k->key_len == row->key_len && !memcmp(k->key, row->key, row->key_len)) {
            return false;
        }
    }
    *k = (struct seen_key){ hash, run->vni, run->table, row->key_len, row->key };
    return true;
}

/* The field that tells the entries of one VNI apart. */
static const char *key_field(unsigned table)
{
    switch (table) {
    case TABLE_VXLAN_ROUTE:
        return "prefix";
    case TABLE_VM_NC:
        return "vm";
    case TABLE_ACL:
        return "priority";
    default:
        return "vni";
    }
}

static enum rc check_run(const struct batch_run *run, struct seen *seen,
                         uint32_t *index, struct err *err)
{
    struct run_reader rows = run_reader_of(run);
    struct row row;

    if (!(INTENT_TABLES >> run->table & 1)) {
        return err_field(err, RC_INVALID, "table", "table",
                         "table %s is derived: it takes no entries",
                         table_name(run->table));
    }
    for (; run_next(&rows, &row); (*index)++) {
        if (run->table == TABLE_VXLAN_ROUTE && row.value &&
            row.value[0] > SCOPE_SERVICE) {
            return err_field(err, RC_INVALID, "scope", "scope",
                             "scope %s is the controller's own",
                             scope_name((enum route_scope)row.value[0]));
        }
        if (!seen_add(seen, run, &row)) {
            return err_field(err, RC_INVALID, key_field(run->table), "duplicate_key",
                             "vni %u: the same %s key twice in one batch", run->vni,
                             table_name(run->table));
        }
    }
    return RC_OK;
}

enum rc batch_check_static(const struct command *cmd, uint32_t *ret_index,
                           struct err *err)
{
    const struct blob *ops = cmd->entries.ops;
    struct batch_reader reader;
    struct batch_run run;
    struct seen seen = { .mask = 15 };
    uint32_t count;
    uint32_t index = 0;
    enum rc rc;

    *ret_index = UINT32_MAX;
    if (!ops || ops->len == 0) {
        return RC_OK;
    }
    if (ops->len > BATCH_MAX_BYTES) {
        return err_field(err, RC_RANGE, "", "batch_bytes",
                         "batch of %u bytes: at most %u", ops->len, BATCH_MAX_BYTES);
    }
    rc = batch_check(ops->data, ops->len, false, &count, ret_index, err);
    if (rc) {
        return rc;
    }
    if (count > BATCH_MAX_ENTRIES) {
        return err_field(err, RC_RANGE, "", "batch_entries",
                         "batch of %u entries: at most %u", count, BATCH_MAX_ENTRIES);
    }
    while (seen.mask < 2 * count) {
        seen.mask = 2 * seen.mask + 1;
    }
    seen.at = calloc((size_t)seen.mask + 1, sizeof(*seen.at));
    if (!seen.at) {
        return err_set(err, RC_NO_MEMORY, "batch: out of memory");
    }
    reader = batch_reader_of(ops->data, ops->len);
    while (!rc && batch_next(&reader, &run)) {
        rc = check_run(&run, &seen, &index, err);
    }
    free(seen.at);
    *ret_index = rc ? index : UINT32_MAX;
    return rc;
}
