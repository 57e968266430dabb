#include "controller/health/history_block.h"

#define REPEAT     0x80u
#define REPEAT_MAX 0x7fu /* of one byte, less one */
#define HAS_STEP   1u
#define HAS_SPREAD 2u

static void put_varint(struct buf *to, uint64_t v)
{
    while (v >= 0x80) {
        buf_u8(to, (uint8_t)(v | 0x80));
        v >>= 7;
    }
    buf_u8(to, (uint8_t)v);
}

static uint64_t read_varint(struct reader *r)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = read_u8(r);

        if (shift == 63 && byte > 1) {
            break; /* more than 64 bits */
        }
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return v;
        }
    }
    r->failed = true;
    return 0;
}

/* Differences are taken modulo 2^64: any mean can follow any other. */
static uint64_t zigzag(uint64_t delta)
{
    return delta << 1 ^ (delta >> 63 ? UINT64_MAX : 0);
}

static uint64_t unzigzag(uint64_t v)
{
    return v >> 1 ^ (v & 1 ? UINT64_MAX : 0);
}

static bool is_repeat(const struct history_coder *c, const struct history_point *p)
{
    return c->count > 1 && p->t_s - c->last.t_s == c->step_s &&
           p->mean == c->last.mean && p->min == c->last.min && p->max == c->last.max;
}

void history_encode(struct history_coder *c, const struct history_point *p,
                    struct buf *to)
{
    uint64_t step = p->t_s - (c->count ? c->last.t_s : 0);
    uint8_t head = 0;

    if (is_repeat(c, p)) {
        if (c->repeat_at && to->data[c->repeat_at - 1] < (REPEAT | REPEAT_MAX)) {
            to->data[c->repeat_at - 1]++;
        } else {
            buf_u8(to, REPEAT);
            c->repeat_at = (uint32_t)to->len;
        }
        c->last = *p;
        c->count++;
        return;
    }
    head |= c->count < 2 || step != c->step_s ? HAS_STEP : 0;
    head |= p->min != p->mean || p->max != p->mean ? HAS_SPREAD : 0;
    buf_u8(to, head);
    if (head & HAS_STEP) {
        put_varint(to, step);
    }
    if (head & HAS_SPREAD) {
        put_varint(to, p->mean - p->min);
        put_varint(to, p->max - p->mean);
    }
    put_varint(to, zigzag(p->mean - (c->count ? c->last.mean : 0)));
    c->step_s = c->count ? step : 0;
    c->last = *p;
    c->count++;
    c->repeat_at = 0;
}

struct history_decoder history_decode(const void *bytes, size_t len)
{
    return (struct history_decoder){ .bytes = reader_of(bytes, len) };
}

static bool fail(struct history_decoder *d)
{
    d->bytes.failed = true;
    return false;
}

/* The point one step on, where time does not wrap. */
static bool advance(struct history_decoder *d, uint64_t step)
{
    struct history_coder *c = &d->at;

    if ((step == 0 && c->count > 0) || step > UINT64_MAX - c->last.t_s) {
        return fail(d);
    }
    c->last.t_s += step;
    c->step_s = c->count ? step : 0;
    c->count++;
    return true;
}

static bool take_point(struct history_decoder *d, uint8_t head)
{
    struct history_coder *c = &d->at;
    struct history_point *p = &c->last;
    uint64_t below = 0;
    uint64_t above = 0;
    uint64_t step = c->step_s;

    if (head & ~(HAS_STEP | HAS_SPREAD) || (c->count < 2 && !(head & HAS_STEP))) {
        return fail(d);
    }
    if (head & HAS_STEP) {
        step = read_varint(&d->bytes);
    }
    if (head & HAS_SPREAD) {
        below = read_varint(&d->bytes);
        above = read_varint(&d->bytes);
    }
    p->mean += unzigzag(read_varint(&d->bytes));
    if (d->bytes.failed || below > p->mean || above > UINT64_MAX - p->mean) {
        return fail(d);
    }
    p->min = p->mean - below;
    p->max = p->mean + above;
    return advance(d, step);
}

bool history_decode_next(struct history_decoder *d, struct history_point *ret)
{
    bool done;

    if (d->bytes.failed || (d->repeats == 0 && reader_left(&d->bytes) == 0)) {
        return false;
    }
    if (d->repeats == 0 && *d->bytes.p >= REPEAT) {
        if (d->at.count < 2) {
            return fail(d);
        }
        d->repeats = (read_u8(&d->bytes) & REPEAT_MAX) + 1u;
    }
    if (d->repeats > 0) {
        d->repeats--;
        done = advance(d, d->at.step_s);
    } else {
        done = take_point(d, read_u8(&d->bytes));
    }
    if (done) {
        *ret = d->at.last;
    }
    return done;
}
