#include "proto/base/blob.h"

#include <stdlib.h>
#include <string.h>

struct blob *blob_new(size_t len)
{
    struct blob *b;

    if (len > UINT32_MAX) {
        return NULL;
    }
    b = malloc(sizeof(*b) + len);
    if (b) {
        atomic_init(&b->refs, 1);
        b->len = (uint32_t)len;
    }
    return b;
}

struct blob *blob_copy(const void *bytes, size_t len)
{
    struct blob *b = blob_new(len);

    if (b && len > 0) {
        memcpy(b->data, bytes, len);
    }
    return b;
}

struct blob *blob_ref(struct blob *b)
{
    if (b) {
        atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    }
    return b;
}

void blob_unref(struct blob *b)
{
    /* Release: our reads happen before the free; acquire: the last holder sees them. */
    if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1) {
        free(b);
    }
}
