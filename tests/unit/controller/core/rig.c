#include "tests/unit/controller/core/rig.h"

#include "controller/core/live.h"

static void on_event(void *ctx, const struct store_event *event)
{
    struct core_in in = { .kind = CORE_STORE_EVENT, .event = event };

    rig_input(ctx, &in);
}

static void on_done(void *ctx, const struct store_done *done)
{
    struct core_in in = { .kind = CORE_STORE_DONE, .done = done };

    rig_input(ctx, &in);
}

static void ask_range(struct rig *r, const struct store_key *behind)
{
    struct store_key from;
    struct store_key end;

    core_load_range(&from, &end);
    if (behind) {
        from = store_key_after(behind);
    }
    store_range(r->store, 1, from, end, 100);
}

static void on_range(void *ctx, const struct store_range_reply *reply)
{
    struct rig *r = ctx;
    struct core_in in = { .kind = CORE_LOADED,
                          .loaded = { reply->kvs, reply->kv_count } };

    ck_assert_int_eq(reply->rc, RC_OK);
    rig_input(r, &in);
    if (reply->more) {
        ask_range(r, &reply->kvs[reply->kv_count - 1].key);
    } else {
        in = (struct core_in){ .kind = CORE_READY, .ready_revision = reply->revision };
        r->loaded = true;
        rig_input(r, &in);
    }
}

static const struct store_events events = { on_event, on_done, on_range };

void rig_open(struct rig *r)
{
    r->store = store_memory_open(r->db, &events, r);
    r->config.term = r->store->term;
    r->core = core_new(&r->config);
    r->loaded = false;
    ask_range(r, NULL);
}

struct rig *rig_new_with(const struct core_config *config)
{
    struct rig *r = calloc(1, sizeof(*r));

    r->db = memory_db_new();
    r->config = *config;
    r->now_ms = 1000;
    rig_open(r);
    rig_run(r);
    ck_assert(core_is_ready(r->core));
    return r;
}

struct rig *rig_new(void)
{
    struct core_config config;

    core_config_default(&config);
    return rig_new_with(&config);
}

static void forget_sent(struct rig *r)
{
    for (uint32_t i = 0; i < r->sent_count; i++) {
        ctl_msg_fini(&r->sent[i]);
    }
    r->sent_count = 0;
}

void rig_crash(struct rig *r, uint32_t applied)
{
    store_memory_crash(r->store, applied);
    core_free(r->core);
    r->core = NULL;
    forget_sent(r);
}

void rig_restart(struct rig *r)
{
    rig_run(r);
    rig_crash(r, 0);
    rig_open(r);
    rig_run(r);
    ck_assert_msg(core_is_ready(r->core), "%s",
                  core_failure(r->core) ? core_failure(r->core)->msg : "?");
}

void rig_free(struct rig *r)
{
    rig_crash(r, UINT32_MAX);
    memory_db_free(r->db);
    live_trace_free(r->live);
    free(r);
}

static void keep_log(struct rig *r, const struct core_effect *e)
{
    size_t len = strlen(r->logs);

    if (len + sizeof(e->log.event) + sizeof(e->log.text) + 3 < sizeof(r->logs)) {
        snprintf(r->logs + len, sizeof(r->logs) - len, "%s %s\n", e->log.event,
                 e->log.text);
    }
}

static void take_effects(struct rig *r)
{
    struct core_effect e;

    while (core_next_effect(r->core, &e)) {
        switch (e.kind) {
        case CORE_TXN:
            store_submit(r->store, e.txn);
            break;
        case CORE_REPLY:
            ck_assert_uint_lt(r->reply_count, RIG_REPLIES);
            r->replies[r->reply_count++] = e.reply;
            if (e.reply.live) {
                live_trace_free(r->live);
                r->live = e.reply.live;
            }
            break;
        case CORE_SEND:
            if (r->watch.sent) {
                r->watch.sent(r->watch.ctx, e.send.session, &e.send.msg);
                ctl_msg_fini(&e.send.msg);
                break;
            }
            if (r->sent_count == ARRAY_LEN(r->sent)) {
                forget_sent(r);
            }
            r->sent_to[r->sent_count] = e.send.session;
            r->sent[r->sent_count++] = e.send.msg;
            break;
        case CORE_CLOSE:
            r->closed[r->closed_count] = e.close.session;
            r->closed_why[r->closed_count++] = e.close.why;
            break;
        case CORE_ALARM:
            r->alarms[r->alarm_count % 64] = e.alarm.alarm;
            r->alarm_news[r->alarm_count++ % 64] = e.alarm.news;
            break;
        case CORE_LOG:
            keep_log(r, &e);
            break;
        }
    }
}

void rig_input(struct rig *r, const struct core_in *in)
{
    if (r->watch.before) {
        r->watch.before(r->watch.ctx);
    }
    core_step(r->core, r->now_ms, 1700000000000 + r->now_ms, in);
    if (r->watch.after) {
        r->watch.after(r->watch.ctx);
    }
    take_effects(r);
}

bool rig_step(struct rig *r)
{
    struct core_in go_on = { .kind = CORE_CONTINUE };

    if (core_has_work(r->core)) {
        rig_input(r, &go_on);
        return true;
    }
    return store_memory_step(r->store);
}

void rig_run(struct rig *r)
{
    while (rig_step(r)) {
    }
}

void rig_pass(struct rig *r, uint64_t ms)
{
    struct core_in tick = { .kind = CORE_TICK };

    r->now_ms += ms;
    rig_input(r, &tick);
    rig_run(r);
}

void rig_wait(struct rig *r, uint64_t ms)
{
    const uint64_t end = r->now_ms + ms;

    while (r->now_ms < end) {
        uint64_t wake = core_next_wake(r->core);

        wake = wake <= r->now_ms ? r->now_ms + 1 : wake < end ? wake : end;
        rig_pass(r, wake - r->now_ms);
    }
}

struct blob *rig_batch(const char *lines)
{
    struct batch_writer w;
    struct blob *ops;

    batch_writer_init(&w);
    while (*lines) {
        size_t len = strcspn(lines, "\n");
        enum entry_op op;
        struct entry e;
        struct err err = { 0 };

        if (len > 0) {
            ck_assert_msg(!entry_parse_json(lines, len, &op, &e, &err), "%.*s: %s",
                          (int)len, lines, err.msg);
            batch_add_entry(&w, op, &e);
        }
        lines += len + (lines[len] == '\n');
    }
    ops = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return ops;
}

uint64_t rig_queue(struct rig *r, struct blob *ops)
{
    struct command cmd = { .kind = COMMAND_ENTRIES, .token = ++r->next_token };
    struct core_in in = { .kind = CORE_COMMAND, .command = &cmd };

    cmd.entries.ops = ops;
    rig_input(r, &in);
    blob_unref(ops);
    return cmd.token;
}

const struct core_reply *rig_reply(const struct rig *r, uint64_t token)
{
    for (uint32_t i = 0; i < r->reply_count; i++) {
        if (r->replies[i].token == token) {
            return &r->replies[i];
        }
    }
    return NULL;
}

const struct core_reply *rig_command(struct rig *r, struct command *cmd)
{
    struct core_in in = { .kind = CORE_COMMAND, .command = cmd };
    const struct core_reply *reply;

    cmd->token = ++r->next_token;
    r->reply_count = r->reply_count > RIG_REPLIES / 2 ? 0 : r->reply_count;
    rig_input(r, &in);
    rig_run(r);
    reply = rig_reply(r, cmd->token);
    ck_assert_ptr_nonnull(reply);
    return reply;
}

static const struct core_reply *entries(struct rig *r, const char *lines, bool confirm)
{
    struct command cmd = { .kind = COMMAND_ENTRIES, .who = "test", .confirm = confirm };
    const struct core_reply *reply;

    cmd.entries.ops = rig_batch(lines);
    reply = rig_command(r, &cmd);
    blob_unref(cmd.entries.ops);
    return reply;
}

const struct core_reply *rig_entries(struct rig *r, const char *lines)
{
    return entries(r, lines, false);
}

const struct core_reply *rig_entries_confirmed(struct rig *r, const char *lines)
{
    return entries(r, lines, true);
}

void rig_must(struct rig *r, const char *lines)
{
    const struct core_reply *reply = rig_entries(r, lines);

    ck_assert_msg(!reply->err.code, "%s: %s", lines, reply->err.msg);
}

static struct ip address(const char *text)
{
    struct ip ip;

    ck_assert(!ip_parse(text, strlen(text), &ip, NULL));
    return ip;
}

static void put_cluster(struct rig *r, const char *name, const char *vip, uint8_t kind)
{
    struct command cmd = { .kind = COMMAND_PUT_CLUSTER, .who = "test" };
    struct ip ip = address(vip);
    const struct core_reply *reply;

    rig_copy(cmd.cluster.name, name);
    cmd.cluster.kind = kind;
    cmd.cluster.active_side = 'a';
    *(ip.family == IP_V4 ? &cmd.cluster.vip_v4 : &cmd.cluster.vip_v6) = ip;
    reply = rig_command(r, &cmd);
    ck_assert_msg(!reply->err.code, "%s", reply->err.msg);
}

void rig_cluster(struct rig *r, const char *name, const char *vip)
{
    put_cluster(r, name, vip, CLUSTER_X86);
}

void rig_lb_cluster(struct rig *r, const char *name, const char *vip)
{
    put_cluster(r, name, vip, CLUSTER_LB);
}

void rig_h_cluster(struct rig *r, const char *name, const char *vip,
                   const char *backing)
{
    struct command cmd = { .kind = COMMAND_PUT_CLUSTER, .who = "test" };
    struct ip ip = address(vip);
    const struct core_reply *reply;

    rig_copy(cmd.cluster.name, name);
    rig_copy(cmd.cluster.backing, backing);
    cmd.cluster.kind = CLUSTER_XGW_H;
    cmd.cluster.active_side = 'a';
    *(ip.family == IP_V4 ? &cmd.cluster.vip_v4 : &cmd.cluster.vip_v6) = ip;
    fallback_meter_default(&cmd.cluster.fallback_meter);
    reply = rig_command(r, &cmd);
    ck_assert_msg(!reply->err.code, "%s", reply->err.msg);
}

void rig_policy(struct rig *r, const char *service, enum policy_place place)
{
    struct command cmd = { .kind = COMMAND_PUT_POLICY, .who = "test" };
    struct policy policy = *core_policy(r->core);
    const struct core_reply *reply;

    ck_assert(!policy_set(&policy, service, place, NULL));
    cmd.policy = &policy;
    reply = rig_command(r, &cmd);
    ck_assert_msg(!reply->err.code, "%s", reply->err.msg);
}

void rig_node(struct rig *r, const char *name, const char *cluster, const char *vtep)
{
    static const uint8_t kinds[] = { [CLUSTER_X86] = DEVICE_X86,
                                     [CLUSTER_XGW_H] = DEVICE_SOFT_H,
                                     [CLUSTER_LB] = DEVICE_LB };
    struct command cmd = { .kind = COMMAND_PUT_NODE, .who = "test" };
    const struct core_reply *reply;

    rig_copy(cmd.node.name, name);
    rig_copy(cmd.node.cluster, cluster);
    cmd.node.side = 'a';
    cmd.node.kind = kinds[core_cluster_find(r->core, cluster)->kind];
    cmd.node.vtep_v4 = address(vtep);
    reply = rig_command(r, &cmd);
    ck_assert_msg(!reply->err.code, "%s", reply->err.msg);
}

/* ---- the rules of tenant.c and resident.c once more, entry by entry ---- */

struct naive {
    const struct core *c;
    const struct cluster *cluster;
    struct entry *at;
    uint32_t count;
};

static void naive_read(struct naive *n, uint32_t vni, enum table_id table)
{
    struct rows *rows = core_rows(n->c, vni, table);
    struct rows_iter it = rows_begin(rows, table);
    struct row row;

    n->at = realloc(n->at, (n->count + rows_count(rows) + 1) * sizeof(*n->at));
    while (rows && rows_next(&it, &row)) {
        ck_assert(!entry_unpack(table, vni, &row, &n->at[n->count++], NULL));
    }
}

static void naive_drop(struct naive *n, uint32_t i)
{
    n->count--;
    memmove(&n->at[i], &n->at[i + 1], (n->count - i) * sizeof(*n->at));
}

/* A peer that is not at home here goes to where its traffic is steered. */
static void naive_peer(const struct naive *n, struct route_action *a)
{
    bool is_h = n->cluster->kind == CLUSTER_XGW_H;
    const struct cluster *k;
    struct tenant_status peer;

    if (a->scope != SCOPE_PEER) {
        return;
    }
    ck_assert(!core_tenant(n->c, a->vni, &peer));
    if (strcmp(is_h ? peer.h_home : peer.cluster, n->cluster->name) != 0) {
        k = core_cluster_find(n->c, peer.h_home[0] ? peer.h_home : peer.cluster);
        a->scope = SCOPE_DERIVED;
        a->endpoint = k->vip_v4.family ? k->vip_v4 : k->vip_v6;
    }
}

static bool naive_has_v6_mac(const struct naive *n)
{
    bool has = false;

    for (uint32_t i = 0; i < n->count; i++) {
        has = has || (n->at[i].table == TABLE_VM_NC &&
                      n->at[i].vm_nc.vm.family == IP_V6 && n->at[i].vm_nc.has_mac);
    }
    return has;
}

static bool naive_on_h(const struct naive *n, const struct entry *e, bool v6_mac)
{
    const struct policy *p = core_policy(n->c);
    bool local = policy_of_service(p, "local") == POLICY_XGW_H;

    if (e->table == TABLE_VM_NC) {
        return local && !e->vm_nc.has_mac && !(e->vm_nc.vm.family == IP_V6 && v6_mac);
    }
    if (e->route.action.scope == SCOPE_LOCAL) {
        return local && !(e->route.dst.addr.family == IP_V6 && v6_mac);
    }
    return policy_of_route(p, &e->route.action) == POLICY_XGW_H;
}

/* The longest resident route that covers `e`; null: none. */
static const struct entry *naive_cover(const struct naive *n, const struct entry *e,
                                       const bool resident[])
{
    const struct entry *best = NULL;

    for (uint32_t i = 0; i < n->count; i++) {
        const struct entry *k = &n->at[i];

        if (k->table == TABLE_VXLAN_ROUTE && resident[i] &&
            k->route.dst.len < e->route.dst.len &&
            prefix_covers(&k->route.dst, &e->route.dst) &&
            (!best || k->route.dst.len > best->route.dst.len)) {
            best = k;
        }
    }
    return best;
}

static int shorter_first(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    int tables = (int)x->table - (int)y->table;

    return tables || x->table != TABLE_VXLAN_ROUTE
               ? tables
               : (int)x->route.dst.len - (int)y->route.dst.len;
}

/* Leaves what XGW-H holds. */
static void naive_close(struct naive *n)
{
    bool v6_mac = naive_has_v6_mac(n);
    bool *resident = calloc(n->count + 1, sizeof(*resident));

    qsort(n->at, n->count, sizeof(*n->at), shorter_first);
    for (uint32_t i = 0; i < n->count; i++) {
        struct entry *e = &n->at[i];
        const struct entry *cover;

        if (e->table != TABLE_VXLAN_ROUTE && e->table != TABLE_VM_NC) {
            resident[i] = true;
            continue;
        }
        resident[i] = naive_on_h(n, e, v6_mac);
        if (resident[i] || e->table == TABLE_VM_NC) {
            continue;
        }
        cover = naive_cover(n, e, resident);
        if (cover && cover->route.action.scope != SCOPE_INTERNET &&
            cover->route.action.scope != SCOPE_SERVICE &&
            cover->route.action.scope != SCOPE_FALLBACK) {
            memset(&e->route.action, 0, sizeof(e->route.action));
            e->route.action.scope = SCOPE_FALLBACK;
            resident[i] = true;
        }
    }
    for (uint32_t i = n->count; i-- > 0;) {
        if (!resident[i]) {
            naive_drop(n, i);
        }
    }
    free(resident);
}

static void naive_tenant(struct naive *n, const struct tenant_status *t)
{
    bool is_h = n->cluster->kind == CLUSTER_XGW_H;
    struct entry *vni;

    n->count = 0;
    naive_read(n, t->vni, TABLE_VXLAN_ROUTE);
    naive_read(n, t->vni, TABLE_VM_NC);
    if (is_h) {
        naive_read(n, t->vni, TABLE_METER);
        naive_read(n, t->vni, TABLE_ACL);
        naive_close(n);
    }
    for (uint32_t i = 0; i < n->count; i++) {
        if (n->at[i].table == TABLE_VXLAN_ROUTE) {
            naive_peer(n, &n->at[i].route.action);
        }
    }
    n->at = realloc(n->at, (n->count + 1) * sizeof(*n->at));
    vni = &n->at[n->count++];
    *vni = (struct entry){ .table = TABLE_VNI, .vni = t->vni };
    vni->vni_row.flags = t->flags;
    if (is_h) {
        vni->vni_row.flags |= rows_count(core_rows(n->c, t->vni, TABLE_ACL)) ? 2 : 0;
        vni->vni_row.half = (uint8_t)(t->half - 1); /* where placement put it */
    }
}

/* A running move keeps the tenant there as well: at the target until it is steered to,
 * then at the source until packets have drained. */
static bool is_moving_through(const struct core *c, uint32_t vni, const char *name)
{
    const struct operation *o;

    for (uint32_t i = 0; (o = core_operation_at(c, i)); i++) {
        const struct home *h = o->step < MOVE_STEER ? &o->move.to : &o->move.from;

        if (o->kind == OPERATION_MOVE && o->state == OPERATION_RUNNING &&
            o->step != MOVE_REMOVE && o->move.vni == vni &&
            (!strcmp(h->x86, name) || !strcmp(h->h, name))) {
            return true;
        }
    }
    return false;
}

/* What a load balancer holds of a tenant. */
static void naive_steering(struct naive *n, const struct tenant_status *t)
{
    n->at = realloc(n->at, sizeof(*n->at));
    n->count = 1;
    n->at[0] = (struct entry){ .table = TABLE_VNI_CLUSTER, .vni = t->vni };
    rig_copy(n->at[0].vni_cluster.cluster, t->h_home[0] ? t->h_home : t->cluster);
}

static void check_group(const struct core *c, const char *name)
{
    const struct table_set *have = core_group_desired(c, name);
    const struct tree_node root = { 0 };
    struct table_set *want = table_set_new();
    struct naive n = { .c = c, .cluster = core_cluster_find(c, name) };
    struct batch_writer w;
    struct tenant_status t;
    struct blob *ops;

    batch_writer_init(&w);
    for (uint32_t vni = core_tenant_next(c, 1); vni;
         vni = core_tenant_next(c, vni + 1)) {
        ck_assert(!core_tenant(c, vni, &t));
        n.count = 0;
        if (n.cluster->kind == CLUSTER_LB) {
            naive_steering(&n, &t);
        } else if (strcmp(n.cluster->kind == CLUSTER_XGW_H ? t.h_home : t.cluster,
                          name) == 0 ||
                   is_moving_through(c, vni, name)) {
            naive_tenant(&n, &t);
        }
        for (uint32_t i = 0; i < n.count; i++) {
            batch_add_entry(&w, ENTRY_PUT, &n.at[i]);
        }
    }
    free(n.at);
    ops = batch_writer_finish(&w);
    ck_assert(!table_set_apply(want, ops->data, ops->len, NULL, NULL, NULL));
    blob_unref(ops);
    batch_writer_fini(&w);
    for (int table = 0; table < TABLE_COUNT; table++) {
        struct digest h = table_set_digest(have, (enum table_id)table, root);
        struct digest should = table_set_digest(want, (enum table_id)table, root);

        ck_assert_msg(h.sum == should.sum && h.count == should.count,
                      "cluster %s, table %s: %lu rows, should be %lu, or other ones",
                      name, table_name((enum table_id)table), (unsigned long)h.count,
                      (unsigned long)should.count);
    }
    table_set_free(want);
}

void rig_check_desired(const struct rig *r)
{
    const struct cluster *k;

    for (uint32_t i = 0; (k = core_cluster_at(r->core, i)); i++) {
        check_group(r->core, k->name);
    }
}
