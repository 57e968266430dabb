#include "agent/driver/p4runtime_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- answering ---- */

static void job_free(struct job *j)
{
    blob_unref(j->ops);
    xgwh_exceptions_fini(&j->exceptions);
    free(j);
}

/* Takes it out before it tells, for the session may act at once. */
static void answer(struct p4runtime *p, struct jobs *list, struct job *j)
{
    struct driver_done done = { .id = j->id, .rc = j->rc, .err = j->err };

    TAILQ_REMOVE(list, j, next);
    if (list == &p->active) {
        p->active_count--;
    }
    if (j->kind == JOB_READ) {
        p->driver.events->read_end(p->driver.ctx, j->id, j->rc, &j->err);
    } else {
        if (j->rc == RC_OK) {
            done.exceptions = j->exceptions.at;
            done.exception_count = j->exceptions.count;
        }
        p->driver.events->done(p->driver.ctx, &done);
    }
    job_free(j);
}

static void job_fail(struct job *j, enum rc rc, const struct err *err)
{
    j->rc = rc;
    j->err = *err;
    j->err.code = rc;
}

void p4runtime_end_jobs(struct p4runtime *p, enum rc rc, const struct err *err)
{
    struct job *j;
    struct job *next;

    while ((j = TAILQ_FIRST(&p->active)) != NULL) {
        if (j->rc == RC_OK) {
            job_fail(j, rc, err);
        }
        answer(p, &p->active, j);
    }
    for (j = TAILQ_FIRST(&p->waiting); j; j = next) {
        next = TAILQ_NEXT(j, next);
        if (j->kind != JOB_READ) {
            job_fail(j, rc, err);
            answer(p, &p->waiting, j);
        }
    }
}

void p4runtime_drop_jobs(struct p4runtime *p)
{
    struct jobs *lists[] = { &p->active, &p->waiting };
    struct job *j;

    for (unsigned i = 0; i < 2; i++) {
        while ((j = TAILQ_FIRST(lists[i])) != NULL) {
            TAILQ_REMOVE(lists[i], j, next);
            job_free(j);
        }
    }
    p->active_count = 0;
}

void p4runtime_end_read(struct p4runtime *p, enum rc rc, const struct err *err)
{
    struct job *j = TAILQ_FIRST(&p->waiting);

    if (j && j->kind == JOB_READ) {
        j->rc = rc;
        if (err) {
            j->err = *err;
        } else if (rc != RC_OK) {
            err_set(&j->err, rc, "switch: read-back: %s", rc_name(rc));
        }
        answer(p, &p->waiting, j);
    }
}

static void tell_rows(void *ctx, const uint8_t *batch, size_t len)
{
    struct p4runtime *p = ctx;
    const struct job *j = TAILQ_FIRST(&p->waiting);
    struct batch_reader r = batch_reader_of(batch, len);
    struct batch_run run;

    if (!j->vni) {
        p->driver.events->rows(p->driver.ctx, j->id, batch, len);
        return;
    }
    while (batch_next(&r, &run)) {
        if (run.vni == j->vni) {
            p->driver.events->rows(p->driver.ctx, j->id, run.rows - BATCH_RUN_HEADER,
                                   run.bytes + (size_t)BATCH_RUN_HEADER);
        }
    }
}

enum rc p4runtime_tell_rows(struct p4runtime *p)
{
    const struct job *j = TAILQ_FIRST(&p->waiting);

    return j && j->kind == JOB_READ ? xgwh_rows(p4runtime_belief(p), tell_rows, p)
                                    : RC_OK;
}

/* ---- giving to the writer ---- */

static struct exception *exception_add(struct xgwh_exceptions *list)
{
    if (list->count == list->cap) {
        uint32_t cap = list->cap ? list->cap * 2 : 64;
        struct exception *at = realloc(list->at, cap * sizeof(*at));

        if (!at) {
            list->unlisted++;
            return NULL;
        }
        list->at = at;
        list->cap = cap;
    }
    return &list->at[list->count++];
}

/* From waiting to active: answered when all before it is done. */
static void activate(struct p4runtime *p, struct job *j)
{
    TAILQ_REMOVE(&p->waiting, j, next);
    TAILQ_INSERT_TAIL(&p->active, j, next);
    p->active_count++;
    j->mark = ++p->last_mark;
    p4rt_writer_mark(p->writer, j->mark);
}

void p4runtime_reached(struct p4runtime *p, uint64_t mark)
{
    struct job *j;

    while ((j = TAILQ_FIRST(&p->active)) != NULL && j->mark <= mark) {
        answer(p, &p->active, j);
        p->refusal = (struct p4rt_outcome){ 0 };
    }
    p4runtime_kick(p);
}

/* ---- the next thing to do ---- */

/* The head waits for a program, or to be primary; true: not now. */
static bool must_wait(struct p4runtime *p, const struct job *j)
{
    if (p->is_claiming || p->is_pushing) {
        return true;
    }
    if (j->term > p4rt_switch_term(p->sw) || !p4rt_switch_is_primary(p->sw)) {
        if (TAILQ_EMPTY(&p->active)) {
            p->is_claiming = true;
            p4rt_switch_claim(p->sw, j->term);
        }
        return true;
    }
    if (p->no_program) {
        p->is_pushing = true;
        p4rt_switch_push(p->sw);
        return true;
    }
    return p->active_count >= ACTIVE_MAX || p4rt_writer_bytes(p->writer) > WRITER_BYTES;
}

/* Not done at all; told in its turn. */
static void refuse(struct p4runtime *p, struct job *j, const struct err *err)
{
    job_fail(j, err->code, err);
    if (TAILQ_EMPTY(&p->active)) {
        answer(p, &p->waiting, j);
    } else {
        activate(p, j);
    }
}

/* False: it has to wait, or those behind it have: what it gave is sent first. */
static bool do_write(struct p4runtime *p, struct job *j)
{
    struct err err;

    if (j->term < p->highest_term) {
        err_field(&err, RC_STALE, "term", "term", "switch: term %llu is behind %llu",
                  (unsigned long long)j->term, (unsigned long long)p->highest_term);
        refuse(p, j, &err);
        return true;
    }
    if (p->is_void) {
        err_set(&err, RC_TIMEOUT, "switch: has to be read back first");
        refuse(p, j, &err);
        return true;
    }
    if (must_wait(p, j)) {
        return false;
    }
    p->is_fresh = false;
    p4runtime_map_give(p, j);
    return false;
}

void p4runtime_mapped(struct p4runtime *p, struct job *j)
{
    struct err err;

    if (j->rc == RC_NO_MEMORY || j->rc == RC_STALE || j->rc == RC_TIMEOUT) {
        p->is_void = true; /* xgwh.h: read back first */
        j->rc = RC_TIMEOUT;
    }
    if (j->rc != RC_OK && j->err.code == RC_OK) {
        err_set(&j->err, j->rc, "switch: %s", rc_name(j->rc));
    }
    if (p->lacks_config && j->kind == JOB_WRITE) {
        /* The switch has a configuration that an agent before us gave it: it is in the
         * tables, but not what it says of tables that are to be filled yet. */
        err_set(&err, RC_CONFLICT, "switch: its configuration is asked for once more");
        p4runtime_bounce(p, &err);
        return;
    }
    activate(p, j);
    p4runtime_kick(p);
}

static bool do_read(struct p4runtime *p, struct job *j)
{
    if (!TAILQ_EMPTY(&p->active) ||
        (p4rt_switch_is_primary(p->sw) && !p4rt_writer_is_idle(p->writer))) {
        return false;
    }
    if (p->is_fresh || p->no_program) {
        enum rc rc = p4runtime_tell_rows(p);

        p->is_fresh = false; /* the next one is asked for to see what is there then */
        if (j == TAILQ_FIRST(&p->waiting)) {
            p4runtime_end_read(p, rc, NULL);
        }
        return true;
    }
    p4runtime_start_read(p, READ_FOR_SESSION);
    return false;
}

void p4runtime_pump(struct p4runtime *p)
{
    struct job *j;
    bool goes_on = true;

    while (goes_on && p->is_up && p->purpose == READ_NONE &&
           !p4runtime_map_is_busy(p) && (j = TAILQ_FIRST(&p->waiting)) != NULL) {
        goes_on = j->kind == JOB_READ ? do_read(p, j) : do_write(p, j);
    }
}

/* ---- failures ---- */

/* What of the write does not stand as it should, by what was read back. */
static void list_missing(struct p4runtime *p, struct job *j, uint8_t reason)
{
    const struct table_set *tables = xgwh_tables(p4runtime_belief(p));
    struct batch_reader r = batch_reader_of(j->ops->data, j->ops->len);
    struct batch_run run;

    j->exceptions.count = 0;
    while (batch_next(&r, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct rows *rows = table_set_rows(tables, run.vni, (enum table_id)run.table);
        struct row want;
        struct row got;

        while (run_next(&it, &want)) {
            bool is_there = rows && rows_find(rows, (enum table_id)run.table, want.key,
                                              want.key_len, &got);
            bool is_as_wanted =
                run.op == BATCH_DELETE
                    ? !is_there
                    : is_there && got.value_len == want.value_len &&
                          memcmp(got.value, want.value, want.value_len) == 0;
            struct exception *e = is_as_wanted ? NULL : exception_add(&j->exceptions);

            if (e) {
                *e = (struct exception){ .reason = reason,
                                         .table = run.table,
                                         .vni = run.vni,
                                         .key_len = want.key_len };
                memcpy(e->key, want.key, want.key_len);
            }
        }
    }
}

void p4runtime_settle_refusal(struct p4runtime *p)
{
    struct xgwh_state state = xgwh_state(p4runtime_belief(p));
    struct job *j = TAILQ_FIRST(&p->active);
    struct job *last;
    struct err err;

    if (state.boot_id != p->boot_id) {
        err_set(&err, RC_NOT_FOUND, "switch: its tables were emptied");
        p4runtime_go_down(p, &err);
        p4runtime_come_up(p);
        return;
    }
    if (p->refusal.is_full && p->refusal.table < PHYS_TABLES) {
        xgwh_note_full(p4runtime_belief(p), (enum phys_table)p->refusal.table,
                       p->refusal.device);
    }
    /* Those behind it were given to the writer in vain: they come again. */
    while ((last = TAILQ_LAST(&p->active, jobs)) != NULL && last != j) {
        TAILQ_REMOVE(&p->active, last, next);
        p->active_count--;
        TAILQ_INSERT_HEAD(&p->waiting, last, next);
    }
    if (!j) {
        return;
    }
    if (j->kind == JOB_WRITE && j->rc == RC_OK) {
        if (j->ops) {
            /* Not REFUSED, which is for good: the switch named one update of many. */
            list_missing(p, j, p->refusal.is_full ? EXCEPTION_FULL : EXCEPTION_UNKNOWN);
        }
        state.applied = j->revision != 0 ? j->revision : state.applied;
        p4rt_writer_barrier(p->writer);
        j->rc = p4runtime_put_state(p, &state);
    } else if (j->rc == RC_OK) {
        job_fail(j, p->refusal.err.code, &p->refusal.err);
    }
    if (j->rc == RC_OK && (j->exceptions.unlisted > 0 || !j->ops)) {
        job_fail(j, RC_TIMEOUT, &p->refusal.err);
    }
    j->mark = ++p->last_mark;
    p4rt_writer_mark(p->writer, j->mark);
}

void p4runtime_stopped(struct p4runtime *p, const struct p4rt_outcome *first)
{
    struct err err = first->err;

    p4runtime_settle(p); /* its writes come in vain, like those before them */
    if (p->purpose != READ_NONE) {
        return; /* it found that all has to be read back anyway */
    }
    p->is_fresh = false;
    p->is_void = true;
    p->trouble = err;
    if (first->is_not_primary) {
        err_field(&err, RC_DENIED, "election_id", "mastership",
                  "switch: another controller is primary");
        p4rt_switch_redial(p->sw, &err); /* who, the new stream will say */
    } else if (err.code == RC_NO_MEMORY || !first->is_known || !first->is_refusal ||
               p->refusal.err.code != RC_OK) {
        /* Not known, or not as believed; or refused once more, while it was settled. */
        p->refusal = (struct p4rt_outcome){ 0 };
        if (TAILQ_EMPTY(&p->active)) {
            p4runtime_bounce(p, &err); /* repairs: nobody waits for their answer */
        } else {
            p4runtime_end_jobs(p, RC_TIMEOUT, &err);
        }
    } else {
        p->refusal = *first;
        p4runtime_start_read(p, READ_AFTER_REFUSAL);
    }
}
