#include "controller/health/loss.h"

#include <string.h>

bool loss_counts(const char *reason)
{
    static const char *const others[] = {
        /* the tenant's rules and rates */
        "acl_deny", "meter_red", "fallback_service_red", "fallback_miss_red",
        /* nobody has the destination */
        "route_miss", "vm_nc_miss", "service_unbound", "no_snat",
        /* what its VMs send */
        "inner_truncated", "inner_vlan", "inner_not_ip", "inner_version",
        "inner_length", "inner_checksum", "inner_ext", "inner_nd", "inner_not_unicast",
        "inner_ttl", "mtu"
    };

    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strcmp(reason, others[i]) == 0) {
            return false;
        }
    }
    return true;
}
