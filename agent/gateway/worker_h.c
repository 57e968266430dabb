/* worker_h - XGW-H in software on a worker: agent/fwdh over the switch's tables. */
#include "agent/fwdh/fwdh.h"
#include "agent/gateway/worker.h"

static void burst(struct worker *w, struct fwd_worker *count,
                  struct fwd_packet packets[], unsigned n, struct fwd_answers *answers)
{
    /* All come from one port. */
    const struct hhalf *half =
        &w->config.tables->half[packets[0].port % HSWITCH_HALVES];
    const struct fwd_config *config =
        atomic_load_explicit(&half->config, memory_order_acquire);

    answers->count = 0;                                   /* a chip answers nobody */
    if (config && w->config.sample && count == &w->fwd) { /* as they arrived */
        flow_sample_burst(w->config.sample, config, packets, n);
    }
    fwdh_burst(w->config.tables, w->config.h_worker, worker_now_ns(w), packets, n);
}

/* The halves of all ports that this worker polls. */
static bool is_ready(const struct worker *w)
{
    for (unsigned i = 0; i < w->queue_count; i++) {
        if (!hswitch_is_ready(w->config.tables, w->queues[i].port % HSWITCH_HALVES)) {
            return false;
        }
    }
    return true;
}

static void online(struct worker *w)
{
    hworker_online(w->config.tables, w->config.h_worker);
}

static void quiescent(struct worker *w)
{
    hworker_quiescent(w->config.tables, w->config.h_worker);
}

static void offline(struct worker *w)
{
    hworker_offline(w->config.h_worker);
}

const struct worker_pipeline worker_pipeline_h = {
    .burst = burst,
    .is_ready = is_ready,
    .online = online,
    .quiescent = quiescent,
    .offline = offline,
};
