/*
 * brood: the moves of a build or a drain: which of them are there, and what is to
 * begin, to be let in or to be taken back.
 *
 * What is known here is what a look at the tenants saw: nothing of it is stored, and a
 * controller that starts looks anew.  A look is done in slices, and no more often than
 * needs be; what it submits (commands of our own) is answered before the next one
 * begins, so no look mistakes what is in flight for what is missing.
 */
#include "controller/core/core_internal.h"

#include "controller/core/probes.h"

#include <stdio.h>

#define LOOK_MS 100 /* between two looks */
#define RETRY_MS                                                                       \
    5000 /* after a move back that failed, or a store that did not answer */

struct counts {
    struct build_tally build;
    struct drain_facts drain;
    char why[OPERATION_TEXT_MAX + 1];
};

struct brood {
    uint64_t look_ms;                    /* not before */
    bool knows_moves;                    /* `came`, or how many move, is of this look */
    bool is_looking;                     /* a look is under way … */
    uint32_t at;                         /* … and goes on here */
    uint32_t begun;                      /* moves that it began or let in */
    struct counts now;                   /* what it saw so far */
    struct counts last;                  /* what the last whole one saw */
    uint32_t flying;                     /* moves and cancels whose answer is due */
    bool is_putting;                     /* the cluster's state … */
    uint64_t put_ms;                     /* … and not before */
    char broken[OPERATION_TEXT_MAX + 1]; /* why a move cannot be; "": none */
    struct map came;  /* BUILD_BACK: VNI → a: number of the move that brought it */
    struct map stuck; /* DRAIN: VNI → a: 1; those that could not be moved */
    uint64_t in_since_ms; /* all tenants of the stage; 0: they are not in */
    uint64_t check_first; /* audits or probes that were asked for … */
    uint32_t check_count; /* … so many; 0: none yet */
    uint64_t check_ms;    /* not before */
};

static struct brood *brood_of(struct run *r)
{
    if (!r->brood) {
        r->brood = core_need(calloc(1, sizeof(*r->brood)));
    }
    return r->brood;
}

void brood_free(struct brood *b)
{
    if (b) {
        map_fini(&b->came);
        map_fini(&b->stuck);
        free(b);
    }
}

void brood_next_step(struct brood *b)
{
    if (b) {
        b->look_ms = 0;
        b->is_looking = false;
        b->last = (struct counts){ 0 };
        b->broken[0] = '\0';
        b->in_since_ms = 0;
        b->check_count = 0;
        b->check_ms = 0;
    }
}

static void set(struct map *m, uint64_t key, uint64_t a)
{
    struct map_slot *slot = core_need(map_add(m, key));

    slot->a = a;
}

static void explain(char why[OPERATION_TEXT_MAX + 1], const char *text)
{
    if (!why[0]) {
        snprintf(why, OPERATION_TEXT_MAX + 1, "%s", text);
    }
}

static void explain_vni(char why[OPERATION_TEXT_MAX + 1], uint32_t vni,
                        const char *text)
{
    if (!why[0]) {
        snprintf(why, OPERATION_TEXT_MAX + 1, "vni %u: %s", vni, text);
    }
}

/* ---- commands of our own ---- */

static struct command own_command(const struct operation *o, enum command_kind kind)
{
    struct command cmd = { .kind = kind, .parent = operation_number(o) };

    memcpy(cmd.who, o->who, sizeof(cmd.who));
    return cmd;
}

static void submit(struct core *c, struct brood *b, const struct command *cmd)
{
    b->flying++;
    queue_add(c, cmd);
}

static struct run *run_of_parent(const struct core *c, uint64_t parent)
{
    char id[OPERATION_ID_MAX + 1];

    operation_name(parent, id);
    return run_find(c, id);
}

/* Refused for what may be otherwise in a moment. */
static bool is_passing(const struct err *err)
{
    return err->code == RC_STALE || err->code == RC_NO_MEMORY ||
           err->code == RC_UNREACHABLE || err->code == RC_TIMEOUT ||
           strcmp(err->rule, "operations_open") == 0 ||
           strcmp(err->rule, "tenant_is_moving") == 0;
}

static void cannot_move(struct core *c, const struct operation *o, struct brood *b,
                        uint32_t vni, const char *why)
{
    if (o->kind == OPERATION_DRAIN) {
        set(&b->stuck, vni, 1);
        explain_vni(b->broken, vni, why);
    } else if (o->step == BUILD_BACK) {
        b->look_ms = c->now_ms + RETRY_MS;
        b->broken[0] = '\0';
        explain_vni(b->broken, vni, why);
    } else {
        explain_vni(b->broken, vni, why);
    }
}

void brood_answered(struct core *c, const struct command *cmd, const struct err *err)
{
    struct run *r = run_of_parent(c, cmd->parent);
    const struct operation *o = r ? objects_operation(&c->objects, r->id) : NULL;

    if (!o || !r->brood) {
        return;
    }
    if (cmd->kind == COMMAND_PUT_CLUSTER) {
        r->brood->is_putting = false;
        r->brood->put_ms = err->code ? c->now_ms + RETRY_MS : 0;
        return;
    }
    r->brood->flying--;
    if (err->code && is_passing(err)) {
        r->brood->look_ms = c->now_ms + RETRY_MS;
    } else if (err->code && cmd->kind == COMMAND_MOVE) {
        cannot_move(c, o, r->brood, cmd->move.vni, err->msg);
    }
}

static bool leads_to(const struct operation *move, const char *cluster)
{
    return strcmp(move->move.to.x86, cluster) == 0 ||
           strcmp(move->move.to.h, cluster) == 0;
}

void brood_move_undone(struct core *c, const struct operation *o)
{
    struct run *r = run_of_parent(c, o->parent);
    const struct operation *parent = r ? objects_operation(&c->objects, r->id) : NULL;

    /* On the way back those that were not in are taken back by us. */
    if (parent && parent->kind == OPERATION_BUILD && parent->step == BUILD_BACK &&
        leads_to(o, parent->build.cluster)) {
        return;
    }
    if (parent && r->brood && committed_rows(c, o->move.vni, TABLE_TENANT)) {
        cannot_move(c, parent, r->brood, o->move.vni, o->text);
    }
}

/* ---- looking ---- */

static bool is_home(const struct core *c, uint32_t vni, const struct group *g)
{
    struct homes homes = homes_of_vni(c, vni);

    return g && homes.of[g->kind] == g;
}

/* One more may be under way. */
static bool has_turn(const struct brood *b)
{
    uint32_t moving = b->last.build.moving + b->last.drain.moving;

    return moving + b->begun < OPERATIONS_ACTIVE_MAX;
}

static void begin_move(struct core *c, const struct operation *o, struct brood *b,
                       uint32_t vni, const char *to, uint32_t drain_ms, bool is_held)
{
    struct command cmd = own_command(o, COMMAND_MOVE);

    cmd.move.vni = vni;
    cmd.move.drain_ms = drain_ms;
    cmd.move.is_held = is_held;
    snprintf(cmd.move.cluster, sizeof(cmd.move.cluster), "%s", to);
    b->begun++;
    submit(c, b, &cmd);
}

/* A look begins, if its time has come. */
static bool may_look(struct core *c, struct brood *b)
{
    if (!b->is_looking && (b->flying > 0 || b->look_ms > c->now_ms)) {
        operations_look_at(c, b->flying > 0 ? UINT64_MAX : b->look_ms);
        return false;
    }
    if (!b->is_looking) {
        b->is_looking = true;
        b->knows_moves = false;
        b->at = 0;
        b->begun = 0;
        b->now = (struct counts){ 0 };
    }
    return true;
}

static void ends_look(struct core *c, struct brood *b)
{
    b->is_looking = false;
    b->last = b->now;
    if (b->look_ms <= c->now_ms) {
        b->look_ms = c->now_ms + LOOK_MS;
    }
    operations_look_at(c, b->look_ms);
}

/* ---- a build ---- */

/* A move of ours on its way. */
static void look_at_move(struct core *c, const struct operation *o, struct brood *b,
                         const struct operation *m, uint32_t index)
{
    struct build_tally *t = &b->now.build;
    bool is_held = m->step == MOVE_HELD && !m->is_cancelled;
    bool is_due = o->step == BUILD_ADMIT && index < o->build.cut[o->build.stage];

    if (o->step == BUILD_BACK) {
        t->moving++;
        if (operation_is_revocable(m) && !m->is_cancelled &&
            leads_to(m, o->build.cluster)) {
            struct command cmd = own_command(o, COMMAND_CANCEL);

            memcpy(cmd.name, m->id, sizeof(m->id));
            submit(c, b, &cmd);
        }
    } else if (!is_held) {
        t->moving++;
    } else if (is_due && has_turn(b) &&
               operation_submit_step(c, m, VERDICT_GOES_ON, "")) {
        b->begun++;
        t->moving++;
    } else {
        t->held++;
    }
}

/* It is at home on the cluster. */
static void look_at_home(struct core *c, const struct operation *o, struct brood *b,
                         uint32_t vni)
{
    const struct map_slot *came = map_find(&b->came, vni);
    const struct operation *m;
    char id[OPERATION_ID_MAX + 1];

    if (o->step != BUILD_BACK) {
        b->now.build.there++;
        return;
    }
    if (!came) {
        return; /* it was there before */
    }
    b->now.build.there++;
    operation_name(came->a, id);
    m = objects_operation(&c->objects, id);
    if (m && has_turn(b)) {
        begin_move(c, o, b, vni, m->move.from.h[0] ? m->move.from.h : m->move.from.x86,
                   o->build.drain_ms, false);
    }
}

static void look_at_named(struct core *c, const struct operation *o, struct brood *b,
                          uint32_t index)
{
    const struct group *g = group_find(c, o->build.cluster);
    uint32_t vni = build_vni(&o->build, index);
    const struct operation *m = objects_move(&c->objects, vni);
    struct build_tally *t = &b->now.build;
    bool is_due = index < o->build.cut[o->build.stage];
    bool is_ours = m && m->parent == operation_number(o);

    if (!committed_rows(c, vni, TABLE_TENANT)) {
        t->moving += is_ours; /* it was deleted; its move goes back by itself */
        return;
    }
    t->named++;
    t->due += is_due;
    if (is_ours) {
        look_at_move(c, o, b, m, index);
    } else if (m) {
        explain_vni(b->now.why, vni, "another operation moves it");
    } else if (is_home(c, vni, g)) {
        look_at_home(c, o, b, vni);
        t->in += is_due;
    } else if (o->step != BUILD_BACK && !b->broken[0] && has_turn(b)) {
        begin_move(c, o, b, vni, o->build.cluster, o->build.drain_ms, true);
    }
}

/* Who came to the cluster by this build. */
static void find_came(struct core *c, const struct operation *o, struct brood *b)
{
    uint64_t number = operation_number(o);

    map_fini(&b->came);
    for (uint32_t i = 0; i < c->objects.operation_count; i++) {
        const struct operation *m = &c->objects.operations[i];

        if (m->parent == number && m->state == OPERATION_DONE &&
            leads_to(m, o->build.cluster)) {
            set(&b->came, m->move.vni, operation_number(m));
        }
    }
    units_spend(&c->units, c->objects.operation_count / 16);
}

void brood_build(struct core *c, const struct operation *o, struct run *r,
                 struct build_tally *ret, char why[OPERATION_TEXT_MAX + 1])
{
    struct brood *b = brood_of(r);

    if (may_look(c, b)) {
        if (!b->knows_moves && o->step == BUILD_BACK) {
            find_came(c, o, b);
            b->knows_moves = true;
        }
        for (; b->at < o->build.vni_count && c->units > 0; b->at++) {
            look_at_named(c, o, b, b->at);
            units_spend(&c->units, 8);
        }
        if (b->at < o->build.vni_count) {
            operations_note(c); /* to be continued */
        } else {
            b->now.build.is_whole = true;
            ends_look(c, b);
        }
    }
    *ret = b->last.build;
    ret->is_broken = b->broken[0] && o->step != BUILD_BACK;
    explain(why, b->broken[0] ? b->broken : b->last.why);
}

uint64_t brood_stage_ms(struct core *c, struct run *r, const struct build_tally *t,
                        bool is_well)
{
    struct brood *b = brood_of(r);

    if (!t->is_whole || t->in < t->due || !is_well) {
        b->in_since_ms = 0;
        return 0;
    }
    if (b->in_since_ms == 0) {
        b->in_since_ms = c->now_ms;
    }
    return c->now_ms - b->in_since_ms;
}

/* ---- a drain ---- */

/* The cluster to move it to, by placement; false: none has room. */
static bool choose(const struct core *c, const struct group *g, uint32_t vni,
                   char ret[CLUSTER_NAME_MAX + 1])
{
    struct placement_ask ask = { .pool = g->kind, .except = g->place };
    struct placement_answer to;

    demand_of_tenant(c, g->kind, vni, true, &ask.need);
    if (g->kind == GROUP_H) {
        demand_of_tenant(c, GROUP_X86, vni, false, &ask.backing_need);
    }
    to = placement_choose(c->placement, &ask);
    if (to.cluster == PLACEMENT_NONE) {
        return false;
    }
    snprintf(ret, CLUSTER_NAME_MAX + 1, "%s",
             placement_cluster_at(c->placement, to.cluster)->name);
    return true;
}

static void look_at_tenant(struct core *c, const struct operation *o, struct brood *b,
                           const struct group *g, uint32_t vni)
{
    const struct operation *m = objects_move(&c->objects, vni);
    struct drain_facts *f = &b->now.drain;
    char to[CLUSTER_NAME_MAX + 1];

    if ((m && m->parent == operation_number(o)) || !is_home(c, vni, g)) {
        return; /* count_moving() has it; or it comes or goes by another's move */
    } else if (m) {
        explain_vni(b->now.why, vni, "another operation moves it");
    } else if (map_find(&b->stuck, vni)) {
        f->stuck++;
    } else if (!o->is_cancelled && has_turn(b)) {
        memcpy(to, o->drain.to, sizeof(to));
        if (to[0] || choose(c, g, vni, to)) {
            begin_move(c, o, b, vni, to, o->drain.drain_ms, false);
        } else {
            cannot_move(c, o, b, vni, "no cluster has room for it");
            f->stuck++;
        }
    }
}

/* Moves of the drain, those included that only wait for the cluster to forget. */
static uint32_t count_moving(struct core *c, const struct operation *o)
{
    uint64_t number = operation_number(o);
    uint32_t count = 0;

    for (uint32_t i = 0; i < c->objects.operation_count; i++) {
        const struct operation *m = &c->objects.operations[i];

        count += m->parent == number && m->state == OPERATION_RUNNING;
    }
    units_spend(&c->units, c->objects.operation_count / 16);
    return count;
}

void brood_drain(struct core *c, const struct operation *o, struct run *r,
                 struct drain_facts *ret, char why[OPERATION_TEXT_MAX + 1])
{
    const struct group *g = group_find(c, o->drain.cluster);
    struct map_slot *homes = map_find(&c->tip_homes, text_hash(o->drain.cluster));
    struct brood *b = brood_of(r);
    bool is_more;

    if (g && may_look(c, b)) {
        if (!b->knows_moves) {
            b->now.drain.moving = count_moving(c, o);
            b->knows_moves = true;
        }
        is_more = true;
        while (c->units > 0 && is_more) {
            struct map_slot *slot = map_each(&g->loads, &b->at);

            is_more = slot != NULL;
            if (slot) {
                look_at_tenant(c, o, b, g, (uint32_t)slot->key);
                units_spend(&c->units, 8);
            }
        }
        if (is_more) {
            operations_note(c); /* to be continued */
        } else {
            b->now.drain.is_whole = b->begun == 0; /* else there are more than it saw */
            ends_look(c, b);
        }
    }
    /* Those that a look missed because the map changed under it are counted, too. */
    b->last.drain.left = homes ? (uint32_t)homes->a : 0;
    *ret = b->last.drain;
    explain(why, b->broken[0] ? b->broken : b->last.why);
}

bool brood_status(const struct brood *b, unsigned kind, struct core_work_status *ret)
{
    const struct build_tally *t = &b->last.build;
    const struct drain_facts *f = &b->last.drain;

    if (kind == OPERATION_BUILD) {
        *ret = (struct core_work_status){
            .named = t->named, .there = t->there, .held = t->held, .moving = t->moving
        };
        return t->is_whole;
    }
    *ret = (struct core_work_status){ .there = f->left,
                                      .moving = f->moving,
                                      .stuck = f->stuck };
    return f->is_whole;
}

/* ---- the cluster's state ---- */

bool brood_put_state(struct core *c, const struct operation *o, struct run *r,
                     uint8_t state)
{
    const char *name = operation_cluster(o);
    const struct cluster *seen = objects_cluster(&c->objects, name);
    const struct cluster *tip = objects_cluster(&c->tip_objects, name);
    uint64_t revision = objects_revision(&c->tip_objects, "cluster", name);
    struct brood *b = brood_of(r);
    struct command cmd = own_command(o, COMMAND_PUT_CLUSTER);

    if (seen && seen->state == state) {
        return true;
    }
    if (tip && tip->state != state && revision != REVISION_IN_FLIGHT &&
        !b->is_putting && b->put_ms <= c->now_ms) {
        cmd.cluster = *tip;
        cmd.cluster.state = state;
        cmd.if_revision = revision;
        b->is_putting = true;
        queue_add(c, &cmd);
    }
    return false;
}

/* ---- checks of all nodes ---- */

/* It says nothing yet: all are asked again. */
static enum gate ask_again(const struct core *c, struct brood *b)
{
    b->check_count = 0;
    b->check_ms = c->now_ms + RETRY_MS;
    return GATE_OPEN_YET;
}

static enum gate gate_of_audit(const struct core *c, uint64_t number,
                               char why[OPERATION_TEXT_MAX + 1])
{
    struct audit_record r;
    enum gate gate = GATE_OPEN_YET;

    if (core_audit(c, number, &r)) {
        return GATE_OPEN_YET;
    }
    if (r.result == AUDIT_CLEAN) {
        gate = GATE_PASSED;
    } else if (r.result == AUDIT_DIFFERS) {
        const struct audit_difference *d = &r.found->at[0];

        gate = GATE_FAILED;
        snprintf(why, OPERATION_TEXT_MAX + 1,
                 "node %s, audit %llu: %llu rows missing, %llu extra, %llu different; "
                 "the first: %s, table %s, vni %u",
                 r.node, (unsigned long long)number,
                 (unsigned long long)r.found->count[AUDIT_MISSING],
                 (unsigned long long)r.found->count[AUDIT_EXTRA],
                 (unsigned long long)r.found->count[AUDIT_DIFFERENT],
                 audit_kind_name(d->kind), table_name((enum table_id)d->table), d->vni);
    } else if (!why[0]) {
        snprintf(why, OPERATION_TEXT_MAX + 1, "node %s%s%s", r.node,
                 r.text[0] ? ": " : "", r.text);
    }
    audit_record_fini(&r);
    return gate;
}

/* One that failed says nothing about the node. */
static bool has_failed(const struct core *c, uint64_t number)
{
    struct audit_record r;
    bool failed;

    if (core_audit(c, number, &r)) {
        return true;
    }
    failed = r.result == AUDIT_FAILED;
    audit_record_fini(&r);
    return failed;
}

enum gate brood_audit(struct core *c, const struct operation *o, struct run *r,
                      char why[OPERATION_TEXT_MAX + 1])
{
    struct brood *b = brood_of(r);
    enum gate all = GATE_PASSED;

    if (b->check_count == 0 && b->check_ms > c->now_ms) {
        explain(why, "an audit said nothing: all are asked again");
        return GATE_OPEN_YET;
    }
    if (b->check_count == 0) {
        b->check_count =
            audits_ask_cluster(c, operation_cluster(o), o->who, false, &b->check_first);
    }
    for (uint32_t i = 0; i < b->check_count && all != GATE_FAILED; i++) {
        uint64_t number = b->check_first + i;
        enum gate gate = gate_of_audit(c, number, why);

        if (gate == GATE_OPEN_YET && has_failed(c, number)) {
            return ask_again(c, b);
        }
        all = gate == GATE_PASSED ? all : gate;
    }
    return all;
}

static enum gate gate_of_probes(const struct core *c, uint64_t number,
                                struct probes_status *s)
{
    if (!probes_status(c, number, s)) {
        return GATE_OPEN_YET;
    }
    return s->result == PROBES_PASSED   ? GATE_PASSED
           : s->result == PROBES_FAILED ? GATE_FAILED
                                        : GATE_OPEN_YET;
}

enum gate brood_probe(struct core *c, const struct operation *o, struct run *r,
                      char why[OPERATION_TEXT_MAX + 1])
{
    struct brood *b = brood_of(r);
    enum gate all = GATE_PASSED;

    if (b->check_count == 0 && b->check_ms > c->now_ms) {
        explain(why, "probes said nothing: all are sent again");
        return GATE_OPEN_YET;
    }
    if (b->check_count == 0) {
        b->check_count =
            probes_ask_cluster(c, operation_cluster(o), o->who, &b->check_first);
    }
    for (uint32_t i = 0; i < b->check_count && all != GATE_FAILED; i++) {
        struct probes_status s = { 0 };
        enum gate gate = gate_of_probes(c, b->check_first + i, &s);

        if (gate == GATE_OPEN_YET && s.result != PROBES_OPEN) {
            return ask_again(c, b); /* it cannot say */
        }
        if (gate == GATE_FAILED) {
            why[0] = '\0'; /* before what others wait for */
        }
        explain(why, gate == GATE_PASSED ? "" : s.why);
        all = gate == GATE_PASSED ? all : gate;
    }
    return all;
}
