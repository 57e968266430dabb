/*
 * p4runtime_probe: probes through a switch's program, one after the other.
 *
 * One goes out as a packet-out that the program takes for a packet from a port, and
 * comes back as a packet-in (p4/include/headers.p4).  Nothing in between says which it
 * is: the next one waits until it is back or given up, and the last bytes of the frame,
 * which no program changes, tell it from one that was given up.
 */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/driver/p4runtime_impl.h"
#include "agent/fwd/drop_reason.h"

#define PROBE_PORT 0 /* every switch has it */
#define PROBE_MS   1000
#define TAIL_BYTES 8

/* A probe that waits or is under way. */
struct probing {
    TAILQ_ENTRY(probing) next;
    uint64_t id;
    struct blob *frame;
};

static void fail_soon(struct p4runtime *p)
{
    event_active(p->probe_turn, EV_TIMEOUT, 0);
}

/* The first of those that wait goes out; what cannot is answered in a turn of its own,
 * never from inside the call that asked. */
static void send_first(struct p4runtime *p)
{
    static const struct timeval late = { PROBE_MS / 1000, 0 };
    struct probing *first = TAILQ_FIRST(&p->probes);
    struct p4rt_packet packet = { .port = PROBE_PORT, .is_probe = true };

    p->probe_rc = RC_OK;
    if (!first) {
        return;
    }
    packet.bytes = first->frame->data;
    packet.len = first->frame->len;
    if (p->is_up && p->xgwh && xgwh_is_ready(p4runtime_belief(p))) {
        p->probe_rc = p4rt_switch_packet_out(p->sw, 0, &packet);
    } else {
        p->probe_rc = RC_CONFLICT; /* not ready */
    }
    if (p->probe_rc != RC_OK) {
        fail_soon(p);
    } else {
        event_add(p->probe_turn, &late);
    }
}

/* The first is answered, and the next one goes out. */
static void end_first(struct p4runtime *p, const struct probe_result *result)
{
    struct probing *first = TAILQ_FIRST(&p->probes);
    struct device_probe answer = { first->id, result };

    event_del(p->probe_turn);
    TAILQ_REMOVE(&p->probes, first, next);
    blob_unref(first->frame);
    free(first);
    send_first(p);
    p->driver.events->probe(p->driver.ctx, &answer);
}

void p4runtime_probe_turn(evutil_socket_t fd, short what, void *arg)
{
    struct p4runtime *p = arg;
    struct probe_result result = { .rc = p->probe_rc };
    const char *why = "the switch takes no more packets";

    (void)fd;
    (void)what;
    if (TAILQ_EMPTY(&p->probes)) {
        return;
    }
    switch (p->probe_rc) {
    case RC_OK:
        result.rc = RC_TIMEOUT;
        why = "the probe did not come back";
        break;
    case RC_CONFLICT:
        result.rc = RC_UNREACHABLE;
        why = "not ready: nothing is forwarded yet";
        break;
    case RC_NOT_FOUND:
        why = "the switch's program takes no probes";
        break;
    case RC_UNREACHABLE:
        why = "another controller is the switch's primary";
        break;
    default:
        break;
    }
    snprintf(result.error, sizeof(result.error), "%s", why);
    end_first(p, &result);
}

/* Without memory it is not answered: the session's timeout sees to it. */
void p4runtime_probe(struct driver *d, uint64_t id, struct blob *frame)
{
    struct p4runtime *p = (struct p4runtime *)d;
    struct probing *probe = calloc(1, sizeof(*probe));
    bool is_first = TAILQ_EMPTY(&p->probes);

    if (!probe) {
        return;
    }
    probe->id = id;
    probe->frame = blob_ref(frame);
    TAILQ_INSERT_TAIL(&p->probes, probe, next);
    if (is_first) {
        send_first(p);
    }
}

/* The last bytes are those that went out. */
static bool is_answer_to(const struct p4rt_packet *packet, const struct blob *sent)
{
    return packet->len >= TAIL_BYTES && packet->len <= PROBE_FRAME_MAX &&
           memcmp(packet->bytes + packet->len - TAIL_BYTES,
                  sent->data + sent->len - TAIL_BYTES, TAIL_BYTES) == 0;
}

static void read_result(const struct p4rt_packet *packet, struct probe_result *ret)
{
    const char *reason = drop_reason_name(packet->reason);

    if (packet->reason == P4RT_REASON_KEPT) {
        ret->outcome = PROBE_KEPT;
    } else if (packet->reason != DROP_NONE) {
        ret->outcome = PROBE_DROPPED;
        snprintf(ret->reason, sizeof(ret->reason), "%s", reason ? reason : "unknown");
    } else {
        ret->outcome = PROBE_FORWARDED;
        snprintf(ret->port, sizeof(ret->port), "%u", packet->port);
        ret->frame = blob_copy(packet->bytes, packet->len);
        if (!ret->frame) {
            *ret = (struct probe_result){ .rc = RC_NO_MEMORY, .error = "no memory" };
        }
    }
}

void p4runtime_take_packet(struct p4runtime *p, const struct p4rt_packet *packet)
{
    struct probing *first = TAILQ_FIRST(&p->probes);
    struct probe_result result = { 0 };

    if (packet->is_probe && first && p->probe_rc == RC_OK &&
        is_answer_to(packet, first->frame)) {
        read_result(packet, &result);
        end_first(p, &result);
        blob_unref(result.frame);
    }
}

void p4runtime_drop_probes(struct p4runtime *p)
{
    while (!TAILQ_EMPTY(&p->probes)) {
        struct probing *first = TAILQ_FIRST(&p->probes);

        TAILQ_REMOVE(&p->probes, first, next);
        blob_unref(first->frame);
        free(first);
    }
    if (p->probe_turn) {
        event_del(p->probe_turn);
    }
}
