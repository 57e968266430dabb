/*
 * table_type - what the code must know about one logical table, as a row of functions.
 *
 * A new table is a new row and a file beside table_vm_nc.c; entry.c only dispatches.
 * Internal to proto/model.  Values only; any thread.
 */
#pragma once

#include "proto/model/entry.h"
#include "proto/model/entry_fields.h"

/* What a size function says of bytes that cannot be a key or value. */
#define SIZE_MALFORMED SIZE_MAX

struct table_type {
    const char *name;

    enum rc (*check_key)(const struct entry *e, struct err *err);
    enum rc (*check_value)(const struct entry *e, struct err *err);

    void (*pack_key)(const struct entry *e, struct buf *to);
    void (*pack_value)(const struct entry *e, struct buf *to);
    /* Into a zeroed entry; false where the form is wrong.  Meaning is check_*'s. */
    bool (*unpack_key)(struct reader *from, struct entry *ret);
    bool (*unpack_value)(struct reader *from, struct entry *ret);
    /* Bytes of the packed key or value at `p`, or SIZE_MALFORMED.  Never reads past
     * `avail`; the answer may be more than `avail`. */
    size_t (*key_size)(const uint8_t *p, size_t avail);
    size_t (*value_size)(const uint8_t *p, size_t avail);

    /* Text: field masks (1 << enum field_id) of key and value, and their reading into
     * a zeroed entry.  What entry_check says of a value is not repeated here. */
    uint32_t key_fields;
    uint32_t value_fields;
    enum rc (*read_key)(const struct fields *f, struct entry *ret, struct err *err);
    enum rc (*read_value)(const struct fields *f, struct entry *ret, struct err *err);
    void (*print_key)(const struct entry *e, struct buf *to);
    void (*print_value)(const struct entry *e, struct buf *to);
};

extern const struct table_type table_tenant;
extern const struct table_type table_vni;
extern const struct table_type table_route;
extern const struct table_type table_vm_nc;
extern const struct table_type table_acl;
extern const struct table_type table_meter;
extern const struct table_type table_vni_cluster;

/* Null for a table that does not exist. */
const struct table_type *table_type_of(unsigned table);

/* Shared by the rows. */
enum rc check_vni(uint32_t vni, const char *field, struct err *err);
/* Only bits of `allowed`: rule "flag_known". */
enum rc check_flags(uint8_t flags, uint8_t allowed, struct err *err);
/* A prefix of a known family, in range, without host bits, not IPv4 in IPv6 form:
 * rules "family", "prefix_length", "host_bits", "family_mismatch". */
enum rc check_prefix(const struct prefix *p, const char *field, struct err *err);
/* Rates and bursts: rules "meter_rate", "meter_burst".  `list` goes in front of the
 * fields' names ("" or "fallback_meter.miss."). */
enum rc check_meter(const struct meter *m, const char *list, struct err *err);
/* A unicast address that a machine can have: rules "family", "family_mismatch" (an
 * IPv4-mapped IPv6 address), "unicast_address". */
enum rc check_machine_address(const struct ip *ip, const char *field, struct err *err);
/* Does it lie under ::ffff:0:0/96 (RFC 4291, 2.5.5.2)?  XGW-H keeps IPv4 there. */
bool prefix_is_v4_mapped(const struct prefix *p);

/* The shape of a table whose key is the VNI alone. */
enum rc no_key_check(const struct entry *e, struct err *err);
void no_key_pack(const struct entry *e, struct buf *to);
bool no_key_unpack(struct reader *from, struct entry *ret);
size_t no_key_size(const uint8_t *p, size_t avail);
enum rc no_key_read(const struct fields *f, struct entry *ret, struct err *err);

void pack_ip(const struct ip *ip, struct buf *to); /* tag and address */
bool unpack_ip(struct reader *from, struct ip *ret);
/* Bytes of a tagged address at `p`: 5, 17 or SIZE_MALFORMED. */
size_t tagged_ip_size(const uint8_t *p, size_t avail);
void pack_name(const char *name, struct buf *to); /* length(1) bytes */
/* Into `to`, `max` + 1 bytes that are zero; false when too long or with a zero in it.
 */
bool unpack_name(struct reader *from, char *to, size_t max);
