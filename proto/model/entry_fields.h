/*
 * entry_fields - the fields of one entry as a reader of text found them.
 *
 * The JSON and the CSV reader fill the same struct; the tables read their fields from
 * it.  Texts are borrowed from the line, or from the reader's scratch memory where an
 * escape had to be undone.  Internal to proto/model.
 */
#pragma once

#include "proto/model/entry_text.h"

#define ENTRY_LINE_MAX 1024 /* entry_text.h: longer lines are refused */

enum field_id {
    FIELD_OP,
    FIELD_TABLE,
    FIELD_VNI,
    FIELD_CLUSTER,
    FIELD_NAME,
    FIELD_FLAGS,
    FIELD_PREFIX,
    FIELD_SCOPE,
    FIELD_PEER_VNI,
    FIELD_ENDPOINT,
    FIELD_ENDPOINT_VNI,
    FIELD_SERVICE,
    FIELD_VM,
    FIELD_NC,
    FIELD_MAC,
    FIELD_H_HOME,
    FIELD_HALF,
    FIELD_PRIORITY,
    FIELD_SRC,
    FIELD_DST,
    FIELD_PROTO,
    FIELD_SPORT,
    FIELD_DPORT,
    FIELD_ACTION,
    FIELD_COMMITTED_BPS,
    FIELD_PEAK_BPS,
    FIELD_COMMITTED_BURST,
    FIELD_PEAK_BURST,
    FIELD_RESERVED_ROUTES,
    FIELD_RESERVED_VMS,
    FIELD_RESERVED_BPS,
    FIELD_RESERVED_PPS,
    FIELD_COUNT
};

enum field_kind {
    KIND_TEXT,
    KIND_NUMBER, /* at most UINT32_MAX */
    KIND_WIDE,   /* at most FIELD_WIDE_MAX */
    KIND_FLAGS
};

#define FIELD_WIDE_MAX ((UINT64_C(1) << 53) - 1) /* exact in everybody's JSON */

struct field_type {
    const char *name;
    uint8_t name_len;
    uint8_t kind;
};
extern const struct field_type field_types[FIELD_COUNT];

struct field_text {
    const char *p;
    uint32_t len;
};

struct fields {
    uint32_t present; /* 1 << enum field_id */
    uint64_t number[FIELD_COUNT];
    struct field_text text[FIELD_COUNT];
    uint8_t flags;
};

static inline bool field_has(const struct fields *f, enum field_id id)
{
    return f->present >> id & 1;
}

/* Finds the field and marks it present: RC_INVALID with rule "unknown_field" or
 * "repeated_field". */
enum rc field_begin(struct fields *f, const char *name, size_t len, unsigned *ret_id,
                    struct err *err);

/* Decimal, no sign, no leading zero, at most what its kind allows: RC_INVALID (rule
 * "number") or RC_RANGE (rule "number_range"). */
enum rc field_read_number(enum field_id id, const char *p, size_t len, uint64_t *ret,
                          struct err *err);
/* One flag by name: sets its bit.  Rules "flag_known", "flag_repeated". */
enum rc field_read_flag(const char *p, size_t len, uint8_t *flags, struct err *err);

/* For the tables: read one field that must be there, else RC_INVALID, "required". */
enum rc field_require(const struct fields *f, enum field_id id, struct err *err);
enum rc field_read_ip(const struct fields *f, enum field_id id, struct ip *ret,
                      struct err *err);
enum rc field_read_prefix(const struct fields *f, enum field_id id, struct prefix *ret,
                          struct err *err);
/* Of KIND_NUMBER: a VNI or another number of 32 bits. */
enum rc field_read_u32(const struct fields *f, enum field_id id, uint32_t *ret,
                       struct err *err);
enum rc field_read_wide(const struct fields *f, enum field_id id, uint64_t *ret,
                        struct err *err);
enum rc field_read_name(const struct fields *f, enum field_id id, char *to, size_t max,
                        struct err *err);

/* Puts the field's name into an error that ip_parse() or prefix_parse() made of its
 * text; returns the code. */
enum rc field_blame(enum field_id id, enum rc code, struct err *err);
/* RC_INVALID, rule "unexpected_field", for the first field of `mask`; `where` reads
 * "no field of this table". */
enum rc field_refuse(uint32_t mask, const char *where, struct err *err);

/* Turns the fields into a checked entry: op, table, vni, then the table's own, and
 * nothing beside them. */
enum rc fields_to_entry(const struct fields *f, enum entry_op *ret_op,
                        struct entry *ret, struct err *err);

/* For the printers: ,"name":"text" and ,"name":number.  `text` is escaped. */
void field_print_text(enum field_id id, const char *text, struct buf *to);
void field_print_number(enum field_id id, uint64_t number, struct buf *to);
void field_print_ip(enum field_id id, const struct ip *ip, struct buf *to);
void field_print_prefix(enum field_id id, const struct prefix *p, struct buf *to);
void field_print_flags(uint8_t flags, struct buf *to); /* nothing when none is set */
