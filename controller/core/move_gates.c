/*
 * move_gates: what the nodes of a move's target are asked before anything is steered
 * to them, and what they answer.
 *
 * AUDIT is one question a node, a read-back by digest; PROBE one a node and family, a
 * packet.  Each is asked once the node holds what its group has, and again when its
 * answer says nothing, is lost with its session, or is of a state that is past.
 */
#include "controller/core/core_internal.h"

#include "controller/probe/probe.h"

#include <stdio.h>

#define ASK_AGAIN_MS 1000 /* after an answer that says nothing */
/* A probe may meet a node that is about to follow its last configuration: so often it
 * must differ, a while apart. */
#define PROBE_TRIES 3

enum ask_state { ASK_DUE, ASK_SENT, ASK_PASSED, ASK_FAILED };

/* One question to one node. */
struct ask {
    char node[NODE_NAME_MAX + 1];
    uint8_t family; /* PROBE: of the packet inside; else IP_NONE */
    enum ask_state state;
    uint64_t id;         /* of the question */
    uint64_t session;    /* that it went out on */
    uint64_t revision;   /* of the group when it went out */
    uint64_t at_ms;      /* not before */
    unsigned differed;   /* PROBE: so often */
    struct probe *probe; /* PROBE: what went out */
    char why[NODE_NAME_MAX + PROBE_WHY_MAX + 10];
};

void run_clear_gate(struct run *r)
{
    for (uint32_t i = 0; i < r->ask_count; i++) {
        free(r->asks[i].probe);
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

static struct ask *ask_of(struct run *r, const char *node, uint8_t family)
{
    struct ask *ask;

    for (uint32_t i = 0; i < r->ask_count; i++) {
        if (r->asks[i].family == family && strcmp(r->asks[i].node, node) == 0) {
            return &r->asks[i];
        }
    }
    r->asks = core_need(realloc(r->asks, (r->ask_count + 1) * sizeof(*r->asks)));
    ask = &r->asks[r->ask_count++];
    *ask = (struct ask){ .family = family };
    snprintf(ask->node, sizeof(ask->node), "%s", node);
    return ask;
}

static void fill_probe(const struct operation *o, const struct session *s,
                       struct ask *ask, struct ctl_msg *msg)
{
    struct device_config *config = core_need(malloc(sizeof(*config)));
    struct probe_node node = { .tables = s->group->desired, .config = config };
    uint8_t frame[VXLAN_PACKET_MAX];
    size_t len;

    core_must(!device_config_unpack(s->config->data, s->config->len, config, NULL));
    if (!ask->probe) {
        ask->probe = core_need(malloc(sizeof(*ask->probe)));
    }
    probe_make(&node, o->move.vni, ask->family, ask->id, ask->probe);
    len = vxlan_packet_build(&ask->probe->sent, frame);
    msg->kind = CTL_PROBE;
    msg->probe = (struct ctl_probe){ .probe_id = ask->id,
                                     .frame = core_need(blob_copy(frame, len)) };
    free(config);
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
    if (ask->family != IP_NONE) {
        fill_probe(o, d->session, ask, &e->send.msg);
        return;
    }
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

static enum gate gate_of_node(struct core *c, const struct operation *o, struct run *r,
                              const struct device *d, char why[OPERATION_TEXT_MAX + 1])
{
    uint8_t families[2] = { IP_NONE };
    unsigned count = o->step == MOVE_PROBE
                         ? probe_families(d->group->desired, o->move.vni, families)
                         : 1;
    enum gate all = GATE_PASSED;

    for (unsigned i = 0; i < count; i++) {
        struct ask *ask = ask_of(r, d->name, families[i]);

        all = both(all, gate_of_ask(c, o, d, ask, why));
    }
    return all;
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

    if (!ask || ask->family != IP_NONE) {
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
    const struct operation *o;
    struct ask *ask = asked(c, s, p->probe_id, &o);
    char why[PROBE_WHY_MAX + 1];
    enum probe_verdict verdict;

    if (!ask || ask->family == IP_NONE) {
        return;
    }
    verdict = probe_judge(ask->probe, &p->result, why);
    if (verdict == PROBE_AGREES) {
        ask->state = ASK_PASSED;
        return;
    }
    snprintf(ask->why, sizeof(ask->why), "node %s: %s", ask->node, why);
    if (verdict == PROBE_DIFFERS && !has_changed(s, ask) &&
        ++ask->differed == PROBE_TRIES) {
        ask->state = ASK_FAILED;
    } else {
        ask_again(c, ask, ASK_AGAIN_MS);
    }
}

void moves_forget_asks(struct core *c, const char *node)
{
    for (struct run *r = c->runs; r; r = r->next) {
        for (uint32_t i = 0; i < r->ask_count; i++) {
            if (r->asks[i].state == ASK_SENT && strcmp(r->asks[i].node, node) == 0) {
                r->asks[i].state = ASK_DUE;
            }
        }
    }
}
