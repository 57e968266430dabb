/*
 * sync - what one device lacks of its group's desired set, and how it is told.
 *
 * First download, reconnect and repair are one mechanism: walk the digest tree, send
 * only what differs as REPLACE runs (an empty device: as PUT runs), and meanwhile pass
 * on changes as they commit.  A cursor moves over the VNIs: a change behind the cursor
 * is forwarded at once, one in front of it is left to the walk, so nothing is sent
 * twice and nothing old overwrites something new.  Below a large VNI the same holds for
 * its buckets.  A digest that was asked for is compared with the desired digest as it
 * was when the QUERY was sent.
 *
 * Work is pulled by window credit: at most SESSION_WINDOW batches unacknowledged; one
 * slow device holds nobody back and costs no memory: changes it has not been sent are
 * kept by reference up to a bound (SYNC_BACKLOG_BYTES), beyond which the device is put
 * back to walking.  Pure: no clock, no socket.  Owned by the core, its thread.
 */
#pragma once

#include "proto/model/agent_msg.h"

struct sync; /* one device's session */

#define SYNC_BACKLOG_BYTES (8u << 20)

/* Borrows `desired` for its life; the core tells of every change to it with
 * sync_change().  Null: no memory. */
struct sync *sync_new(const struct table_set *desired, uint64_t revision);
void sync_free(struct sync *s); /* null is fine */

/* Starts (again) from what the device says of itself. */
void sync_start(struct sync *s, const struct agent_hello *hello);

/* The group's desired set went to `revision`: `ops` (a batch of PUT and DELETE runs,
 * the group's part only, projected; shared by all sessions of the group) was applied.
 * Null `ops`: nothing changed for this group, only the revision.  Revision 0: this is a
 * part of the way to the next revision, which is told with its last part (`ops` may be
 * null in both); until then the device is never said to have any. */
void sync_change(struct sync *s, uint64_t revision, struct blob *ops);

/* RC_INVALID: an answer to nothing that was asked; the session is to be closed. */
enum rc sync_digests(struct sync *s, const struct agent_digests *digests,
                     struct err *err);
enum rc sync_ack(struct sync *s, const struct agent_ack *ack, struct err *err);

/* The next message to send, as far as credit goes; at most one slice of work (some
 * milliseconds) a call.  True: `*ret` is to be sent and ended with ctl_msg_fini().
 * False with sync_has_work(): call again later (a slice was used up). */
bool sync_next(struct sync *s, struct ctl_msg *ret);
bool sync_has_work(const struct sync *s);

/* Everything is compared again, and what differs is sent: the device was found to hold
 * something else than it was told. */
void sync_compare(struct sync *s);
/* The device was sent all of `desired` as it is now: what is asked of it next is asked
 * of that very state. */
bool sync_is_level(const struct sync *s);

struct sync_status {
    bool is_walking;       /* not yet through the digest tree */
    bool is_waiting;       /* an answer (DIGESTS or ACK) is due */
    uint64_t applied;      /* last acknowledged */
    uint64_t desired;      /* the group's revision */
    uint64_t sent_entries; /* since sync_start */
    uint64_t sent_bytes;
    uint64_t query_bytes_est;
    bool in_sync; /* applied >= desired, nothing in flight, no exceptions */
    uint32_t exception_count;
};
struct sync_status sync_status(const struct sync *s);
