/* history_store: blocks to files and back.
 *
 *   file    magic(8) chunk*
 *   chunk   length(4) XXH3(8) of the payload, payload
 *   payload tier(1) record*
 *   record  subject and resource, each length(1) text; first(8) last(8) count(4)
 *           length(4) block
 */
#include "controller/health/history_impl.h"

#include <string.h>
#include <xxhash.h>

#define GRACE_S 60u /* a point may be so late for its minute or hour */

/* ---- writing ---- */

static void put_text(struct buf *to, const char *text)
{
    size_t len = strlen(text);

    buf_u8(to, (uint8_t)len);
    buf_add(to, text, len);
}

static void put_block(struct buf *to, unsigned tier, const struct series *s,
                      const struct block *b)
{
    if (to->len == 0) {
        buf_u8(to, (uint8_t)tier);
    }
    put_text(to, s->subject);
    put_text(to, s->resource);
    buf_u64(to, b->first_s);
    buf_u64(to, b->last_s);
    buf_u32(to, b->count);
    buf_u32(to, b->len);
    buf_add(to, b->data, b->len);
}

static void flush_series(struct history *h, struct series *s, uint64_t now_s,
                         struct buf payload[HISTORY_TIERS])
{
    for (unsigned tier = 0; tier < HISTORY_TIERS; tier++) {
        struct tier *t = &s->tiers[tier];
        uint32_t span = history_span_s(tier);

        if (tier + 1 < HISTORY_TIERS && t->next.count > 0 &&
            t->next.period_s + history_step_s(tier + 1) + GRACE_S <= now_s) {
            rollup_close(h, s, tier);
        }
        if (t->coder.count > 0 && (t->first_s / span + 1) * span + GRACE_S <= now_s) {
            tier_close(h, s, tier);
        }
        tier_expire(h, t, tier, now_s);
        for (struct block *b = t->oldest; b; b = b->next) {
            if (!b->is_stored) {
                put_block(&payload[tier], tier, s, b);
                b->is_stored = true;
            }
        }
    }
}

bool history_flush(struct history *h, uint64_t now_s, uint32_t max_series,
                   struct buf to[HISTORY_TIERS])
{
    struct buf payload[HISTORY_TIERS] = { 0 };
    bool is_done;

    for (uint32_t n = 0; n < max_series && h->flush_at < h->count; n++) {
        flush_series(h, h->at[h->flush_at++], now_s, payload);
    }
    for (unsigned tier = 0; tier < HISTORY_TIERS; tier++) {
        struct buf *p = &payload[tier];

        if (p->len > 0 && !buf_failed(p)) {
            buf_u32(&to[tier], (uint32_t)p->len);
            buf_u64(&to[tier], XXH3_64bits(p->data, p->len));
            buf_add(&to[tier], p->data, p->len);
        }
        buf_fini(p);
    }
    is_done = h->flush_at >= h->count;
    h->flush_at = is_done ? 0 : h->flush_at;
    return is_done;
}

/* ---- reading ---- */

struct record {
    char subject[SUBJECT_MAX + 1];
    char resource[RESOURCE_MAX + 1];
    uint64_t first_s;
    uint64_t last_s;
    uint32_t count;
    uint32_t len;
    const uint8_t *bytes;
};

static bool read_text(struct reader *r, size_t max, char *to)
{
    size_t len = read_u8(r);
    const uint8_t *text = read_bytes(r, len);

    if (!text || len == 0 || len > max || memchr(text, '\0', len)) {
        return false;
    }
    memcpy(to, text, len);
    to[len] = '\0';
    return true;
}

/* Whether the block is what the record says: so many points, from first to last. */
static bool check_block(const struct record *rec)
{
    struct history_decoder d = history_decode(rec->bytes, rec->len);
    struct history_point p = { 0 };
    uint32_t count = 0;

    while (history_decode_next(&d, &p)) {
        if (count++ == 0 && p.t_s != rec->first_s) {
            return false;
        }
        if (count > rec->count) {
            return false; /* a few bytes can stand for endless repeats */
        }
    }
    return !d.bytes.failed && count == rec->count && count > 0 && p.t_s == rec->last_s;
}

static bool read_record(struct reader *r, unsigned tier, struct record *ret)
{
    if (!read_text(r, SUBJECT_MAX, ret->subject) ||
        !read_text(r, RESOURCE_MAX, ret->resource)) {
        return false;
    }
    ret->first_s = read_u64(r);
    ret->last_s = read_u64(r);
    ret->count = read_u32(r);
    ret->len = read_u32(r);
    ret->bytes = read_bytes(r, ret->len);
    return ret->bytes && ret->last_s >= ret->first_s &&
           ret->last_s - ret->first_s < history_span_s(tier) && check_block(ret);
}

static void take_record(struct history *h, unsigned tier, const struct record *rec,
                        uint64_t now_s)
{
    struct history_decoder d = history_decode(rec->bytes, rec->len);
    struct history_point p;
    struct series *s;

    /* What the clock says is to come was written by a wrong clock. */
    if (rec->last_s + history_keep_s(tier) < now_s || rec->last_s > now_s) {
        return;
    }
    s = series_need(h, rec->subject, rec->resource);
    while (s && history_decode_next(&d, &p)) {
        tier_add(h, s, tier, &p, true);
    }
}

static const char *take_chunk(struct history *h, const uint8_t *bytes, size_t len,
                              uint64_t now_s)
{
    struct reader r = reader_of(bytes, len);
    unsigned tier = read_u8(&r);
    struct record rec;

    if (r.failed || tier >= HISTORY_TIERS) {
        return "is of no kind that is known";
    }
    while (reader_left(&r) > 0) {
        if (!read_record(&r, tier, &rec)) {
            return "holds a record that is none";
        }
        take_record(h, tier, &rec, now_s);
    }
    return NULL;
}

enum rc history_load(struct history *h, const void *bytes, size_t len, uint64_t now_s,
                     struct err *err)
{
    struct reader r = reader_of(bytes, len);
    const uint8_t *magic = read_bytes(&r, HISTORY_MAGIC_SIZE);

    if (!magic || memcmp(magic, HISTORY_MAGIC, HISTORY_MAGIC_SIZE) != 0) {
        return err_set(err, RC_INVALID, "it is no history: it does not begin with %s",
                       HISTORY_MAGIC);
    }
    while (reader_left(&r) > 0) {
        size_t at = len - reader_left(&r);
        uint32_t chunk_len = read_u32(&r);
        uint64_t digest = read_u64(&r);
        const uint8_t *chunk = r.failed ? NULL : read_bytes(&r, chunk_len);
        const char *why;

        if (!chunk) {
            return err_set(err, RC_INVALID,
                           "it ends within the chunk at byte %zu: half-written", at);
        }
        why = XXH3_64bits(chunk, chunk_len) != digest
                  ? "does not match its checksum"
                  : take_chunk(h, chunk, chunk_len, now_s);
        if (why) {
            return err_set(err, RC_INVALID, "the chunk at byte %zu %s", at, why);
        }
    }
    return RC_OK;
}
