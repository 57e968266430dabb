/*
 * probes: what nodes make of packets, held against their entries: who is asked, what
 * the core sees of them, and what is kept.  Which packets, and the rules of one node's
 * probes, are controller/probe's.
 *
 *   asked for ─▶ run ─(few are active)─▶ course ─▶ record ─▶ store
 */
#include "controller/core/core_internal.h"

#include "controller/probe/course.h"
#include "proto/base/log.h"

#include <stdio.h>

#define RUNS_MAX    256
#define ACTIVE_MAX  8   /* a run that is has some 100 KB */
#define LOOK_MS     500 /* nodes say nothing when they merely stay away */
#define KEY_PREFIX  "/o/probes/"
#define PROBES_KEPT 200 /* a record has some 5 KB */

struct probes_run {
    struct probes_run *next;
    struct probes_record *record; /* until it is active */
    struct matrix *matrix;        /* the same; referenced */
    struct course *course;        /* null: not active */
};

void probes_init(struct core *c)
{
    c->probes.runs_end = &c->probes.runs;
}

static void run_free(struct probes_run *r)
{
    free(r->record);
    matrix_unref(r->matrix);
    course_free(r->course);
    free(r);
}

void probes_fini(struct core *c)
{
    struct probes *p = &c->probes;

    while (p->runs) {
        struct probes_run *r = p->runs;

        p->runs = r->next;
        run_free(r);
    }
    for (uint32_t i = 0; i < p->kept_count; i++) {
        blob_unref(p->kept[i].packed);
    }
    free(p->kept);
    memset(p, 0, sizeof(*p));
    p->runs_end = &p->runs;
}

static const struct probes_record *record_of(const struct probes_run *r)
{
    return r->course ? course_record_of(r->course) : r->record;
}

/* ---- asking ---- */

static struct probes_run *run_add(struct core *c, const struct node *n, uint32_t vni,
                                  const char *who, struct matrix *m)
{
    struct probes_run *r = core_need(calloc(1, sizeof(*r)));

    r->record = core_need(calloc(1, sizeof(*r->record)));
    r->record->number = ++c->probes.last_number;
    r->record->vni = vni;
    r->record->state = PROBES_WAITING;
    r->record->asked_ms = c->unix_ms;
    memcpy(r->record->node, n->name, sizeof(r->record->node));
    memcpy(r->record->cluster, n->cluster, sizeof(r->record->cluster));
    memcpy(r->record->who, who, strnlen(who, sizeof(r->record->who) - 1));
    r->matrix = matrix_ref(m);
    *c->probes.runs_end = r;
    c->probes.runs_end = &r->next;
    probes_note(c);
    return r;
}

static uint32_t running(const struct core *c)
{
    uint32_t count = 0;

    for (const struct probes_run *r = c->probes.runs; r; r = r->next) {
        count++;
    }
    return count;
}

/* Those of a cluster's nodes that are asked for: one run each, all by one matrix. */
static uint32_t ask(struct core *c, const char *cluster, const char *node, uint32_t vni,
                    const char *who)
{
    const struct group *g = group_find(c, cluster);
    struct matrix *m = NULL;
    uint32_t count = 0;

    if (!g || g->kind == GROUP_LB) {
        return 0;
    }
    for (uint32_t i = 0; i < c->objects.node_count; i++) {
        const struct node *n = &c->objects.nodes[i];

        if (strcmp(n->cluster, cluster) != 0 ||
            (node[0] && strcmp(n->name, node) != 0)) {
            continue;
        }
        if (!m) {
            m = core_need(matrix_new(g->kind == GROUP_H, vni));
        }
        (void)run_add(c, n, vni, who, m);
        count++;
    }
    matrix_unref(m);
    return count;
}

uint32_t probes_ask_cluster(struct core *c, const char *cluster, const char *who,
                            uint64_t *ret_first)
{
    *ret_first = c->probes.last_number + 1;
    return ask(c, cluster, "", 0, who);
}

static enum rc check_ask(const struct core *c, const struct command *cmd,
                         struct err *err)
{
    const struct node *n =
        cmd->probe.node[0] ? objects_node(&c->objects, cmd->probe.node) : NULL;
    const struct group *g;

    if (cmd->probe.node[0] && !n) {
        return err_field(err, RC_NOT_FOUND, "node", "unknown_node",
                         "there is no node %s", cmd->probe.node);
    }
    if (cmd->probe.cluster[0] && !objects_cluster(&c->objects, cmd->probe.cluster)) {
        return err_field(err, RC_NOT_FOUND, "cluster", "unknown_cluster",
                         "there is no cluster %s", cmd->probe.cluster);
    }
    if (cmd->probe.vni && !committed_rows(c, cmd->probe.vni, TABLE_TENANT)) {
        return err_field(err, RC_NOT_FOUND, "vni", "unknown_tenant",
                         "vni %u is no tenant", cmd->probe.vni);
    }
    g = group_find(c, n ? n->cluster : cmd->probe.cluster);
    if (g && g->kind == GROUP_LB) {
        return err_field(err, RC_INVALID, n ? "node" : "cluster", "load_balancer",
                         "load balancers are not probed: they know clusters, and no "
                         "tenant's entries");
    }
    return running(c) >= RUNS_MAX
               ? err_field(
                     err, RC_FULL, "", "probes_open",
                     "the probes of %u nodes are under way: wait for some of them",
                     running(c))
               : RC_OK;
}

void probes_begin(struct core *c, const struct command *cmd)
{
    struct core_reply reply = { .token = cmd->token,
                                .bad_index = UINT32_MAX,
                                .revision = c->revision };

    if (c->phase != PHASE_SERVING) {
        err_set(&reply.err, RC_UNREACHABLE, "not serving");
    } else if (check_ask(c, cmd, &reply.err) == RC_OK && !cmd->dry_run) {
        reply.probes_first = c->probes.last_number + 1;
        for (uint32_t i = 0; i < c->group_count; i++) {
            const char *cluster = c->groups[i]->name;
            struct holders h = holders_of_vni(c, cmd->probe.vni);

            if ((!cmd->probe.cluster[0] || strcmp(cmd->probe.cluster, cluster) == 0) &&
                (!cmd->probe.vni || holders_have(&h, c->groups[i]))) {
                reply.probes_count +=
                    ask(c, cluster, cmd->probe.node, cmd->probe.vni, cmd->who);
            }
        }
    }
    effect_reply(c, &reply);
}

/* ---- what nodes answer ---- */

struct course_facts probes_facts_of(const struct core *c, const char *node)
{
    struct device *d = device_find(c, node);
    struct session *s = d ? d->session : NULL;
    struct course_facts f = { 0 };

    if (s && s->sync && s->group && s->config) {
        f.session = s->id;
        f.is_level = device_has_applied(d, s->group->revision);
        f.revision = s->group->revision;
        f.is_touched = s->group->is_touched;
        f.desired = s->group->desired;
        f.config = s->config;
    }
    return f;
}

bool probes_take_answer(struct core *c, const struct session *s,
                        const struct agent_probe *p)
{
    for (struct probes_run *r = c->probes.runs; r; r = r->next) {
        if (r->course && strcmp(record_of(r)->node, s->device->name) == 0) {
            struct course_facts f = probes_facts_of(c, s->device->name);

            if (course_answer(r->course, &f, c->now_ms, p)) {
                probes_note(c);
                return true;
            }
        }
    }
    return false;
}

void probes_forget_asks(struct core *c, const char *node)
{
    for (struct probes_run *r = c->probes.runs; r; r = r->next) {
        if (r->course && strcmp(record_of(r)->node, node) == 0) {
            course_lost(r->course);
        }
    }
    probes_note(c);
}

/* ---- what is kept ---- */

static void keep(struct core *c, uint64_t number, struct blob *packed)
{
    struct probes *p = &c->probes;
    uint32_t at = p->kept_count;

    while (at > 0 && p->kept[at - 1].number >= number) {
        at--;
    }
    if (at < p->kept_count && p->kept[at].number == number) {
        blob_unref(p->kept[at].packed);
        p->kept[at].packed = packed;
        return;
    }
    p->kept = core_need(realloc(p->kept, (p->kept_count + 1) * sizeof(*p->kept)));
    memmove(&p->kept[at + 1], &p->kept[at], (p->kept_count - at) * sizeof(*p->kept));
    p->kept[at] = (struct kept_audit){ number, packed };
    p->kept_count++;
}

static void forget(struct core *c, uint64_t number)
{
    struct probes *p = &c->probes;

    for (uint32_t i = 0; i < p->kept_count; i++) {
        if (p->kept[i].number == number) {
            blob_unref(p->kept[i].packed);
            p->kept_count--;
            memmove(&p->kept[i], &p->kept[i + 1],
                    (p->kept_count - i) * sizeof(*p->kept));
            return;
        }
    }
}

static struct store_key key_of(uint64_t number)
{
    char name[24];

    snprintf(name, sizeof(name), "%020llu", (unsigned long long)number);
    return record_key_object("probes", name);
}

/* A transaction of its own: nothing else depends on it. */
static void store(struct core *c, uint64_t number, struct blob *packed)
{
    struct store_txn *txn = txn_new(c, tag_new(c, TAG_PROBES));
    enum rc rc = txn ? txn_put(txn, key_of(number), blob_ref(packed)) : RC_NO_MEMORY;

    while (rc == RC_OK && c->probes.kept_count > PROBES_KEPT) {
        rc = store_txn_delete(txn, key_of(c->probes.kept[0].number));
        forget(c, c->probes.kept[0].number);
    }
    if (rc == RC_OK) {
        txn_submit(c, txn);
    } else {
        store_txn_free(txn);
    }
}

bool probes_load(struct core *c, const struct store_kv *kv, enum rc *ret,
                 struct err *err)
{
    size_t prefix = sizeof(KEY_PREFIX) - 1;
    char text[STORE_KEY_MAX + 1] = "";
    struct probes_record *record;
    uint64_t number;

    memcpy(text, kv->key.bytes, kv->key.len);
    if (strncmp(text, KEY_PREFIX, prefix) != 0) {
        return false;
    }
    number = strtoull(text + prefix, NULL, 10);
    *ret = RC_OK;
    if (!kv->value) {
        forget(c, number);
        return true;
    }
    record = core_need(malloc(sizeof(*record)));
    *ret = probes_record_unpack(kv->value->data, kv->value->len, record, err);
    free(record);
    if (*ret == RC_OK) {
        keep(c, number, blob_ref(kv->value));
        c->probes.last_number =
            number > c->probes.last_number ? number : c->probes.last_number;
    } else {
        err_wrap(err, *ret, "stored object %s", text);
    }
    return true;
}

/* ---- the end of one ---- */

static void ended(struct core *c, struct probes_run *run)
{
    struct probes_record *r = core_need(malloc(sizeof(*r)));
    struct buf packed = BUF_INIT;
    struct blob *blob;

    *r = *record_of(run);
    r->ended_ms = c->unix_ms;
    effect_log(c, r->result == PROBES_PASSED ? LOG_INFO : LOG_WARN, "probes",
               "node=%s number=%llu vni=%u who=\"%s\" result=%s probes=%u agreed=%u "
               "differed=%u unsaid=%u cause=\"%s\"",
               r->node, (unsigned long long)r->number, r->vni, r->who,
               probes_result_name(r->result), r->probes, r->agreed, r->differed,
               r->unsaid, r->why);
    probes_record_pack(r, &packed);
    core_must(!buf_failed(&packed));
    blob = core_need(blob_copy(packed.data, packed.len));
    buf_fini(&packed);
    keep(c, r->number, blob);
    store(c, r->number, blob);
    free(r);
}

static void activate(struct probes_run *r)
{
    r->course = core_need(course_new(r->record, r->matrix));
    free(r->record);
    r->record = NULL;
    matrix_unref(r->matrix);
    r->matrix = NULL;
}

void probes_stop_asked(struct core *c, uint64_t first, uint32_t count)
{
    for (struct probes_run *r = c->probes.runs; r; r = r->next) {
        uint64_t number = record_of(r)->number;

        if (number >= first && number - first < count) {
            if (!r->course) {
                activate(r);
            }
            course_stop(r->course, "it was stopped");
        }
    }
    probes_note(c);
}

void probes_node_gone(struct core *c, const char *node)
{
    for (struct probes_run *r = c->probes.runs; r; r = r->next) {
        if (strcmp(record_of(r)->node, node) == 0) {
            if (!r->course) {
                activate(r);
            }
            course_stop(r->course, "the node was deleted");
        }
    }
    probes_note(c);
}

/* ---- going on ---- */

void probes_note(struct core *c)
{
    c->probes.is_idle = false;
}

bool probes_have_work(const struct core *c)
{
    return c->phase == PHASE_SERVING && !c->probes.is_idle && c->probes.runs;
}

/* False: it is over. */
static bool go_on(struct core *c, struct probes_run *run)
{
    struct course_facts f = probes_facts_of(c, record_of(run)->node);
    struct core_effect *e;
    struct ctl_msg msg;

    switch (course_next(run->course, &f, c->now_ms, &c->last_ask, &c->units, &msg)) {
    case COURSE_SENDS:
        e = effect_add(c, CORE_SEND);
        e->send.session = f.session;
        e->send.msg = msg;
        probes_note(c);
        return true;
    case COURSE_WORKS:
        probes_note(c);
        return true;
    case COURSE_ENDS:
        ended(c, run);
        return false;
    default:
        return true;
    }
}

bool probes_work(struct core *c)
{
    struct probes_run **at = &c->probes.runs;
    unsigned active = 0;

    if (!probes_have_work(c)) {
        return false;
    }
    c->probes.is_idle = true;
    c->probes.look_ms = c->now_ms + LOOK_MS;
    while (*at) {
        struct probes_run *r = *at;

        if (!r->course && active < ACTIVE_MAX) {
            activate(r);
        }
        active += r->course != NULL;
        if (c->units == 0) {
            probes_note(c); /* the others in the next step */
            at = &r->next;
        } else if (!r->course || go_on(c, r)) {
            at = &r->next;
        } else {
            *at = r->next;
            run_free(r);
            active--;
            probes_note(c);
        }
    }
    c->probes.runs_end = at;
    return true;
}

uint64_t probes_next_wake(const struct core *c)
{
    return c->phase == PHASE_SERVING && c->probes.runs ? c->probes.look_ms : UINT64_MAX;
}

void probes_look(struct core *c)
{
    if (c->phase == PHASE_SERVING && c->probes.runs && c->probes.look_ms <= c->now_ms) {
        probes_note(c);
    }
}

/* ---- reads ---- */

uint64_t core_probes_next(const struct core *c, uint64_t from)
{
    uint64_t best = 0;

    for (uint32_t i = 0; i < c->probes.kept_count && !best; i++) {
        best = c->probes.kept[i].number >= from ? c->probes.kept[i].number : 0;
    }
    for (const struct probes_run *r = c->probes.runs; r; r = r->next) {
        uint64_t number = record_of(r)->number;

        best = number >= from && (!best || number < best) ? number : best;
    }
    return best;
}

enum rc core_probes(const struct core *c, uint64_t number, struct probes_record *ret)
{
    for (const struct probes_run *r = c->probes.runs; r; r = r->next) {
        if (record_of(r)->number == number) {
            *ret = *record_of(r);
            return RC_OK;
        }
    }
    for (uint32_t i = 0; i < c->probes.kept_count; i++) {
        const struct kept_audit *k = &c->probes.kept[i];

        if (k->number == number) {
            return probes_record_unpack(k->packed->data, k->packed->len, ret, NULL);
        }
    }
    return RC_NOT_FOUND;
}

bool probes_status(const struct core *c, uint64_t number, struct probes_status *ret)
{
    struct probes_record *r = core_need(malloc(sizeof(*r)));
    bool is_there = core_probes(c, number, r) == RC_OK;

    if (is_there) {
        *ret = (struct probes_status){ .result = (enum probes_result)r->result,
                                       .probes = r->probes,
                                       .agreed = r->agreed,
                                       .differed = r->differed,
                                       .unsaid = r->unsaid };
        memcpy(ret->why, r->why, sizeof(ret->why));
    }
    free(r);
    return is_there;
}
