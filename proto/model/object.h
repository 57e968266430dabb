/*
 * object - the configuration of a region as plain values: region, cluster, node, and
 * device_config, which is what one device is told of them.
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

struct region {
    char name[REGION_NAME_MAX + 1];
    struct ip icmp_source_v4; /* the gateways' source of ICMP errors to VMs */
    struct ip icmp_source_v6;
    /* Who may send to the gateways; none listed: nobody.  Ascending, no repeats:
     * region_sort() makes it so. */
    uint16_t underlay_source_count;
    struct prefix underlay_sources[UNDERLAY_SOURCES_MAX];
};

/* A kind of cluster is a row of a table in object.c: xgw-h and lb will be two more. */
enum cluster_kind { CLUSTER_X86 = 1 };
const char *cluster_kind_name(unsigned kind);         /* "x86"; "unknown" */
int cluster_kind_parse(const char *name, size_t len); /* -1 if unknown */

struct cluster {
    char name[CLUSTER_NAME_MAX + 1];
    uint8_t kind;        /* enum cluster_kind */
    char active_side;    /* 'a' or 'b' */
    bool udp6_zero_csum; /* RFC 6935: outer UDP checksum 0 over IPv6 */
    struct ip vip_v4;    /* at least one of the two */
    struct ip vip_v6;
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
    char side;         /* 'a' or 'b' */
    struct ip vtep_v4; /* at least one of the two */
    struct ip vtep_v6;
    uint8_t uplink_count; /* 0: a node without ports, as in tests */
    struct uplink uplinks[UPLINKS_MAX];
};

struct device_config {
    char node[NODE_NAME_MAX + 1];
    char cluster[CLUSTER_NAME_MAX + 1];
    uint8_t kind; /* enum cluster_kind */
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
};

/* Sorts the underlay sources and drops repeats.  For readers of what people write. */
void region_sort(struct region *r);

/* RC_INVALID or RC_RANGE with field ("uplinks[1].next_hop_v4") and rule. */
enum rc region_check(const struct region *r, struct err *err);
enum rc cluster_check(const struct cluster *c, struct err *err);
enum rc node_check(const struct node *n, struct err *err);
enum rc device_config_check(const struct device_config *d, struct err *err);

/* Append the canonical bytes of an object that passed its check. */
void region_pack(const struct region *r, struct buf *to);
void cluster_pack(const struct cluster *c, struct buf *to);
void node_pack(const struct node *n, struct buf *to);
void device_config_pack(const struct device_config *d, struct buf *to);

/* RC_INVALID for bytes that packing could not have written; `*ret` is then untouched.
 * All of `*ret` is set: fields that do not apply are zero. */
enum rc region_unpack(const void *bytes, size_t len, struct region *ret,
                      struct err *err);
enum rc cluster_unpack(const void *bytes, size_t len, struct cluster *ret,
                       struct err *err);
enum rc node_unpack(const void *bytes, size_t len, struct node *ret, struct err *err);
enum rc device_config_unpack(const void *bytes, size_t len, struct device_config *ret,
                             struct err *err);

/* What `node` of `cluster` in `region` is told: a pure function, all three checked and
 * `node->cluster` being `cluster->name`. */
void device_config_of(const struct region *region, const struct cluster *cluster,
                      const struct node *node, struct device_config *ret);

/* XXH3-64 of the packed bytes; 0, as of no configuration, when memory is out. */
uint64_t device_config_digest(const struct device_config *d);
/* The same of bytes that are packed already. */
uint64_t device_config_bytes_digest(const void *bytes, size_t len);
