#include "proto/base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 64 };

/* Makes room for `more` bytes and one zero behind them, by a new allocation. */
static bool grow(struct buf *b, size_t more)
{
    size_t need = b->len + more + 1;
    size_t cap = b->cap ? b->cap : FIRST_CAP;
    uint8_t *data;

    if (need <= more) { /* came round */
        b->failed = true;
        return false;
    }
    while (cap < need) {
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    }
    data = realloc(b->data, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

/* The same; nearly always there is room already. */
static inline bool reserve(struct buf *b, size_t more)
{
    if (b->failed) {
        return false;
    }
    return b->cap - b->len > more || grow(b, more);
}

void buf_fini(struct buf *b)
{
    free(b->data);
    *b = (struct buf)BUF_INIT;
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = false;
}

bool buf_failed(const struct buf *b)
{
    return b->failed;
}

void buf_add(struct buf *b, const void *bytes, size_t len)
{
    if (len > 0 && reserve(b, len)) {
        memcpy(b->data + b->len, bytes, len);
        b->len += len;
    }
}

/* The low `size` bytes of `v`, most significant first. */
static void add_number(struct buf *b, uint64_t v, unsigned size)
{
    if (!reserve(b, size)) {
        return;
    }
    for (unsigned i = 0; i < size; i++) {
        b->data[b->len + i] = (uint8_t)(v >> (8 * (size - 1 - i)));
    }
    b->len += size;
}

void buf_u8(struct buf *b, uint8_t v)
{
    add_number(b, v, 1);
}

void buf_u16(struct buf *b, uint16_t v)
{
    add_number(b, v, 2);
}

void buf_u24(struct buf *b, uint32_t v)
{
    add_number(b, v, 3);
}

void buf_u32(struct buf *b, uint32_t v)
{
    add_number(b, v, 4);
}

void buf_u64(struct buf *b, uint64_t v)
{
    add_number(b, v, 8);
}

void buf_text(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len < 0) {
        b->failed = true;
        return;
    }
    if (reserve(b, (size_t)len)) {
        va_start(args, fmt);
        vsnprintf((char *)b->data + b->len, (size_t)len + 1, fmt, args);
        va_end(args);
        b->len += (size_t)len;
    }
}

const char *buf_cstr(struct buf *b)
{
    if (!reserve(b, 0)) {
        return "";
    }
    b->data[b->len] = '\0';
    return (const char *)b->data;
}

struct reader reader_of(const void *bytes, size_t len)
{
    static const uint8_t nothing[1];
    const uint8_t *p = bytes ? bytes : nothing;

    return (struct reader){ .p = p, .end = p + (bytes ? len : 0) };
}

const uint8_t *read_bytes(struct reader *r, size_t len)
{
    const uint8_t *p = r->p;

    if (r->failed || reader_left(r) < len) {
        r->failed = true;
        return NULL;
    }
    r->p += len;
    return p;
}

static uint64_t read_number(struct reader *r, unsigned size)
{
    const uint8_t *p = read_bytes(r, size);
    uint64_t v = 0;

    for (unsigned i = 0; p && i < size; i++) {
        v = v << 8 | p[i];
    }
    return v;
}

uint8_t read_u8(struct reader *r)
{
    return (uint8_t)read_number(r, 1);
}

uint16_t read_u16(struct reader *r)
{
    return (uint16_t)read_number(r, 2);
}

uint32_t read_u24(struct reader *r)
{
    return (uint32_t)read_number(r, 3);
}

uint32_t read_u32(struct reader *r)
{
    return (uint32_t)read_number(r, 4);
}

uint64_t read_u64(struct reader *r)
{
    return read_number(r, 8);
}
