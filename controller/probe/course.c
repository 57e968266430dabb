#include "controller/probe/course.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL_UNITS 600 /* to make one cell's probe: a way or two of up to 4 routes */

/* A cell's probe, as long as it has no verdict. */
struct todo {
    uint64_t at_ms; /* not before */
    uint8_t differed;
    uint8_t not_now;
    bool is_flying;
};

/* One that is under way. */
struct flight {
    uint64_t id; /* 0: none */
    uint16_t cell;
    bool was_level; /* the node, when it went out */
    uint64_t revision;
    uint64_t deadline_ms;
    struct probe probe;
};

struct course {
    struct probes_record record;
    struct matrix *matrix;
    struct matrix_cell cells[MATRIX_CELLS_MAX];
    struct todo todo[MATRIX_CELLS_MAX];
    uint16_t planned; /* cells that were looked at */
    uint16_t left;    /* probes without a verdict */
    uint16_t why_of;  /* the number that `why` is of; 0: of none */
    struct flight flights[COURSE_IN_FLIGHT];
    uint64_t session;  /* that they are on */
    uint64_t since_ms; /* of its waiting; 0: it does not wait */
    bool was_there;    /* the node had a session when it began to wait */
    uint64_t wake_ms;
    bool is_refused;
    char waits[PROBE_WHY_MAX + 1];
    struct blob *packed; /* referenced: what `config` is */
    struct device_config *config;
};

struct course *course_new(const struct probes_record *record, struct matrix *m)
{
    struct course *c = calloc(1, sizeof(*c));

    if (!c) {
        return NULL;
    }
    c->record = *record;
    c->record.state = PROBES_WAITING;
    c->record.result = PROBES_OPEN;
    c->record.cell_count = matrix_cells(c->cells);
    c->matrix = matrix_ref(m);
    c->wake_ms = UINT64_MAX;
    c->config = malloc(sizeof(*c->config));
    if (!c->config) {
        course_free(c);
        return NULL;
    }
    return c;
}

void course_free(struct course *c)
{
    if (c) {
        matrix_unref(c->matrix);
        blob_unref(c->packed);
        free(c->config);
        free(c);
    }
}

const struct probes_record *course_record_of(const struct course *c)
{
    return &c->record;
}

const char *course_waits(const struct course *c)
{
    return c->waits;
}

bool course_is_refused(const struct course *c)
{
    return c->is_refused;
}

uint64_t course_wake(const struct course *c)
{
    return c->wake_ms;
}

/* ---- the end ---- */

static void end(struct course *c)
{
    struct probes_record *r = &c->record;

    r->state = PROBES_DONE;
    r->result = r->differed > 0                   ? PROBES_FAILED
                : r->unsaid > 0 || r->probes == 0 ? PROBES_CANNOT_SAY
                                                  : PROBES_PASSED;
    if (r->result == PROBES_CANNOT_SAY && !r->why[0]) {
        snprintf(r->why, sizeof(r->why), "its entries lead nowhere: nothing to send");
    }
}

void course_stop(struct course *c, const char *why)
{
    struct probes_record *r = &c->record;

    if (r->state == PROBES_DONE) {
        return;
    }
    for (uint16_t i = 0; i < r->cell_count; i++) {
        if (r->cells[i].reach == MATRIX_COVERED &&
            r->cells[i].verdict == VERDICT_NONE) {
            r->cells[i].verdict = VERDICT_UNSAID;
            r->unsaid++;
        }
    }
    if (r->differed == 0) {
        snprintf(r->why, sizeof(r->why), "%s", why);
    }
    c->left = 0;
    end(c);
}

/* ---- waiting ---- */

void course_lost(struct course *c)
{
    for (unsigned i = 0; i < COURSE_IN_FLIGHT; i++) {
        if (c->flights[i].id != 0) {
            c->todo[c->flights[i].cell].is_flying = false;
            c->flights[i].id = 0;
        }
    }
    if (c->record.state == PROBES_SENDING) {
        c->record.state = PROBES_WAITING;
    }
}

/* True: it waits on. */
static bool must_wait(struct course *c, const struct course_facts *f, uint64_t now_ms)
{
    bool is_there = f->session != 0;
    uint64_t limit = is_there ? COURSE_BEHIND_MS : COURSE_ABSENT_MS;

    if (is_there && f->is_level) {
        c->since_ms = 0;
        return false;
    }
    if (c->since_ms == 0 || c->was_there != is_there) {
        c->since_ms = now_ms;
        c->was_there = is_there;
    }
    c->wake_ms = c->since_ms + limit;
    if (now_ms >= c->wake_ms) {
        course_stop(c, is_there ? "the node does not hold what it should"
                                : "the node has no session");
    }
    return true;
}

/* ---- which probes ---- */

static bool take_config(struct course *c, struct blob *packed)
{
    if (c->packed != packed) {
        blob_unref(c->packed);
        c->packed = blob_ref(packed);
        if (device_config_unpack(packed->data, packed->len, c->config, NULL)) {
            return false;
        }
    }
    return true;
}

static void name_want(const struct probe_want *w, char *to, size_t size)
{
    snprintf(to, size, "%s",
             w->outcome == PROBE_KEPT      ? "kept"
             : w->outcome == PROBE_DROPPED ? w->reason
             : w->is_fallback              ? "fallback"
                                           : "forwarded");
}

/* Looks at the cells one by one, to know how many have a probe. */
static void plan(struct course *c, const struct course_facts *f, uint32_t *units)
{
    struct probes_record *r = &c->record;
    const struct probe_node node = { f->desired, c->config };
    struct probe *probe = &c->flights[0].probe; /* nothing is under way yet */

    while (c->planned<r->cell_count && * units> 0) {
        struct probes_cell *cell = &r->cells[c->planned];

        cell->reach =
            (uint8_t)matrix_probe(c->matrix, &c->cells[c->planned], &node, 0, probe);
        if (cell->reach == MATRIX_COVERED) {
            cell->number = (uint16_t)++r->probes;
            name_want(&probe->want, cell->want, sizeof(cell->want));
            c->left++;
        }
        c->planned++;
        *units -= *units < CELL_UNITS ? *units : CELL_UNITS;
    }
}

/* ---- sending ---- */

static bool is_due(const struct course *c, uint16_t cell, uint64_t now_ms)
{
    const struct probes_cell *r = &c->record.cells[cell];

    return r->reach == MATRIX_COVERED && r->verdict == VERDICT_NONE &&
           !c->todo[cell].is_flying && c->todo[cell].at_ms <= now_ms;
}

static struct flight *free_flight(struct course *c)
{
    for (unsigned i = 0; i < COURSE_IN_FLIGHT; i++) {
        if (c->flights[i].id == 0) {
            return &c->flights[i];
        }
    }
    return NULL;
}

/* The cell's entries are no more what they were. */
static void give_up_cell(struct course *c, uint16_t cell, enum matrix_reach reach)
{
    c->record.cells[cell].reach = (uint8_t)reach;
    c->record.probes--;
    c->left--;
}

/* False: no memory; it is tried again. */
static bool launch(struct course *c, const struct course_facts *f, uint64_t now_ms,
                   uint64_t *io_id, uint16_t cell, struct flight *flight,
                   struct ctl_probes *to)
{
    const struct probe_node node = { f->desired, c->config };
    struct probes_cell *r = &c->record.cells[cell];
    uint8_t frame[PROBE_FRAME_MAX];
    enum matrix_reach reach;
    struct blob *blob;

    reach = matrix_probe(c->matrix, &c->cells[cell], &node, *io_id + 1, &flight->probe);
    if (reach != MATRIX_COVERED) {
        give_up_cell(c, cell, reach);
        return true;
    }
    blob = blob_copy(frame, probe_frame(&flight->probe, frame));
    if (!blob) {
        return false;
    }
    name_want(&flight->probe.want, r->want, sizeof(r->want));
    flight->id = ++*io_id;
    flight->cell = cell;
    flight->was_level = f->is_level && !f->is_touched;
    flight->revision = f->revision;
    flight->deadline_ms = now_ms + COURSE_ANSWER_MS;
    c->todo[cell].is_flying = true;
    to->at[to->count++] = (struct ctl_probe){ flight->id, blob };
    return true;
}

static enum course_action send(struct course *c, const struct course_facts *f,
                               uint64_t now_ms, uint64_t *io_id, uint32_t *units,
                               struct ctl_msg *ret)
{
    struct ctl_probes *batch = &ret->probes;

    memset(ret, 0, sizeof(*ret));
    ret->kind = CTL_PROBES;
    for (uint16_t i = 0; i<c->record.cell_count && * units> 0; i++) {
        struct flight *flight = is_due(c, i, now_ms) ? free_flight(c) : NULL;

        if (!flight) {
            continue;
        }
        if (!launch(c, f, now_ms, io_id, i, flight, batch)) {
            break;
        }
        *units -= *units < CELL_UNITS ? *units : CELL_UNITS;
    }
    return batch->count > 0 ? COURSE_SENDS : COURSE_STAYS;
}

/* ---- verdicts ---- */

static void explain(struct course *c, uint16_t cell, const char *why, char *to,
                    size_t size)
{
    char name[MATRIX_NAME_MAX + 1];

    matrix_cell_print(&c->cells[cell], name, sizeof(name));
    snprintf(to, size, "probe %u (%s): %s", c->record.cells[cell].number, name, why);
}

static void conclude(struct course *c, uint16_t cell, enum probes_verdict verdict,
                     const char *why)
{
    struct probes_record *r = &c->record;
    uint16_t number = r->cells[cell].number;
    char text[PROBES_WHY_MAX + 1];

    r->cells[cell].verdict = (uint8_t)verdict;
    c->left--;
    if (verdict == VERDICT_AGREED) {
        r->agreed++;
        return;
    }
    explain(c, cell, why, text, sizeof(text));
    if (verdict == VERDICT_DIFFERED) {
        uint32_t at = r->listed < PROBES_LISTED_MAX ? r->listed++ : r->listed - 1;

        memcpy(r->differs[at], text, sizeof(text));
        if (r->differed++ == 0) {
            c->why_of = 0; /* before those that say nothing */
        }
    } else if (r->unsaid++ > 0 && c->why_of != 0 && c->why_of < number) {
        return;
    }
    if (verdict == VERDICT_DIFFERED || r->differed == 0) {
        if (c->why_of == 0 || number < c->why_of) {
            c->why_of = number;
            memcpy(r->why, text, sizeof(text));
        }
    }
}

static void again(struct course *c, uint16_t cell, uint64_t at_ms)
{
    c->todo[cell].at_ms = at_ms;
}

/* It says nothing, or nothing that counts. */
static void not_now(struct course *c, uint16_t cell, uint64_t now_ms, const char *why)
{
    snprintf(c->waits, sizeof(c->waits), "%s", why);
    if (++c->todo[cell].not_now >= COURSE_NOT_NOW) {
        conclude(c, cell, VERDICT_UNSAID, why);
    } else {
        again(c, cell, now_ms + COURSE_AGAIN_MS);
    }
}

static void judge(struct course *c, const struct course_facts *f,
                  const struct flight *flight, uint64_t now_ms,
                  const struct probe_result *found)
{
    char why[PROBE_WHY_MAX + 1];
    bool counts = flight->was_level && f->is_level && !f->is_touched &&
                  f->revision == flight->revision;

    if (found->rc == RC_NOT_FOUND) {
        c->is_refused = true;
        course_stop(c, found->error);
        return;
    }
    switch (probe_judge(&flight->probe, found, why)) {
    case PROBE_AGREES:
        conclude(c, flight->cell, VERDICT_AGREED, "");
        break;
    case PROBE_DIFFERS:
        if (!counts) {
            not_now(c, flight->cell, now_ms, "its entries do not stop to change");
        } else if (++c->todo[flight->cell].differed >= COURSE_TRIES) {
            conclude(c, flight->cell, VERDICT_DIFFERED, why);
        } else {
            again(c, flight->cell, now_ms + COURSE_AGAIN_MS);
        }
        break;
    default:
        not_now(c, flight->cell, now_ms, why);
        break;
    }
}

bool course_answer(struct course *c, const struct course_facts *f, uint64_t now_ms,
                   const struct agent_probe *m)
{
    for (unsigned i = 0; i < COURSE_IN_FLIGHT; i++) {
        struct flight *flight = &c->flights[i];

        if (flight->id != 0 && flight->id == m->probe_id && f->session == c->session) {
            flight->id = 0;
            c->todo[flight->cell].is_flying = false;
            judge(c, f, flight, now_ms, &m->result);
            return true;
        }
    }
    return false;
}

/* Those that nobody answers. */
static void expire(struct course *c, uint64_t now_ms)
{
    for (unsigned i = 0; i < COURSE_IN_FLIGHT; i++) {
        struct flight *flight = &c->flights[i];

        if (flight->id != 0 && flight->deadline_ms <= now_ms) {
            flight->id = 0;
            c->todo[flight->cell].is_flying = false;
            not_now(c, flight->cell, now_ms, "it does not answer");
        }
    }
}

/* When time alone makes something to do. */
static void set_wake(struct course *c, uint64_t now_ms)
{
    c->wake_ms = UINT64_MAX;
    for (unsigned i = 0; i < COURSE_IN_FLIGHT; i++) {
        const struct flight *flight = &c->flights[i];

        if (flight->id != 0 && flight->deadline_ms < c->wake_ms) {
            c->wake_ms = flight->deadline_ms;
        }
    }
    for (uint16_t i = 0; i < c->record.cell_count; i++) {
        if (is_due(c, i, UINT64_MAX) && c->todo[i].at_ms > now_ms &&
            c->todo[i].at_ms < c->wake_ms) {
            c->wake_ms = c->todo[i].at_ms;
        }
    }
}

/* ---- all together ---- */

static enum course_action begin(struct course *c, const struct course_facts *f,
                                uint64_t now_ms, uint32_t *units)
{
    if (c->record.state == PROBES_PICKING && !f->session) {
        c->record.state = PROBES_WAITING;
    }
    if (c->record.state == PROBES_WAITING && must_wait(c, f, now_ms)) {
        return c->record.state == PROBES_DONE ? COURSE_ENDS : COURSE_STAYS;
    }
    c->session = f->session;
    c->wake_ms = UINT64_MAX;
    c->record.state = PROBES_PICKING;
    if (!take_config(c, f->config)) {
        course_stop(c, "the node's configuration is none");
        return COURSE_ENDS;
    }
    if (!matrix_work(c->matrix, f->desired, units)) {
        return COURSE_WORKS;
    }
    plan(c, f, units);
    if (c->planned < c->record.cell_count) {
        return COURSE_WORKS;
    }
    c->record.state = PROBES_SENDING;
    return COURSE_STAYS;
}

enum course_action course_next(struct course *c, const struct course_facts *f,
                               uint64_t now_ms, uint64_t *io_id, uint32_t *units,
                               struct ctl_msg *ret_msg)
{
    enum course_action action;

    if (c->record.state == PROBES_SENDING && f->session != c->session) {
        course_lost(c);
    }
    if (c->record.state == PROBES_WAITING || c->record.state == PROBES_PICKING) {
        action = begin(c, f, now_ms, units);
        if (c->record.state != PROBES_SENDING) {
            return action;
        }
    }
    if (c->record.state == PROBES_DONE || !take_config(c, f->config)) {
        return COURSE_ENDS;
    }
    expire(c, now_ms);
    action = c->left > 0 ? send(c, f, now_ms, io_id, units, ret_msg) : COURSE_STAYS;
    if (c->left == 0 && action != COURSE_SENDS) {
        end(c);
        return COURSE_ENDS;
    }
    set_wake(c, now_ms);
    return action == COURSE_STAYS && *units == 0 ? COURSE_WORKS : action;
}
