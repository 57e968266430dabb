/*
 * Access rules on the ternary table `acl`.
 *
 * A rule becomes one entry for each pair of port prefixes that its two ranges need.
 * Of one priority a deny wins, so it stands one above a permit.  IPv4 lies in the pool
 * at ::ffff:0:0/96, and the table does not match on the family: so that ::/0 of an IPv6
 * rule does not catch IPv4, all rules for IPv4 stand above all for IPv6, with a permit
 * of the whole IPv4 between them, which is what a packet without a rule gets.
 */
#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

#define V4_PERMIT (2u * (ACL_PRIORITY_MAX + 1u)) /* above every rule for IPv6 */

enum { ACL_VNI, ACL_SRC, ACL_DST, ACL_PROTO, ACL_SPORT, ACL_DPORT, ACL_HAS_PORTS };

/* ---- one rule ---- */

/* The longest prefix that starts at `first` and does not pass `last`: its length. */
static unsigned port_prefix(uint32_t first, uint32_t last)
{
    unsigned bits = 0;

    while (bits < 16 && first % (UINT32_C(2) << bits) == 0 &&
           first + (UINT32_C(2) << bits) - 1 <= last) {
        bits++;
    }
    return 16 - bits;
}

static void set_port(struct phys_entry *e, unsigned field, uint32_t first, unsigned len)
{
    uint8_t bytes[2] = { (uint8_t)(first >> 8), (uint8_t)first };

    phys_set_prefix(e, field, bytes, len);
}

static void set_address(struct phys_entry *e, unsigned field, const struct prefix *p)
{
    uint8_t addr[16];
    uint8_t len;

    pooled_of(p, addr, &len);
    phys_set_prefix(e, field, addr, len);
}

static bool is_any_port(const struct port_range *r)
{
    return r->first == 0 && r->last == UINT16_MAX;
}

static struct phys_entry entry_of(uint32_t vni, const struct entry *rule)
{
    const struct acl_match *m = &rule->acl.match;
    bool is_v4 = m->src.addr.family == IP_V4;
    bool denies = rule->acl.action == ACL_DENY;
    uint8_t ones[2] = { 0xff, 0xff };
    uint8_t one = 1;
    struct phys_entry e =
        phys_make(PHYS_ACL, PHYS_BOTH,
                  (is_v4 ? V4_PERMIT : 0) + 2u * rule->acl.priority + denies);

    phys_set_key(&e, ACL_VNI, vni);
    set_address(&e, ACL_SRC, &m->src);
    set_address(&e, ACL_DST, &m->dst);
    if (m->has_proto) {
        phys_set_ternary(&e, ACL_PROTO, &m->proto, ones);
    }
    if (!is_any_port(&m->sport) || !is_any_port(&m->dport)) {
        phys_set_ternary(&e, ACL_HAS_PORTS, &one, &one); /* no later fragment has */
    }
    phys_set_action(&e, denies ? PHYS_DENY : PHYS_PERMIT);
    return e;
}

bool acl_put_right(struct phys_entry *e)
{
    enum phys_action action = e->priority % 2 ? PHYS_DENY : PHYS_PERMIT;

    if (e->action == action) {
        return false;
    }
    phys_set_action(e, action);
    return true;
}

static bool add_rule(struct entry_list *to, uint32_t vni, const struct entry *rule)
{
    const struct acl_match *m = &rule->acl.match;
    struct phys_entry e = entry_of(vni, rule);
    unsigned slen;
    unsigned dlen;

    for (uint32_t s = m->sport.first; s <= m->sport.last;
         s += UINT32_C(1) << (16 - slen)) {
        slen = port_prefix(s, m->sport.last);
        set_port(&e, ACL_SPORT, s, slen);
        for (uint32_t d = m->dport.first; d <= m->dport.last;
             d += UINT32_C(1) << (16 - dlen)) {
            dlen = port_prefix(d, m->dport.last);
            set_port(&e, ACL_DPORT, d, dlen);
            if (!entry_list_add(to, &e)) {
                return false;
            }
        }
    }
    return true;
}

bool acl_is_of(uint32_t vni, const struct entry *rule, const struct phys_entry *e)
{
    struct entry_list l = { 0 };
    bool is_hit = !add_rule(&l, vni, rule); /* without memory it may be */

    for (uint32_t i = 0; i < l.count && !is_hit; i++) {
        is_hit = l.at[i].priority == e->priority &&
                 memcmp(l.at[i].key, e->key, sizeof(e->key)) == 0 &&
                 memcmp(l.at[i].mask, e->mask, sizeof(e->mask)) == 0;
    }
    free(l.at);
    return is_hit;
}

/* Does a rule for IPv6 catch IPv4 of the pool, by source and by destination? */
static bool catches_v4(const struct entry *rule)
{
    const struct acl_match *m = &rule->acl.match;

    return prefix_is_over_v4(&m->src) && prefix_is_over_v4(&m->dst);
}

static bool add_v4_permit(struct entry_list *to, uint32_t vni)
{
    struct prefix all = { .addr = { .family = IP_V4 } };
    struct phys_entry e = phys_make(PHYS_ACL, PHYS_BOTH, V4_PERMIT);

    phys_set_key(&e, ACL_VNI, vni);
    set_address(&e, ACL_SRC, &all);
    set_address(&e, ACL_DST, &all);
    phys_set_action(&e, PHYS_PERMIT);
    return entry_list_add(to, &e);
}

/* ---- the rules of a VNI ---- */

/* Appends the entries of the rules; the list is sorted afterwards. */
static enum rc acl_expand(uint32_t vni, const struct rows *rules,
                          struct entry_list *ret)
{
    struct rows_iter it = rows_begin(rules, TABLE_ACL);
    bool wants_permit = false;
    bool is_ok = true;
    struct row row;

    while (is_ok && rows_next(&it, &row)) {
        struct entry e;

        if (entry_unpack(TABLE_ACL, vni, &row, &e, NULL) == RC_OK) {
            is_ok = add_rule(ret, vni, &e);
            wants_permit |= catches_v4(&e);
        }
    }
    if (is_ok && wants_permit) {
        is_ok = add_v4_permit(ret, vni);
    }
    entry_list_sort(ret);
    entry_list_drop_repeats(ret);
    return is_ok ? RC_OK : RC_NO_MEMORY;
}

/* ---- from what stands to what should ---- */

static bool holds(const struct entry_list *l, const struct phys_entry *e)
{
    return l->count > 0 && bsearch(e, l->at, l->count, sizeof(*e), entry_compare);
}

static int by_priority(const void *a, const void *b)
{
    const struct phys_write *x = a;
    const struct phys_write *y = b;

    return (x->entry.priority < y->entry.priority) -
           (x->entry.priority > y->entry.priority);
}

/* Those that come from the top down, those that go from the bottom up: then a packet's
 * verdict turns once. */
static void write_sorted(struct xgwh *x, struct phys_write *w, uint32_t count)
{
    qsort(w, count, sizeof(*w), by_priority);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = w[0].op == PHYS_DELETE ? count - 1 - i : i;
        uint32_t last = w[0].op == PHYS_DELETE ? at + 1 : at - 1;

        w[at].barrier = i == 0 || w[at].entry.priority != w[last].entry.priority;
        plan_add_strand(&x->plan, STRAND_ACL, &w[at]);
    }
}

/* What is in `from` and not in `not_in`, as writes. */
static enum rc write_missing(struct xgwh *x, enum phys_op op,
                             const struct entry_list *from,
                             const struct entry_list *not_in)
{
    struct phys_write *w = calloc(from->count + 1, sizeof(*w));
    uint32_t count = 0;

    if (!w) {
        return RC_NO_MEMORY;
    }
    for (uint32_t i = 0; i < from->count; i++) {
        if (!holds(not_in, &from->at[i])) {
            w[count].op = (uint8_t)op;
            w[count].entry = from->at[i];
            if (op == PHYS_DELETE) {
                w[count].entry.action = 0;
            }
            count++;
        }
    }
    write_sorted(x, w, count);
    free(w);
    return RC_OK;
}

/* The new `acl` list: what stands, less what goes, and what comes. */
static enum rc replace(struct xgwh *x, const struct entry_list *gone,
                       const struct entry_list *come)
{
    struct entry_list now = { 0 };
    const struct entry_list *acl = &x->holds.acl;
    bool is_ok = true;

    for (uint32_t i = 0; is_ok && i < acl->count; i++) {
        if (!holds(gone, &acl->at[i]) && !holds(come, &acl->at[i])) {
            is_ok = entry_list_add(&now, &acl->at[i]);
        }
    }
    for (uint32_t i = 0; is_ok && i < come->count; i++) {
        is_ok = entry_list_add(&now, &come->at[i]);
    }
    if (!is_ok) {
        free(now.at);
        return RC_NO_MEMORY;
    }
    entry_list_sort(&now);
    free(x->holds.acl.at);
    x->holds.acl = now;
    return RC_OK;
}

static uint32_t count_missing(const struct entry_list *of, const struct entry_list *in)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < of->count; i++) {
        n += !holds(in, &of->at[i]);
    }
    return n;
}

/* `old` are the entries of the rules that stood, `want` those that shall.  RC_FULL
 * where what comes and what stands do not fit together, for it is there at once. */
static enum rc turn(struct xgwh *x, const struct entry_list *old,
                    const struct entry_list *want)
{
    const struct entry_list *acl = &x->holds.acl;
    enum rc rc;

    if (acl->count + count_missing(want, acl) > xgwh_limit(x, PHYS_ACL)) {
        return RC_FULL;
    }
    rc = write_missing(x, PHYS_INSERT, want, acl);
    if (rc == RC_OK) {
        rc = write_missing(x, PHYS_DELETE, old, want);
    }
    return rc == RC_OK ? replace(x, old, want) : rc;
}

/* ---- steps ---- */

/* The rules of a VNI become `next`, which is taken. */
static enum rc take_rules(struct xgwh *x, uint32_t vni, struct rows *next)
{
    struct rows *now = table_set_rows(x->rules, vni, TABLE_ACL);
    struct entry_list old = { 0 };
    struct entry_list want = { 0 };
    enum rc rc = acl_expand(vni, now, &old);

    if (rc == RC_OK) {
        rc = acl_expand(vni, next, &want);
    }
    if (rc == RC_OK) {
        rc = turn(x, &old, &want);
    }
    if (rc == RC_OK) {
        rc = table_set_put(x->rules, vni, TABLE_ACL, next);
    }
    if (rc != RC_OK) {
        rows_unref(next);
    }
    free(old.at);
    free(want.at);
    return rc;
}

/* The steps [first, end) that wait, all at once. */
static enum rc take_steps(struct xgwh *x, struct steps *steps, uint32_t first,
                          uint32_t end)
{
    uint32_t vni = steps->at[first].vni;
    struct rows_step *edit = calloc(end - first, sizeof(*edit));
    struct rows *next = NULL;
    uint32_t count = 0;
    enum rc rc;

    if (!edit) {
        return RC_NO_MEMORY;
    }
    for (uint32_t i = first; i < end; i++) {
        const struct step *s = &steps->at[i];

        if (s->state == STEP_WAITS) {
            edit[count] = (struct rows_step){ s->after.key ? s->after : s->before };
            if (!s->after.key) {
                edit[count].row.value = NULL;
                edit[count].row.value_len = 0;
            }
            count++;
        }
    }
    rc = rows_edit(table_set_rows(x->rules, vni, TABLE_ACL), TABLE_ACL, vni, edit,
                   count, &next, NULL);
    free(edit);
    return rc == RC_OK ? take_rules(x, vni, next) : rc;
}

/* All of a VNI, or what of it finds room. */
static enum rc take_vni(struct xgwh *x, struct steps *steps, uint32_t first,
                        uint32_t end)
{
    enum rc rc = take_steps(x, steps, first, end);

    if (rc == RC_OK) {
        for (uint32_t i = first; i < end; i++) {
            steps->at[i].state = STEP_DONE;
        }
        return RC_OK;
    }
    if (rc != RC_FULL) {
        return rc;
    }
    if (end - first == 1) {
        steps->at[first].state = STEP_FULL;
        return RC_OK;
    }
    for (uint32_t i = first; i < end; i++) {
        if (steps->at[i].state == STEP_WAITS) {
            rc = take_vni(x, steps, i, i + 1);
            if (rc != RC_OK) {
                return rc;
            }
        }
    }
    return RC_OK;
}

enum rc acl_apply(struct xgwh *x, struct steps *steps)
{
    enum rc rc = RC_OK;

    for (uint32_t i = 0; rc == RC_OK && i < steps->count;) {
        uint32_t first = i;
        bool waits = false;

        while (i < steps->count && steps->at[i].vni == steps->at[first].vni &&
               steps->at[i].table == steps->at[first].table) {
            waits |= steps->at[i].state == STEP_WAITS;
            i++;
        }
        if (steps->at[first].table == TABLE_ACL && waits) {
            rc = take_vni(x, steps, first, i);
        }
    }
    return rc;
}

/* ---- after a read-back ---- */

static bool stands(const struct entry_list *acl, uint32_t vni, const struct entry *rule)
{
    struct entry_list needs = { 0 };
    bool is_ok = add_rule(&needs, vni, rule);

    is_ok = is_ok && (!catches_v4(rule) || add_v4_permit(&needs, vni));
    is_ok = is_ok && count_missing(&needs, acl) == 0;
    free(needs.at);
    return is_ok;
}

enum rc acl_name(struct xgwh *x, const struct table_set *old, struct table_set *rows)
{
    const unsigned mask = 1u << TABLE_ACL;
    struct batch_writer w;
    struct blob *ops;
    enum rc rc;

    batch_writer_init(&w);
    for (uint32_t vni = table_set_next(old, VNI_MIN, mask); vni != 0;
         vni = vni == VNI_MAX ? 0 : table_set_next(old, vni + 1, mask)) {
        struct rows_iter it =
            rows_begin(table_set_rows(old, vni, TABLE_ACL), TABLE_ACL);
        struct row row;

        while (rows_next(&it, &row)) {
            struct entry e;

            if (entry_unpack(TABLE_ACL, vni, &row, &e, NULL) == RC_OK &&
                stands(&x->holds.acl, vni, &e)) {
                batch_add_row(&w, BATCH_PUT, TABLE_ACL, vni, &row);
            }
        }
    }
    ops = batch_writer_finish(&w);
    batch_writer_fini(&w);
    if (!ops) {
        return RC_NO_MEMORY;
    }
    rc = table_set_apply(rows, ops->data, ops->len, NULL, NULL, NULL);
    if (rc == RC_OK) {
        table_set_free(x->rules);
        x->rules = table_set_new();
        rc = x->rules ? table_set_apply(x->rules, ops->data, ops->len, NULL, NULL, NULL)
                      : RC_NO_MEMORY;
    }
    blob_unref(ops);
    return rc;
}

/* Entries of no rule. */
static enum rc list_unnamed(const struct xgwh *x, struct entry_list *ret)
{
    const unsigned mask = 1u << TABLE_ACL;
    struct entry_list named = { 0 };
    bool is_ok = true;
    enum rc rc = RC_OK;

    for (uint32_t vni = table_set_next(x->rules, VNI_MIN, mask);
         rc == RC_OK && vni != 0;
         vni = vni == VNI_MAX ? 0 : table_set_next(x->rules, vni + 1, mask)) {
        rc = acl_expand(vni, table_set_rows(x->rules, vni, TABLE_ACL), &named);
    }
    for (uint32_t i = 0; rc == RC_OK && is_ok && i < x->holds.acl.count; i++) {
        if (!holds(&named, &x->holds.acl.at[i])) {
            is_ok = entry_list_add(ret, &x->holds.acl.at[i]);
        }
    }
    free(named.at);
    return is_ok ? rc : RC_NO_MEMORY;
}

uint32_t acl_unnamed(const struct xgwh *x)
{
    struct entry_list l = { 0 };
    uint32_t n = list_unnamed(x, &l) == RC_OK ? l.count : x->holds.acl.count;

    free(l.at);
    return n;
}

enum rc acl_sweep(struct xgwh *x)
{
    struct entry_list gone = { 0 };
    struct entry_list none = { 0 };
    enum rc rc = list_unnamed(x, &gone);

    if (rc == RC_OK && gone.count > 0) {
        rc = turn(x, &gone, &none);
    }
    free(gone.at);
    return rc;
}
