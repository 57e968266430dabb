#include "agent/xgwh/xgwh_impl.h"

uint32_t vni_value(const struct xgwh *x, uint32_t vni, uint8_t flags)
{
    uint32_t on_chip = flags & VNI_FLAGS_ON_CHIP;

    on_chip |= meter_is_set(x, vni) ? PHYS_VNI_METERED : 0;
    return on_chip << 18 | (uint32_t)xgwh_half_of(x, vni) << 16 | meter_of(x, vni);
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
    uint32_t value;
    struct phys_entry e;

    if (flags & ~VNI_FLAGS_ON_CHIP) {
        return RC_INVALID;
    }
    if (!old && x->holds.vnis.count >= xgwh_limit(x, PHYS_VNI)) {
        return RC_FULL;
    }
    if (meter_count(x, vni) != RC_OK) {
        return RC_NO_MEMORY;
    }
    value = vni_value(x, vni, flags);
    if (old && *old == value) {
        return RC_OK;
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
        meter_count_no_more(x, vni);
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
