/*
 * soft - a dumb switch for tests: holds the physical tables as lists, writes them as a
 * P4Runtime server would, and looks up as the chip does, by scanning.
 *
 * It shares no code with agent/xgwh but the descriptions of phys.h.
 */
#pragma once

#include "agent/xgwh/phys.h"
#include "proto/base/ip.h"

struct soft_table {
    struct phys_entry *at;
    unsigned count;
    unsigned cap;
};

struct soft {
    const struct phys_sizes *sizes;
    unsigned halves;
    struct soft_table tables[2][PHYS_TABLES];
};

struct soft *soft_new(const struct phys_sizes *sizes, unsigned halves);
void soft_free(struct soft *s);

/* One write on one device; null or what is wrong with it. */
const char *soft_write(struct soft *s, unsigned half, const struct phys_write *w);

enum soft_kind {
    SOFT_MISS, /* to x86 as a miss */
    SOFT_X86,  /* to x86 as a service */
    SOFT_LOCAL,
    SOFT_PEER,
    SOFT_TUNNEL,
    SOFT_DANGLING, /* an NC index without an address: never right */
};
struct soft_route {
    enum soft_kind kind;
    uint32_t vni;  /* peer, tunnel */
    uint32_t half; /* peer */
    struct ip nc;  /* tunnel */
};
struct soft_route soft_route(const struct soft *s, unsigned half, uint32_t vni,
                             const struct ip *dst);

/* The NC of a VM; family IP_NONE: a miss.  `*ret_dangling` as above. */
struct ip soft_vm(const struct soft *s, unsigned half, uint32_t vni,
                  const struct ip *vm, bool *ret_dangling);

/* False: unknown. */
bool soft_vni(const struct soft *s, unsigned half, uint32_t vni, unsigned *ret_flags,
              unsigned *ret_half, unsigned *ret_meter);

/* The verdict on a packet of a VNI; `has_ports` is false for a later fragment. */
struct soft_packet {
    struct ip src, dst;
    uint8_t proto;
    uint16_t sport, dport;
    bool has_ports;
};
bool soft_permits(const struct soft *s, unsigned half, uint32_t vni,
                  const struct soft_packet *p);

/* Bit by bit from the polynomial: what zlib and the chip call CRC32. */
uint32_t soft_crc32(const uint8_t *bytes, unsigned len);

/* A field by its place in the description. */
uint64_t soft_key(const struct phys_entry *e, unsigned field);
uint64_t soft_param(const struct phys_entry *e, unsigned param);
