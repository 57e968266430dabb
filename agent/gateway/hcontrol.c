#include "agent/gateway/hcontrol_internal.h"

#include <stdlib.h>

/* ---- neighbours ---- */

static struct fwd_config *config_of(const struct hcontrol *c, unsigned half)
{
    return atomic_load_explicit(&c->config.tables->half[half].config,
                                memory_order_relaxed);
}

/* Both halves know the same neighbours: what was learned in one is told the other. */
static void mirror_macs(const struct hcontrol *c)
{
    struct fwd_config *to = config_of(c, 1);

    if (!c->neigh.config || !to || c->neigh.config == to) {
        return;
    }
    for (unsigned i = 0; i < to->uplink_count; i++) {
        atomic_store_explicit(&to->next_hop_mac[i],
                              atomic_load_explicit(&c->neigh.config->next_hop_mac[i],
                                                   memory_order_relaxed),
                              memory_order_relaxed);
    }
}

static void follow_config(struct hcontrol *c)
{
    struct fwd_config *config = config_of(c, 0);

    c->server.config_changed = false;
    config = config ? config : config_of(c, 1);
    if (!config) { /* vtep is empty: we are nobody */
        c->neigh = (struct neigh){ .config = NULL };
        return;
    }
    neigh_configure(&c->neigh, config, program_now_ms());
    mirror_macs(c);
    frames_tick_soon(&c->frames); /* ask for next hops at once */
}

void hcontrol_follow(struct hcontrol *c)
{
    if (c->server.config_changed) {
        follow_config(c);
    }
    (void)hswitch_reclaim(c->config.tables);
}

/* ---- frames of our own ---- */

static void on_frame(void *arg, unsigned port, const uint8_t *frame, size_t len)
{
    struct hcontrol *c = arg;
    struct neigh_out out = { .len = 0 };

    if (c->neigh.config) {
        neigh_receive(&c->neigh, port, frame, len, program_now_ms(), &out);
        mirror_macs(c);
    }
    if (out.len > 0) {
        (void)frames_send(&c->frames, out.port, out.frame, out.len);
    }
    hcontrol_packet_in(c, port, frame, len);
}

static void on_tick(void *arg)
{
    struct hcontrol *c = arg;
    struct neigh_out out;

    while (c->neigh.config && neigh_ask(&c->neigh, program_now_ms(), &out)) {
        (void)frames_send(&c->frames, out.port, out.frame, out.len);
    }
    mirror_macs(c);
    frames_take(&c->frames);
    (void)hswitch_reclaim(c->config.tables);
    top_tick(&c->top, program_now_ms());
}

void hcontrol_port_counts(void *ports, unsigned port, struct hcount *ret_rx,
                          struct hcount *ret_tx)
{
    const struct ports *p = ports;
    struct rte_eth_stats stats = { 0 };

    rte_eth_stats_get(p->at[port].id, &stats);
    *ret_rx = (struct hcount){ stats.ipackets, stats.ibytes };
    *ret_tx = (struct hcount){ stats.opackets, stats.obytes };
}

/* ---- life ---- */

static enum rc start_frames(struct hcontrol *c, struct err *err)
{
    struct frames_config config = { .base = c->config.base,
                                    .ports = c->config.ports,
                                    .worker_count = c->config.worker_count,
                                    .from_workers = c->config.from_workers,
                                    .wake_fd = c->config.wake_fd,
                                    .on_frame = on_frame,
                                    .on_tick = on_tick,
                                    .arg = c };

    return frames_start(&c->frames, &config, err);
}

static enum rc start_server(struct hcontrol *c, struct err *err)
{
    struct rpc_server_options options = { .keepalive_ms = 10000,
                                          .keepalive_timeout_ms = 20000 };
    enum rc rc = rpc_server_new(c->config.loop, &options, &c->rpc, err);

    rc = rc == RC_OK ? hcontrol_calls_register(c, err) : rc;
    rc = rc == RC_OK ? hcontrol_stream_register(c, err) : rc;
    rc = rc == RC_OK ? hcontrol_report_register(c, err) : rc;
    rc = rc == RC_OK ? hcontrol_tamper_register(c, err) : rc;
    rc = rc == RC_OK
             ? rpc_server_listen(c->rpc, c->config.address, c->config.tls, NULL, err)
             : rc;
    return rc == RC_OK ? rpc_server_start(c->rpc, err) : rc;
}

enum rc hcontrol_new(const struct hcontrol_config *config, struct hcontrol **ret,
                     struct err *err)
{
    struct hcontrol *c = calloc(1, sizeof(*c));
    enum rc rc;

    if (!c) {
        return err_set(err, RC_NO_MEMORY, "control: no memory");
    }
    c->config = *config;
    hserver_init(&c->server, config->tables);
    rc =
        top_init(&c->top, config->workers, config->worker_count, program_now_ms(), err);
    rc = rc == RC_OK ? start_frames(c, err) : rc;
    rc = rc == RC_OK
             ? probe_port_start(config->probes, config->base, hcontrol_probed, c, err)
             : rc;
    rc = rc == RC_OK ? start_server(c, err) : rc;
    if (rc != RC_OK) {
        hcontrol_free(c);
        return rc;
    }
    *ret = c;
    return RC_OK;
}

void hcontrol_free(struct hcontrol *c)
{
    if (!c) {
        return;
    }
    frames_stop(&c->frames);
    probe_port_stop(c->config.probes);
    hserver_fini(&c->server);
    rpc_arena_fini(&c->arena);
    top_fini(&c->top);
    free(c);
}
