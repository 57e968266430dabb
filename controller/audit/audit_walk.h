/*
 * audit_walk - the rows on which a device and its group's desired set differ, by name.
 *
 * Walks the digest tree: QUERY a node, compare the answer with the desired digests as
 * they were when the QUERY was sent, go on where they differ, and ask for the ROWS of
 * what is small.  One message is under way at a time.  Messages may be taken only while
 * the device was sent everything that changed (sync_is_level()), for the answer is then
 * of that very state.
 *
 * Pure: no clock, no socket.  One owner, one thread.
 */
#pragma once

#include "proto/model/agent_msg.h"

#define AUDIT_LISTED_MAX 100 /* differences that are named; others are counted */
#define AUDIT_ROWS_MAX   64  /* rows of a bucket that are asked for at once */
#define AUDIT_ASKS_MAX   256 /* messages of one walk; then digests alone are counted */
#define AUDIT_QUERY_ID                                                                 \
    (UINT64_C(1) << 63) /* in ids of our QUERYs: sync's are small                      \
                         */

enum audit_kind { AUDIT_MISSING = 1, AUDIT_EXTRA, AUDIT_DIFFERENT, AUDIT_KINDS };
const char *audit_kind_name(unsigned kind); /* "missing"; "unknown" */

/* Packed as entry.h says; what is not there has length 0 (and is not of DIFFERENT). */
struct audit_difference {
    uint8_t kind; /* enum audit_kind */
    uint8_t table;
    uint32_t vni;
    uint8_t key_len;
    uint8_t expected_len;
    uint8_t found_len;
    uint8_t key[ENTRY_KEY_MAX];
    uint8_t expected[ENTRY_VALUE_MAX];
    uint8_t found[ENTRY_VALUE_MAX];
};

struct audit_findings {
    uint64_t count[AUDIT_KINDS]; /* by kind */
    uint64_t refused; /* rows that the device said it could not take: no difference */
    bool is_cut;      /* too many: counted by digests, kinds are a guess */
    uint32_t listed;
    struct audit_difference at[AUDIT_LISTED_MAX];
};
uint64_t audit_findings_total(const struct audit_findings *f);

/* Whether the device is known to lack this row (an exception). */
typedef bool audit_known_fn(void *ctx, enum table_id table, uint32_t vni,
                            const struct row *key);

struct audit_walk;

/* Of one VNI or (0) of all; of tables whose `observed` digest, by table id, is that of
 * `desired` nothing is asked.  `observed` null: it is of another moment.  Borrows
 * `desired` and `ret`, which begins empty, for its life.  Null: no memory. */
struct audit_walk *audit_walk_new(const struct table_set *desired, uint32_t vni,
                                  const struct digest *observed,
                                  audit_known_fn *is_known, void *ctx,
                                  struct audit_findings *ret);
void audit_walk_free(struct audit_walk *w); /* null is fine */

/* The next message; false: an answer is due, or it is over. */
bool audit_walk_next(struct audit_walk *w, struct ctl_msg *ret);
/* RC_INVALID: not what was asked; the walk says nothing then. */
enum rc audit_walk_digests(struct audit_walk *w, const struct agent_digests *d);
enum rc audit_walk_rows(struct audit_walk *w, const struct agent_rows *r);
bool audit_walk_is_over(const struct audit_walk *w);
