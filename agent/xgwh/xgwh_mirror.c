/* Tables that both halves hold alike, where they do not. */
#include "agent/xgwh/xgwh_impl.h"

#include <string.h>

static void mirror(struct xgwh *x, enum stage stage, enum phys_op op, unsigned half,
                   struct phys_entry e)
{
    e.half = (uint8_t)half;
    plan_add(&x->plan, stage, op, &e);
    x->reading->found.split++;
}

static void nc_entry(uint32_t index, const struct nc *nc, struct phys_entry *ret)
{
    *ret = phys_make(PHYS_NC, PHYS_BOTH, 0);
    phys_set_key(ret, 0, index);
    phys_set_action(ret, nc->family == IP_V4 ? PHYS_NC4 : PHYS_NC6);
    phys_set_param_bytes(ret, 0, nc->addr);
}

static bool is_same_nc(const struct nc *a, const struct nc *b)
{
    return a->family == b->family && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

/* The union of both; of two that differ, the one that was believed, or the first
 * half's.
 */
static void mirror_ncs(struct xgwh *x)
{
    const struct nc *believed = x->holds.ncs.at;
    struct nc *first = x->reading->holds.ncs.at;
    struct nc *second = x->reading->second.ncs.at;
    struct phys_entry e;

    for (uint32_t i = 0; i < UINT32_C(1) << PHYS_NC_BITS; i++) {
        if (is_same_nc(&first[i], &second[i])) {
            continue;
        }
        if (first[i].family == IP_NONE) {
            first[i] = second[i];
            nc_entry(i, &first[i], &e);
            mirror(x, STAGE_NC_ADD, PHYS_INSERT, PHYS_HALF_0, e);
            continue;
        }
        if (second[i].family != IP_NONE && is_same_nc(&second[i], &believed[i])) {
            first[i] = second[i];
            nc_entry(i, &first[i], &e);
            mirror(x, STAGE_NC_ADD, PHYS_MODIFY, PHYS_HALF_0, e);
            continue;
        }
        nc_entry(i, &first[i], &e);
        mirror(x, STAGE_NC_ADD, second[i].family == IP_NONE ? PHYS_INSERT : PHYS_MODIFY,
               PHYS_HALF_1, e);
    }
}

static enum rc mirror_vnis(struct xgwh *x)
{
    struct u64map *first = &x->reading->holds.vnis;
    struct u64map *second = &x->reading->second.vnis;
    struct phys_entry e;

    for (uint32_t i = 0; i < u64map_places(first); i++) {
        const uint32_t *other;
        const uint32_t *believed;

        if (first->keys[i] == U64MAP_NONE) {
            continue;
        }
        other = u64map_find(second, first->keys[i]);
        believed = u64map_find(&x->holds.vnis, first->keys[i]);
        if (other && *other != first->values[i] && believed && *believed == *other) {
            first->values[i] = *other;
            vni_entry((uint32_t)first->keys[i], *other, &e);
            mirror(x, STAGE_ADMIT, PHYS_MODIFY, PHYS_HALF_0, e);
        } else if (!other || *other != first->values[i]) {
            vni_entry((uint32_t)first->keys[i], first->values[i], &e);
            mirror(x, STAGE_ADMIT, other ? PHYS_MODIFY : PHYS_INSERT, PHYS_HALF_1, e);
        }
    }
    for (uint32_t i = 0; i < u64map_places(second); i++) {
        if (second->keys[i] == U64MAP_NONE || u64map_find(first, second->keys[i])) {
            continue;
        }
        vni_entry((uint32_t)second->keys[i], second->values[i], &e);
        mirror(x, STAGE_ADMIT, PHYS_INSERT, PHYS_HALF_0, e);
        if (!u64map_put(first, second->keys[i], second->values[i])) {
            return RC_NO_MEMORY;
        }
    }
    return RC_OK;
}

/* Was an entry believed just so? */
static bool was_believed(const struct xgwh *x, const struct phys_entry *e)
{
    const struct entry_list *l =
        e->table == PHYS_ACL ? &x->holds.acl : &x->holds.config;

    for (uint32_t i = 0; i < l->count; i++) {
        if (phys_compare(&l->at[i], e) == 0) {
            return phys_same_action(&l->at[i], e);
        }
    }
    return false;
}

static enum rc mirror_config(struct xgwh *x)
{
    struct entry_list *first = &x->reading->holds.config;
    struct entry_list *second = &x->reading->second.config;
    uint32_t count;
    uint32_t i = 0;
    uint32_t k = 0;

    entry_list_sort(first);
    entry_list_sort(second);
    for (count = first->count; i < count || k < second->count;) {
        int order = i == count           ? 1
                    : k == second->count ? -1
                                         : phys_compare(&first->at[i], &second->at[k]);

        if (order < 0) {
            mirror(x, STAGE_ADMIT, PHYS_INSERT, PHYS_HALF_1, first->at[i]);
        } else if (order > 0) {
            mirror(x, STAGE_ADMIT, PHYS_INSERT, PHYS_HALF_0, second->at[k]);
            if (!entry_list_add(first, &second->at[k])) {
                return RC_NO_MEMORY;
            }
        } else if (phys_same_action(&first->at[i], &second->at[k])) {
            /* alike */
        } else if (was_believed(x, &second->at[k])) {
            first->at[i] = second->at[k];
            mirror(x, STAGE_ADMIT, PHYS_MODIFY, PHYS_HALF_0, second->at[k]);
        } else {
            mirror(x, STAGE_ADMIT, PHYS_MODIFY, PHYS_HALF_1, first->at[i]);
        }
        i += order <= 0;
        k += order >= 0;
    }
    entry_list_sort(first);
    return RC_OK;
}

/* The two rows of the state.  Where the devices differ in what was applied, nothing
 * counts as applied, so that a comparison with the controller follows. */
static void mirror_state(struct xgwh *x)
{
    struct reading *r = x->reading;
    struct xgwh_state *s = &r->holds.state;
    struct phys_entry e;

    if (r->holds.has_boot != r->second.has_boot) {
        s->boot_id = r->holds.has_boot ? s->boot_id : r->second.state.boot_id;
        s->term = r->holds.has_boot ? s->term : r->second.state.term;
        state_entry(PHYS_NC_STATE_BOOT, s->boot_id, s->term, &e);
        mirror(x, STAGE_LATE, PHYS_INSERT, r->holds.has_boot, e);
    } else if (s->boot_id != r->second.state.boot_id ||
               s->term != r->second.state.term) {
        state_entry(PHYS_NC_STATE_BOOT, s->boot_id, s->term, &e);
        mirror(x, STAGE_LATE, PHYS_MODIFY, PHYS_HALF_1, e);
    }
    if (r->holds.has_applied != r->second.has_applied) {
        s->applied = 0;
        s->config_digest = 0;
        state_entry(PHYS_NC_STATE_APPLIED, 0, 0, &e);
        mirror(x, STAGE_LATE, PHYS_INSERT, r->holds.has_applied, e);
        mirror(x, STAGE_LATE, PHYS_MODIFY, !r->holds.has_applied, e);
    } else if (s->applied != r->second.state.applied ||
               s->config_digest != r->second.state.config_digest) {
        s->applied = 0;
        s->config_digest = 0;
        state_entry(PHYS_NC_STATE_APPLIED, 0, 0, &e);
        e.half = PHYS_BOTH;
        plan_add(&x->plan, STAGE_LATE, PHYS_MODIFY, &e);
        r->found.split++;
    }
    r->holds.has_boot |= r->second.has_boot;
    r->holds.has_applied |= r->second.has_applied;
}

enum rc mirror_all(struct xgwh *x)
{
    struct reading *r = x->reading;
    enum rc rc;

    entry_list_sort(&r->holds.config);
    if (x->halves == 1) {
        return RC_OK;
    }
    mirror_state(x);
    mirror_ncs(x);
    rc = mirror_vnis(x);
    return rc == RC_OK ? mirror_config(x) : rc;
}
