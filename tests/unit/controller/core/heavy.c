#include "tests/unit/controller/core/heavy.h"

#include "agent/driver/memory_probe.h"

#define LARGE  7u       /* the large tenant */
#define TARGET 9u       /* the tenant that everybody peers to */
#define PEERS  11u      /* a tenant of many peer routes */
#define MOVER  13u      /* one that XGW-H has room for twice */
#define SMALL  1000u    /* the first of the small ones */
#define PLACED 8000000u /* the first of those that are placed */

/* Each XGW-H stands before the x86 cluster in front of it. */
static const char *const clusters[] = {
    "x1", "h1", "x2", "h2", "x3", "h3", "x4", "h4"
};
static const char *const nodes[] = { "n1", "w1", "n2", "w2", "n3", "w3", "n4", "w4" };
enum { DEVICES = ARRAY_LEN(clusters) };

struct question {
    struct ctl_msg msg; /* QUERY, AUDIT or PROBE */
    struct question *next;
};

struct far {
    uint64_t session;
    struct table_set *tables;
    struct blob *config;
    struct question *first;
    struct question **end;
    uint64_t seq; /* received */
    uint64_t acked;
    uint64_t applied;
    bool ready;
};

struct heavy {
    struct heavy_size size;
    struct rig *rig;
    struct far far[DEVICES];
    uint64_t session; /* the last one */
    uint64_t seed;
    uint32_t *vnis; /* of the small tenants, in no order */
    struct batch_writer writer;
    bool confirms;
    struct rig_watch watch; /* who asked for the steps */
};

static uint32_t draw(struct heavy *h, uint32_t below)
{
    h->seed = h->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(h->seed >> 33) % below;
}

/* ---- devices ---- */

static void take_batch(struct far *f, const struct ctl_batch *b)
{
    ck_assert_uint_eq(b->seq, f->seq + 1);
    f->seq++;
    f->applied = b->revision ? b->revision : f->applied;
    f->ready = f->ready || b->ready;
    if (b->ops) {
        ck_assert(
            !table_set_apply(f->tables, b->ops->data, b->ops->len, NULL, NULL, NULL));
    }
}

static void keep_question(struct far *f, const struct ctl_msg *m)
{
    struct question *q = calloc(1, sizeof(*q));

    q->msg = *m;
    if (m->kind == CTL_PROBE) {
        blob_ref(m->probe.frame);
    }
    *f->end = q;
    f->end = &q->next;
}

static void drop_question(struct far *f)
{
    struct question *q = f->first;

    f->first = q->next;
    f->end = f->first ? f->end : &f->first;
    if (q->msg.kind == CTL_PROBE) {
        blob_unref(q->msg.probe.frame);
    }
    free(q);
}

static void on_sent(void *ctx, uint64_t session, const struct ctl_msg *m)
{
    struct heavy *h = ctx;
    struct far *f = NULL;

    for (unsigned i = 0; i < DEVICES; i++) {
        f = h->far[i].session == session ? &h->far[i] : f;
    }
    if (!f) {
        return;
    }
    if (m->kind == CTL_BATCH) {
        take_batch(f, &m->batch);
    } else if (m->kind == CTL_ASSIGN && m->assign.config) {
        blob_unref(f->config);
        f->config = blob_ref(m->assign.config);
    } else if (m->kind == CTL_QUERY || m->kind == CTL_AUDIT || m->kind == CTL_PROBE) {
        keep_question(f, m);
    } else if (m->kind == CTL_PROBES) {
        for (uint32_t i = 0; i < m->probes.count; i++) {
            const struct ctl_msg one = { .kind = CTL_PROBE, .probe = m->probes.at[i] };

            keep_question(f, &one);
        }
    }
}

static void on_before(void *ctx)
{
    struct heavy *h = ctx;

    h->watch.before(h->watch.ctx);
}

static void on_after(void *ctx)
{
    struct heavy *h = ctx;

    h->watch.after(h->watch.ctx);
}

static void say(struct heavy *h, unsigned device, const struct agent_msg *msg)
{
    struct core_in in = { .kind = CORE_SESSION_MSG };

    in.session.id = h->far[device].session;
    in.session.device_id = nodes[device];
    in.session.msg = msg;
    rig_input(h->rig, &in);
}

static void answer_item(const struct far *f, const struct query_item *of,
                        struct digests_item *ret)
{
    struct digest buckets[16];

    ret->of = *of;
    if (of->node.depth < TREE_DEPTH) {
        ret->child_count = (uint8_t)table_set_children(
            f->tables, (enum table_id)of->table, of->node, ret->children);
        return;
    }
    rows_bucket_digests(
        table_set_rows(f->tables, of->node.vni, (enum table_id)of->table),
        (enum table_id)of->table, of->node.vni, of->bucket, buckets);
    for (uint8_t i = 0; i < 16; i++) {
        if (buckets[i].count > 0) {
            ret->children[ret->child_count++] = (struct tree_child){ i, buckets[i] };
        }
    }
}

static void answer_query(struct heavy *h, unsigned device, const struct ctl_query *q)
{
    struct agent_msg m = { .kind = AGENT_DIGESTS };

    m.digests.query_id = q->query_id;
    m.digests.item_count = q->item_count;
    m.digests.items = calloc(q->item_count, sizeof(*m.digests.items));
    for (uint32_t i = 0; i < q->item_count; i++) {
        answer_item(&h->far[device], &q->items[i], &m.digests.items[i]);
    }
    say(h, device, &m);
    free(m.digests.items);
}

static void answer_audit(struct heavy *h, unsigned device, const struct ctl_audit *a)
{
    struct agent_msg m = { .kind = AGENT_AUDIT };
    const struct tree_node node = { .depth = TREE_DEPTH, .vni = a->vni };

    m.audit.audit_id = a->audit_id;
    for (int t = 0; t < TABLE_COUNT; t++) {
        m.audit.found[t] =
            table_set_digest(h->far[device].tables, (enum table_id)t, node);
    }
    say(h, device, &m);
}

static void answer_probe(struct heavy *h, unsigned device, const struct ctl_probe *p)
{
    const struct far *f = &h->far[device];
    struct agent_msg m = { .kind = AGENT_PROBE };
    struct device_config *config = calloc(1, sizeof(*config));
    const struct memory_probe_view view = { f->tables, config, f->ready };

    ck_assert(!device_config_unpack(f->config->data, f->config->len, config, NULL));
    m.probe.probe_id = p->probe_id;
    memory_probe(&view, p->frame, &m.probe.result);
    say(h, device, &m);
    blob_unref(m.probe.result.frame);
    free(config);
}

/* One answer of one device; false: none is due. */
static bool answer(struct heavy *h, unsigned device)
{
    struct far *f = &h->far[device];
    struct agent_msg m = { .kind = AGENT_ACK };

    if (f->acked < f->seq) {
        f->acked = f->seq;
        m.ack.seq = f->seq;
        m.ack.applied = f->applied;
        m.ack.ready = f->ready;
        say(h, device, &m);
        return true;
    }
    if (!f->first) {
        return false;
    }
    if (f->first->msg.kind == CTL_QUERY) {
        answer_query(h, device, &f->first->msg.query);
    } else if (f->first->msg.kind == CTL_AUDIT) {
        answer_audit(h, device, &f->first->msg.audit);
    } else {
        answer_probe(h, device, &f->first->msg.probe);
    }
    drop_question(f);
    return true;
}

/* Until nobody has anything to say. */
static void settle(struct heavy *h)
{
    bool more = true;

    while (more) {
        rig_run(h->rig);
        more = false;
        for (unsigned i = 0; i < DEVICES; i++) {
            more = answer(h, i) || more;
        }
    }
}

static void dial(struct heavy *h, unsigned device)
{
    struct far *f = &h->far[device];
    struct core_in in = { .kind = CORE_SESSION_OPEN };
    struct agent_msg m = { .kind = AGENT_HELLO };
    const struct tree_node root = { 0 };

    while (f->first) {
        drop_question(f);
    }
    f->end = &f->first;
    f->session = ++h->session;
    f->seq = 0;
    f->acked = 0;
    in.session.id = f->session;
    in.session.device_id = nodes[device];
    rig_input(h->rig, &in);
    rig_copy(m.hello.device_id, nodes[device]);
    m.hello.device_kind = clusters[device][0] == 'h' ? DEVICE_SOFT_H : DEVICE_X86;
    m.hello.boot_id = 7;
    m.hello.ready = f->ready;
    m.hello.applied = f->applied;
    m.hello.hello_id = 1;
    for (int t = TABLE_VNI; t < TABLE_COUNT; t++) {
        m.hello.root[t] = table_set_digest(f->tables, (enum table_id)t, root);
    }
    say(h, device, &m);
}

/* ---- batches ---- */

static uint64_t send(struct heavy *h)
{
    struct command cmd = { .kind = COMMAND_ENTRIES, .who = "heavy" };
    struct core_in in = { .kind = CORE_COMMAND, .command = &cmd };

    cmd.token = ++h->rig->next_token;
    cmd.confirm = h->confirms;
    cmd.entries.ops = batch_writer_finish(&h->writer);
    rig_input(h->rig, &in);
    blob_unref(cmd.entries.ops);
    return cmd.token;
}

static void must(struct heavy *h, uint64_t token)
{
    const struct core_reply *reply = rig_reply(h->rig, token);

    ck_assert_ptr_nonnull(reply);
    ck_assert_msg(!reply->err.code, "%s", reply->err.msg);
    h->rig->reply_count = 0;
}

static void flush(struct heavy *h)
{
    if (h->writer.entry_count > 0) {
        uint64_t token = send(h);

        settle(h);
        must(h, token);
    }
}

static void add(struct heavy *h, enum entry_op op, const struct entry *e)
{
    batch_add_entry(&h->writer, op, e);
    if (h->writer.entry_count == h->size.batch ||
        batch_writer_bytes(&h->writer) > 1000000) {
        flush(h);
    }
}

static void add_tenant(struct heavy *h, uint32_t vni, const char *x86, const char *xgwh)
{
    struct entry e = { .table = TABLE_TENANT, .vni = vni };

    rig_copy(e.tenant.cluster, x86);
    rig_copy(e.tenant.h_home, xgwh);
    add(h, ENTRY_PUT, &e);
}

/* Nested: each 16th is longer by 16 and covers those behind it. */
static struct entry route(uint32_t vni, uint32_t i)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };

    e.route.dst =
        (struct prefix){ ip_v4(0x0a000000u + (i << 8)), i % 16 == 0 ? 20 : 24 };
    e.route.action.scope = SCOPE_LOCAL;
    if (i % 3 == 1) {
        e.route.action.scope = SCOPE_IDC;
        e.route.action.vni = vni;
        e.route.action.endpoint = ip_v4(0xc0a80001);
    }
    return e;
}

static struct entry vm(uint32_t vni, uint32_t i)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = vni };

    e.vm_nc.vm = ip_v4(0x0a000001u + (i << 8));
    e.vm_nc.nc = ip_v4(0xac100001u + i % 4096);
    return e;
}

static struct entry vm6(uint32_t vni, uint32_t i)
{
    struct entry e = vm(vni, i);
    uint8_t b[16] = { 0xfd, [13] = (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i };

    e.vm_nc.vm = ip_v6(b);
    return e;
}

static struct entry peer(uint32_t vni, uint32_t i, uint32_t to)
{
    struct entry e = route(vni, i);

    e.route.action = (struct route_action){ .scope = SCOPE_PEER, .vni = to };
    return e;
}

/* ---- the cases ---- */

static void tenants_at_random(struct heavy *h)
{
    for (uint32_t i = 0; i < h->size.vnis; i++) {
        h->vnis[i] = SMALL + i * 31;
    }
    for (uint32_t i = h->size.vnis; i > 1; i--) {
        uint32_t k = draw(h, i);
        uint32_t vni = h->vnis[k];

        h->vnis[k] = h->vnis[i - 1];
        h->vnis[i - 1] = vni;
    }
    add_tenant(h, LARGE, "x1", "h1");
    add_tenant(h, TARGET, "x2", "h2");
    add_tenant(h, PEERS, "x1", "h1");
    add_tenant(h, MOVER, "x1", "h1");
    for (uint32_t i = 0; i < h->size.vnis; i++) {
        add_tenant(h, h->vnis[i], i % 4 ? "x1" : "x2",
                   i % 4 == 3   ? ""
                   : i % 4 == 0 ? "h2"
                                : "h1");
    }
    flush(h);
}

/* Every row in another VNI than the one before it. */
static void rows_at_random(struct heavy *h)
{
    for (uint32_t n = 0; n < 3; n++) {
        for (uint32_t i = 0; i < h->size.vnis; i++) {
            struct entry r = route(h->vnis[i], 17 * n + i % 15 + 1);
            struct entry v = vm(h->vnis[i], 17 * n + i % 15 + 1);

            add(h, ENTRY_PUT, i % 2 ? &r : &v);
        }
    }
    flush(h);
}

static void rows_changed_at_random(struct heavy *h)
{
    for (uint32_t i = 0; i < h->size.vnis; i++) {
        struct entry v = vm(h->vnis[i], i % 15 + 1);

        v.vm_nc.nc = ip_v4(0xac110001u);
        add(h, ENTRY_PUT, &v);
    }
    flush(h);
}

static void large_tenant(struct heavy *h)
{
    for (uint32_t i = 0; i < h->size.rows; i++) {
        struct entry v = i % 2 ? vm(LARGE, i) : vm6(LARGE, i);

        add(h, ENTRY_PUT, &v);
    }
    for (uint32_t i = 0; i < h->size.rows; i++) {
        struct entry r = route(LARGE, i);

        add(h, ENTRY_PUT, &r);
    }
    flush(h);
}

static void peers(struct heavy *h)
{
    for (uint32_t i = 0; i < h->size.rows; i++) {
        struct entry e = peer(PEERS, i, TARGET);

        add(h, ENTRY_PUT, &e);
    }
    for (uint32_t i = 0; i < h->size.vnis; i++) {
        struct entry e = peer(h->vnis[i], 200, TARGET);

        add(h, ENTRY_PUT, &e);
    }
    flush(h);
}

static void set_policy(struct heavy *h, const char *service, enum policy_place place)
{
    rig_policy(h->rig, service, place);
    settle(h);
}

static void policy_there_and_back(struct heavy *h)
{
    set_policy(h, "local", POLICY_XGW_X86);
    set_policy(h, "local", POLICY_XGW_H);
    set_policy(h, "idc", POLICY_XGW_X86);
}

static void many_routes_of_one(struct heavy *h)
{
    for (uint32_t i = 0; i < 400; i++) {
        struct entry e = route(LARGE, i * 97 % h->size.rows);

        e.route.action.scope = SCOPE_IDC;
        e.route.action.vni = LARGE;
        e.route.action.endpoint = ip_v4(0xc0a80002);
        add(h, ENTRY_PUT, &e);
    }
    flush(h);
}

/* What all others are covered by comes and goes, while many of them are fallbacks. */
static void default_turns(struct heavy *h)
{
    struct entry e = route(LARGE, 0);

    e.route.dst = (struct prefix){ ip_v4(0), 0 };
    add(h, ENTRY_PUT, &e);
    flush(h);
    add(h, ENTRY_DELETE, &e);
    flush(h);
}

/* One VM with a MAC: all IPv6 ones leave XGW-H, and come back. */
static void mac_turns(struct heavy *h)
{
    struct entry e = vm6(LARGE, 0);

    e.vm_nc.has_mac = true;
    e.vm_nc.mac[0] = 2;
    add(h, ENTRY_PUT, &e);
    flush(h);
    e.vm_nc.has_mac = false;
    add(h, ENTRY_PUT, &e);
    flush(h);
}

static void vip(struct heavy *h)
{
    struct command cmd = { .kind = COMMAND_PUT_CLUSTER, .who = "heavy" };

    cmd.cluster = *core_cluster_find(h->rig->core, "h2");
    cmd.cluster.vip_v4 = ip_v4(0xc0000263);
    ck_assert(!rig_command(h->rig, &cmd)->err.code);
    settle(h);
}

static void move_to(struct heavy *h, uint32_t vni, const char *cluster)
{
    struct command cmd = { .kind = COMMAND_MOVE, .who = "heavy" };
    const struct core_reply *reply;
    const struct operation *o;
    char id[OPERATION_ID_MAX + 1];

    cmd.move.vni = vni;
    rig_copy(cmd.move.cluster, cluster);
    reply = rig_command(h->rig, &cmd);
    ck_assert_msg(!reply->err.code, "%s", reply->err.msg);
    rig_copy(id, reply->operation);
    h->rig->reply_count = 0;
    for (unsigned i = 0; i < 1000; i++) {
        settle(h);
        o = core_operation_find(h->rig->core, id);
        if (!o || o->state != OPERATION_RUNNING) {
            break;
        }
        rig_wait(h->rig, 500);
    }
    ck_assert_msg(o && o->state == OPERATION_DONE, "vni %u: step %s, %s", vni,
                  o ? operation_step_name(o) : "none",
                  core_operation_waits(h->rig->core, id));
}

static void move(struct heavy *h)
{
    for (uint32_t i = 0; i < h->size.rows / 3; i++) {
        struct entry v = vm(MOVER, i);
        struct entry e = i % 2 ? route(MOVER, i) : peer(MOVER, i, TARGET);

        add(h, ENTRY_PUT, &v);
        add(h, ENTRY_PUT, &e);
    }
    flush(h);
    move_to(h, MOVER, "h3");
    move_to(h, TARGET, "h4");
}

/* Their homes are left to placement. */
static void tenants_placed(struct heavy *h)
{
    const uint32_t count = h->size.vnis / 5;

    for (uint32_t i = 0; i < count; i++) {
        add_tenant(h, PLACED + i, "", "");
    }
    flush(h);
    h->confirms = true;
    for (uint32_t i = 0; i < count; i++) {
        struct entry e = { .table = TABLE_TENANT, .vni = PLACED + i };

        add(h, ENTRY_DELETE, &e);
    }
    flush(h);
    h->confirms = false;
}

static void first_download(struct heavy *h)
{
    for (unsigned i = 0; i < DEVICES; i++) {
        table_set_free(h->far[i].tables);
        h->far[i].tables = table_set_new();
        h->far[i].ready = false;
        h->far[i].applied = 0;
        dial(h, i);
    }
    settle(h);
}

/* Devices that hold the same keys with other values. */
static void repair(struct heavy *h)
{
    for (unsigned i = 0; i < DEVICES; i++) {
        struct table_set *s = h->far[i].tables;

        for (uint32_t vni = table_set_next(s, VNI_MIN, ~0u); vni;
             vni = table_set_next(s, vni + 1, ~0u)) {
            struct rows *have = table_set_rows(s, vni, TABLE_VM_NC);
            struct rows_iter it = rows_begin(have, TABLE_VM_NC);
            uint8_t value[ENTRY_VALUE_MAX];
            struct rows_step *steps = calloc(rows_count(have) + 1, sizeof(*steps));
            struct rows *made = NULL;
            uint32_t seen = 0;
            uint32_t n = 0;

            while (have && rows_next(&it, &steps[n].row)) {
                memcpy(value, steps[n].row.value, steps[n].row.value_len);
                n += vni != LARGE || seen++ % 2 == 0;
            }
            for (uint32_t k = 0; k < n; k++) {
                steps[k].row.value = value;
            }
            if (n > 0 && !rows_edit(have, TABLE_VM_NC, vni, steps, n, &made, NULL)) {
                ck_assert(!table_set_put(s, vni, TABLE_VM_NC, made));
            }
            free(steps);
        }
        dial(h, i);
    }
    settle(h);
}

static void checkpoint(struct heavy *h)
{
    rig_pass(h->rig, h->rig->config.checkpoint_idle_ms + 1000);
    settle(h);
}

static void suggest(struct heavy *h)
{
    struct command cmd = { .kind = COMMAND_SUGGEST };

    rig_pass(h->rig, 2 * 3600000);
    ck_assert(!rig_command(h->rig, &cmd)->err.code);
}

#define SIDE_NODES 50 /* of 64, which is what routers take */

/* Every device's configuration is looked at when any object changes. */
static void many_nodes(struct heavy *h)
{
    char name[32];
    char cluster[32];
    char address[32];

    for (uint32_t i = 0; i < h->size.nodes; i++) {
        struct core_in in = { .kind = CORE_SESSION_OPEN };
        struct agent_msg m = { .kind = AGENT_HELLO };

        snprintf(cluster, sizeof(cluster), "y%u", i / SIDE_NODES);
        if (i % SIDE_NODES == 0) {
            snprintf(address, sizeof(address), "198.51.100.%u", i / SIDE_NODES + 1);
            rig_cluster(h->rig, cluster, address);
        }
        snprintf(name, sizeof(name), "m%u", i);
        snprintf(address, sizeof(address), "172.20.%u.%u", i / 250, i % 250 + 1);
        rig_node(h->rig, name, cluster, address);
        in.session.id = ++h->session;
        in.session.device_id = name;
        rig_input(h->rig, &in);
        rig_copy(m.hello.device_id, name);
        m.hello.device_kind = DEVICE_X86;
        m.hello.hello_id = 1;
        in.kind = CORE_SESSION_MSG;
        in.session.msg = &m;
        rig_input(h->rig, &in);
    }
    settle(h);
}

static void many_waits(struct heavy *h)
{
    struct command cmd = { .kind = COMMAND_WAIT };
    struct core_in in = { .kind = CORE_COMMAND, .command = &cmd };

    for (uint32_t i = 0; i < h->size.waits; i++) {
        cmd.token = ++h->rig->next_token;
        cmd.wait.revision = core_revision(h->rig->core) + 1;
        cmd.wait.deadline_ms = h->rig->now_ms + 1000;
        rig_input(h->rig, &in);
    }
    settle(h);
    rig_wait(h->rig, 2000);
    ck_assert_ptr_nonnull(rig_reply(h->rig, h->rig->next_token));
    h->rig->reply_count = 0;
}

/* Many batches are under way when the disk refuses the first. */
static void store_refuses(struct heavy *h)
{
    uint64_t first = h->rig->next_token + 1;
    uint32_t at = 0;

    for (uint32_t n = 0; n < 20; n++) {
        for (uint32_t i = 0; i < h->size.batch; i++, at++) {
            struct entry v = vm(h->vnis[at % h->size.vnis], 60 + n);

            batch_add_entry(&h->writer, ENTRY_PUT, &v);
        }
        if (n == 0) {
            store_memory_fail_next(h->rig->store, RC_FULL, false);
        }
        send(h);
        while (core_has_work(h->rig->core)) {
            rig_input(h->rig, &(struct core_in){ .kind = CORE_CONTINUE });
        }
    }
    settle(h);
    ck_assert_int_eq(rig_reply(h->rig, first)->err.code, RC_FULL);
    must(h, first + 19);
}

/* Large and small tenants, with all that is theirs. */
static void tenants_go(struct heavy *h)
{
    static const uint32_t large[] = { LARGE, PEERS, MOVER };

    h->confirms = true;
    for (unsigned i = 0; i < ARRAY_LEN(large); i++) {
        struct entry e = { .table = TABLE_TENANT, .vni = large[i] };

        add(h, ENTRY_DELETE, &e);
        flush(h);
    }
    for (uint32_t i = 0; i < h->size.vnis; i++) {
        struct entry e = { .table = TABLE_TENANT, .vni = h->vnis[i] };

        add(h, ENTRY_DELETE, &e);
    }
    flush(h);
}

/* The quarantine of all of them is over. */
static void freed_vnis(struct heavy *h)
{
    rig_pass(h->rig, h->rig->config.vni_quarantine_ms + 1000);
    for (uint32_t i = 0; i < 12; i++) {
        add_tenant(h, h->vnis[i], "x1", "");
        flush(h);
    }
}

const struct heavy_case heavy_cases[] = {
    { "tenants", tenants_at_random },
    { "rows_at_random", rows_at_random },
    { "rows_changed_at_random", rows_changed_at_random },
    { "large_tenant", large_tenant },
    { "peers", peers },
    { "checkpoint", checkpoint },
    { "many_routes_of_one", many_routes_of_one },
    { "policy", policy_there_and_back },
    { "default_turns", default_turns },
    { "mac_turns", mac_turns },
    { "vip", vip },
    { "move", move },
    { "tenants_placed", tenants_placed },
    { "first_download", first_download },
    { "repair", repair },
    { "suggest", suggest },
    { "nodes", many_nodes },
    { "waits", many_waits },
    { "store_refuses", store_refuses },
    { "tenants_go", tenants_go },
    { "quarantine", freed_vnis },
    { "checkpoint_again", checkpoint },
};
const unsigned heavy_case_count = ARRAY_LEN(heavy_cases);

/* ---- life ---- */

struct heavy *heavy_new(struct heavy_size size, const struct rig_watch *watch)
{
    struct heavy *h = calloc(1, sizeof(*h));
    struct core_config config;

    core_config_default(&config);
    config.vni_quarantine_ms = 60000;
    config.step_units = size.step_units ? size.step_units : config.step_units;
    h->size = size;
    h->seed = 1;
    h->vnis = calloc(size.vnis, sizeof(*h->vnis));
    batch_writer_init(&h->writer);
    h->rig = rig_new_with(&config);
    h->watch = *watch;
    h->rig->watch = (struct rig_watch){ on_before, on_after, on_sent, h };
    for (unsigned i = 0; i < DEVICES; i++) {
        char address[32];

        snprintf(address, sizeof(address), "192.0.2.%u", i + 1);
        if (i % 2 == 0) {
            rig_cluster(h->rig, clusters[i], address);
        } else {
            rig_h_cluster(h->rig, clusters[i], address, clusters[i - 1]);
        }
        snprintf(address, sizeof(address), "172.16.0.%u", i + 1);
        rig_node(h->rig, nodes[i], clusters[i], address);
        h->far[i].tables = table_set_new();
        dial(h, i);
    }
    settle(h);
    return h;
}

void heavy_check(struct heavy *h)
{
    const struct tree_node root = { 0 };
    struct digest desired[DEVICES][TABLE_COUNT];

    settle(h);
    for (unsigned i = 0; i < DEVICES; i++) {
        for (int t = TABLE_VNI; t < TABLE_COUNT; t++) {
            struct digest have =
                table_set_digest(h->far[i].tables, (enum table_id)t, root);

            desired[i][t] = core_group_digest(h->rig->core, clusters[i], t);
            ck_assert_msg(
                have.sum == desired[i][t].sum && have.count == desired[i][t].count,
                "%s holds %llu of %s, not the %llu that are desired, or others",
                nodes[i], (unsigned long long)have.count, table_name((enum table_id)t),
                (unsigned long long)desired[i][t].count);
        }
    }
    rig_restart(h->rig);
    for (unsigned i = 0; i < DEVICES; i++) {
        for (int t = TABLE_VNI; t < TABLE_COUNT; t++) {
            struct digest anew = core_group_digest(h->rig->core, clusters[i], t);

            ck_assert_uint_eq(anew.sum, desired[i][t].sum);
            ck_assert_uint_eq(anew.count, desired[i][t].count);
        }
    }
    for (unsigned i = 0; i < DEVICES; i++) {
        dial(h, i);
    }
    settle(h);
}

void heavy_free(struct heavy *h)
{
    for (unsigned i = 0; i < DEVICES; i++) {
        ck_assert_ptr_null(h->far[i].first);
        blob_unref(h->far[i].config);
        table_set_free(h->far[i].tables);
    }
    batch_writer_fini(&h->writer);
    rig_free(h->rig);
    free(h->vnis);
    free(h);
}
