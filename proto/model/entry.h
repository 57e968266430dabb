/*
 * entry - one row of a logical table: what it says, how it is packed, and its digest.
 *
 * Packed form (canonical: equal entries are equal bytes; all numbers big-endian):
 *
 *   key    tenant, vni, meter, vni_cluster   (nothing: the VNI is the key)
 *          vxlan_route    tag(4|6) address(4|16) length(1)
 *          vm_nc          tag(4|6) address(4|16)
 *          acl            priority(2) tag(4|6) src(4|16) length(1) dst(4|16) length(1)
 *                         has_proto(0|1) proto(1) sport(2) to(2) dport(2) to(2)
 *   value  tenant         flags(1) n(1) cluster(n) m(1) name(m) k(1) h_home(k) half(1)
 *                         has_reserve(0|1) { routes(4) vms(4) bps(8) pps(8) }
 *          vni            flags(1) half(1)
 *          vxlan_route    scope(1), then by scope
 *                         local, internet, fallback: nothing
 *                         peer: vni(3)
 *                         idc, region, derived: tag(1) endpoint(4|16) vni(3)
 *                         service: n(1) name(n)
 *          vm_nc          tag(4|6) nc(4|16) has_mac(0|1) mac(0|6)
 *          acl            action(1): 1 permit, 2 deny
 *          meter          committed(8) peak(8) committed_burst(4) peak_burst(4)
 *          vni_cluster    n(1) cluster(n)
 *
 * Keys of one table sort by memcmp: routes and VMs as (family, address, length), rules
 * as (priority, family, source, destination, …), the weakest first.  The address is
 * stored whole so that a prefix's covering and covered routes are neighbours.
 *
 * `tenant` exists at the controller only; the `vni` row of a device is derived from it,
 * and so are routes of scope `derived`, from a peer that lives in another group, and
 * `fallback`, on XGW-H in the place of one that only XGW-x86 answers, and the
 * `vni_cluster` row of a load balancer.
 * Values only: nothing here allocates or remembers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/ip.h"

/* The VNI field is 24 bits wide (RFC 7348, section 5).  The RFC does not set 0 aside;
 * we do, to mean "no VNI". */
#define VNI_MIN UINT32_C(1)
#define VNI_MAX UINT32_C(0xffffff)

enum table_id {
    TABLE_TENANT = 0, /* controller only */
    TABLE_VNI = 1,
    TABLE_VXLAN_ROUTE = 2,
    TABLE_VM_NC = 3,
    TABLE_ACL = 4,         /* XGW-H only */
    TABLE_METER = 5,       /* XGW-H only */
    TABLE_VNI_CLUSTER = 6, /* load balancers only: where a VNI's packets go */
    TABLE_COUNT
};

enum route_scope {
    SCOPE_LOCAL = 1,
    SCOPE_PEER = 2, /* look up again in `vni` */
    SCOPE_INTERNET = 3,
    SCOPE_IDC = 4,     /* to `endpoint` with `vni` */
    SCOPE_REGION = 5,  /* to `endpoint` with `vni` */
    SCOPE_SERVICE = 6, /* `service` */
    SCOPE_DERIVED = 7, /* a peer whose home is another group: `endpoint` and `vni` */
    /* XGW-H only: to XGW-x86 (meter class `service`), whatever route covers it.  It
     * stands where a route was left off that a resident one covers. */
    SCOPE_FALLBACK = 8,
    SCOPE_COUNT
};

enum {
    VNI_INTERNET = 1 << 0,   /* the tenant has internet traffic (SNAT, EIP) */
    VNI_ACL = 1 << 1,        /* derived: the ACL table holds rules of it */
    VNI_INNER_VLAN = 1 << 2, /* inner 802.1Q tags pass (RFC 7348 section 6.1) */
    VNI_FLAGS = 7,
    TENANT_FLAGS = VNI_INTERNET | VNI_INNER_VLAN, /* what a tenant row may say */
};

/* Which half of an XGW-H holds a VNI's routes and VM-NC entries (FORWARDING.md,
 * Folding); the numbers of agent/xgwh's enum phys_half.  0 on kinds without halves. */
enum vni_half {
    VNI_HALF_0 = 0,
    VNI_HALF_1 = 1,
    VNI_HALF_BY_DST = 2, /* routes in both, VM-NC by the lowest bit of the address */
    VNI_HALF_COUNT
};

/* An access rule of the arriving VNI.  Of the rules that match a packet the one with
 * the highest priority decides, and of several with that priority a deny; none
 * matches: permit. */
enum acl_action { ACL_PERMIT = 1, ACL_DENY = 2 };

#define ACL_PRIORITY_MAX 65535 /* 1 to this */

struct port_range {
    uint16_t first; /* both ends are inside; 0-65535: any port */
    uint16_t last;
};

/* `src` and `dst` are of one family, and the rule matches packets of that family
 * alone.  Ports are of TCP and UDP only.  A rule that names ports matches no fragment
 * but the first, for the others carry none. */
struct acl_match {
    struct prefix src;
    struct prefix dst;
    bool has_proto; /* false: any, and `proto` is 0 */
    uint8_t proto;  /* IANA number; of IPv6 the upper layer's */
    struct port_range sport;
    struct port_range dport;
};

#define IP_PROTO_ICMP   1
#define IP_PROTO_TCP    6
#define IP_PROTO_UDP    17
#define IP_PROTO_ICMPV6 58

/* A two rate three colour marker (RFC 2698), colour-blind; red is dropped, yellow and
 * green pass.  What counts is the packet as it arrives, from its outer Ethernet header
 * on, for that is what the chip counts.  Rates are bit/s, bursts bytes;
 * committed <= peak in both. */
struct meter {
    uint64_t committed_bps; /* 0 to METER_BPS_MAX */
    uint64_t peak_bps;      /* 1 to METER_BPS_MAX */
    uint32_t committed_burst;
    uint32_t peak_burst;
};

/* More than a chip carries (6.4 Tbit/s), and exact in a JSON number. */
#define METER_BPS_MAX UINT64_C(10000000000000)
/* A bucket smaller than the largest frame could never pass it (RFC 2698, section 3):
 * 9,216 bytes of IP (UPLINK_MTU_MAX) and its Ethernet header, rounded up. */
#define METER_BURST_MIN 9600
#define METER_BURST_MAX UINT32_C(1073741824) /* 1 GiB; a guess */

#define CLUSTER_NAME_MAX 31 /* letters, digits, '-', '.', '_'; starts with a letter */
#define SERVICE_NAME_MAX 31 /* the same */
#define TENANT_NAME_MAX  63 /* printable UTF-8 without control characters; may be "" */

/* Announced growth of a tenant: what it will have and carry.  Counts at once where it
 * is more than what is there.  Zero: nothing is announced. */
struct tenant_reserve {
    uint32_t routes;
    uint32_t vms;
    uint64_t bps; /* at most RESERVE_MAX; so pps */
    uint64_t pps;
};
#define RESERVE_MAX         METER_BPS_MAX
#define TENANT_RESERVE_SIZE 24 /* packed */

struct route_action {
    uint8_t scope; /* enum route_scope */
    uint32_t vni;  /* peer, idc, region, derived */
    struct ip endpoint;
    char service[SERVICE_NAME_MAX + 1];
};

struct entry {
    uint8_t table; /* enum table_id */
    uint32_t vni;
    union {
        struct {
            uint8_t flags;
            /* The x86 home.  In a request "", with h_home "" too: where it is already,
             * and a new tenant is placed. */
            char cluster[CLUSTER_NAME_MAX + 1];
            char name[TENANT_NAME_MAX + 1];
            char h_home[CLUSTER_NAME_MAX + 1]; /* "": none */
            /* 1 + enum vni_half: where on its h_home it is; 0: the request leaves that
             * to the controller, or there is no h_home. */
            uint8_t half;
            struct tenant_reserve reserve;
        } tenant;
        struct {
            uint8_t flags;
            uint8_t half; /* enum vni_half */
        } vni_row;
        struct {
            struct prefix dst;
            struct route_action action;
        } route;
        struct {
            struct ip vm;
            struct ip nc;
            bool has_mac;
            uint8_t mac[6];
        } vm_nc;
        struct {
            uint16_t priority;
            uint8_t action; /* enum acl_action */
            struct acl_match match;
        } acl;
        struct meter meter;
        struct {
            char cluster[CLUSTER_NAME_MAX + 1];
        } vni_cluster;
    };
};

/* Longest packed key and value of any table: acl's and tenant's. */
#define ENTRY_KEY_MAX   47
#define ENTRY_VALUE_MAX 155

/* A packed entry; borrows the bytes it points to.  Key and value need not adjoin. */
struct row {
    const uint8_t *key;
    const uint8_t *value; /* null where only the key is meant (a delete) */
    uint8_t key_len;
    uint8_t value_len;
};

const char *table_name(enum table_id table);   /* "vxlan_route", … */
int table_parse(const char *name, size_t len); /* -1 if unknown */
const char *acl_action_name(unsigned action);  /* "permit", "deny"; "unknown" */
const char *scope_name(enum route_scope scope);
int scope_parse(const char *name, size_t len); /* -1 if unknown */

/* Checks every rule that one entry alone can break: VNI range, host bits, family
 * mismatches, names, a peer to itself, addresses that can be no VM, NC or endpoint
 * (unspecified, multicast, loopback), ports without TCP or UDP, meters that could pass
 * nothing.  RC_INVALID or RC_RANGE with field and rule. */
enum rc entry_check(const struct entry *e, struct err *err);
/* The rules of table, VNI and key alone: all that a delete says. */
enum rc entry_check_key(const struct entry *e, struct err *err);

/* Append the canonical bytes of an entry that passed entry_check(). */
void entry_pack_key(const struct entry *e, struct buf *to);
void entry_pack_value(const struct entry *e, struct buf *to);

/* Unpacks and checks as strictly as entry_check(): RC_INVALID on anything that
 * entry_pack could not have written.  A null `row->value` leaves the value zero. */
enum rc entry_unpack(enum table_id table, uint32_t vni, const struct row *row,
                     struct entry *ret, struct err *err);

/* Finds the end of the packed row at `p` by its own lengths; checks lengths and tags,
 * not meaning.  Fills `*ret` and returns the bytes used, or 0 when malformed or cut. */
size_t row_scan(enum table_id table, const uint8_t *p, size_t avail, bool has_value,
                struct row *ret);

/* memcmp order; a shorter key that is a prefix of a longer one comes first. */
int row_compare(const struct row *a, const struct row *b);

/* XXH3-64 of table(1) vni(3) key value. */
uint64_t row_digest(enum table_id table, uint32_t vni, const struct row *row);

/* XXH3-64 of the key alone: its top nibbles are the path below a VNI. */
uint64_t row_key_hash(const struct row *row);
