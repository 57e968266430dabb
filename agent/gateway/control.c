#include "agent/gateway/control_internal.h"

#include "proto/base/log.h"
#include "proto/rpc/rpc_health.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define TICK_MS     20 /* ARP/ND questions, reclamation, frames left over */
#define LOCAL_BURST 32

void control_retire(struct control *c, struct retired *r)
{
    for (unsigned i = 0; i < c->config.worker_count; i++) {
        r->tickets[i] = worker_ticket(&c->config.workers[i]);
    }
    r->next = c->retired;
    c->retired = r;
}

static bool all_passed(const struct control *c, const struct retired *r)
{
    for (unsigned i = 0; i < c->config.worker_count; i++) {
        if (!worker_has_passed(&c->config.workers[i], r->tickets[i])) {
            return false;
        }
    }
    return true;
}

void control_reclaim(struct control *c)
{
    struct retired **at = &c->retired;

    fib_reclaim(c->config.device->fib,
                fib_readers_oldest(c->config.readers, c->config.worker_count));
    while (*at) {
        struct retired *r = *at;

        if (all_passed(c, r)) {
            *at = r->next;
            fwd_config_free(r->config);
            free(r);
        } else {
            at = &r->next;
        }
    }
}

/* ---- frames of our own ---- */

static void send_frame(struct control *c, unsigned port, const uint8_t *frame,
                       size_t len)
{
    struct rte_mbuf *m = rte_pktmbuf_alloc(c->config.ports->pool);
    char *room = m ? rte_pktmbuf_append(m, (uint16_t)len) : NULL;

    if (!room) {
        rte_pktmbuf_free(m);
        return; /* ARP and ND ask again; BGP and BFD repeat themselves */
    }
    memcpy(room, frame, len);
    port_send(&c->config.ports->at[port], c->config.worker_count, &m, 1);
}

static void on_tap_frame(void *arg, unsigned port, const uint8_t *frame, size_t len)
{
    struct control *c = arg;

    if (atomic_load(&c->config.device->is_ready)) {
        send_frame(c, port, frame, len);
    }
}

static void on_local_frame(struct control *c, const struct rte_mbuf *m)
{
    const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
    struct neigh_out out;

    neigh_receive(&c->neigh, m->port, frame, m->data_len, program_now_ms(), &out);
    if (out.len > 0) {
        send_frame(c, out.port, out.frame, out.len);
    }
    if (c->taps[m->port]) {
        tap_send(c->taps[m->port], frame, m->data_len);
    }
}

static void take_local_frames(struct control *c)
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
    struct control *c = arg;
    struct neigh_out out;

    (void)fd;
    (void)what;
    while (neigh_ask(&c->neigh, program_now_ms(), &out)) {
        send_frame(c, out.port, out.frame, out.len);
    }
    take_local_frames(c);
    control_reclaim(c);
}

/* ---- life ---- */

static enum rc start_taps(struct control *c, struct err *err)
{
    for (unsigned i = 0; c->config.use_taps && i < c->config.ports->count; i++) {
        const struct port *p = &c->config.ports->at[i];
        char name[16];
        enum rc rc;

        snprintf(name, sizeof(name), "xgw-%.11s", p->name);
        rc =
            tap_new(c->config.base, name, p->mac, i, on_tap_frame, c, &c->taps[i], err);
        if (rc != RC_OK) {
            return rc;
        }
    }
    return RC_OK;
}

static enum rc start_timers(struct control *c, struct err *err)
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

static enum rc start_server(struct control *c, struct err *err)
{
    /* A writer sends a window of packed batches ahead (agent_msg.h). */
    struct rpc_server_options options = { .keepalive_ms = 10000,
                                          .keepalive_timeout_ms = 20000 };
    enum rc rc = rpc_server_new(c->config.loop, &options, &c->server, err);

    rc = rc == RC_OK ? control_write_register(c, err) : rc;
    rc = rc == RC_OK ? control_read_register(c, err) : rc;
    rc = rc == RC_OK ? rpc_server_listen(c->server, c->config.address, NULL, NULL, err)
                     : rc;
    return rc == RC_OK ? rpc_server_start(c->server, err) : rc;
}

enum rc control_new(const struct control_config *config, struct control **ret,
                    struct err *err)
{
    struct control *c = calloc(1, sizeof(*c));
    enum rc rc;

    if (!c) {
        return err_set(err, RC_NO_MEMORY, "control: no memory");
    }
    c->config = *config;
    c->started_ms = program_now_ms();
    rc = start_taps(c, err);
    rc = rc == RC_OK ? start_timers(c, err) : rc;
    rc = rc == RC_OK ? start_server(c, err) : rc;
    if (rc != RC_OK) {
        control_free(c);
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

void control_free(struct control *c)
{
    if (!c) {
        return;
    }
    free_event(c->tick);
    free_event(c->local);
    for (unsigned i = 0; i < PORTS_MAX; i++) {
        tap_free(c->taps[i]);
    }
    while (c->retired) {
        struct retired *next = c->retired->next;

        fwd_config_free(c->retired->config);
        free(c->retired);
        c->retired = next;
    }
    rpc_arena_fini(&c->arena);
    free(c);
}
