/*
 * object - the configuration of a region as plain values: region, cluster, node and
 * policy, and device_config, which is what one device is told of them.
 *
 * Each has a check of every rule that it can break alone, and a packed form: a kind
 * letter, a version, the fields.  Packing is canonical (equal objects are equal bytes)
 * and unpacking is as strict as the check.  What needs two objects (a node's cluster
 * exists, no address is used twice) is the core's to check.
 *
 * Values only: no memory is kept, though unpacking takes some heap for a moment.  Any
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/ip.h"
#include "proto/model/entry.h"

#define REGION_NAME_MAX      31 /* names: name_check() of proto/model/name.h */
#define NODE_NAME_MAX        63
#define PORT_NAME_MAX        63 /* letters, digits, '-', '.', '_', ':' */
#define UNDERLAY_SOURCES_MAX 1024
#define UPLINKS_MAX          8

/* Least: what IPv6 needs (RFC 8200, section 5).  Most: what common NICs take. */
#define UPLINK_MTU_MIN     1280
#define UPLINK_MTU_MAX     9216
#define UPLINK_MTU_DEFAULT 1500

/* In all of these a `_v4` address is IPv4 or none, a `_v6` one IPv6 or none. */

/* Next hops that routers upstream take for one address (CAPACITY.md: 16 to 64). */
#define ECMP_LIMIT_MAX     64
#define ECMP_LIMIT_DEFAULT 64

/* How a VNI's packets find its cluster (CONTROL.md, Steering): by the cluster's VIP,
 * or through load balancers that know of each VNI where it is at home. */
enum steering { STEERING_VIP = 0, STEERING_LB = 1 };
const char *steering_name(unsigned steering);     /* "vip", "lb"; "unknown" */
int steering_parse(const char *name, size_t len); /* -1 if unknown */

#define ADMISSION_HOLD_MS_DEFAULT 60000 /* the window in which loss is judged */
#define ADMISSION_HOLD_MS_MAX     86400000

struct region {
    char name[REGION_NAME_MAX + 1];
    uint8_t steering;   /* enum steering */
    uint8_t ecmp_limit; /* most nodes of a side; 0: the default */
    /* How long each stage of a cluster's admission is watched; 0: the default. */
    uint32_t admission_hold_ms;
    struct ip icmp_source_v4; /* the gateways' source of ICMP errors to VMs */
    struct ip icmp_source_v6;
    /* Who may send to the gateways; none listed: nobody.  Ascending, no repeats:
     * region_sort() makes it so. */
    uint16_t underlay_source_count;
    struct prefix underlay_sources[UNDERLAY_SOURCES_MAX];
};

/* A kind of cluster is a row of a table in object.c.  Load balancers have no tenants of
 * their own: they stand in front of the other clusters (enum steering). */
enum cluster_kind { CLUSTER_X86 = 1, CLUSTER_XGW_H = 2, CLUSTER_LB = 3 };
const char *cluster_kind_name(unsigned kind);         /* "x86", "xgw-h"; "unknown" */
int cluster_kind_parse(const char *name, size_t len); /* -1 if unknown */

/* Where a cluster stands (CONTROL.md); only one that serves takes new tenants. */
enum cluster_state {
    CLUSTER_SERVING = 0,
    CLUSTER_PLANNED,
    CLUSTER_LOADING,
    CLUSTER_CHECKING,
    CLUSTER_PROBING,
    CLUSTER_ADMITTING,
    CLUSTER_DRAINING,
    CLUSTER_RETIRED,
    CLUSTER_FAILED,
    CLUSTER_STATES
};
/* Load balancers and routers send to its nodes in this state. */
bool cluster_is_announced(unsigned state);
const char *cluster_state_name(unsigned state);        /* "serving"; "unknown" */
int cluster_state_parse(const char *name, size_t len); /* -1 if unknown */

/* What a node is, and what its agent says it drives. */
enum device_kind {
    DEVICE_X86 = 1,    /* xgw-gateway --pipeline x86 */
    DEVICE_SOFT_H = 2, /* xgw-gateway --pipeline h */
    DEVICE_TOFINO = 3,
    DEVICE_BMV2 = 4,
    DEVICE_LB = 5 /* xgw-gateway --pipeline lb */
};
const char *device_kind_name(unsigned kind);         /* "soft-h"; "unknown" */
int device_kind_parse(const char *name, size_t len); /* -1 if unknown */
unsigned device_kind_cluster(unsigned kind);         /* the cluster kind it is for; 0 */

/* What passes of the packets that an XGW-H node hands to XGW-x86, in two classes (the
 * numbers of agent/xgwh's enum phys_class): first each tenant's bucket, found by a hash
 * of its VNI, so that one cannot spend the others' share; then the whole node's. */
enum fallback_class {
    FALLBACK_MISS = 0,    /* no route, or no VM-NC entry */
    FALLBACK_SERVICE = 1, /* routes of scope internet, service, fallback */
    FALLBACK_CLASSES
};
const char *fallback_class_name(unsigned fallback_class); /* "miss", "service" */

/* One rate, one bucket: what is over it is dropped. */
struct policer {
    uint64_t rate_bps;    /* 1 to METER_BPS_MAX; what counts: see struct meter */
    uint32_t burst_bytes; /* METER_BURST_MIN to METER_BURST_MAX */
};
struct fallback_meter {
    struct policer node[FALLBACK_CLASSES];
    struct policer tenant[FALLBACK_CLASSES]; /* of each bucket */
};
/* The default: services 40 Gbit/s a node and 4 a tenant, misses 4 and 0.1; bursts of
 * 10 ms.  Guesses: a node of 3.2 Tbit/s and 0.2 permille on x86 make 0.64 Gbit/s. */
void fallback_meter_default(struct fallback_meter *m);

/* How large the tables of an XGW-H cluster's nodes are: those of the image on the chip,
 * or of a switch in software that was given more (xgw-gateway --profile). */
enum table_profile { TABLES_TOFINO = 0, TABLES_BENCH = 1 };
const char *table_profile_name(unsigned profile);      /* "tofino"; "unknown" */
int table_profile_parse(const char *name, size_t len); /* -1 if unknown */

struct cluster {
    char name[CLUSTER_NAME_MAX + 1];
    uint8_t kind;        /* enum cluster_kind */
    uint8_t state;       /* enum cluster_state */
    char active_side;    /* 'a' or 'b' */
    bool udp6_zero_csum; /* RFC 6935: outer UDP checksum 0 over IPv6 */
    struct ip vip_v4;    /* at least one of the two */
    struct ip vip_v6;
    /* Of XGW-H only, else zero: its tables' size (enum table_profile), the x86 cluster
     * behind it, and what may go there. */
    uint8_t profile;
    char backing[CLUSTER_NAME_MAX + 1];
    struct fallback_meter fallback_meter;
};

/* For each family the own address and the next hop come together; at least one family.
 */
struct uplink {
    char port[PORT_NAME_MAX + 1];
    struct ip addr_v4;
    struct ip addr_v6;
    struct ip next_hop_v4;
    struct ip next_hop_v6;
    bool has_mac; /* the next hop's, static; else it is resolved by ARP or ND */
    uint8_t mac[6];
    uint16_t mtu; /* bytes of IP; UPLINK_MTU_MIN to UPLINK_MTU_MAX */
};

struct node {
    char name[NODE_NAME_MAX + 1]; /* the device id of its certificate */
    char cluster[CLUSTER_NAME_MAX + 1];
    uint8_t kind;      /* enum device_kind; fits the cluster's */
    char side;         /* 'a' or 'b' */
    struct ip vtep_v4; /* at least one of the two */
    struct ip vtep_v6;
    /* Of x86 only: where XGW-H sends fallback packets, which have passed ACL and meter.
     * None: this node takes none (of that family). */
    struct ip fallback_v4;
    struct ip fallback_v6;
    uint8_t uplink_count; /* 0: a node without ports, as in tests */
    struct uplink uplinks[UPLINKS_MAX];
};

/* A member of a fallback group: an x86 node's fallback addresses, at least one. */
struct fallback_member {
    struct ip v4;
    struct ip v6;
};
#define FALLBACK_MEMBERS_MAX ECMP_LIMIT_MAX

/* A node that load balancers may send a cluster's packets to, by its VTEP. */
struct cluster_member {
    char cluster[CLUSTER_NAME_MAX + 1];
    char node[NODE_NAME_MAX + 1];
    struct ip v4; /* at least one of the two */
    struct ip v6;
};
#define CLUSTER_MEMBERS_MAX 512 /* of all clusters: lb is for small regions */
#define CLUSTER_SIDE_MAX    64  /* of one: as many as routers take next hops */

struct device_config {
    char node[NODE_NAME_MAX + 1];
    char cluster[CLUSTER_NAME_MAX + 1];
    uint8_t kind; /* enum device_kind */
    bool udp6_zero_csum;
    struct ip vtep_v4; /* with the VIPs: the addresses it accepts */
    struct ip vtep_v6;
    struct ip vip_v4; /* outer source towards NCs and endpoints of that family */
    struct ip vip_v6;
    struct ip icmp_source_v4;
    struct ip icmp_source_v6;
    uint16_t underlay_source_count;
    struct prefix underlay_sources[UNDERLAY_SOURCES_MAX];
    uint8_t uplink_count;
    struct uplink uplinks[UPLINKS_MAX];
    /* x86: its own fallback addresses, accepted beside VTEP and VIPs. */
    struct ip fallback_v4;
    struct ip fallback_v6;
    /* XGW-H: nodes of the active side of the cluster behind it, in order of their
     * names; none: what would fall back is dropped.  And the meters before that. */
    uint8_t fallback_member_count;
    struct fallback_member fallback_members[FALLBACK_MEMBERS_MAX];
    struct fallback_meter fallback_meter;
    /* lb: who carries packets of which cluster; ascending by cluster, then node. */
    uint16_t cluster_member_count;
    struct cluster_member cluster_members[CLUSTER_MEMBERS_MAX];
};

/*
 * Policy: where a service's entries are looked up.  XGW-x86 always has them; XGW-H has
 * those of services that are to be there, and answers them.  A service is
 *
 *   local, peer, idc, region, internet   the scope of a route (VM-NC entries: local)
 *   service                              routes of scope service, whatever its name
 *   service:NAME                         those of this name
 */
#define POLICY_SERVICE_MAX (8 + SERVICE_NAME_MAX)
#define POLICY_RULES_MAX   256

enum policy_place { POLICY_XGW_X86 = 1, POLICY_XGW_H = 2 };
const char *policy_place_name(unsigned place); /* "xgw-x86", "xgw-h"; "unknown" */
int policy_place_parse(const char *name, size_t len);

struct policy_rule {
    char service[POLICY_SERVICE_MAX + 1];
    uint8_t place; /* enum policy_place */
};

/* Only what differs from the default: everything on XGW-H but `internet`, which it
 * hands on anyway. */
struct policy {
    uint16_t rule_count;
    struct policy_rule rules[POLICY_RULES_MAX]; /* ascending by service, each once */
};

/* Where routes of this scope (and, of scope service, this name) are. */
enum policy_place policy_of_route(const struct policy *p, const struct route_action *a);
enum policy_place policy_of_service(const struct policy *p, const char *service);
/* Sets one rule, or takes it out where it says what holds without it.  RC_FULL; what
 * policy_check says of the service's name. */
enum rc policy_set(struct policy *p, const char *service, enum policy_place place,
                   struct err *err);
/* The service of a route, as text. */
void policy_service_name(const struct route_action *a,
                         char ret[POLICY_SERVICE_MAX + 1]);

/* Sorts the underlay sources and drops repeats.  For readers of what people write. */
void region_sort(struct region *r);

/* RC_INVALID or RC_RANGE with field ("uplinks[1].next_hop_v4") and rule. */
enum rc region_check(const struct region *r, struct err *err);
enum rc cluster_check(const struct cluster *c, struct err *err);
enum rc node_check(const struct node *n, struct err *err);
enum rc policy_check(const struct policy *p, struct err *err);
enum rc device_config_check(const struct device_config *d, struct err *err);

/* Append the canonical bytes of an object that passed its check. */
void region_pack(const struct region *r, struct buf *to);
void cluster_pack(const struct cluster *c, struct buf *to);
void node_pack(const struct node *n, struct buf *to);
void policy_pack(const struct policy *p, struct buf *to);
void device_config_pack(const struct device_config *d, struct buf *to);

/* RC_INVALID for bytes that packing could not have written; `*ret` is then untouched.
 * All of `*ret` is set: fields that do not apply are zero. */
enum rc region_unpack(const void *bytes, size_t len, struct region *ret,
                      struct err *err);
enum rc cluster_unpack(const void *bytes, size_t len, struct cluster *ret,
                       struct err *err);
enum rc node_unpack(const void *bytes, size_t len, struct node *ret, struct err *err);
enum rc policy_unpack(const void *bytes, size_t len, struct policy *ret,
                      struct err *err);
enum rc device_config_unpack(const void *bytes, size_t len, struct device_config *ret,
                             struct err *err);

/* What `node` of `cluster` in `region` is told: a pure function, all three checked and
 * `node->cluster` being `cluster->name`.  An XGW-H node is then given its fallback
 * members, in order of their names. */
void device_config_of(const struct region *region, const struct cluster *cluster,
                      const struct node *node, struct device_config *ret);
/* Adds an x86 node as a member, where it has a fallback address and there is room. */
void device_config_add_member(struct device_config *d, const struct node *x86);
/* Adds a node of any cluster as one that a load balancer may choose, where there is
 * room; in ascending order of cluster and name. */
void device_config_add_cluster_member(struct device_config *d, const struct node *n);
/* Whether nodes take packets from this outer source. */
bool device_config_takes_from(const struct device_config *d, const struct ip *src);
bool region_takes_from(const struct region *r, const struct ip *src);

/* XXH3-64 of the packed bytes; 0, as of no configuration, when memory is out. */
uint64_t device_config_digest(const struct device_config *d);
/* The same of bytes that are packed already. */
uint64_t device_config_bytes_digest(const void *bytes, size_t len);
