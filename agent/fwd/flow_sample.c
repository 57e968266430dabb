#include "agent/fwd/flow_sample.h"

/* So that an interval of 10 s at 10 Mpps still has some samples. */
#define GAP_MAX 65536u

/* Marsaglia, Xorshift RNGs, 2003. */
static uint64_t draw(struct flow_sample *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

/* The next sample comes after a gap of 1 to 2 * mean - 1 packets. */
static void draw_gap(struct flow_sample *s, uint32_t mean)
{
    s->counts = mean;
    s->skip = (uint32_t)((draw(s) >> 32) * (2 * (uint64_t)mean - 1) >> 32);
}

enum rc flow_sample_init(struct flow_sample *s, uint64_t seed)
{
    *s = (struct flow_sample){
        .random = seed ? seed : 1, .counts = 1, .gap = 1, .left = FLOW_SAMPLE_BUDGET
    };
    for (unsigned i = 0; i < 2; i++) {
        s->pair[i].flows = top_sketch_new(FLOW_SAMPLE_FLOWS);
        s->pair[i].tenants = top_sketch_new(FLOW_SAMPLE_TENANTS);
        if (!s->pair[i].flows || !s->pair[i].tenants) {
            flow_sample_fini(s);
            return RC_NO_MEMORY;
        }
    }
    return RC_OK;
}

void flow_sample_fini(struct flow_sample *s)
{
    for (unsigned i = 0; i < 2; i++) {
        top_sketch_free(s->pair[i].flows);
        top_sketch_free(s->pair[i].tenants);
        s->pair[i] = (struct flow_sample_pair){ 0 };
    }
}

static void take(const struct flow_sample_pair *to, const struct fwd_config *config,
                 const struct fwd_packet *p, uint32_t counts)
{
    uint64_t bytes = (uint64_t)p->length * counts;
    struct flow_key key;
    struct layers l;

    if (parse_outer(config, p, &l) != 0 || parse_inner(p, &l) != 0) {
        return;
    }
    flow_key_of(p, &l, &key);
    top_sketch_add(to->flows, &key, bytes);
    key = flow_key_tenant(l.vni);
    top_sketch_add(to->tenants, &key, bytes);
}

/* A new interval begins with a gap that the last one would soon have come to. */
static void begin_interval(struct flow_sample *s, uint32_t filling)
{
    s->filled = filling;
    s->gap = s->gap > 4 ? s->gap / 4 : 1;
    s->left = FLOW_SAMPLE_BUDGET;
}

static void spend(struct flow_sample *s)
{
    if (--s->left == 0) {
        s->gap = s->counts < GAP_MAX ? 2 * s->counts : GAP_MAX;
        s->left = FLOW_SAMPLE_BUDGET;
    }
}

void flow_sample_packets(struct flow_sample *s, const struct fwd_config *config,
                         const struct fwd_packet packets[], uint32_t n)
{
    uint32_t filling = atomic_load_explicit(&s->filling, memory_order_acquire);
    uint32_t at = s->skip;

    if (filling != s->filled) {
        begin_interval(s, filling);
    }
    while (at < n) {
        take(&s->pair[filling], config, &packets[at], s->counts);
        spend(s);
        draw_gap(s, s->gap > n ? s->gap : n);
        at += 1 + s->skip;
    }
    s->skip = at - n;
}

struct flow_sample_pair *flow_sample_swap(struct flow_sample *s)
{
    uint32_t was = atomic_load_explicit(&s->filling, memory_order_relaxed);

    /* What the reader did to the pair that is filled now happened before. */
    atomic_store_explicit(&s->filling, was ^ 1, memory_order_release);
    return &s->pair[was];
}
