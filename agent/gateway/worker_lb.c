/* worker_lb - a load balancer on a worker: agent/fwd/fwd_lb over the device's fib and
 * members. */
#include "agent/fwd/fwd_lb.h"
#include "agent/gateway/worker.h"

static void burst(struct worker *w, struct fwd_worker *count,
                  struct fwd_packet packets[], unsigned n, struct fwd_answers *answers)
{
    const struct device *d = w->config.device;
    struct lb_view view = {
        .is_ready = atomic_load_explicit(&d->is_ready, memory_order_acquire),
        .config = atomic_load_explicit(&d->fwd, memory_order_acquire),
        .fib = d->fib,
        .steer = d->steer,
    };

    answers->count = 0; /* the members answer */
    if (view.is_ready && w->config.sample && count == &w->fwd) { /* as they arrived */
        flow_sample_burst(w->config.sample, view.config, packets, n);
    }
    lb_burst(&view, count, packets, n);
    for (unsigned i = 0; view.config && i < view.config->uplink_count; i++) {
        w->port_of[i] = view.config->uplink[i].port;
    }
}

const struct worker_pipeline worker_pipeline_lb = {
    .burst = burst,
    .is_ready = worker_device_is_ready,
    .online = worker_fib_online,
    .quiescent = worker_fib_quiescent,
    .offline = worker_fib_offline,
};
