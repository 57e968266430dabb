/*
 * record - the keys under which a region's state is stored, and what is in them.
 *
 *   /a/SEQ          audit record: who, when, what, with which counts (struct audit)
 *   /e/VNI TABLE K  page: packed sorted rows of one VNI and table, K the first key
 *   /f/SEQ          VNIs freed by mutation SEQ: unix time(8) vni(3)*
 *   /i/DIGEST       import: next line(8) unix time(8)
 *   /j/SEQ          journal record: the batch of mutation SEQ, maybe empty
 *   /m/folded       SEQ(8) up to which records are in the pages
 *   /m/term         term(8) of the leader: what every transaction compares
 *   /m/probe        written to learn whether an unanswered transaction took effect
 *   /o/region, /o/policy, /o/cluster/NAME, /o/node/NAME
 *                   object, packed as proto/model/object.h says
 *   /o/ack/ALARM    acknowledgement of an alarm (controller/health/alarms.h)
 *   /r/ID           result of request ID: struct result
 *   /t/SLOT         ticket: one of CHAIN_SLOTS (chain below)
 *
 * SEQ is 8 bytes, VNI 3, TABLE 1, SLOT 1; all numbers are big-endian.  The order of
 * the prefixes is the order of loading: pages before journal records before objects.
 *
 * Chain: a transaction must not take effect when one before it did not, for it was
 * checked against that one's outcome; and it cannot name a revision that is not known
 * yet.  So each mutation takes a ticket: all tickets exist but one, number SEQ modulo
 * CHAIN_SLOTS.  The transaction of SEQ requires that its ticket does not exist, puts
 * it, and deletes the next one's.  When it fails, the next one's stays and fails that
 * in turn.
 *
 * Values only; any thread.
 */
#pragma once

#include "controller/store/store.h"
#include "proto/model/rows.h"

#define CHAIN_SLOTS 64 /* more than transactions ever in flight */

struct store_key record_key_seq(char kind, uint64_t seq); /* kind: a, f, j */
struct store_key record_key_page(uint32_t vni, uint8_t table, const void *first_key,
                                 uint8_t len);
struct store_key record_key_pages_end(uint32_t vni, uint8_t table);
struct store_key record_key_import(const uint8_t digest[16]);
struct store_key record_key_meta(const char *name);
struct store_key record_key_object(const char *kind, const char *name);
struct store_key record_key_result(const char *request_id);
struct store_key record_key_ticket(uint64_t seq);

/* What a starting controller reads: everything but the audit log. */
void record_load_range(struct store_key *ret_from, struct store_key *ret_end);

/* The key's kind letter, 0 when it is none of ours; its body is behind "/x/". */
char record_kind(const struct store_key *key);
bool record_seq(const struct store_key *key, uint64_t *ret_seq);

/* A batch of a journal record was committed: its sequence number, else false.  For
 * those who follow the store's events (the API's watch). */
static inline bool record_is_journal(const struct store_kv *kv, uint64_t *ret_seq)
{
    return record_kind(&kv->key) == 'j' && kv->value && record_seq(&kv->key, ret_seq);
}

/* One line of the audit log.  The revision is the key's mod revision. */
struct audit {
    uint64_t unix_ms;
    char what[32]; /* "entries", "put cluster", … */
    char who[64];
    char name[64]; /* of the object; "" for entries */
    char request_id[64];
    struct rows_change counts;
    uint64_t import_next_line; /* 0: not an import */
};
struct blob *record_pack_audit(const struct audit *a); /* null: no memory */
enum rc record_unpack_audit(const void *bytes, size_t len, struct audit *ret);

struct result {
    uint64_t unix_ms;
    struct rows_change counts;
};
struct blob *record_pack_result(const struct result *r);
enum rc record_unpack_result(const void *bytes, size_t len, struct result *ret);

/* Values that are numbers only. */
struct blob *record_pack_u64(uint64_t a);
struct blob *record_pack_u64_pair(uint64_t a, uint64_t b);
