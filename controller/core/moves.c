/*
 * moves: what a move waits for, seen in nodes and groups.
 *
 * A node counts while it may forward: online, or suspect, for a suspect node forwards
 * with the tables it has.  One that is offline is filled before it is ready again.
 */
#include "controller/core/core_internal.h"

#include <stdio.h>

#define ASK_AGAIN_MS 1000 /* after an answer that says nothing */

enum ask_state { ASK_DUE, ASK_SENT, ASK_PASSED, ASK_FAILED };

/* What one node is asked at a gate. */
struct audit_ask {
    char node[NODE_NAME_MAX + 1];
    enum ask_state state;
    uint64_t id;       /* of the question */
    uint64_t session;  /* that it went out on */
    uint64_t revision; /* of the group when it went out */
    uint64_t at_ms;    /* not before */
    char why[128];
};

void run_clear_gate(struct run *r)
{
    free(r->asks);
    r->asks = NULL;
    r->ask_count = 0;
}

/* ---- groups ---- */

struct stand {
    bool has_node; /* one that is online */
    bool follows;  /* all that may forward have what the group had by the revision */
    bool refuses;  /* one lacks an entry of the tenant, and says so */
    char why[128];
};

static bool may_forward(const struct device *d)
{
    return d->state == NODE_ONLINE || d->state == NODE_SUSPECT;
}

static bool lacks_entry(const struct device *d, uint32_t vni, char why[128])
{
    for (uint32_t i = 0; i < d->exception_listed; i++) {
        if (d->exceptions[i].vni == vni) {
            snprintf(why, 128, "node %s: %s entries of vni %u are not in place",
                     d->name, table_name(d->exceptions[i].table), vni);
            return true;
        }
    }
    return false;
}

static struct stand stand_of(const struct core *c, const struct group *g, uint32_t vni,
                             uint64_t revision)
{
    uint64_t need = g->revision < revision ? g->revision : revision;
    struct stand s = { .follows = !project_is_behind(c, g, revision) };

    for (uint32_t i = 0; i < c->device_count; i++) {
        const struct device *d = c->devices[i];

        if (!device_is_of(c, d, g) || !may_forward(d)) {
            continue;
        }
        s.has_node = s.has_node || d->state == NODE_ONLINE;
        s.refuses = s.refuses || lacks_entry(d, vni, s.why);
        if (!device_has_applied(d, need)) {
            s.follows = false;
            if (!s.refuses) {
                snprintf(s.why, sizeof(s.why), "node %s", d->name);
            }
        }
    }
    if (!s.has_node && !s.why[0]) {
        snprintf(s.why, sizeof(s.why), "cluster %s", g->name);
    }
    return s;
}

/* The groups of a home, whoever is there now. */
static struct holders groups_of_home(const struct core *c, const struct home *h)
{
    return holders_beside(c, NULL, h);
}

static void explain(char why[OPERATION_TEXT_MAX + 1], const char *text)
{
    if (!why[0]) {
        snprintf(why, OPERATION_TEXT_MAX + 1, "%s", text);
    }
}

static void target_facts(const struct core *c, const struct operation *o,
                         const struct run *r, struct move_facts *f,
                         char why[OPERATION_TEXT_MAX + 1])
{
    struct holders g = groups_of_home(c, &o->move.to);

    f->target_has_node = true;
    f->target_is_applied = true;
    for (unsigned i = 0; i < g.count; i++) {
        struct stand s = stand_of(c, g.at[i], o->move.vni, r->since_revision);

        f->target_has_node = f->target_has_node && s.has_node;
        f->target_is_applied = f->target_is_applied && s.follows;
        f->target_refused = f->target_refused || s.refuses;
        if (s.refuses || !s.has_node || !s.follows) {
            explain(why, s.why);
        }
    }
}

static bool groups_follow(const struct core *c, const struct holders *g,
                          const struct operation *o, const struct run *r,
                          char why[OPERATION_TEXT_MAX + 1])
{
    bool done = true;

    for (unsigned i = 0; i < g->count; i++) {
        struct stand s = stand_of(c, g->at[i], o->move.vni, r->since_revision);

        if (!s.follows) {
            explain(why, s.why);
            done = false;
        }
    }
    return done;
}

static bool source_follows(const struct core *c, const struct operation *o,
                           const struct run *r, char why[OPERATION_TEXT_MAX + 1])
{
    struct holders g = groups_of_home(c, &o->move.from);

    return groups_follow(c, &g, o, r, why);
}

/* Every group whose routes lead to the tenant. */
static bool is_steered(const struct core *c, const struct operation *o,
                       const struct run *r, char why[OPERATION_TEXT_MAX + 1])
{
    const struct peer_sources *s = peer_index_sources(&c->peers, o->move.vni);
    struct holders target = groups_of_home(c, &o->move.to);
    struct holders last = { 0 };
    bool done = groups_follow(c, &target, o, r, why);

    done = source_follows(c, o, r, why) && done;
    for (uint32_t i = 0; done && s && i < s->count; i++) {
        struct holders h = holders_of_vni(c, s->at[i].vni);

        /* Sources often share their homes. */
        if (h.count != last.count || memcmp(h.at, last.at, sizeof(h.at)) != 0) {
            done = groups_follow(c, &h, o, r, why);
            last = h;
        }
    }
    return done;
}

/* ---- gates: what nodes of the target are asked ---- */

static struct audit_ask *ask_of(struct run *r, const char *node)
{
    for (uint32_t i = 0; i < r->ask_count; i++) {
        if (strcmp(r->asks[i].node, node) == 0) {
            return &r->asks[i];
        }
    }
    r->asks = core_need(realloc(r->asks, (r->ask_count + 1) * sizeof(*r->asks)));
    r->asks[r->ask_count] = (struct audit_ask){ 0 };
    snprintf(r->asks[r->ask_count].node, sizeof(r->asks->node), "%s", node);
    return &r->asks[r->ask_count++];
}

static void send_ask(struct core *c, const struct operation *o, const struct device *d,
                     struct audit_ask *ask)
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

/* One node's part of the gate. */
static enum gate gate_of_node(struct core *c, const struct operation *o, struct run *r,
                              const struct device *d, char why[OPERATION_TEXT_MAX + 1])
{
    struct audit_ask *ask = ask_of(r, d->name);
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
    snprintf(ask->why, sizeof(ask->why), "node %s", d->name);
    explain(why, ask->why);
    return GATE_OPEN_YET;
}

static bool is_of_any(const struct core *c, const struct device *d,
                      const struct holders *groups)
{
    for (unsigned i = 0; i < groups->count; i++) {
        if (device_is_of(c, d, groups->at[i])) {
            return true;
        }
    }
    return false;
}

static enum gate gate_of(struct core *c, const struct operation *o, struct run *r,
                         char why[OPERATION_TEXT_MAX + 1])
{
    struct holders g = groups_of_home(c, &o->move.to);
    enum gate all = GATE_PASSED;
    bool has_node = false;

    for (uint32_t i = 0; i < c->device_count && all != GATE_FAILED; i++) {
        const struct device *d = c->devices[i];
        enum gate one;

        if (!may_forward(d) || !is_of_any(c, d, &g)) {
            continue;
        }
        has_node = true;
        one = gate_of_node(c, o, r, d, why);
        all = one == GATE_PASSED ? all : one == GATE_FAILED ? one : GATE_OPEN_YET;
    }
    return has_node ? all : GATE_OPEN_YET;
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

static void judge(struct core *c, const struct operation *o, struct audit_ask *ask,
                  const struct group *g, const struct agent_audit *a)
{
    const struct tree_node node = { .depth = TREE_DEPTH, .vni = o->move.vni };
    unsigned t = a->rc ? TABLE_COUNT : differs_on(g, o->move.vni, a);

    if (a->rc || (t < TABLE_COUNT && g->revision != ask->revision)) {
        ask->state = ASK_DUE; /* no answer, or of a state that is past */
        ask->at_ms = a->rc ? c->now_ms + ASK_AGAIN_MS : c->now_ms;
        return;
    }
    ask->state = t < TABLE_COUNT ? ASK_FAILED : ASK_PASSED;
    if (ask->state == ASK_FAILED) {
        snprintf(
            ask->why, sizeof(ask->why),
            "node %s: table %s of vni %u: %llu rows read back, %llu desired%s",
            ask->node, table_name(t), o->move.vni,
            (unsigned long long)a->found[t].count,
            (unsigned long long)table_set_digest(g->desired, (enum table_id)t, node)
                .count,
            a->found[t].count ==
                    table_set_digest(g->desired, (enum table_id)t, node).count
                ? ", of other content"
                : "");
    }
}

void moves_audit(struct core *c, const struct session *s, const struct agent_audit *a)
{
    for (struct run *r = c->runs; r; r = r->next) {
        const struct operation *o = objects_operation(&c->objects, r->id);

        for (uint32_t i = 0; o && i < r->ask_count; i++) {
            struct audit_ask *ask = &r->asks[i];

            if (ask->state == ASK_SENT && ask->id == a->audit_id &&
                ask->session == s->id) {
                judge(c, o, ask, s->group, a);
            }
        }
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

/* ---- all together ---- */

void move_facts_of(struct core *c, const struct operation *o, struct run *r,
                   struct move_facts *ret, char why[OPERATION_TEXT_MAX + 1])
{
    *ret = (struct move_facts){
        .tenant_is_gone = !committed_rows(c, o->move.vni, TABLE_TENANT),
        .step_ms = c->now_ms - r->began_ms,
    };
    switch (o->step) {
    case MOVE_INSTALL:
        target_facts(c, o, r, ret, why);
        break;
    case MOVE_AUDIT:
        ret->audit = gate_of(c, o, r, why);
        break;
    case MOVE_STEER:
        ret->is_steered = o->move.ignores_steering || is_steered(c, o, r, why);
        break;
    case MOVE_REMOVE:
        ret->source_is_applied = source_follows(c, o, r, why);
        break;
    default:
        break;
    }
    ret->why = why[0] ? why : NULL;
}
