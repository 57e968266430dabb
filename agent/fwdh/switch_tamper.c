/* switch_tamper - for tests: what a fault does to one of the two places in which the
 * switch holds entries. */
#include "agent/fwdh/switch_impl.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_MAX 4096

static enum rc put_record(struct hrecords *records, const struct phys_entry *e,
                          uint32_t row)
{
    if (row != HRECORDS_NONE) {
        hrecords_set(records, row, e);
        return RC_OK;
    }
    if (records->count >= records->limit) {
        return RC_FULL;
    }
    if (!hrecords_reserve(records)) {
        return RC_NO_MEMORY;
    }
    (void)hrecords_add(records, e);
    return RC_OK;
}

static enum rc tamper_records(struct hhalf *h, enum phys_op op,
                              const struct phys_entry *e)
{
    struct hrecords *records = &h->records[e->table];
    uint32_t row = hrecords_find(records, e);

    if (op != PHYS_DELETE) {
        return put_record(records, e, row);
    }
    if (row == HRECORDS_NONE) {
        return RC_NOT_FOUND;
    }
    hrecords_remove(records, row);
    return RC_OK;
}

/* Rules are a snapshot of the records: one is made of what they would say. */
static enum rc tamper_acl(struct hswitch *s, struct hhalf *h, enum phys_op op,
                          const struct phys_entry *e, struct err *err)
{
    struct hrecords *records = &h->records[PHYS_ACL];
    uint32_t row = hrecords_find(records, e);
    struct phys_entry before;
    bool was_there = row != HRECORDS_NONE && hrecords_get(records, row, &before);
    enum rc rc = tamper_records(h, op, e);

    if (rc == RC_OK) {
        rc = hswitch_publish_acl(s, h, err);
        (void)tamper_records(h, was_there ? PHYS_MODIFY : PHYS_DELETE,
                             was_there ? &before : e);
    }
    return rc;
}

static enum rc tamper_structures(struct hswitch *s, struct hhalf *h, enum phys_op op,
                                 const struct phys_entry *e, struct err *err)
{
    struct phys_entry was;

    if (e->table == PHYS_ACL) {
        return tamper_acl(s, h, op, e, err);
    }
    if (op != PHYS_DELETE) {
        return hswitch_put_seen(s, h, e);
    }
    return hswitch_seen(h, e, &was) ? hswitch_del_seen(s, h, e) : RC_NOT_FOUND;
}

/* May such a thing happen to it? */
static enum rc check(const struct hswitch *s, enum htamper_place place, enum phys_op op,
                     const struct phys_entry *e, struct err *err)
{
    bool has_both =
        e->table != PHYS_ROUTE_PART && e->table != PHYS_VTEP && e->table != PHYS_SOURCE;

    if ((place != HTAMPER_RECORDS && place != HTAMPER_STRUCTURES) ||
        (!has_both && e->table != PHYS_ROUTE_PART)) {
        return err_set(err, RC_INVALID, "tamper: no such place of this table");
    }
    return hswitch_check(s, op, e, err);
}

enum rc hswitch_tamper(struct hswitch *s, unsigned half, enum htamper_place place,
                       enum phys_op op, const struct phys_entry *e, struct err *err)
{
    struct hhalf *h = &s->half[half];
    enum rc rc = check(s, place, op, e, err);

    if (rc != RC_OK) {
        return rc;
    }
    if (e->table == PHYS_ROUTE_PART) { /* one place for both */
        return hswitch_write(s, half, op, e, err);
    }
    if (!retire_reserve(&s->retire, HSWITCH_RETIRES)) {
        return err_set(err, RC_NO_MEMORY, "tamper: no memory");
    }
    rc = place == HTAMPER_RECORDS ? tamper_records(h, op, e)
                                  : tamper_structures(s, h, op, e, err);
    return rc == RC_OK ? RC_OK : err_set(err, rc, "tamper: %s", rc_name(rc));
}

enum rc hswitch_tamper_keep(struct hswitch *s, unsigned half, enum htamper_place place,
                            const struct phys_entry *e, struct err *err)
{
    struct hhalf *h = &s->half[half];
    enum rc rc = check(s, place, PHYS_DELETE, e, err);
    struct phys_entry *more;

    if (rc != RC_OK) {
        return rc;
    }
    place = e->table == PHYS_ROUTE_PART ? HTAMPER_STRUCTURES : place;
    if (h->kept[place - 1].count == h->kept[place - 1].cap) {
        uint32_t cap = h->kept[place - 1].cap ? 2 * h->kept[place - 1].cap : 16;

        more =
            cap > KEPT_MAX ? NULL : realloc(h->kept[place - 1].at, cap * sizeof(*more));
        if (!more) {
            return err_set(err, RC_FULL, "tamper: too many entries are kept");
        }
        h->kept[place - 1].at = more;
        h->kept[place - 1].cap = cap;
    }
    h->kept[place - 1].at[h->kept[place - 1].count++] = *e;
    return RC_OK;
}

bool hswitch_keeps(struct hhalf *h, enum htamper_place place,
                   const struct phys_entry *e)
{
    struct phys_entry *at = h->kept[place - 1].at;

    for (uint32_t i = 0; i < h->kept[place - 1].count; i++) {
        if (at[i].table == e->table && at[i].priority == e->priority &&
            memcmp(at[i].key, e->key, sizeof(e->key)) == 0 &&
            memcmp(at[i].mask, e->mask, sizeof(e->mask)) == 0) {
            at[i] = at[--h->kept[place - 1].count];
            return true;
        }
    }
    return false;
}

void hswitch_kept_fini(struct hhalf *h)
{
    for (unsigned i = 0; i < 2; i++) {
        free(h->kept[i].at);
        h->kept[i].at = NULL;
    }
}
