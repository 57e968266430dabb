#include "agent/fwd/flow_sample.h"

/* Marsaglia, Xorshift RNGs, 2003. */
static uint64_t draw(struct flow_sample *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

/* Packets between two samples: 0 to 126, of mean 63. */
static uint32_t draw_gap(struct flow_sample *s)
{
    return (uint32_t)((draw(s) >> 32) * (2 * FLOW_SAMPLE_GAP - 1) >> 32);
}

enum rc flow_sample_init(struct flow_sample *s, uint64_t seed)
{
    *s = (struct flow_sample){ .random = seed ? seed : 1 };
    s->skip = draw_gap(s);
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
                 const struct fwd_packet *p)
{
    uint64_t bytes = (uint64_t)p->length * FLOW_SAMPLE_GAP;
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

void flow_sample_packets(struct flow_sample *s, const struct fwd_config *config,
                         const struct fwd_packet packets[], uint32_t n)
{
    uint32_t filling = atomic_load_explicit(&s->filling, memory_order_acquire);
    uint32_t at = s->skip;

    while (at < n) {
        take(&s->pair[filling & 1], config, &packets[at]);
        at += 1 + draw_gap(s);
    }
    s->skip = at - n;
}

struct flow_sample_pair *flow_sample_swap(struct flow_sample *s)
{
    uint32_t was = atomic_load_explicit(&s->filling, memory_order_relaxed);

    /* What the reader did to the pair that is filled now happened before. */
    atomic_store_explicit(&s->filling, was ^ 1, memory_order_release);
    return &s->pair[was & 1];
}
