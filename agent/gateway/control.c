#include "agent/gateway/control_internal.h"

#include "proto/base/log.h"
#include "proto/rpc/rpc_health.h"

#include <stdlib.h>
#include <string.h>

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
            device_old_fini(&r->old);
            free(r);
        } else {
            at = &r->next;
        }
    }
}

/* ---- frames of our own ---- */

static void on_tap_frame(void *arg, unsigned port, const uint8_t *frame, size_t len)
{
    struct control *c = arg;

    if (atomic_load(&c->config.device->is_ready)) {
        (void)frames_send(&c->frames, port, frame, len);
    }
}

/* What is lost for want of a buffer is asked for or repeated: ARP, ND, BGP, BFD. */
static void on_frame(void *arg, unsigned port, const uint8_t *frame, size_t len)
{
    struct control *c = arg;
    struct neigh_out out;

    neigh_receive(&c->neigh, port, frame, len, program_now_ms(), &out);
    if (out.len > 0) {
        (void)frames_send(&c->frames, out.port, out.frame, out.len);
    }
    if (c->taps[port]) {
        tap_send(c->taps[port], frame, len);
    }
}

static void on_tick(void *arg)
{
    struct control *c = arg;
    struct neigh_out out;

    while (neigh_ask(&c->neigh, program_now_ms(), &out)) {
        (void)frames_send(&c->frames, out.port, out.frame, out.len);
    }
    frames_take(&c->frames);
    control_reclaim(c);
    top_tick(&c->top, program_now_ms());
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

static enum rc start_frames(struct control *c, struct err *err)
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

static enum rc start_server(struct control *c, struct err *err)
{
    /* A writer sends a window of packed batches ahead (agent_msg.h). */
    struct rpc_server_options options = { .keepalive_ms = 10000,
                                          .keepalive_timeout_ms = 20000 };
    enum rc rc = rpc_server_new(c->config.loop, &options, &c->server, err);

    rc = rc == RC_OK ? control_write_register(c, err) : rc;
    rc = rc == RC_OK ? control_read_register(c, err) : rc;
    rc = rc == RC_OK ? control_probe_register(c, err) : rc;
    rc = rc == RC_OK ? control_tamper_register(c, err) : rc;
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
    rc = top_init(&c->top, config->workers, config->worker_count, c->started_ms, err);
    rc = rc == RC_OK ? start_taps(c, err) : rc;
    rc = rc == RC_OK ? start_frames(c, err) : rc;
    rc = rc == RC_OK ? start_server(c, err) : rc;
    if (rc != RC_OK) {
        control_free(c);
        return rc;
    }
    *ret = c;
    return RC_OK;
}

void control_free(struct control *c)
{
    if (!c) {
        return;
    }
    frames_stop(&c->frames);
    for (unsigned i = 0; i < PORTS_MAX; i++) {
        tap_free(c->taps[i]);
    }
    while (c->retired) {
        struct retired *next = c->retired->next;

        device_old_fini(&c->retired->old);
        free(c->retired);
        c->retired = next;
    }
    control_probe_fini(c);
    rpc_arena_fini(&c->arena);
    top_fini(&c->top);
    free(c);
}
