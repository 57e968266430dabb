#include "agent/gateway/hcontrol_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define TICK_MS     20 /* ARP/ND questions, reclamation, frames left over */
#define LOCAL_BURST 32

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
    event_active(c->tick, EV_TIMEOUT, 0); /* ask for next hops at once */
}

void hcontrol_follow(struct hcontrol *c)
{
    if (c->server.config_changed) {
        follow_config(c);
    }
    (void)hswitch_reclaim(c->config.tables);
}

/* ---- frames of our own ---- */

bool hcontrol_send(struct hcontrol *c, uint64_t port, const uint8_t *frame, size_t len)
{
    struct rte_mbuf *m;
    char *room;

    if (port >= c->config.ports->count || len > UINT16_MAX) {
        return false;
    }
    m = rte_pktmbuf_alloc(c->config.ports->pool);
    room = m ? rte_pktmbuf_append(m, (uint16_t)len) : NULL;
    if (!room) {
        rte_pktmbuf_free(m);
        return false;
    }
    memcpy(room, frame, len);
    port_send(&c->config.ports->at[port], c->config.worker_count, &m, 1);
    return true;
}

static void on_local_frame(struct hcontrol *c, const struct rte_mbuf *m)
{
    const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
    struct neigh_out out = { .len = 0 };

    if (c->neigh.config) {
        neigh_receive(&c->neigh, m->port, frame, m->data_len, program_now_ms(), &out);
        mirror_macs(c);
    }
    if (out.len > 0) {
        (void)hcontrol_send(c, out.port, out.frame, out.len);
    }
    hcontrol_packet_in(c, m->port, frame, m->data_len);
}

static void take_local_frames(struct hcontrol *c)
{
    void *frames[LOCAL_BURST];
    unsigned n =
        rte_ring_dequeue_burst(c->config.from_workers, frames, LOCAL_BURST, NULL);

    for (unsigned i = 0; i < n; i++) {
        on_local_frame(c, frames[i]);
        rte_pktmbuf_free(frames[i]);
    }
    if (n == LOCAL_BURST) {
        eventfd_write(c->config.wake_fd, 1); /* the rest, after other work */
    }
}

static void on_local(evutil_socket_t fd, short what, void *arg)
{
    eventfd_t woken;

    (void)what;
    eventfd_read(fd, &woken);
    take_local_frames(arg);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct hcontrol *c = arg;
    struct neigh_out out;

    (void)fd;
    (void)what;
    while (c->neigh.config && neigh_ask(&c->neigh, program_now_ms(), &out)) {
        (void)hcontrol_send(c, out.port, out.frame, out.len);
    }
    mirror_macs(c);
    take_local_frames(c);
    (void)hswitch_reclaim(c->config.tables);
}

/* ---- life ---- */

static enum rc start_timers(struct hcontrol *c, struct err *err)
{
    struct timeval tick = { 0, TICK_MS * 1000L };

    c->tick = event_new(c->config.base, -1, EV_PERSIST, on_tick, c);
    c->local =
        event_new(c->config.base, c->config.wake_fd, EV_READ | EV_PERSIST, on_local, c);
    if (!c->tick || !c->local || event_add(c->tick, &tick) != 0 ||
        event_add(c->local, NULL) != 0) {
        return err_set(err, RC_NO_MEMORY, "control: no memory");
    }
    return RC_OK;
}

static enum rc start_server(struct hcontrol *c, struct err *err)
{
    struct rpc_server_options options = { .keepalive_ms = 10000,
                                          .keepalive_timeout_ms = 20000 };
    enum rc rc = rpc_server_new(c->config.loop, &options, &c->rpc, err);

    rc = rc == RC_OK ? hcontrol_calls_register(c, err) : rc;
    rc = rc == RC_OK ? hcontrol_stream_register(c, err) : rc;
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
    rc = start_timers(c, err);
    rc = rc == RC_OK ? start_server(c, err) : rc;
    if (rc != RC_OK) {
        hcontrol_free(c);
        return rc;
    }
    *ret = c;
    return RC_OK;
}

static void free_event(struct event *event)
{
    if (event) {
        event_free(event);
    }
}

void hcontrol_free(struct hcontrol *c)
{
    if (!c) {
        return;
    }
    free_event(c->tick);
    free_event(c->local);
    hserver_fini(&c->server);
    rpc_arena_fini(&c->arena);
    free(c);
}
