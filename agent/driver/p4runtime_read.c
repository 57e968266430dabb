#include "agent/driver/p4runtime_impl.h"

#include <stdlib.h>

#include "proto/base/log.h"

/* ---- what came ---- */

static void on_entry(void *ctx, const struct phys_entry *e)
{
    struct p4runtime *p = ctx;

    if (p->purpose == READ_STATE) {
        xgwh_state_of_entry(e, &p->found);
    } else if (p->read_rc == RC_OK) {
        p->read_rc = xgwh_read_entry(p4runtime_belief(p), e);
    }
}

static void on_meter(void *ctx, enum phys_meter meter, uint8_t device, uint64_t index,
                     const struct phys_meter_config *config)
{
    xgwh_read_meter(p4runtime_belief(ctx), meter, device, index, config);
}

static void log_findings(const struct xgwh_findings *f)
{
    if (f->foreign || f->dangling || f->orphans || f->duplicate || f->split ||
        f->changed || f->lost) {
        log_warn("switch read back",
                 "entries=%llu unnamed=%llu foreign=%llu dangling=%llu orphans=%llu "
                 "duplicate=%llu split=%llu changed=%llu lost=%llu",
                 (unsigned long long)f->entries, (unsigned long long)f->unnamed,
                 (unsigned long long)f->foreign, (unsigned long long)f->dangling,
                 (unsigned long long)f->orphans, (unsigned long long)f->duplicate,
                 (unsigned long long)f->split, (unsigned long long)f->changed,
                 (unsigned long long)f->lost);
    } else {
        /* Unnamed ones are what a new agent finds: the controller's rows name them. */
        log_info("switch read back", "entries=%llu unnamed=%llu",
                 (unsigned long long)f->entries, (unsigned long long)f->unnamed);
    }
}

/* ---- what is to be put right ---- */

static void keep_entry(void *ctx, const struct phys_write *w)
{
    struct p4runtime *p = ctx;

    p->has_repairs = true;
    p4rt_requests_entry(&p->repairs, w);
}

static void keep_meter(void *ctx, const struct phys_meter_write *w)
{
    struct p4runtime *p = ctx;

    p->has_repairs = true;
    p4rt_requests_meter(&p->repairs, w);
}

/* For the session it waits until that writes. */
static struct xgwh_sink sink_of_repairs(struct p4runtime *p)
{
    struct p4rt_requests_options packing = p4rt_writer_packing(p->writer);

    if (p->purpose != READ_FOR_SESSION) {
        return p4runtime_sink(p);
    }
    p4rt_requests_init(&p->repairs, &packing);
    return (struct xgwh_sink){ keep_entry, keep_meter, p };
}

void p4runtime_give_repairs(struct p4runtime *p)
{
    if (p->has_repairs) {
        p->has_repairs = false;
        p4rt_writer_take(p->writer, &p->repairs);
    }
}

void p4runtime_drop_repairs(struct p4runtime *p)
{
    if (p->has_repairs) {
        p->has_repairs = false;
        p->is_void = true;
        p4rt_requests_clear(&p->repairs);
    }
}

/* ---- believing ---- */

/* Believes what was read. */
static enum rc believe(struct p4runtime *p, struct err *err)
{
    struct xgwh_sink sink = sink_of_repairs(p);
    struct xgwh_findings findings = { 0 };
    enum rc rc = p->read_rc;

    if (rc != RC_OK) {
        xgwh_read_abort(p4runtime_belief(p));
        return err_set(err, rc, "switch: read-back: %s", rc_name(rc));
    }
    rc = xgwh_read_end(p4runtime_belief(p), &sink, &findings, err);
    if (rc != RC_OK) {
        return rc;
    }
    log_findings(&findings);
    if (!p4rt_writer_is_idle(p->writer)) {
        p4rt_writer_mark(p->writer, ++p->last_mark); /* a next read waits for repairs */
    }
    p->read_backs++;
    p->is_void = false;
    p->is_fresh = true;
    p->must_sweep = xgwh_status(p4runtime_belief(p)).unnamed > 0;
    return RC_OK;
}

/* Whether the switch still is the one that `up` was told of. */
static bool is_same_life(const struct p4runtime *p)
{
    return xgwh_state(p4runtime_belief(p)).boot_id == p->boot_id;
}

static void read_failed(struct p4runtime *p, const struct err *err)
{
    enum read_purpose purpose = p->purpose;

    p->purpose = READ_NONE;
    p->is_void = true;
    if (purpose == READ_FOR_SESSION) {
        p4runtime_end_read(p, err->code, err);
        return;
    }
    p4rt_switch_redial(p->sw, err); /* and all over */
}

/* The session's read-back.  What cannot be said in rows (entries without names, tables
 * that were lost) is said by going down and up. */
static void end_for_session(struct p4runtime *p)
{
    struct err err;

    if (is_same_life(p) && !p->must_sweep) {
        enum rc rc = p4runtime_tell_rows(p);

        p->is_fresh = false; /* told: the next one sees what is there then */
        p4runtime_end_read(p, rc, NULL);
        return;
    }
    if (!is_same_life(p)) {
        err_set(&err, RC_NOT_FOUND, "switch: its tables were emptied");
    } else {
        err_set(&err, RC_CONFLICT, "switch: it holds entries that nobody here wrote");
    }
    if (p->has_repairs) {
        p4runtime_bounce(p, &err); /* they were for a write that will not come */
        return;
    }
    p4runtime_go_down(p, &err);
    p4runtime_come_up(p);
}

/* Only the state rows were read: what is believed stands if they are as believed. */
static void end_state(struct p4runtime *p)
{
    struct xgwh_state believed = xgwh_state(p4runtime_belief(p));

    p->purpose = READ_NONE;
    if (p->found.boot_id != 0 && p->found.boot_id == believed.boot_id &&
        p->found.term == believed.term && p->found.applied == believed.applied &&
        p->found.config_digest == believed.config_digest) {
        p4runtime_come_up(p);
    } else {
        p4runtime_start_read(p, READ_TO_COME_UP);
    }
}

static void on_end(void *ctx, enum rc rc, const struct err *cause);

static const struct p4rt_read_events read_events = { .entry = on_entry,
                                                     .meter = on_meter,
                                                     .end = on_end };

/* The meters' cells; false: memory is out. */
static bool read_meters(struct p4runtime *p)
{
    uint32_t *index = NULL;
    uint32_t count = 0;

    p->read_rc = xgwh_read_wants_meters(p4runtime_belief(p), &index, &count);
    if (p->read_rc == RC_OK) {
        p->read = p4rt_read_meters(p->sw, index, count, &read_events, p);
        p->is_reading_meters = p->read != NULL;
    }
    free(index);
    return p->is_reading_meters;
}

static void on_end(void *ctx, enum rc rc, const struct err *cause)
{
    struct p4runtime *p = ctx;
    struct err err = { 0 };
    enum read_purpose purpose = p->purpose;

    p->read = NULL;
    if (p->is_reading_meters) {
        p->is_reading_meters = false;
        rc = RC_OK; /* what it did not say is written, so this is no failure */
    } else if (purpose != READ_STATE && rc == RC_OK && p->read_rc == RC_OK &&
               read_meters(p)) {
        return;
    }
    if (purpose == READ_STATE) {
        if (rc != RC_OK) {
            p->found.boot_id = 0; /* some say NOT_FOUND of a row that is not there */
        }
        end_state(p);
        return;
    }
    if (rc != RC_OK) {
        xgwh_read_abort(p4runtime_belief(p));
        read_failed(p, cause);
        return;
    }
    if (believe(p, &err) != RC_OK) {
        read_failed(p, &err);
        return;
    }
    p->purpose = READ_NONE;
    switch (purpose) {
    case READ_TO_COME_UP:
        p4runtime_come_up(p);
        break;
    case READ_FOR_SESSION:
        end_for_session(p);
        break;
    default:
        p4runtime_settle_refusal(p);
        break;
    }
    p4runtime_kick(p);
}

/* ---- asking ---- */

void p4runtime_start_read(struct p4runtime *p, enum read_purpose purpose)
{
    struct err err;

    p->purpose = purpose;
    p->read_rc = RC_OK;
    p->is_reading_meters = false;
    if (purpose == READ_STATE) {
        p->found = (struct xgwh_state){ 0 };
        p->read = p4rt_read_state(p->sw, &read_events, p);
    } else {
        /* Repairs of the last read-back that were never sent: this one finds them. */
        p4rt_writer_drop(p->writer);
        p4runtime_drop_repairs(p);
        p->read_rc = xgwh_read_begin(p4runtime_belief(p));
        if (purpose == READ_FOR_SESSION) {
            xgwh_read_name_all(p4runtime_belief(p));
        }
        p->read = p->read_rc == RC_OK ? p4rt_read_tables(p->sw, &read_events, p) : NULL;
    }
    if (!p->read) {
        err_set(&err, RC_NO_MEMORY, "switch: no memory to read back");
        read_failed(p, &err);
    }
}

void p4runtime_stop_read(struct p4runtime *p)
{
    if (p->read) {
        p4rt_read_cancel(p->read);
        p->read = NULL;
        if (p->purpose != READ_STATE) {
            xgwh_read_abort(p4runtime_belief(p));
        }
    }
    p->purpose = READ_NONE;
}
