#include "agent/xgwh/xgwh_impl.h"

uint32_t vni_value(const struct xgwh *x, uint32_t vni, uint8_t flags)
{
    return (uint32_t)flags << 18 | (uint32_t)xgwh_half_of(x, vni) << 16 |
           meter_of(x, vni);
}

void vni_entry(uint32_t vni, uint32_t value, struct phys_entry *ret)
{
    *ret = phys_make(PHYS_VNI, PHYS_BOTH, 0);
    phys_set_key(ret, 0, vni);
    phys_set_action(ret, PHYS_SET_VNI);
    phys_set_param(ret, 0, value >> 18 & 0xff);
    phys_set_param(ret, 1, value >> 16 & 3);
    phys_set_param(ret, 2, value & 0xffff);
}

enum rc vni_put(struct xgwh *x, uint32_t vni, uint8_t flags)
{
    uint32_t *old = u64map_find(&x->holds.vnis, vni);
    uint32_t value = vni_value(x, vni, flags);
    struct phys_entry e;

    if (flags & ~VNI_FLAGS_ON_CHIP) {
        return RC_INVALID;
    }
    if (old && *old == value) {
        return RC_OK;
    }
    if (!old && x->holds.vnis.count >= xgwh_limit(x, PHYS_VNI)) {
        return RC_FULL;
    }
    vni_entry(vni, value, &e);
    plan_add(&x->plan, STAGE_ADMIT, old ? PHYS_MODIFY : PHYS_INSERT, &e);
    return u64map_put(&x->holds.vnis, vni, value) ? RC_OK : RC_NO_MEMORY;
}

void vni_delete(struct xgwh *x, uint32_t vni)
{
    struct phys_entry e;

    if (u64map_delete(&x->holds.vnis, vni)) {
        vni_entry(vni, 0, &e);
        plan_add(&x->plan, STAGE_ADD, PHYS_DELETE, &e);
    }
}

void vni_refresh(struct xgwh *x, uint32_t vni)
{
    uint32_t *value = u64map_find(&x->holds.vnis, vni);
    uint32_t now = value ? vni_value(x, vni, (uint8_t)(*value >> 18)) : 0;
    struct phys_entry e;

    if (value && *value != now) {
        *value = now;
        vni_entry(vni, now, &e);
        plan_add(&x->plan, STAGE_ADMIT, PHYS_MODIFY, &e);
    }
}
