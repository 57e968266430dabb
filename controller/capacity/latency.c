#include "controller/capacity/latency.h"

#include <math.h>

/* How long a batch collects: until it is full, or the flush. */
static double collect_ns(const struct latency_params *p, double core_pps)
{
    double fill = p->batch > 1 ? (p->batch - 1) / core_pps * 1e9 : 0;

    return p->flush_ns > 0 && fill > p->flush_ns ? p->flush_ns : fill;
}

/* A packet comes at a uniformly random place of the batch, and waits for the rest. */
static double share_above(const struct latency_params *p, double collect, double ns)
{
    double rest = ns - p->fixed_ns - p->service_ns;
    double by_batch = collect > 0 ? fmin(fmax(1 - rest / collect, 0), 1) : rest < 0;
    /* Who meets an interrupt, or the queue it left, waits for what is left of it. */
    double met = 1 - exp(-p->interrupts_hz * (p->interrupt_ns + collect) / 1e9);
    double tail =
        p->interrupt_ns > 0 ? exp(-fmax(rest - collect, 0) / p->interrupt_ns) : 0;

    return by_batch + (1 - by_batch) * met * tail;
}

double latency_quantile(const struct latency_params *p, double rate_pps, unsigned cores,
                        double q)
{
    double core_pps = rate_pps / cores;
    double load = core_pps * p->service_ns / 1e9;
    double collect = collect_ns(p, core_pps);
    double low = 0;
    double high = 1e12;
    /* Packets that come while others are served: M/D/1's mean wait. */
    double queue;

    if (load >= 1) {
        return INFINITY;
    }
    queue = load / (2 * (1 - load)) * p->service_ns;
    for (unsigned i = 0; i < 100; i++) {
        double ns = (low + high) / 2;

        *(share_above(p, collect, ns) > 1 - q ? &low : &high) = ns;
    }
    return high + queue;
}
