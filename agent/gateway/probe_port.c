#include "agent/gateway/probe_port.h"

#include "agent/gateway/dpdk.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A ring of n places holds n - 1. */
#define RING_SIZE (2 * PROBE_PORT_MAX)

enum rc probe_port_init(struct probe_port *p, struct ports *ports, struct err *err)
{
    *p = (struct probe_port){ .ports = ports };
    p->to_worker = rte_ring_create("probes_in", RING_SIZE, SOCKET_ID_ANY,
                                   RING_F_SP_ENQ | RING_F_SC_DEQ);
    p->from_worker = rte_ring_create("probes_out", RING_SIZE, SOCKET_ID_ANY,
                                     RING_F_SP_ENQ | RING_F_SC_DEQ);
    p->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return p->to_worker && p->from_worker && p->wake_fd >= 0
               ? RC_OK
               : err_set(err, RC_NO_MEMORY, "no memory for probes");
}

static void frame_free(struct probe_frame *f)
{
    rte_pktmbuf_free(f->frame);
    free(f);
}

static void ring_free(struct rte_ring *ring)
{
    void *f;

    while (ring && rte_ring_dequeue(ring, &f) == 0) {
        frame_free(f);
    }
    rte_ring_free(ring);
}

void probe_port_fini(struct probe_port *p)
{
    if (p->ports) {
        ring_free(p->to_worker);
        ring_free(p->from_worker);
        close(p->wake_fd);
        p->ports = NULL;
    }
}

/* ---- control thread ---- */

static void on_woken(evutil_socket_t fd, short what, void *arg)
{
    struct probe_port *p = arg;
    eventfd_t woken;
    void *f;

    (void)what;
    eventfd_read(fd, &woken);
    while (rte_ring_dequeue(p->from_worker, &f) == 0) {
        p->under_way--;
        p->on_done(p->arg, f);
        frame_free(f);
    }
}

enum rc probe_port_start(struct probe_port *p, struct event_base *base,
                         void (*on_done)(void *arg, const struct probe_frame *p),
                         void *arg, struct err *err)
{
    p->on_done = on_done;
    p->arg = arg;
    p->woken = event_new(base, p->wake_fd, EV_READ | EV_PERSIST, on_woken, p);
    return p->woken && event_add(p->woken, NULL) == 0
               ? RC_OK
               : err_set(err, RC_NO_MEMORY, "no memory for probes");
}

void probe_port_stop(struct probe_port *p)
{
    if (p->woken) {
        event_free(p->woken);
        p->woken = NULL;
    }
}

enum rc probe_port_send(struct probe_port *p, uint16_t port, const uint8_t *frame,
                        size_t len, void *tag)
{
    struct probe_frame *f =
        p->under_way < PROBE_PORT_MAX ? calloc(1, sizeof(*f)) : NULL;
    char *room = NULL;

    if (f) {
        f->frame = rte_pktmbuf_alloc(p->ports->pool);
        room = f->frame && len <= UINT16_MAX
                   ? rte_pktmbuf_append(f->frame, (uint16_t)len)
                   : NULL;
    }
    if (!room) {
        if (f) {
            frame_free(f);
        }
        return RC_FULL;
    }
    memcpy(room, frame, len);
    f->port = port;
    f->tag = tag;
    p->under_way++;
    rte_ring_enqueue(p->to_worker, f); /* has room for all that may be under way */
    return RC_OK;
}

/* ---- worker ---- */

unsigned probe_port_take(struct probe_port *p, struct probe_frame *ret[], unsigned room)
{
    return rte_ring_dequeue_burst(p->to_worker, (void **)ret, room, NULL);
}

void probe_port_give(struct probe_port *p, struct probe_frame *f)
{
    rte_ring_enqueue(p->from_worker, f);
    eventfd_write(p->wake_fd, 1);
}
