/*
 * move_gates: what the nodes of a move's target are asked before anything is steered
 * to them, and what they answer.
 *
 * AUDIT is one question a node, a read-back by digest, asked once the node holds what
 * its group has, and again when its answer says nothing, is lost with its session, or
 * is of a state that is past.  PROBE is a course of probes a node
 * (controller/probe/course.h), of all that the moved VNI's rows say; one that cannot
 * say is begun anew.
 */
#include "controller/core/core_internal.h"

#include "controller/probe/course.h"

#include <stdio.h>

#define ASK_AGAIN_MS 1000 /* after an answer that says nothing */

enum ask_state { ASK_DUE, ASK_SENT, ASK_PASSED, ASK_FAILED };

/* One question to one node. */
struct ask {
    char node[NODE_NAME_MAX + 1];
    enum ask_state state;
    uint64_t id;           /* AUDIT: of the question */
    uint64_t session;      /* that it went out on */
    uint64_t revision;     /* of the group when it went out */
    uint64_t at_ms;        /* not before */
    struct course *course; /* PROBE; null: none has begun */
    char why[NODE_NAME_MAX + PROBES_WHY_MAX + 10];
};

void run_clear_gate(struct run *r)
{
    for (uint32_t i = 0; i < r->ask_count; i++) {
        course_free(r->asks[i].course);
    }
    free(r->asks);
    r->asks = NULL;
    r->ask_count = 0;
}

/* Nothing that grows: the first that was said stays. */
static void explain(char why[OPERATION_TEXT_MAX + 1], const char *text)
{
    if (!why[0]) {
        snprintf(why, OPERATION_TEXT_MAX + 1, "%s", text);
    }
}

/* ---- asking ---- */

static struct ask *ask_of(struct run *r, const char *node)
{
    struct ask *ask;

    for (uint32_t i = 0; i < r->ask_count; i++) {
        if (strcmp(r->asks[i].node, node) == 0) {
            return &r->asks[i];
        }
    }
    r->asks = core_need(realloc(r->asks, (r->ask_count + 1) * sizeof(*r->asks)));
    ask = &r->asks[r->ask_count++];
    *ask = (struct ask){ .state = ASK_DUE };
    snprintf(ask->node, sizeof(ask->node), "%s", node);
    return ask;
}

static void send_ask(struct core *c, const struct operation *o, const struct device *d,
                     struct ask *ask)
{
    struct core_effect *e = effect_add(c, CORE_SEND);

    ask->id = ++c->last_ask;
    ask->session = d->session->id;
    ask->revision = d->session->group->revision;
    ask->state = ASK_SENT;
    e->send.session = ask->session;
    e->send.msg.kind = CTL_AUDIT;
    e->send.msg.audit = (struct ctl_audit){ .audit_id = ask->id, .vni = o->move.vni };
}

/* One question's part of the gate. */
static enum gate gate_of_ask(struct core *c, const struct operation *o,
                             const struct device *d, struct ask *ask,
                             char why[OPERATION_TEXT_MAX + 1])
{
    bool is_there = d->session && d->session->sync;

    if (ask->state == ASK_PASSED) {
        return GATE_PASSED;
    }
    if (ask->state == ASK_FAILED) {
        why[0] = '\0'; /* before what others wait for */
        explain(why, ask->why);
        return GATE_FAILED;
    }
    if (ask->state == ASK_SENT && (!is_there || ask->session != d->session->id)) {
        ask->state = ASK_DUE; /* the answer is lost with its session */
    }
    if (ask->state == ASK_DUE && is_there && ask->at_ms <= c->now_ms &&
        device_has_applied(d, d->session->group->revision)) {
        send_ask(c, o, d, ask);
    }
    if (!ask->why[0]) {
        snprintf(ask->why, sizeof(ask->why), "node %s", d->name);
    }
    explain(why, ask->why);
    return GATE_OPEN_YET;
}

static enum gate both(enum gate a, enum gate b)
{
    if (a == GATE_FAILED || b == GATE_FAILED) {
        return GATE_FAILED;
    }
    return a == GATE_PASSED && b == GATE_PASSED ? GATE_PASSED : GATE_OPEN_YET;
}

/* The region names no source of any packet, so that none gets as far as the entries. */
static bool takes_no_packets(const struct probes_record *r)
{
    bool has_none = false;

    for (uint16_t i = 0; i < r->cell_count; i++) {
        has_none = has_none || r->cells[i].reach == MATRIX_NO_SOURCE;
    }
    return r->probes == 0 && has_none;
}

/* Of one node's probes that are over; one that could not say begins anew. */
static enum gate gate_of_verdict(struct core *c, struct ask *ask)
{
    const struct probes_record *r = course_record_of(ask->course);
    const char *why = strstr(r->why, "): "); /* which cell it was is not asked here */

    snprintf(ask->why, sizeof(ask->why), "node %s: %s", ask->node,
             why ? why + 3 : r->why);
    if (r->result == PROBES_PASSED || takes_no_packets(r)) {
        ask->state = ASK_PASSED;
        return GATE_PASSED;
    }
    if (r->result == PROBES_FAILED || course_is_refused(ask->course)) {
        ask->state = ASK_FAILED;
        return GATE_FAILED;
    }
    course_free(ask->course);
    ask->course = NULL;
    ask->at_ms = c->now_ms + ASK_AGAIN_MS;
    return GATE_OPEN_YET;
}

static void begin_course(struct core *c, const struct operation *o,
                         const struct device *d, struct ask *ask)
{
    struct probes_record *record = core_need(calloc(1, sizeof(*record)));
    struct matrix *m = core_need(matrix_new(d->group->kind == GROUP_H, o->move.vni));

    memcpy(record->node, d->name, strnlen(d->name, sizeof(record->node) - 1));
    memcpy(record->cluster, d->group->name, sizeof(record->cluster));
    record->vni = o->move.vni;
    record->asked_ms = c->unix_ms;
    ask->course = core_need(course_new(record, m));
    matrix_unref(m);
    free(record);
}

/* One node's probes go on. */
static enum gate go_on(struct core *c, const struct device *d, struct ask *ask)
{
    struct course_facts f = probes_facts_of(c, d->name);
    struct core_effect *e;
    struct ctl_msg msg;

    switch (course_next(ask->course, &f, c->now_ms, &c->last_ask, &c->units, &msg)) {
    case COURSE_SENDS:
        e = effect_add(c, CORE_SEND);
        e->send.session = f.session;
        e->send.msg = msg;
        operations_note(c);
        break;
    case COURSE_WORKS:
        operations_note(c);
        break;
    case COURSE_ENDS:
        return gate_of_verdict(c, ask);
    default:
        break;
    }
    snprintf(ask->why, sizeof(ask->why), "node %s%s%s", d->name,
             course_waits(ask->course)[0] ? ": " : "", course_waits(ask->course));
    return GATE_OPEN_YET;
}

static enum gate gate_of_probes(struct core *c, const struct operation *o,
                                const struct device *d, struct ask *ask,
                                char why[OPERATION_TEXT_MAX + 1])
{
    enum gate gate = ask->state == ASK_PASSED   ? GATE_PASSED
                     : ask->state == ASK_FAILED ? GATE_FAILED
                                                : GATE_OPEN_YET;

    if (!ask->why[0]) {
        snprintf(ask->why, sizeof(ask->why), "node %s", d->name);
    }
    if (gate == GATE_OPEN_YET && ask->at_ms <= c->now_ms) {
        if (!ask->course) {
            begin_course(c, o, d, ask);
        }
        gate = go_on(c, d, ask);
    }
    if (gate == GATE_FAILED) {
        why[0] = '\0'; /* before what others wait for */
    }
    if (gate != GATE_PASSED) {
        explain(why, ask->why);
    }
    return gate;
}

static enum gate gate_of_node(struct core *c, const struct operation *o, struct run *r,
                              const struct device *d, char why[OPERATION_TEXT_MAX + 1])
{
    struct ask *ask = ask_of(r, d->name);

    return o->step == MOVE_PROBE ? gate_of_probes(c, o, d, ask, why)
                                 : gate_of_ask(c, o, d, ask, why);
}

enum gate move_gate(struct core *c, const struct operation *o, struct run *r,
                    char why[OPERATION_TEXT_MAX + 1])
{
    struct holders groups = holders_beside(c, NULL, &o->move.to);
    enum gate all = GATE_PASSED;
    bool has_node = false;

    for (uint32_t i = 0; i < c->device_count && all != GATE_FAILED; i++) {
        const struct device *d = c->devices[i];

        if (device_may_forward(d) && holders_have(&groups, d->group)) {
            has_node = true;
            all = both(all, gate_of_node(c, o, r, d, why));
        }
    }
    return has_node ? all : GATE_OPEN_YET;
}

/* ---- answers ---- */

/* The question that an answer on a session is to; its operation in `*ret_o`. */
static struct ask *asked(const struct core *c, const struct session *s, uint64_t id,
                         const struct operation **ret_o)
{
    for (struct run *r = c->runs; r; r = r->next) {
        *ret_o = objects_operation(&c->objects, r->id);
        for (uint32_t i = 0; *ret_o && i < r->ask_count; i++) {
            struct ask *ask = &r->asks[i];

            if (ask->state == ASK_SENT && ask->id == id && ask->session == s->id) {
                return ask;
            }
        }
    }
    return NULL;
}

/* The group's set is no more, or not quite, what it was when the question went out. */
static bool has_changed(const struct session *s, const struct ask *ask)
{
    return s->group->revision != ask->revision || s->group->is_touched;
}

static void ask_again(const struct core *c, struct ask *ask, uint32_t pause_ms)
{
    ask->state = ASK_DUE;
    ask->at_ms = c->now_ms + pause_ms;
}

/* The table on which a read-back and the group differ; TABLE_COUNT: none. */
static unsigned differs_on(const struct group *g, uint32_t vni,
                           const struct agent_audit *a)
{
    const struct tree_node node = { .depth = TREE_DEPTH, .vni = vni };

    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        struct digest want = table_set_digest(g->desired, (enum table_id)t, node);

        if (want.sum != a->found[t].sum || want.count != a->found[t].count) {
            return t;
        }
    }
    return TABLE_COUNT;
}

void moves_audit(struct core *c, const struct session *s, const struct agent_audit *a)
{
    const struct operation *o;
    struct ask *ask = asked(c, s, a->audit_id, &o);
    struct tree_node node = { .depth = TREE_DEPTH };
    struct digest want;
    unsigned t;

    if (!ask) {
        return;
    }
    node.vni = o->move.vni;
    t = a->rc ? TABLE_COUNT : differs_on(s->group, node.vni, a);
    if (a->rc || (t < TABLE_COUNT && has_changed(s, ask))) {
        ask_again(c, ask, a->rc ? ASK_AGAIN_MS : 0);
        return;
    }
    ask->state = t < TABLE_COUNT ? ASK_FAILED : ASK_PASSED;
    if (ask->state == ASK_FAILED) {
        want = table_set_digest(s->group->desired, (enum table_id)t, node);
        snprintf(ask->why, sizeof(ask->why),
                 "node %s: table %s of vni %u: %llu rows read back, %llu desired%s",
                 ask->node, table_name(t), node.vni,
                 (unsigned long long)a->found[t].count, (unsigned long long)want.count,
                 a->found[t].count == want.count ? ", of other content" : "");
    }
}

void moves_probe(struct core *c, const struct session *s, const struct agent_probe *p)
{
    struct course_facts f = probes_facts_of(c, s->device->name);

    for (struct run *r = c->runs; r; r = r->next) {
        for (uint32_t i = 0; i < r->ask_count; i++) {
            struct ask *ask = &r->asks[i];

            if (ask->course && strcmp(ask->node, s->device->name) == 0 &&
                course_answer(ask->course, &f, c->now_ms, p)) {
                return;
            }
        }
    }
}

void moves_forget_asks(struct core *c, const char *node)
{
    for (struct run *r = c->runs; r; r = r->next) {
        for (uint32_t i = 0; i < r->ask_count; i++) {
            struct ask *ask = &r->asks[i];

            if (strcmp(ask->node, node) != 0) {
                continue;
            }
            if (ask->course) {
                course_lost(ask->course);
            } else if (ask->state == ASK_SENT) {
                ask->state = ASK_DUE;
            }
        }
    }
}
