#include "agent/fwdh/meter.h"

#define TOKENS_A_BYTE INT64_C(1000000000)

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void hmeter_config_init(struct hmeter_config *c, const struct phys_meter_config *given)
{
    *c = (struct hmeter_config){
        .given = *given,
        .cir = least(given->cir, HMETER_RATE_MAX),
        .pir = least(given->pir, HMETER_RATE_MAX),
        .cburst = (int64_t)least(given->cburst, HMETER_BURST_MAX) * TOKENS_A_BYTE,
        .pburst = (int64_t)least(given->pburst, HMETER_BURST_MAX) * TOKENS_A_BYTE,
    };
}

const struct hmeter_config *hmeter_set(struct hmeter *m,
                                       const struct hmeter_config *config)
{
    const struct hmeter_config *old =
        atomic_load_explicit(&m->config, memory_order_relaxed);

    atomic_store_explicit(&m->last_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&m->config, config, memory_order_release);
    return old;
}

/* Adds what `ns` nanoseconds bring, at most to a full bucket. */
static void fill(_Atomic(int64_t) *bucket, uint64_t rate, int64_t burst, uint64_t ns)
{
    unsigned __int128 brought = (unsigned __int128)rate * ns;
    int64_t have = atomic_load_explicit(bucket, memory_order_relaxed);
    int64_t now;

    do {
        /* `have` may be below zero by a few packets: no overflow. */
        now = have >= burst || brought >= (unsigned __int128)(burst - have)
                  ? burst
                  : have + (int64_t)brought;
    } while (now != have &&
             !atomic_compare_exchange_weak_explicit(
                 bucket, &have, now, memory_order_relaxed, memory_order_relaxed));
}

/* One of the workers that see time pass brings the tokens of that time. */
static void refill(struct hmeter *m, const struct hmeter_config *c, uint64_t now_ns)
{
    uint64_t last = atomic_load_explicit(&m->last_ns, memory_order_relaxed);

    if ((last != 0 && now_ns <= last) ||
        !atomic_compare_exchange_strong_explicit(
            &m->last_ns, &last, now_ns, memory_order_relaxed, memory_order_relaxed)) {
        return;
    }
    if (last == 0) { /* RFC 2698, section 2: buckets are full at the start */
        atomic_store_explicit(&m->committed, c->cburst, memory_order_relaxed);
        atomic_store_explicit(&m->peak, c->pburst, memory_order_relaxed);
        return;
    }
    fill(&m->committed, c->cir, c->cburst, now_ns - last);
    fill(&m->peak, c->pir, c->pburst, now_ns - last);
}

enum hmeter_color hmeter_run(struct hmeter *m, uint64_t now_ns, uint32_t bytes)
{
    const struct hmeter_config *c =
        atomic_load_explicit(&m->config, memory_order_acquire);
    int64_t cost = (int64_t)bytes * TOKENS_A_BYTE;

    if (!c) {
        return HMETER_GREEN;
    }
    refill(m, c, now_ns);
    if (atomic_load_explicit(&m->peak, memory_order_relaxed) < cost) {
        return HMETER_RED;
    }
    atomic_fetch_sub_explicit(&m->peak, cost, memory_order_relaxed);
    if (atomic_load_explicit(&m->committed, memory_order_relaxed) < cost) {
        return HMETER_YELLOW;
    }
    atomic_fetch_sub_explicit(&m->committed, cost, memory_order_relaxed);
    return HMETER_GREEN;
}
