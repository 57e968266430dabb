#include "agent/session/session_impl.h"

#include "proto/base/log.h"

/* ---- reading back ---- */

static void start_read(struct session *s)
{
    struct session_out *out;

    if (!s->reading) {
        s->reading = table_set_new();
    }
    out = s->reading ? session_out_add(s, SESSION_READ) : NULL;
    if (!out) {
        s->is_out_of_memory = true;
        s->read_at_ms = s->now_ms + session_pause_ms(s, s->read_attempt++);
        return;
    }
    s->is_reading = true;
    s->read_id = out->read.id = ++s->last_id;
    s->read_at_ms = 0;
}

void device_read_again(struct session *s)
{
    s->is_believed_valid = false;
    flights_drop_unsent(s);
    session_start_over(s);
    if (s->is_device_up && !s->is_reading && s->read_at_ms == 0) {
        s->read_at_ms = s->now_ms + session_pause_ms(s, s->read_attempt++);
    }
}

void device_up(struct session *s, const struct device_state *state)
{
    bool is_same = s->is_believed_valid && state->boot_id == s->device.boot_id &&
                   state->applied == s->device.applied;

    if (s->flights) {
        device_down(s, NULL);
        is_same = false;
    }
    s->is_device_up = true;
    s->device = *state;
    if (state->term > s->term) {
        s->term = state->term;
    }
    s->config_id = 0;
    s->config_at_ms = 0;
    s->has_config_failed = false;
    if (!is_same) {
        s->is_believed_valid = false;
        start_read(s);
    }
    session_start_over(s);
}

void device_down(struct session *s, const struct err *cause)
{
    if (!s->is_device_up) {
        return;
    }
    session_log(s, LOG_WARN, "device lost", "cause=\"%s\"", cause ? cause->msg : "");
    s->is_device_up = false;
    s->is_reading = false;
    s->read_at_ms = 0;
    table_set_free(s->reading);
    s->reading = NULL;
    s->config_id = 0;
    s->config_at_ms = 0;
    if (s->flights) {
        s->is_believed_valid = false; /* who knows which of them were done */
    }
    device_forget_flights(s);
    session_start_over(s);
}

void device_rows(struct session *s, uint64_t read_id, const uint8_t *batch, size_t len)
{
    uint32_t count;
    uint32_t index;
    struct err err = { 0 };
    enum rc rc;

    if (audit_is_under_way(s) && read_id == s->audit.read_id) {
        audit_rows(s, batch, len);
        return;
    }
    if (!s->is_reading || !s->reading || read_id != s->read_id) {
        return;
    }
    rc = batch_check(batch, len, false, &count, &index, &err);
    if (rc == RC_OK) {
        rc = table_set_apply(s->reading, batch, len, NULL, NULL, &err);
    }
    if (rc != RC_OK) {
        session_log(s, LOG_ERROR, "read-back damaged", "entry=%u cause=\"%s\"", index,
                    err.msg);
        table_set_free(s->reading);
        s->reading = NULL; /* seen at the end of the read-back */
    }
}

void device_read_end(struct session *s, uint64_t read_id, enum rc rc)
{
    if (audit_is_under_way(s) && read_id == s->audit.read_id) {
        audit_end(s, rc);
        return;
    }
    if (!s->is_reading || read_id != s->read_id) {
        return;
    }
    s->is_reading = false;
    if (rc != RC_OK || !s->reading) {
        table_set_free(s->reading);
        s->reading = NULL;
        s->read_at_ms = s->now_ms + session_pause_ms(s, s->read_attempt++);
        session_log(s, LOG_WARN, "read-back failed", "code=%s", rc_name(rc));
        return;
    }
    table_set_free(s->believed);
    s->believed = s->reading;
    s->reading = NULL;
    table_set_free(s->unsound);
    s->unsound = NULL;
    s->is_believed_valid = true;
    s->is_fresh = true;
    s->was_read = true;
    s->read_attempt = 0;
    if (exceptions_clear(s) != RC_OK) {
        s->is_out_of_memory = true;
    }
    session_start_over(s);
}

/* ---- configuration ---- */

void device_config_done(struct session *s, const struct driver_done *done)
{
    s->config_id = 0;
    s->has_config_failed = done->rc != RC_OK;
    if (done->rc == RC_OK) {
        s->device.config_digest = s->config_digest;
        return;
    }
    session_log(s, LOG_ERROR, "device refused its configuration",
                "code=%s cause=\"%s\"", rc_name(done->rc), done->err.msg);
    s->config_at_ms = s->now_ms + s->config.redial_max_ms;
}

/* ---- what can go to the device now ---- */

static void send_config(struct session *s)
{
    struct session_out *out;

    if (!s->device_config || s->config_id != 0 ||
        s->config_digest == s->device.config_digest || s->config_at_ms > s->now_ms) {
        return;
    }
    out = session_out_add(s, SESSION_CONFIGURE);
    if (out) {
        s->config_id = ++s->last_id;
        s->config_at_ms = 0;
        s->config_deadline_ms = s->now_ms + s->config.write_timeout_ms;
        out->configure.id = s->config_id;
        out->configure.term = s->term;
        out->configure.config = blob_ref(s->device_config);
    }
}

void device_pump(struct session *s)
{
    if (!s->is_device_up || !s->is_believed_valid || audit_holds(s)) {
        return;
    }
    if (s->is_assigned && !s->awaits_assign) {
        send_config(s);
        flights_retry(s);
    }
    if (s->config_id == 0) {
        flights_send(s); /* also without a link: they are believed already */
    }
    flights_retire(s);
}

void device_tick(struct session *s)
{
    if (!s->is_device_up) {
        return;
    }
    audit_tick(s);
    if (!s->is_believed_valid && !s->is_reading && s->read_at_ms <= s->now_ms) {
        start_read(s);
    }
    if (s->config_id != 0 && s->config_deadline_ms <= s->now_ms) {
        struct driver_done done = { .id = s->config_id, .rc = RC_TIMEOUT };

        err_set(&done.err, RC_TIMEOUT, "no answer from the device");
        device_config_done(s, &done);
    }
    for (struct flight *f = s->flights; f; f = f->next) {
        if (!f->is_sent || f->is_done || f->is_late || f->deadline_ms > s->now_ms) {
            continue;
        }
        session_log(s, LOG_WARN, "device write late", "id=%llu",
                    (unsigned long long)f->id);
        f->is_late = true;
        if (s->is_believed_valid &&
            flight_rows_failed(s, f, EXCEPTION_UNKNOWN) != RC_OK) {
            s->is_out_of_memory = true;
            device_read_again(s);
        }
    }
    flights_retire(s);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t device_next_wake(const struct session *s)
{
    uint64_t at = UINT64_MAX;

    if (!s->is_device_up) {
        return at;
    }
    if (!s->is_believed_valid && !s->is_reading) {
        at = earlier(at, s->read_at_ms);
    }
    if (audit_is_under_way(s)) {
        at = earlier(at, s->audit.deadline_ms);
    }
    for (const struct flight *f = s->flights; f; f = f->next) {
        if (f->is_sent && !f->is_done && !f->is_late) {
            at = earlier(at, f->deadline_ms);
            break;
        }
    }
    if (!s->is_believed_valid || !s->is_assigned || s->awaits_assign) {
        return at;
    }
    if (s->config_id != 0) {
        at = earlier(at, s->config_deadline_ms);
    } else if (s->device_config && s->config_digest != s->device.config_digest) {
        at = earlier(at, s->config_at_ms);
    }
    if (!s->flights && !s->inbox && s->retry_at_ms != 0 &&
        (exceptions_can_retry(s) || device_lacks_state(s))) {
        at = earlier(at, s->retry_at_ms);
    }
    return at;
}
