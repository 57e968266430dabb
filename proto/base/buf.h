/*
 * buf - a growable byte buffer with a sticky error.
 *
 * Appends never fail in the middle of a caller's work: when memory runs out the
 * buffer remembers it, ignores further appends, and buf_failed() says so once at the
 * end.  One owner, one thread.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *data;
    size_t len;
    size_t cap;
    bool failed;
};

#define BUF_INIT                                                                       \
    {                                                                                  \
        0                                                                              \
    }

void buf_fini(struct buf *b);  /* frees; leaves an empty buffer */
void buf_reset(struct buf *b); /* length 0, memory kept, error cleared */
bool buf_failed(const struct buf *b);

void buf_add(struct buf *b, const void *bytes, size_t len);
void buf_u8(struct buf *b, uint8_t v);
void buf_u16(struct buf *b, uint16_t v); /* big-endian, like all below */
void buf_u24(struct buf *b, uint32_t v);
void buf_u32(struct buf *b, uint32_t v);
void buf_u64(struct buf *b, uint64_t v);
void buf_text(struct buf *b, const char *text); /* without the final zero */
void buf_printf(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The bytes as a zero-terminated string; valid until the next append.  "" if failed. */
const char *buf_cstr(struct buf *b);

/* Reads big-endian values and never past the end: after a short read every further
 * one gives 0 and `failed` stays set. */
struct reader {
    const uint8_t *p;
    const uint8_t *end;
    bool failed;
};

struct reader reader_of(const void *bytes, size_t len);
uint8_t read_u8(struct reader *r);
uint16_t read_u16(struct reader *r);
uint32_t read_u24(struct reader *r);
uint32_t read_u32(struct reader *r);
uint64_t read_u64(struct reader *r);
const uint8_t *read_bytes(struct reader *r, size_t len); /* null when short */
static inline size_t reader_left(const struct reader *r)
{
    return (size_t)(r->end - r->p);
}
