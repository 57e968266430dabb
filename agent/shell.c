#include "agent/shell.h"

#include "agent/host.h"
#include "proto/base/log.h"
#include "proto/rpc/program.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shell {
    struct session *session;
    struct driver *driver;
    struct link *link;
    struct event *wake;
    struct host host;
    struct device_reading readings[READINGS_MAX];
};

static void ask_counters(struct shell *s, uint64_t id, uint32_t from_vni)
{
    struct device_counters none = { .id = id, .rc = RC_NOT_FOUND };
    struct session_in in = { .kind = SESSION_DEVICE_COUNTERS, .counters = &none };

    if (s->driver->cls->vni_counters) {
        s->driver->cls->vni_counters(s->driver, id, from_vni);
    } else {
        session_step(s->session, program_now_ms(), &in);
    }
}

static void probe(struct shell *s, uint64_t id, struct blob *frame)
{
    struct probe_result none = { .rc = RC_NOT_FOUND };
    struct device_probe answer = { .id = id, .result = &none };
    struct session_in in = { .kind = SESSION_DEVICE_PROBE, .probe = &answer };

    if (s->driver->cls->probe) {
        s->driver->cls->probe(s->driver, id, frame);
        return;
    }
    snprintf(none.error, sizeof(none.error), "the %s driver takes no probes",
             s->driver->cls->name);
    session_step(s->session, program_now_ms(), &in);
}

static void carry_out(struct shell *s, const struct session_out *out)
{
    switch (out->kind) {
    case SESSION_DIAL:
        link_dial(s->link, out->dial.index, out->dial.redirect);
        break;
    case SESSION_HANGUP:
        link_hangup(s->link);
        break;
    case SESSION_SEND:
        link_send(s->link, &out->send);
        break;
    case SESSION_WRITE:
        s->driver->cls->write(s->driver, &out->write);
        break;
    case SESSION_CONFIGURE:
        s->driver->cls->configure(s->driver, out->configure.id, out->configure.term,
                                  out->configure.config);
        break;
    case SESSION_READ:
        s->driver->cls->read(s->driver, out->read.id, out->read.vni);
        break;
    case SESSION_POLL_TOTALS:
        s->driver->cls->poll_totals(s->driver);
        break;
    case SESSION_COUNTERS:
        ask_counters(s, out->counters.id, out->counters.from_vni);
        break;
    case SESSION_PROBE:
        probe(s, out->probe.id, out->probe.frame);
        break;
    case SESSION_LOG:
        LOG_AT((enum log_level)out->log.level, out->log.event, "%s", out->log.text);
        break;
    }
}

static void sleep_until_next(struct shell *s, uint64_t now)
{
    uint64_t wake = session_next_wake(s->session);
    uint64_t pause = wake <= now ? 0 : wake - now;
    struct timeval tv = { (time_t)(pause / 1000), (suseconds_t)(pause % 1000) * 1000 };

    if (wake == UINT64_MAX) {
        event_del(s->wake);
    } else {
        event_add(s->wake, &tv);
    }
}

static void step(struct shell *s, const struct session_in *in)
{
    uint64_t now = program_now_ms();
    struct session_out out;

    session_step(s->session, now, in);
    while (session_next_out(s->session, &out)) {
        carry_out(s, &out);
        session_out_fini(&out);
    }
    sleep_until_next(s, now);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct session_in in = { .kind = SESSION_TICK };

    (void)fd;
    (void)what;
    step(arg, &in);
}

/* ---- the device's events ---- */

static void on_device_up(void *ctx, const struct device_state *state)
{
    struct session_in in = { .kind = SESSION_DEVICE_UP, .state = state };

    step(ctx, &in);
}

static void on_device_down(void *ctx, const struct err *cause)
{
    struct session_in in = { .kind = SESSION_DEVICE_DOWN, .cause = cause };

    step(ctx, &in);
}

static void on_device_done(void *ctx, const struct driver_done *done)
{
    struct session_in in = { .kind = SESSION_DEVICE_DONE, .done = done };

    step(ctx, &in);
}

static void on_device_rows(void *ctx, uint64_t read_id, const uint8_t *batch,
                           size_t len)
{
    struct session_in in = { .kind = SESSION_DEVICE_ROWS };

    in.rows.read_id = read_id;
    in.rows.batch = batch;
    in.rows.len = len;
    step(ctx, &in);
}

static void on_device_read_end(void *ctx, uint64_t read_id, enum rc rc,
                               const struct err *err)
{
    struct session_in in = { .kind = SESSION_DEVICE_READ_END,
                             .read_end = { read_id, rc } };

    if (rc != RC_OK) {
        log_warn("read-back failed", "cause=\"%s\"", err->msg);
    }
    step(ctx, &in);
}

static bool has_cores(const struct device_totals *totals)
{
    for (uint32_t i = 0; i < totals->reading_count; i++) {
        if (strncmp(totals->readings[i].part, "core/", 5) == 0) {
            return true;
        }
    }
    return false;
}

/* What the device says, and what its host does beside it. */
static void on_device_totals(void *ctx, const struct device_totals *totals)
{
    struct shell *s = ctx;
    struct device_totals all = *totals;
    struct session_in in = { .kind = SESSION_DEVICE_TOTALS, .totals = &all };
    uint32_t count = totals->reading_count;

    host_read(&s->host, !has_cores(totals));
    count = count < READINGS_MAX - s->host.count ? count : READINGS_MAX - s->host.count;
    if (count > 0) {
        memcpy(s->readings, totals->readings, count * sizeof(s->readings[0]));
    }
    memcpy(s->readings + count, s->host.readings,
           s->host.count * sizeof(s->readings[0]));
    all.readings = s->readings;
    all.reading_count = count + s->host.count;
    step(s, &in);
}

static void on_device_counters(void *ctx, const struct device_counters *counters)
{
    struct session_in in = { .kind = SESSION_DEVICE_COUNTERS, .counters = counters };

    step(ctx, &in);
}

static void on_device_probe(void *ctx, const struct device_probe *probe)
{
    struct session_in in = { .kind = SESSION_DEVICE_PROBE, .probe = probe };

    step(ctx, &in);
}

const struct driver_events shell_driver_events = {
    .up = on_device_up,
    .down = on_device_down,
    .done = on_device_done,
    .rows = on_device_rows,
    .read_end = on_device_read_end,
    .totals = on_device_totals,
    .counters = on_device_counters,
    .probe = on_device_probe,
};

/* ---- the link's events ---- */

static void on_link_up(void *ctx)
{
    struct session_in in = { .kind = SESSION_LINK_UP };

    step(ctx, &in);
}

static void on_link_message(void *ctx, const struct ctl_msg *msg)
{
    struct session_in in = { .kind = SESSION_LINK_MSG, .ctl = msg };

    step(ctx, &in);
}

static void on_link_down(void *ctx, const struct err *cause)
{
    struct session_in in = { .kind = SESSION_LINK_DOWN, .cause = cause };

    step(ctx, &in);
}

const struct link_events shell_link_events = {
    .up = on_link_up,
    .message = on_link_message,
    .down = on_link_down,
};

/* ---- life ---- */

enum rc shell_new(struct event_base *base, const struct session_config *config,
                  struct shell **ret, struct err *err)
{
    struct shell *s = calloc(1, sizeof(*s));

    if (s) {
        s->session = session_new(config);
        s->wake = event_new(base, -1, 0, on_wake, s);
    }
    if (!s || !s->session || !s->wake) {
        shell_free(s);
        return err_set(err, RC_NO_MEMORY, "agent: no memory");
    }
    *ret = s;
    return RC_OK;
}

void shell_start(struct shell *s, struct driver *driver, struct link *link)
{
    s->driver = driver;
    s->link = link;
    driver->cls->open(driver);
    event_active(s->wake, EV_TIMEOUT, 0);
}

void shell_free(struct shell *s)
{
    if (!s) {
        return;
    }
    link_free(s->link);
    if (s->driver) {
        s->driver->cls->close(s->driver);
    }
    if (s->wake) {
        event_free(s->wake);
    }
    session_free(s->session);
    free(s);
}
