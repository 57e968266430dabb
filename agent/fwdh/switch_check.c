/* switch_check - what an entry may be before any table looks at it. */
#include "agent/fwdh/switch_impl.h"

#include <string.h>

static enum rc refuse(struct err *err, const struct phys_table_desc *d,
                      const char *rule, const char *what)
{
    return err_field(err, RC_INVALID, d->name, rule, "%s: %s", d->name, what);
}

static bool allows(const struct phys_table_desc *d, uint8_t action)
{
    for (unsigned i = 0; i < d->action_count; i++) {
        if (d->actions[i] == action) {
            return true;
        }
    }
    return false;
}

static bool is_nc6(const uint8_t index[3])
{
    return load_be24(index) >= PHYS_NC6_FIRST;
}

static enum rc check_key(const struct hswitch *s, const struct phys_table_desc *d,
                         const struct phys_entry *e, struct err *err)
{
    struct prefix p;

    switch ((enum phys_table)e->table) {
    case PHYS_VTEP:
    case PHYS_SOURCE:
        if (!hswitch_prefix(e, &p)) {
            return refuse(err, d, "prefix", "a mask that is no prefix of its family");
        }
        if (e->table == PHYS_VTEP && p.len != 8 * ip_size(&p.addr)) {
            return refuse(err, d, "prefix", "an address with a part of it masked");
        }
        return RC_OK;
    case PHYS_ROUTE_TCAM:
    case PHYS_ROUTE_PART:
        if (hswitch_route_length(e) < 0) {
            return refuse(err, d, "prefix", "a mask that is no prefix of VNI, address");
        }
        if (e->table == PHYS_ROUTE_PART && (load_be16(e->key) == PHYS_PART_NONE ||
                                            load_be16(e->key) >= s->sizes.partitions)) {
            return refuse(err, d, "partition", "no such partition");
        }
        return RC_OK;
    default:
        return RC_OK;
    }
}

static enum rc check_data(const struct hswitch *s, const struct phys_table_desc *d,
                          const struct phys_entry *e, struct err *err)
{
    const uint8_t *data = e->data;

    switch ((enum phys_action)e->action) {
    case PHYS_SET_VNI:
        if (data[1] > PHYS_HALF_BY_DST) {
            return refuse(err, d, "half", "no such half");
        }
        return load_be16(data + 2) < s->sizes.meters
                   ? RC_OK
                   : refuse(err, d, "meter", "no such meter");
    case PHYS_PEER:
        return data[3] <= PHYS_HALF_BY_DST ? RC_OK
                                           : refuse(err, d, "half", "no such half");
    case PHYS_SET_PART:
        if (load_be16(data) >= s->sizes.partitions) {
            return refuse(err, d, "partition", "no such partition");
        }
        if (data[2] > PHYS_SCOPE_FALLBACK) {
            return refuse(err, d, "scope", "no such scope");
        }
        if (data[2] == PHYS_SCOPE_PEER && load_be24(data + 6) > PHYS_HALF_BY_DST) {
            return refuse(err, d, "half", "no such half");
        }
        if (data[2] == PHYS_SCOPE_TUNNEL && load_be24(data + 6) >= HNC_COUNT) {
            return refuse(err, d, "nc", "no such NC index");
        }
        return RC_OK;
    case PHYS_NC4:
    case PHYS_NC6:
        return is_nc6(e->key) == (e->action == PHYS_NC6)
                   ? RC_OK
                   : refuse(err, d, "family", "an index of the other family");
    case PHYS_SRC4:
    case PHYS_SRC6:
        return e->key[3] == (e->action == PHYS_SRC4)
                   ? RC_OK
                   : refuse(err, d, "family", "an address of the other family");
    case PHYS_MEMBER:
        return is_nc6(data) == (e->key[0] == 0)
                   ? RC_OK
                   : refuse(err, d, "family", "an index of the other family");
    default:
        return RC_OK;
    }
}

enum rc hswitch_check(const struct hswitch *s, enum phys_op op,
                      const struct phys_entry *e, struct err *err)
{
    const struct phys_table_desc *d = phys_table_desc((enum phys_table)e->table);
    enum rc rc;

    if (d->has_priority != (e->priority > 0)) {
        return refuse(err, d, "priority",
                      d->has_priority ? "a priority above 0 is needed"
                                      : "has no priorities");
    }
    rc = check_key(s, d, e, err);
    if (rc != RC_OK || op == PHYS_DELETE) {
        return rc;
    }
    if (!allows(d, e->action)) {
        return refuse(err, d, "action", "not an action of this table");
    }
    return check_data(s, d, e, err);
}
