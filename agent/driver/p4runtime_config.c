#include "agent/driver/p4runtime_config.h"

#include <stdlib.h>
#include <string.h>

#define PORT_MAX 511 /* 9 bits, as the chip numbers its ports */

static void add_own(struct xgwh_config *c, const struct ip *ip)
{
    if (ip->family != 0) {
        c->own[c->own_count++] = *ip;
    }
}

static bool port_number(const char *text, uint16_t *ret)
{
    unsigned v = 0;

    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || p - text > 2) {
            return false;
        }
        v = v * 10 + (unsigned)(*p - '0');
    }
    *ret = (uint16_t)v;
    return text[0] != '\0' && v <= PORT_MAX;
}

static enum rc add_uplink(const struct uplink *u, struct xgwh_config *c,
                          struct err *err)
{
    struct xgwh_uplink *to = &c->uplinks[c->uplink_count];

    if (!port_number(u->port, &to->port)) {
        return err_field(err, RC_INVALID, "uplinks.port", "port_number",
                         "port '%s': a switch's ports are numbers from 0 to %d",
                         u->port, PORT_MAX);
    }
    to->weight = 1;
    to->has_v4 = u->addr_v4.family != 0;
    to->has_v6 = u->addr_v6.family != 0;
    if (u->has_mac) {
        memcpy(to->dmac4, u->mac, 6);
        memcpy(to->dmac6, u->mac, 6);
    }
    c->uplink_count++;
    return RC_OK;
}

/* One rate and one bucket: what is over it is red, which is what is dropped. */
static struct phys_meter_config meter_of(const struct policer *p)
{
    return (struct phys_meter_config){ .cir = p->rate_bps / 8,
                                       .cburst = p->burst_bytes,
                                       .pir = p->rate_bps / 8,
                                       .pburst = p->burst_bytes };
}

static void add_fallback(const struct device_config *d, struct xgwh_config *c)
{
    for (unsigned i = 0; i < d->fallback_member_count; i++) {
        c->members[c->member_count++] =
            (struct xgwh_member){ .v4 = d->fallback_members[i].v4,
                                  .v6 = d->fallback_members[i].v6,
                                  .weight = 1 };
    }
    for (unsigned i = 0; i < FALLBACK_CLASSES; i++) {
        c->fallback_class[i] = meter_of(&d->fallback_meter.node[i]);
        c->fallback_tenant[i] = meter_of(&d->fallback_meter.tenant[i]);
    }
}

_Static_assert((int)FALLBACK_MISS == (int)PHYS_CLASS_MISS &&
                   (int)FALLBACK_SERVICE == (int)PHYS_CLASS_SERVICE,
               "one numbering of the classes");
_Static_assert(FALLBACK_MEMBERS_MAX <= XGWH_MEMBERS_MAX &&
                   UPLINKS_MAX <= XGWH_UPLINKS_MAX,
               "what a configuration may have");

enum rc p4runtime_config_of(const struct device_config *d, uint64_t digest,
                            struct xgwh_config *ret, struct err *err)
{
    struct xgwh_config c = { .digest = digest };
    enum rc rc = RC_OK;

    add_own(&c, &d->vtep_v4);
    add_own(&c, &d->vtep_v6);
    add_own(&c, &d->vip_v4);
    add_own(&c, &d->vip_v6);
    c.source_v4 = d->vip_v4;
    c.source_v6 = d->vip_v6;
    c.source_count = d->underlay_source_count;
    c.sources = d->underlay_sources;
    add_fallback(d, &c);
    for (unsigned i = 0; i < d->uplink_count && rc == RC_OK; i++) {
        rc = add_uplink(&d->uplinks[i], &c, err);
    }
    if (rc == RC_OK) {
        *ret = c;
    }
    return rc;
}
