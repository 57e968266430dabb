/*
 * arbiter - which P4Runtime controller of a device may write: the one with the highest
 * election id that was ever shown, while its stream is open (specification, Client
 * Arbitration and Controller Replication).
 *
 * Only the default role.  Nothing here knows calls or messages; the control thread
 * owns it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct election {
    bool is_set; /* false: wants to watch only */
    uint64_t high, low;
};

/* A controller's stream; its owner's memory. */
struct arbiter_stream {
    struct arbiter_stream *next;
    struct election id;
    bool has_joined;
};

struct arbiter {
    struct arbiter_stream *streams;
    struct election highest; /* ever */
};

enum arbiter_result {
    ARBITER_OK,
    ARBITER_TAKEN, /* another stream has this id: INVALID_ARGUMENT */
    ARBITER_ZERO,  /* an id of 0 is none: INVALID_ARGUMENT */
};

/* A stream shows an id, its first or another one.  `*ret_changed`: there is another
 * primary than before, or none any more, so all streams have to be told. */
enum arbiter_result arbiter_join(struct arbiter *a, struct arbiter_stream *s,
                                 struct election id, bool *ret_changed);

/* A stream ended; one that never joined is fine.  True: as `*ret_changed`. */
bool arbiter_leave(struct arbiter *a, struct arbiter_stream *s);

/* Null: nobody. */
struct arbiter_stream *arbiter_primary(const struct arbiter *a);

/* Is this the primary's id, and is its stream open? */
bool arbiter_may_write(const struct arbiter *a, const struct election *id);
