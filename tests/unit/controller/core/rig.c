#include "tests/unit/controller/core/rig.h"

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
            break;
        case CORE_SEND:
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
        case CORE_LOG:
            keep_log(r, &e);
            break;
        }
    }
}

void rig_input(struct rig *r, const struct core_in *in)
{
    core_step(r->core, r->now_ms, 1700000000000 + r->now_ms, in);
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

void rig_cluster(struct rig *r, const char *name, const char *vip)
{
    struct command cmd = { .kind = COMMAND_PUT_CLUSTER, .who = "test" };
    struct ip ip = address(vip);
    const struct core_reply *reply;

    rig_copy(cmd.cluster.name, name);
    cmd.cluster.kind = CLUSTER_X86;
    cmd.cluster.active_side = 'a';
    *(ip.family == IP_V4 ? &cmd.cluster.vip_v4 : &cmd.cluster.vip_v6) = ip;
    reply = rig_command(r, &cmd);
    ck_assert_msg(!reply->err.code, "%s", reply->err.msg);
}

void rig_node(struct rig *r, const char *name, const char *cluster, const char *vtep)
{
    struct command cmd = { .kind = COMMAND_PUT_NODE, .who = "test" };
    const struct core_reply *reply;

    rig_copy(cmd.node.name, name);
    rig_copy(cmd.node.cluster, cluster);
    cmd.node.side = 'a';
    cmd.node.kind = DEVICE_X86;
    cmd.node.vtep_v4 = address(vtep);
    reply = rig_command(r, &cmd);
    ck_assert_msg(!reply->err.code, "%s", reply->err.msg);
}

/* The rules of project.c once more, in the plainest form: entry by entry. */
static void expect_row(const struct core *c, struct table_set *want, uint32_t vni,
                       enum table_id table, const struct row *row, const char *home)
{
    struct tenant_status peer;
    struct batch_writer w;
    struct entry e;
    struct blob *ops;

    ck_assert(!entry_unpack(table, vni, row, &e, NULL));
    if (table == TABLE_TENANT) {
        struct entry v = { .table = TABLE_VNI, .vni = vni };

        v.vni_row.flags = e.tenant.flags;
        e = v;
    } else if (table == TABLE_VXLAN_ROUTE && e.route.action.scope == SCOPE_PEER) {
        ck_assert(!core_tenant(c, e.route.action.vni, &peer));
        if (strcmp(peer.cluster, home) != 0) {
            const struct cluster *k = core_cluster_find(c, peer.cluster);

            e.route.action.scope = SCOPE_DERIVED;
            e.route.action.endpoint = k->vip_v4.family ? k->vip_v4 : k->vip_v6;
        }
    }
    batch_writer_init(&w);
    batch_add_entry(&w, ENTRY_PUT, &e);
    ops = batch_writer_finish(&w);
    ck_assert(!table_set_apply(want, ops->data, ops->len, NULL, NULL, NULL));
    blob_unref(ops);
    batch_writer_fini(&w);
}

static void check_group(const struct core *c, const char *name)
{
    static const enum table_id tables[] = { TABLE_TENANT, TABLE_VXLAN_ROUTE,
                                            TABLE_VM_NC };
    const struct table_set *have = core_group_desired(c, name);
    const struct tree_node root = { 0 };
    struct table_set *want = table_set_new();
    struct tenant_status t;
    struct row row;

    for (uint32_t vni = core_tenant_next(c, 1); vni;
         vni = core_tenant_next(c, vni + 1)) {
        ck_assert(!core_tenant(c, vni, &t));
        for (unsigned i = 0; i < 3 && strcmp(t.cluster, name) == 0; i++) {
            struct rows_iter it = rows_begin(core_rows(c, vni, tables[i]), tables[i]);

            while (rows_next(&it, &row)) {
                expect_row(c, want, vni, tables[i], &row, name);
            }
        }
    }
    for (int table = 0; table < TABLE_COUNT; table++) {
        struct digest h = table_set_digest(have, (enum table_id)table, root);
        struct digest w = table_set_digest(want, (enum table_id)table, root);

        ck_assert_msg(h.sum == w.sum && h.count == w.count,
                      "cluster %s, table %s: %lu rows, should be %lu, or other ones",
                      name, table_name((enum table_id)table), (unsigned long)h.count,
                      (unsigned long)w.count);
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
