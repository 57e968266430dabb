/*
 * audits: what nodes really hold, held against what they should: whose turn it is, what
 * the core sees of them, and what is kept.  The rules of one audit are
 * controller/audit's.
 *
 *   asked for ─▶ run ─(its side is free)─▶ active ─▶ record ─▶ alarm, store, plan
 */
#include "controller/core/core_internal.h"

#include "proto/base/log.h"

#include <stdio.h>

#define LOOK_AGAIN_MS 500 /* nodes say nothing when they merely stay away */
#define RUNS_MAX      4096
#define KEY_PREFIX    "/o/audit/"

struct audit_run {
    struct audit_run *next;
    struct audit *audit;
    bool is_active;
};

void audits_init(struct core *c)
{
    c->audits.runs_end = &c->audits.runs;
    c->audits.plan.interval_ms = c->config.audit_interval_ms;
}

static void run_free(struct audit_run *r)
{
    audit_free(r->audit);
    free(r);
}

void audits_fini(struct core *c)
{
    struct audits *a = &c->audits;

    while (a->runs) {
        struct audit_run *r = a->runs;

        a->runs = r->next;
        run_free(r);
    }
    for (uint32_t i = 0; i < a->kept_count; i++) {
        blob_unref(a->kept[i].packed);
    }
    free(a->kept);
    audit_plan_fini(&a->plan);
    memset(a, 0, sizeof(*a));
    a->runs_end = &a->runs;
}

/* ---- nodes ---- */

void audits_objects(struct core *c)
{
    for (uint32_t i = 0; i < c->objects.node_count; i++) {
        const struct node *n = &c->objects.nodes[i];

        core_must(
            audit_plan_put(&c->audits.plan, c->now_ms, n->name, n->cluster, n->side));
    }
    audits_note(c);
}

void audits_node_gone(struct core *c, const char *node)
{
    for (struct audit_run *r = c->audits.runs; r; r = r->next) {
        if (strcmp(audit_record_of(r->audit)->node, node) == 0) {
            audit_fail(r->audit, "the node was deleted");
        }
    }
    audit_plan_drop(&c->audits.plan, node);
    audits_note(c);
}

/* ---- asking ---- */

static struct audit_run *run_add(struct core *c, const struct audit_node *n,
                                 uint32_t vni, const char *who, bool repairs)
{
    struct audit_record record = { .number = ++c->audits.last_number,
                                   .side = n->side,
                                   .vni = vni,
                                   .repairs = repairs,
                                   .asked_ms = c->unix_ms };
    struct audit_run *r = core_need(calloc(1, sizeof(*r)));

    memcpy(record.node, n->name, sizeof(record.node));
    memcpy(record.cluster, n->cluster, sizeof(record.cluster));
    memcpy(record.who, who, strnlen(who, sizeof(record.who) - 1));
    r->audit = core_need(audit_new(&record));
    *c->audits.runs_end = r;
    c->audits.runs_end = &r->next;
    audits_note(c);
    return r;
}

static bool is_asked_for(const struct core *c, const struct command *cmd,
                         const struct audit_node *n)
{
    if (cmd->audit.node[0] && strcmp(cmd->audit.node, n->name) != 0) {
        return false;
    }
    if (cmd->audit.cluster[0] && strcmp(cmd->audit.cluster, n->cluster) != 0) {
        return false;
    }
    if (cmd->audit.vni != 0) {
        struct holders h = holders_of_vni(c, cmd->audit.vni);

        for (unsigned i = 0; i < h.count; i++) {
            if (strcmp(n->cluster, h.at[i]->name) == 0) {
                return true;
            }
        }
        return false;
    }
    return true;
}

static enum rc check_ask(const struct core *c, const struct command *cmd,
                         struct err *err)
{
    uint32_t running = 0;

    for (const struct audit_run *r = c->audits.runs; r; r = r->next) {
        running++;
    }
    if (cmd->audit.node[0] && !objects_node(&c->objects, cmd->audit.node)) {
        return err_field(err, RC_NOT_FOUND, "node", "unknown_node",
                         "there is no node %s", cmd->audit.node);
    }
    if (cmd->audit.cluster[0] && !objects_cluster(&c->objects, cmd->audit.cluster)) {
        return err_field(err, RC_NOT_FOUND, "cluster", "unknown_cluster",
                         "there is no cluster %s", cmd->audit.cluster);
    }
    if (cmd->audit.vni && !committed_rows(c, cmd->audit.vni, TABLE_TENANT)) {
        return err_field(err, RC_NOT_FOUND, "vni", "unknown_tenant",
                         "vni %u is no tenant", cmd->audit.vni);
    }
    return running >= RUNS_MAX
               ? err_field(err, RC_FULL, "", "audits_open",
                           "%u audits are under way: wait for some of them", running)
               : RC_OK;
}

void audits_ask(struct core *c, const struct command *cmd)
{
    struct core_reply reply = { .token = cmd->token,
                                .bad_index = UINT32_MAX,
                                .revision = c->revision };

    if (c->phase != PHASE_SERVING) {
        err_set(&reply.err, RC_UNREACHABLE, "not serving");
    } else if (check_ask(c, cmd, &reply.err) == RC_OK && !cmd->dry_run) {
        reply.audit_first = c->audits.last_number + 1;
        for (uint32_t i = 0; i < c->audits.plan.count; i++) {
            if (is_asked_for(c, cmd, &c->audits.plan.at[i])) {
                run_add(c, &c->audits.plan.at[i], cmd->audit.vni, cmd->who,
                        cmd->audit.repairs);
                reply.audit_count++;
            }
        }
    }
    effect_reply(c, &reply);
}

uint32_t audits_ask_cluster(struct core *c, const char *cluster, const char *who,
                            bool repairs, uint64_t *ret_first)
{
    uint32_t count = 0;

    *ret_first = c->audits.last_number + 1;
    for (uint32_t i = 0; i < c->audits.plan.count; i++) {
        if (strcmp(c->audits.plan.at[i].cluster, cluster) == 0) {
            run_add(c, &c->audits.plan.at[i], 0, who, repairs);
            count++;
        }
    }
    return count;
}

/* ---- what nodes answer ---- */

static bool is_known(void *ctx, enum table_id table, uint32_t vni,
                     const struct row *key)
{
    return device_has_exception(ctx, table, vni, key);
}

static struct audit_facts facts_of(const struct core *c, const char *node)
{
    struct device *d = device_find(c, node);
    struct session *s = d ? d->session : NULL;
    struct audit_facts f = { 0 };

    if (s && s->sync && s->group) {
        struct sync_status status = sync_status(s->sync);

        f.session = s->id;
        f.is_level = sync_is_level(s->sync);
        f.is_settled = f.is_level && !status.is_waiting;
        f.revision = s->group->revision;
        f.desired = s->group->desired;
        f.is_known = is_known;
        f.ctx = d;
    }
    return f;
}

/* The active run of the session's node; null: none. */
static struct audit *active_of(const struct core *c, const struct session *s)
{
    for (struct audit_run *r = c->audits.runs; r; r = r->next) {
        if (r->is_active &&
            strcmp(audit_record_of(r->audit)->node, s->device->name) == 0) {
            return r->audit;
        }
    }
    return NULL;
}

void audits_answer(struct core *c, const struct session *s, const struct agent_audit *m)
{
    struct audit *a = active_of(c, s);

    if (a) {
        struct audit_facts f = facts_of(c, s->device->name);

        audit_answer(a, &f, c->now_ms, m);
    }
}

void audits_digests(struct core *c, const struct session *s,
                    const struct agent_digests *d)
{
    struct audit *a = active_of(c, s);

    if (a) {
        audit_take_digests(a, c->now_ms, d);
    }
}

void audits_rows(struct core *c, const struct session *s, const struct agent_rows *r)
{
    struct audit *a = active_of(c, s);

    if (a) {
        audit_take_rows(a, c->now_ms, r);
    }
}

void audits_forget_asks(struct core *c, const char *node)
{
    for (struct audit_run *r = c->audits.runs; r; r = r->next) {
        if (strcmp(audit_record_of(r->audit)->node, node) == 0) {
            audit_lost(r->audit);
        }
    }
    audits_note(c);
}

/* ---- what is kept ---- */

static void keep(struct core *c, uint64_t number, struct blob *packed)
{
    struct audits *a = &c->audits;
    uint32_t at = a->kept_count;

    while (at > 0 && a->kept[at - 1].number >= number) {
        at--;
    }
    if (at < a->kept_count && a->kept[at].number == number) {
        blob_unref(a->kept[at].packed);
        a->kept[at].packed = packed;
        return;
    }
    a->kept = core_need(realloc(a->kept, (a->kept_count + 1) * sizeof(*a->kept)));
    memmove(&a->kept[at + 1], &a->kept[at], (a->kept_count - at) * sizeof(*a->kept));
    a->kept[at] = (struct kept_audit){ number, packed };
    a->kept_count++;
}

static void forget(struct core *c, uint64_t number)
{
    struct audits *a = &c->audits;

    for (uint32_t i = 0; i < a->kept_count; i++) {
        if (a->kept[i].number == number) {
            blob_unref(a->kept[i].packed);
            a->kept_count--;
            memmove(&a->kept[i], &a->kept[i + 1],
                    (a->kept_count - i) * sizeof(*a->kept));
            return;
        }
    }
}

static struct store_key key_of(uint64_t number)
{
    char name[24];

    snprintf(name, sizeof(name), "%020llu", (unsigned long long)number);
    return record_key_object("audit", name);
}

/* A transaction of its own: nothing else depends on it. */
static void store(struct core *c, uint64_t number, struct blob *packed)
{
    struct store_txn *txn = txn_new(c, tag_new(c, TAG_AUDIT));
    enum rc rc = txn ? txn_put(txn, key_of(number), blob_ref(packed)) : RC_NO_MEMORY;

    while (rc == RC_OK && c->audits.kept_count > AUDITS_KEPT) {
        rc = store_txn_delete(txn, key_of(c->audits.kept[0].number));
        forget(c, c->audits.kept[0].number);
    }
    if (rc == RC_OK) {
        txn_submit(c, txn);
    } else {
        store_txn_free(txn);
    }
}

bool audits_load(struct core *c, const struct store_kv *kv, enum rc *ret,
                 struct err *err)
{
    size_t prefix = sizeof(KEY_PREFIX) - 1;
    char text[STORE_KEY_MAX + 1] = "";
    struct audit_record record;
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
    *ret = audit_record_unpack(kv->value->data, kv->value->len, &record, err);
    if (*ret == RC_OK) {
        audit_record_fini(&record);
        keep(c, number, blob_ref(kv->value));
        c->audits.last_number =
            number > c->audits.last_number ? number : c->audits.last_number;
    } else {
        err_wrap(err, *ret, "stored object %s", text);
    }
    return true;
}

/* ---- the end of one ---- */

static void tell_differences(struct core *c, const struct audit_record *r)
{
    enum { TOLD_MAX = 10 };

    for (uint32_t i = 0; r->found && i < r->found->listed && i < TOLD_MAX; i++) {
        const struct audit_difference *d = &r->found->at[i];

        effect_log(c, LOG_WARN, "audit difference",
                   "node=%s audit=%llu kind=%s "
                   "table=%s vni=%u",
                   r->node, (unsigned long long)r->number, audit_kind_name(d->kind),
                   table_name((enum table_id)d->table), d->vni);
    }
}

/* Nodes that were read at the same revision hold the same, whoever is right. */
static void hold_against_others(struct core *c, struct audit_node *n,
                                const struct audit_record *r)
{
    const struct audit_node *other;

    if (r->vni != 0 || r->result == AUDIT_FAILED) {
        return;
    }
    n->seen.revision = r->revision;
    n->seen.at_ms = c->unix_ms;
    memcpy(n->seen.root, r->observed, sizeof(n->seen.root));
    other = audit_plan_contradicts(&c->audits.plan, n);
    if (other && !n->differs) {
        effect_log(c, LOG_WARN, "nodes differ", "cluster=%s node=%s other=%s",
                   n->cluster, n->name, other->name);
    }
    n->differs = other != NULL;
    watch_contradiction(c, n->cluster, n->name, other ? other->name : NULL);
}

static void ended(struct core *c, struct audit_run *run)
{
    struct audit_record r = *audit_record_of(run->audit);
    struct audit_node *n = audit_plan_find(&c->audits.plan, r.node);
    struct buf packed = BUF_INIT;
    struct blob *blob;

    r.ended_ms = c->unix_ms;
    effect_log(c, r.result == AUDIT_CLEAN ? LOG_INFO : LOG_WARN, "audit",
               "node=%s audit=%llu vni=%u who=\"%s\" result=%s missing=%llu "
               "extra=%llu different=%llu read_ms=%llu cause=\"%s\"",
               r.node, (unsigned long long)r.number, r.vni, r.who,
               audit_result_name(r.result),
               (unsigned long long)r.found->count[AUDIT_MISSING],
               (unsigned long long)r.found->count[AUDIT_EXTRA],
               (unsigned long long)r.found->count[AUDIT_DIFFERENT],
               (unsigned long long)r.read_ms, r.text);
    tell_differences(c, &r);
    if (n && run->is_active) {
        n->read_ms = r.read_ms && r.vni == 0 ? r.read_ms : n->read_ms;
        audit_plan_ended(&c->audits.plan, n, c->now_ms);
        watch_audit(c, &r);
        hold_against_others(c, n, &r);
    }
    audit_record_pack(&r, &packed);
    core_must(!buf_failed(&packed));
    blob = core_need(blob_copy(packed.data, packed.len));
    buf_fini(&packed);
    keep(c, r.number, blob);
    store(c, r.number, blob);
}

/* ---- going on ---- */

void audits_note(struct core *c)
{
    c->audits.is_idle = false;
}

bool audits_have_work(const struct core *c)
{
    return c->phase == PHASE_SERVING && !c->audits.is_idle && c->audits.runs;
}

static void submit(struct core *c, const struct audit_facts *f, struct ctl_msg *msg)
{
    struct core_effect *e = effect_add(c, CORE_SEND);

    e->send.session = f->session;
    e->send.msg = *msg;
}

/* False: it is over. */
static bool go_on(struct core *c, struct audit_run *run)
{
    const struct audit_record *r = audit_record_of(run->audit);
    struct audit_node *n = audit_plan_find(&c->audits.plan, r->node);
    struct audit_facts f = facts_of(c, r->node);
    struct ctl_msg msg;

    if (!run->is_active && r->state != AUDIT_DONE) {
        if (!n || !audit_plan_may_run(&c->audits.plan, n)) {
            return true; /* its side's turn comes */
        }
        if (!f.session) {
            audit_fail(run->audit, "the node has no session");
        }
        n->is_running = true;
        run->is_active = true;
    }
    switch (audit_next(run->audit, &f, c->now_ms, &msg)) {
    case AUDIT_SENDS:
        submit(c, &f, &msg);
        return true;
    case AUDIT_REPAIR:
        sync_compare(device_find(c, r->node)->session->sync);
        c->pump_is_idle = false;
        return true;
    case AUDIT_ENDS:
        ended(c, run);
        return false;
    default:
        return true;
    }
}

/* Those whose time has come. */
static void begin_due(struct core *c)
{
    struct audit_node *n;

    while ((n = audit_plan_next(&c->audits.plan, c->now_ms)) != NULL) {
        struct audit_run *run;

        if (!facts_of(c, n->name).session) {
            audit_plan_ended(&c->audits.plan, n, c->now_ms);
            continue; /* another time */
        }
        run = run_add(c, n, 0, "schedule", c->config.audit_repairs);
        run->is_active = true;
        n->is_running = true;
    }
}

bool audits_work(struct core *c)
{
    struct audit_run **at = &c->audits.runs;

    if (!audits_have_work(c)) {
        return false;
    }
    c->audits.is_idle = true;
    c->audits.look_ms = c->now_ms + LOOK_AGAIN_MS;
    while (*at) {
        struct audit_run *r = *at;

        if (go_on(c, r)) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        run_free(r);
        audits_note(c); /* its side is free */
    }
    c->audits.runs_end = at;
    return true;
}

uint64_t audits_wake(const struct core *c)
{
    uint64_t wake =
        c->phase == PHASE_SERVING ? audit_plan_wake(&c->audits.plan) : UINT64_MAX;

    return c->phase == PHASE_SERVING && c->audits.runs && c->audits.look_ms < wake
               ? c->audits.look_ms
               : wake;
}

void audits_tick(struct core *c)
{
    if (c->phase != PHASE_SERVING) {
        return;
    }
    begin_due(c);
    if (c->audits.runs && c->audits.look_ms <= c->now_ms) {
        audits_note(c);
    }
}

/* ---- reads ---- */

uint64_t core_audit_next(const struct core *c, uint64_t from)
{
    uint64_t best = 0;

    for (uint32_t i = 0; i < c->audits.kept_count && !best; i++) {
        best = c->audits.kept[i].number >= from ? c->audits.kept[i].number : 0;
    }
    for (const struct audit_run *r = c->audits.runs; r; r = r->next) {
        uint64_t number = audit_record_of(r->audit)->number;

        best = number >= from && (!best || number < best) ? number : best;
    }
    return best;
}

enum rc core_audit(const struct core *c, uint64_t number, struct audit_record *ret)
{
    for (const struct audit_run *r = c->audits.runs; r; r = r->next) {
        if (audit_record_of(r->audit)->number == number) {
            *ret = *audit_record_of(r->audit);
            ret->found = malloc(sizeof(*ret->found));
            if (!ret->found) {
                return RC_NO_MEMORY;
            }
            *ret->found = *audit_record_of(r->audit)->found;
            return RC_OK;
        }
    }
    for (uint32_t i = 0; i < c->audits.kept_count; i++) {
        const struct kept_audit *k = &c->audits.kept[i];

        if (k->number == number) {
            return audit_record_unpack(k->packed->data, k->packed->len, ret, NULL);
        }
    }
    return RC_NOT_FOUND;
}

const struct audit_node *core_audit_node(const struct core *c, const char *node)
{
    return audit_plan_find(&c->audits.plan, node);
}
