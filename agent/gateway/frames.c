#include "agent/gateway/frames.h"

#include <event2/event.h>
#include <string.h>
#include <sys/eventfd.h>

#define TICK_MS     20 /* ARP/ND questions, reclamation, frames left over */
#define LOCAL_BURST 32

bool frames_send(struct frames *f, uint64_t port, const uint8_t *frame, size_t len)
{
    struct rte_mbuf *m;
    char *room;

    if (port >= f->config.ports->count || len > UINT16_MAX) {
        return false;
    }
    m = rte_pktmbuf_alloc(f->config.ports->pool);
    room = m ? rte_pktmbuf_append(m, (uint16_t)len) : NULL;
    if (!room) {
        rte_pktmbuf_free(m);
        return false;
    }
    memcpy(room, frame, len);
    port_send(&f->config.ports->at[port], f->config.worker_count, &m, 1);
    return true;
}

void frames_take(struct frames *f)
{
    void *waiting[LOCAL_BURST];
    unsigned n =
        rte_ring_dequeue_burst(f->config.from_workers, waiting, LOCAL_BURST, NULL);

    for (unsigned i = 0; i < n; i++) {
        struct rte_mbuf *m = waiting[i];

        f->config.on_frame(f->config.arg, m->port, rte_pktmbuf_mtod(m, const uint8_t *),
                           m->data_len);
        rte_pktmbuf_free(m);
    }
    if (n == LOCAL_BURST) {
        eventfd_write(f->config.wake_fd, 1); /* the rest, after other work */
    }
}

static void on_local(evutil_socket_t fd, short what, void *arg)
{
    eventfd_t woken;

    (void)what;
    eventfd_read(fd, &woken);
    frames_take(arg);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct frames *f = arg;

    (void)fd;
    (void)what;
    f->config.on_tick(f->config.arg);
}

enum rc frames_start(struct frames *f, const struct frames_config *config,
                     struct err *err)
{
    struct timeval tick = { 0, TICK_MS * 1000L };

    f->config = *config;
    f->tick = event_new(config->base, -1, EV_PERSIST, on_tick, f);
    f->local =
        event_new(config->base, config->wake_fd, EV_READ | EV_PERSIST, on_local, f);
    if (!f->tick || !f->local || event_add(f->tick, &tick) != 0 ||
        event_add(f->local, NULL) != 0) {
        return err_set(err, RC_NO_MEMORY, "control: no memory");
    }
    return RC_OK;
}

void frames_tick_soon(struct frames *f)
{
    event_active(f->tick, EV_TIMEOUT, 0);
}

static void free_event(struct event *event)
{
    if (event) {
        event_free(event);
    }
}

void frames_stop(struct frames *f)
{
    free_event(f->tick);
    free_event(f->local);
    f->tick = NULL;
    f->local = NULL;
}
