/*
 * blob - an immutable, reference-counted run of bytes.
 *
 * A packed batch is made once and then shared by the journal, the store's worker and
 * every session that sends it.  Counting is atomic; contents do not change once the
 * blob has a second holder.  Any thread.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct blob {
    atomic_uint refs;
    uint32_t len; /* bytes in `data` */
    uint8_t data[];
};

/* One reference; contents undefined.  Null when memory is out. */
struct blob *blob_new(size_t len);
struct blob *blob_copy(const void *bytes, size_t len);
struct blob *blob_ref(struct blob *b); /* null is fine */
void blob_unref(struct blob *b);       /* null is fine */
