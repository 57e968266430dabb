/* worker_x86 - XGW-x86 on a worker: agent/fwd over the device's fib. */
#include "agent/gateway/worker.h"

static void burst(struct worker *w, struct fwd_worker *count,
                  struct fwd_packet packets[], unsigned n, struct fwd_answers *answers)
{
    const struct device *d = w->config.device;
    struct fwd_view view = {
        .is_ready = atomic_load_explicit(&d->is_ready, memory_order_acquire),
        .config = atomic_load_explicit(&d->fwd, memory_order_acquire),
        .fib = d->fib,
    };

    if (view.is_ready && w->config.sample && count == &w->fwd) { /* as they arrived */
        flow_sample_burst(w->config.sample, view.config, packets, n);
    }
    fwd_burst(&view, count, worker_now_ns(w), packets, n, answers);
    for (unsigned i = 0; view.config && i < view.config->uplink_count; i++) {
        w->port_of[i] = view.config->uplink[i].port;
    }
}

bool worker_device_is_ready(const struct worker *w)
{
    return atomic_load_explicit(&w->config.device->is_ready, memory_order_acquire);
}

void worker_fib_online(struct worker *w)
{
    fib_reader_online(w->config.device->fib, w->config.reader);
}

void worker_fib_quiescent(struct worker *w)
{
    fib_reader_quiescent(w->config.device->fib, w->config.reader);
}

void worker_fib_offline(struct worker *w)
{
    fib_reader_offline(w->config.reader);
}

const struct worker_pipeline worker_pipeline_x86 = {
    .burst = burst,
    .is_ready = worker_device_is_ready,
    .online = worker_fib_online,
    .quiescent = worker_fib_quiescent,
    .offline = worker_fib_offline,
};
