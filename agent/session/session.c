#include "agent/session/session_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "proto/base/log.h"

/* ---- making ---- */

struct session *session_new(const struct session_config *config)
{
    struct session *s = calloc(1, sizeof(*s));

    if (!s) {
        return NULL;
    }
    s->config = *config;
    if (s->config.controller_count == 0) {
        s->config.controller_count = 1;
    }
    if (s->config.writes_in_flight == 0) {
        s->config.writes_in_flight = 1;
    }
    s->inbox_end = &s->inbox;
    s->flights_end = &s->flights;
    s->outs_end = &s->outs;
    s->believed = table_set_new();
    if (exceptions_init(s) != RC_OK || !s->believed) {
        session_free(s);
        return NULL;
    }
    return s;
}

void session_clear_inbox(struct session *s)
{
    while (s->inbox) {
        struct inbox_item *i = s->inbox;

        s->inbox = i->next;
        ctl_msg_fini(&i->msg);
        free(i);
    }
    s->inbox_end = &s->inbox;
    s->inbox_count = 0;
}

void session_free(struct session *s)
{
    struct session_out out;

    if (!s) {
        return;
    }
    while (session_next_out(s, &out)) {
        session_out_fini(&out);
    }
    session_clear_inbox(s);
    device_forget_flights(s);
    exceptions_fini(s);
    table_set_free(s->believed);
    table_set_free(s->reading);
    audit_drop(s);
    table_set_free(s->unsound);
    blob_unref(s->device_config);
    free(s->gather);
    free(s);
}

/* ---- what comes out ---- */

struct session_out *session_out_add(struct session *s, enum session_out_kind kind)
{
    struct out_item *i = calloc(1, sizeof(*i));

    if (!i) {
        s->is_out_of_memory = true;
        return NULL;
    }
    i->out.kind = kind;
    *s->outs_end = i;
    s->outs_end = &i->next;
    return &i->out;
}

bool session_next_out(struct session *s, struct session_out *ret)
{
    struct out_item *i = s->outs;

    if (!i) {
        return false;
    }
    *ret = i->out;
    s->outs = i->next;
    if (!s->outs) {
        s->outs_end = &s->outs;
    }
    free(i);
    return true;
}

void session_out_fini(struct session_out *out)
{
    switch (out->kind) {
    case SESSION_SEND:
        agent_msg_fini(&out->send);
        break;
    case SESSION_WRITE:
        blob_unref(out->write.ops);
        out->write.ops = NULL;
        break;
    case SESSION_CONFIGURE:
        blob_unref(out->configure.config);
        out->configure.config = NULL;
        break;
    case SESSION_PROBE:
        blob_unref(out->probe.frame);
        out->probe.frame = NULL;
        break;
    case SESSION_DIAL:
    case SESSION_HANGUP:
    case SESSION_READ:
    case SESSION_POLL_TOTALS:
    case SESSION_COUNTERS:
    case SESSION_LOG:
        break;
    }
}

void session_log(struct session *s, int level, const char *event, const char *fmt, ...)
{
    struct session_out *out = session_out_add(s, SESSION_LOG);
    va_list args;

    if (!out) {
        return;
    }
    out->log.level = level;
    snprintf(out->log.event, sizeof(out->log.event), "%s", event);
    va_start(args, fmt);
    vsnprintf(out->log.text, sizeof(out->log.text), fmt, args);
    va_end(args);
}

/* ---- the link ---- */

/* Doubles with each attempt; between half and all of it, by the device id, so that a
 * region's agents do not come back all at once.  No randomness: runs replay. */
uint64_t session_pause_ms(const struct session *s, uint32_t attempt)
{
    uint64_t pause = s->config.redial_min_ms ? s->config.redial_min_ms : 1;
    uint64_t jitter;

    for (uint32_t i = 0; i < attempt && pause < s->config.redial_max_ms; i++) {
        pause *= 2;
    }
    if (pause > s->config.redial_max_ms && s->config.redial_max_ms > 0) {
        pause = s->config.redial_max_ms;
    }
    jitter =
        XXH3_64bits_withSeed(s->config.device_id, strlen(s->config.device_id), attempt);
    return pause - pause / 2 + jitter % (pause / 2 + 1);
}

void session_hangup(struct session *s)
{
    if (s->link == LINK_UP) {
        s->link = LINK_CLOSING;
        session_out_add(s, SESSION_HANGUP);
    }
}

void session_refuse(struct session *s, const char *why)
{
    session_log(s, LOG_ERROR, "message refused", "cause=\"%s\"", why);
    session_hangup(s);
}

void session_start_over(struct session *s)
{
    session_clear_inbox(s);
    audit_drop(s);
    counters_drop(s);
    probes_drop(s);
    s->must_hello = true;
    s->awaits_assign = true;
    s->assign_deadline_ms = UINT64_MAX;
    s->must_ack = false;
    s->last_seq = 0;
    s->done_seq = 0;
    s->acked_seq = 0;
    s->want_applied = 0;
    s->want_ready = false;
    s->retry_at_ms = 0;
    s->must_list = true;
    for (struct flight *f = s->flights; f; f = f->next) {
        f->seq = 0;
        f->is_old = true;
    }
}

static void dial(struct session *s)
{
    struct session_out *out = session_out_add(s, SESSION_DIAL);

    if (!out) {
        s->redial_at_ms = s->now_ms + session_pause_ms(s, s->attempt);
        return;
    }
    s->link = LINK_DIALING;
    out->dial.index = s->dial_index;
    memcpy(out->dial.redirect, s->redirect, sizeof(out->dial.redirect));
    s->redirect[0] = '\0';
}

static void link_up(struct session *s)
{
    s->link = LINK_UP;
    session_start_over(s);
}

/* Nothing is done to the device: it goes on with what it has. */
static void link_down(struct session *s, const struct err *cause)
{
    if (s->link == LINK_IDLE) {
        return;
    }
    if (s->is_assigned) {
        session_log(s, LOG_WARN, "session lost", "cause=\"%s\"",
                    cause ? cause->msg : "");
    }
    /* A session that did not last is no success: two agents of one name would put each
     * other out as fast as they can dial. */
    if (s->is_assigned && s->now_ms - s->assigned_at_ms >= s->config.redial_max_ms) {
        s->attempt = 0;
    }
    s->link = LINK_IDLE;
    s->is_assigned = false;
    session_start_over(s);
    s->must_hello = false;
    if (s->redirect[0] && s->redirect_count <= REDIRECTS_MAX) {
        s->redial_at_ms = s->now_ms;
        return;
    }
    s->redial_at_ms = s->now_ms + session_pause_ms(s, s->attempt++);
    if (!s->redirect[0]) {
        s->dial_index = (s->dial_index + 1) % s->config.controller_count;
    }
}

/* The controller is about to compare what the device holds: what was wished for before
 * is void, and only what nobody can know stands. */
static void keep_only_unknown(struct session *s)
{
    enum rc rc = exceptions_clear(s);

    for (struct flight *f = s->flights; rc == RC_OK && f; f = f->next) {
        if (f->is_late && !f->is_done) {
            rc = flight_rows_failed(s, f, EXCEPTION_UNKNOWN);
        }
    }
    if (rc != RC_OK) {
        s->is_out_of_memory = true;
    }
}

/* Says what the device is, as soon as that is known; without a device, that. */
static void say_hello(struct session *s)
{
    struct session_out *out;
    struct agent_hello *h;

    if (s->link != LINK_UP || !s->must_hello) {
        return;
    }
    if (s->is_device_up && (!s->is_believed_valid || !device_is_quiet(s))) {
        return;
    }
    out = session_out_add(s, SESSION_SEND);
    if (!out) {
        return;
    }
    out->send.kind = AGENT_HELLO;
    h = &out->send.hello;
    memcpy(h->device_id, s->config.device_id, sizeof(h->device_id));
    h->device_kind = s->config.device_kind;
    h->hello_id = ++s->hello_id;
    h->term_seen = s->term;
    snprintf(h->version, sizeof(h->version), "%s", XGW_VERSION);
    if (s->is_device_up) {
        h->boot_id = s->device.boot_id;
        h->applied = s->device.applied;
        h->ready = s->device.ready;
        h->believed = !s->is_fresh;
        h->config_digest = s->device.config_digest;
        for (int t = 0; t < TABLE_COUNT; t++) {
            h->root[t] = table_set_digest(s->believed, (enum table_id)t,
                                          (struct tree_node){ 0 });
        }
        s->is_fresh = false;
    }
    keep_only_unknown(s);
    s->must_hello = false;
    s->assign_deadline_ms = s->now_ms + ASSIGN_TIMEOUT_MS;
}

static void send_beat(struct session *s)
{
    struct session_out *out;

    if (s->link != LINK_UP || !s->is_assigned || s->beat_ms == 0 ||
        s->next_beat_ms > s->now_ms) {
        return;
    }
    s->next_beat_ms = s->now_ms + s->beat_ms;
    out = session_out_add(s, SESSION_SEND);
    if (!out) {
        return;
    }
    out->send.kind = AGENT_BEAT;
    out->send.beat.boot_id = s->is_device_up ? s->device.boot_id : 0;
    out->send.beat.applied = s->device.applied;
    out->send.beat.ready = s->is_device_up && s->device.ready;
    out->send.beat.totals.rx_packets = s->totals.rx_packets;
    out->send.beat.totals.rx_bytes = s->totals.rx_bytes;
    out->send.beat.totals.tx_packets = s->totals.tx_packets;
    out->send.beat.totals.tx_bytes = s->totals.tx_bytes;
    out->send.beat.totals.drops = s->totals.drops;
}

/* ---- stepping ---- */

static void take_input(struct session *s, const struct session_in *in)
{
    switch (in->kind) {
    case SESSION_TICK:
        break;
    case SESSION_LINK_UP:
        link_up(s);
        break;
    case SESSION_LINK_DOWN:
        link_down(s, in->cause);
        break;
    case SESSION_LINK_MSG:
        session_take_message(s, in->ctl);
        break;
    case SESSION_DEVICE_UP:
        device_up(s, in->state);
        break;
    case SESSION_DEVICE_DOWN:
        device_down(s, in->cause);
        break;
    case SESSION_DEVICE_DONE:
        device_done(s, in->done);
        break;
    case SESSION_DEVICE_ROWS:
        device_rows(s, in->rows.read_id, in->rows.batch, in->rows.len);
        break;
    case SESSION_DEVICE_READ_END:
        device_read_end(s, in->read_end.read_id, in->read_end.rc);
        break;
    case SESSION_DEVICE_TOTALS:
        telemetry_take(s, in->totals);
        break;
    case SESSION_DEVICE_COUNTERS:
        counters_answer(s, in->counters);
        break;
    case SESSION_DEVICE_PROBE:
        probes_answer(s, in->probe);
        break;
    }
}

void session_step(struct session *s, uint64_t now_ms, const struct session_in *in)
{
    s->now_ms = now_ms;
    take_input(s, in);
    device_tick(s);
    counters_tick(s);
    probes_tick(s);
    if (s->link == LINK_IDLE && s->redial_at_ms <= now_ms) {
        dial(s);
    }
    if (s->link == LINK_UP && s->awaits_assign && !s->must_hello &&
        s->assign_deadline_ms <= now_ms) {
        session_log(s, LOG_WARN, "no answer to HELLO", "next=redial");
        session_hangup(s);
    }
    device_pump(s);
    session_work_inbox(s);
    session_send_acks(s);
    say_hello(s);
    send_beat(s);
    telemetry_poll(s);
    if (s->is_out_of_memory) {
        s->is_out_of_memory = false;
        session_log(s, LOG_ERROR, "out of memory", "next=\"redial\"");
        session_hangup(s);
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t session_next_wake(const struct session *s)
{
    uint64_t at =
        earlier(earlier(device_next_wake(s), telemetry_next_wake(s)), counters_wake(s));

    at = earlier(at, probes_wake(s));
    if (s->link == LINK_IDLE) {
        at = earlier(at, s->redial_at_ms);
    }
    if (s->link == LINK_UP && s->awaits_assign && !s->must_hello) {
        at = earlier(at, s->assign_deadline_ms);
    }
    if (s->link == LINK_UP && s->is_assigned && s->beat_ms != 0) {
        at = earlier(at, s->next_beat_ms);
    }
    return at;
}

struct session_status session_status(const struct session *s)
{
    return (struct session_status){
        .link_is_up = s->link == LINK_UP,
        .device_is_up = s->is_device_up,
        .is_assigned = s->is_assigned && !s->awaits_assign,
        .ready = s->is_device_up && s->device.ready,
        .term = s->term,
        .applied = s->device.applied,
        .device_writes = s->device_writes,
        .exception_count = exceptions_count(s),
    };
}

const struct table_set *session_believed(const struct session *s)
{
    return s->believed;
}
