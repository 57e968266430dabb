#include "controller/probe/way.h"

#include "controller/probe/lookup.h"

#include <string.h>

const char *way_end_name(unsigned end)
{
    static const char *const names[WAY_ENDS] = {
        "local",          "local with a MAC",  "idc",
        "region",         "derived peer",      "vm miss",
        "route miss",     "internet",          "service",
        "fallback route", "one peer too many",
    };

    return end < WAY_ENDS ? names[end] : "unknown";
}

static void to_vm(const struct table_set *s, const struct ip *dst, struct probe_way *w)
{
    struct entry vm;

    if (!lookup_vm(s, w->vni, dst, &vm)) {
        w->end = WAY_VM_MISS;
        return;
    }
    w->end = vm.vm_nc.has_mac ? WAY_LOCAL_MAC : WAY_LOCAL;
    w->to = vm.vm_nc.nc;
    memcpy(w->mac, vm.vm_nc.mac, sizeof(w->mac));
}

static void to_tunnel(const struct route_action *a, enum way_end end,
                      struct probe_way *w)
{
    w->end = (uint8_t)end;
    w->to = a->endpoint;
    w->vni = a->vni;
}

void way_find(const struct table_set *s, uint32_t vni, const struct ip *dst,
              struct probe_way *ret)
{
    struct probe_way *w = ret;
    struct entry e;

    *w = (struct probe_way){ .vni = vni };
    for (; w->hops <= WAY_HOPS_MAX; w->hops++) {
        const struct route_action *a = &e.route.action;

        if (!lookup_route(s, w->vni, dst, &e)) {
            w->end = WAY_ROUTE_MISS;
            return;
        }
        w->route = e.route.dst;
        switch (a->scope) {
        case SCOPE_PEER:
            w->vni = a->vni;
            break;
        case SCOPE_LOCAL:
            to_vm(s, dst, w);
            return;
        case SCOPE_IDC:
            to_tunnel(a, WAY_IDC, w);
            return;
        case SCOPE_REGION:
            to_tunnel(a, WAY_REGION, w);
            return;
        case SCOPE_DERIVED:
            to_tunnel(a, WAY_DERIVED, w);
            return;
        case SCOPE_INTERNET:
            w->end = WAY_INTERNET;
            return;
        case SCOPE_FALLBACK:
            w->end = WAY_FALLBACK;
            return;
        default:
            w->end = WAY_SERVICE;
            return;
        }
    }
    w->end = WAY_PEER_LIMIT;
}
