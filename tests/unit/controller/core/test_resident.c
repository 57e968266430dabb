/* What an XGW-H group holds: the closed part of its tenants, row by row on the way. */
#include "tests/unit/controller/core/rig.h"

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % below;
}

/* Two XGW-H clusters with the x86 clusters behind them, and one x86 more. */
static struct rig *region(void)
{
    struct rig *r = rig_new();

    rig_cluster(r, "x1", "172.16.255.1");
    rig_cluster(r, "x2", "172.16.255.2");
    rig_cluster(r, "x3", "172.16.255.3");
    rig_h_cluster(r, "h1", "172.16.254.1", "x1");
    rig_h_cluster(r, "h2", "172.16.254.2", "x2");
    return r;
}

#define TENANT(vni, x, h)                                                              \
    "{\"table\":\"tenant\",\"vni\":" #vni ",\"cluster\":\"" x "\",\"h_home\":\"" h     \
    "\"}\n"
#define ROUTE(vni, prefix, rest)                                                       \
    "{\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" prefix                 \
    "\",\"scope\":" rest "}\n"
#define IDC      "\"idc\",\"endpoint\":\"172.16.0.9\",\"endpoint_vni\":5000"
#define REGION   "\"region\",\"endpoint\":\"172.16.0.8\",\"endpoint_vni\":77"
#define LOCAL    "\"local\""
#define INTERNET "\"internet\""
#define DNS      "\"service\",\"service\":\"dns\""
#define VM(vni, vm, rest)                                                              \
    "{\"table\":\"vm_nc\",\"vni\":" #vni ",\"vm\":\"" vm                               \
    "\",\"nc\":\"172.16.1.1\"" rest "}\n"
#define MAC ",\"mac\":\"02:00:00:00:00:05\""
#define RULE                                                                           \
    "{\"table\":\"acl\",\"vni\":1,\"priority\":5,\"src\":\"0.0.0.0/"                   \
    "0\",\"action\":\"deny\"}\n"
#define METER                                                                          \
    "{\"table\":\"meter\",\"vni\":1,\"committed_bps\":1000,\"peak_bps\":2000,"         \
    "\"committed_burst\":9600,\"peak_burst\":9600}\n"

static struct rows *desired(const struct rig *r, const char *cluster, uint32_t vni,
                            enum table_id table)
{
    return table_set_rows(core_group_desired(r->core, cluster), vni, table);
}

/* "10.0.0.0/8=local 10.1.0.0/16=fallback" */
static void check_routes(const struct rig *r, const char *cluster, uint32_t vni,
                         const char *want)
{
    struct rows_iter it =
        rows_begin(desired(r, cluster, vni, TABLE_VXLAN_ROUTE), TABLE_VXLAN_ROUTE);
    char got[1024] = "";
    struct row row;

    while (it.rows && rows_next(&it, &row)) {
        char prefix[PREFIX_TEXT_MAX];
        struct entry e;

        ck_assert(!entry_unpack(TABLE_VXLAN_ROUTE, vni, &row, &e, NULL));
        prefix_print(&e.route.dst, prefix);
        sprintf(got + strlen(got), "%s%s=%s", got[0] ? " " : "", prefix,
                scope_name(e.route.action.scope));
    }
    ck_assert_str_eq(got, want);
}

START_TEST(by_default_only_internet_is_left_off_where_nothing_covers_it)
{
    struct rig *r = region();

    rig_must(r, TENANT(1, "x1", "h1") ROUTE(1, "10.0.0.0/8", LOCAL)
                    ROUTE(1, "0.0.0.0/0", INTERNET) ROUTE(1, "10.9.0.0/16", INTERNET)
                        ROUTE(1, "10.9.1.0/24", INTERNET) ROUTE(1, "100.64.0.0/10", DNS)
                            ROUTE(1, "192.168.0.0/16", IDC) VM(1, "10.0.0.5", ""));
    /* 10.9.1/24 lies in what falls back anyway. */
    check_routes(r, "h1", 1,
                 "10.0.0.0/8=local 10.9.0.0/16=fallback 100.64.0.0/10=service "
                 "192.168.0.0/16=idc");
    ck_assert_ptr_eq(desired(r, "x1", 1, TABLE_VXLAN_ROUTE),
                     core_rows(r->core, 1, TABLE_VXLAN_ROUTE));
    ck_assert_ptr_eq(desired(r, "h1", 1, TABLE_VM_NC),
                     core_rows(r->core, 1, TABLE_VM_NC)); /* shared, not copied */
    rig_must(r, ROUTE(1, "10.0.0.0/8", INTERNET));
    check_routes(r, "h1", 1, "100.64.0.0/10=service 192.168.0.0/16=idc");
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

START_TEST(a_service_that_goes_to_x86_leaves_fallbacks_under_what_stays)
{
    struct rig *r = region();

    rig_must(r, TENANT(1, "x1", "h1") ROUTE(1, "10.0.0.0/8", LOCAL)
                    ROUTE(1, "10.1.0.0/16", IDC) ROUTE(1, "10.1.2.0/24", LOCAL)
                        ROUTE(1, "10.1.2.128/25", IDC) ROUTE(1, "192.168.0.0/16", IDC));
    rig_policy(r, "idc", POLICY_XGW_X86);
    check_routes(r, "h1", 1,
                 "10.0.0.0/8=local 10.1.0.0/16=fallback 10.1.2.0/24=local "
                 "10.1.2.128/25=fallback");
    rig_policy(r, "local", POLICY_XGW_X86);
    check_routes(r, "h1", 1, "");
    rig_policy(r, "idc", POLICY_XGW_H);
    check_routes(r, "h1", 1,
                 "10.1.0.0/16=idc 10.1.2.0/24=fallback 10.1.2.128/25=idc "
                 "192.168.0.0/16=idc");
    rig_restart(r);
    check_routes(r, "h1", 1,
                 "10.1.0.0/16=idc 10.1.2.0/24=fallback 10.1.2.128/25=idc "
                 "192.168.0.0/16=idc");
    rig_policy(r, "local", POLICY_XGW_H);
    ck_assert_ptr_eq(desired(r, "h1", 1, TABLE_VXLAN_ROUTE),
                     core_rows(r->core, 1, TABLE_VXLAN_ROUTE));
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

START_TEST(ipv6_vms_are_resident_all_or_none_and_a_mac_is_not_for_the_chip)
{
    struct rig *r = region();

    rig_must(r, TENANT(1, "x1", "h1") ROUTE(1, "10.0.0.0/8", LOCAL)
                    ROUTE(1, "fd00::/16", LOCAL) ROUTE(1, "::/0", IDC)
                        VM(1, "10.0.0.5", "") VM(1, "10.0.0.6", MAC)
                            VM(1, "fd00::5", "") VM(1, "fd00::6", ""));
    ck_assert_uint_eq(rows_count(desired(r, "h1", 1, TABLE_VM_NC)), 3);
    check_routes(r, "h1", 1, "10.0.0.0/8=local ::/0=idc fd00::/16=local");
    rig_must(r, VM(1, "fd00::7", MAC));
    ck_assert_uint_eq(rows_count(desired(r, "h1", 1, TABLE_VM_NC)), 1);
    check_routes(r, "h1", 1, "10.0.0.0/8=local ::/0=idc fd00::/16=fallback");
    rig_must(r, VM(1, "fd00::7", ""));
    ck_assert_uint_eq(rows_count(desired(r, "h1", 1, TABLE_VM_NC)), 4);
    check_routes(r, "h1", 1, "10.0.0.0/8=local ::/0=idc fd00::/16=local");
    rig_must(r, VM(1, "10.0.0.6", ""));
    ck_assert_ptr_eq(desired(r, "h1", 1, TABLE_VM_NC),
                     core_rows(r->core, 1, TABLE_VM_NC));
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

START_TEST(peers_are_looked_up_at_home_and_else_sent_to_where_they_are_steered)
{
    struct rig *r = region();
    static const char peer[] = ROUTE(1, "10.2.0.0/16", "\"peer\",\"peer_vni\":2");

    rig_must(r, TENANT(1, "x1", "h1") TENANT(2, "x1", "h1"));
    rig_must(r, peer);
    check_routes(r, "h1", 1, "10.2.0.0/16=peer");
    check_routes(r, "x1", 1, "10.2.0.0/16=peer");
    rig_check_desired(r);
    rig_free(r);

    r = region();
    rig_must(r, TENANT(1, "x1", "h1") TENANT(2, "x1", ""));
    rig_must(r, peer); /* h1 sends to x1's VIP, x1 looks it up */
    check_routes(r, "h1", 1, "10.2.0.0/16=derived");
    check_routes(r, "x1", 1, "10.2.0.0/16=peer");
    rig_check_desired(r);
    rig_free(r);

    r = region();
    rig_must(r, TENANT(1, "x1", "h1") TENANT(2, "x2", "h2"));
    rig_must(r, peer); /* both send to h2's */
    check_routes(r, "h1", 1, "10.2.0.0/16=derived");
    check_routes(r, "x1", 1, "10.2.0.0/16=derived");
    rig_check_desired(r);
    rig_policy(r, "peer", POLICY_XGW_X86);
    check_routes(r, "h1", 1, "");
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

START_TEST(rules_and_meters_stand_on_xgw_h_alone_and_turn_the_flag)
{
    struct rig *r = region();
    struct rows_iter it;
    struct row row;

    rig_must(r, TENANT(1, "x1", "h1") RULE METER);
    ck_assert_uint_eq(rows_count(desired(r, "h1", 1, TABLE_ACL)), 1);
    ck_assert_uint_eq(rows_count(desired(r, "h1", 1, TABLE_METER)), 1);
    ck_assert_ptr_null(desired(r, "x1", 1, TABLE_ACL));
    ck_assert_ptr_null(desired(r, "x1", 1, TABLE_METER));
    it = rows_begin(desired(r, "h1", 1, TABLE_VNI), TABLE_VNI);
    ck_assert(rows_next(&it, &row));
    ck_assert_uint_eq(row.value[0], VNI_ACL);
    ck_assert_uint_eq(row.value[1], VNI_HALF_0); /* of two empty ones */
    it = rows_begin(desired(r, "x1", 1, TABLE_VNI), TABLE_VNI);
    ck_assert(rows_next(&it, &row));
    ck_assert_uint_eq(row.value[0] | row.value[1], 0);
    rig_check_desired(r);
    rig_entries_confirmed(r, "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":1}\n");
    ck_assert_ptr_null(desired(r, "h1", 1, TABLE_ACL));
    ck_assert_uint_eq(core_count(r->core, TABLE_ACL), 0);
    ck_assert_uint_eq(core_count(r->core, TABLE_METER), 0);
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

START_TEST(homes_that_do_not_fit_are_refused_with_the_reason)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_PUT_CLUSTER, .who = "test" };
    const struct core_reply *reply;

    RIG_REFUSES(r, TENANT(1, "x1", "h9"), RC_INVALID, "unknown_cluster");
    RIG_REFUSES(r, TENANT(1, "h1", ""), RC_INVALID, "home_kind");
    RIG_REFUSES(r, TENANT(1, "x1", "x2"), RC_INVALID, "home_kind");
    RIG_REFUSES(r, TENANT(1, "x2", "h1"), RC_INVALID, "home_backing");
    RIG_REFUSES(r, TENANT(1, "x1", "") RULE, RC_CONFLICT, "xgw_h_needed");
    RIG_REFUSES(r, TENANT(1, "x1", "") METER, RC_CONFLICT, "xgw_h_needed");
    RIG_REFUSES(r, RULE, RC_INVALID, "unknown_tenant");
    RIG_REFUSES(r, TENANT(1, "x1", "h1") RULE RULE, RC_INVALID, "duplicate_key");
    RIG_REFUSES(r, TENANT(1, "x1", "h1") ROUTE(1, "10.0.0.0/8", "\"fallback\""),
                RC_INVALID, "scope");
    rig_must(r, TENANT(1, "x2", "h2") RULE);
    rig_must(r, TENANT(2, "x1", "h1"));

    cmd.cluster = *core_cluster_find(r->core, "h1");
    rig_copy(cmd.cluster.backing, "x2");
    reply = rig_command(r, &cmd);
    ck_assert_int_eq(reply->err.code, RC_CONFLICT);
    ck_assert_str_eq(reply->err.field, "backing");
    rig_copy(cmd.cluster.backing, "h2");
    reply = rig_command(r, &cmd);
    ck_assert_int_eq(reply->err.code, RC_INVALID);
    ck_assert_str_eq(reply->err.rule, "unknown_cluster");
    cmd = (struct command){ .kind = COMMAND_DELETE_CLUSTER, .name = "x2" };
    reply = rig_command(r, &cmd);
    ck_assert_int_eq(reply->err.code, RC_CONFLICT);
    ck_assert_str_eq(reply->err.rule, "cluster_in_use");
    rig_free(r);
}
END_TEST

/* ---- random edits, with a device that is looked at after every row ---- */

#define VNIS    4
#define ENTRIES 512

/* What the region says of one VNI, as x86 holds it. */
struct intent {
    struct entry at[ENTRIES];
    uint32_t count;
};

static void intent_read(struct intent *n, const struct core *c)
{
    static const enum table_id tables[] = { TABLE_VXLAN_ROUTE, TABLE_VM_NC };

    n->count = 0;
    for (uint32_t vni = 1; vni <= VNIS; vni++) {
        struct tenant_status t;

        if (core_tenant(c, vni, &t) || strcmp(t.h_home, "h1") != 0) {
            continue;
        }
        for (unsigned i = 0; i < 2; i++) {
            struct rows *rows = core_rows(c, vni, tables[i]);
            struct rows_iter it = rows_begin(rows, tables[i]);
            struct row row;

            while (rows && rows_next(&it, &row)) {
                ck_assert_uint_lt(n->count, ENTRIES);
                ck_assert(
                    !entry_unpack(tables[i], vni, &row, &n->at[n->count++], NULL));
            }
        }
    }
}

/* The longest match of a VNI; null: none. */
static const struct entry *lookup(const struct intent *n, uint32_t vni,
                                  const struct ip *dst)
{
    const struct entry *best = NULL;

    for (uint32_t i = 0; i < n->count; i++) {
        const struct entry *e = &n->at[i];

        if (e->table == TABLE_VXLAN_ROUTE && e->vni == vni &&
            prefix_contains(&e->route.dst, dst) &&
            (!best || e->route.dst.len > best->route.dst.len)) {
            best = e;
        }
    }
    return best;
}

static const struct entry *vm_of(const struct intent *n, uint32_t vni,
                                 const struct ip *vm)
{
    for (uint32_t i = 0; i < n->count; i++) {
        if (n->at[i].table == TABLE_VM_NC && n->at[i].vni == vni &&
            ip_compare(&n->at[i].vm_nc.vm, vm) == 0) {
            return &n->at[i];
        }
    }
    return NULL;
}

/* The intent's route says the same: by action, a derived peer being its peer. */
static bool routes_as(const struct intent *n, uint32_t vni, const struct ip *dst,
                      const struct entry *route)
{
    const struct entry *want = lookup(n, vni, dst);
    const struct route_action *a = &route->route.action;

    if (!want) {
        return false;
    }
    if (a->scope == SCOPE_DERIVED || a->scope == SCOPE_PEER) {
        return want->route.action.scope == SCOPE_PEER &&
               want->route.action.vni == a->vni;
    }
    return want->route.action.scope == a->scope &&
           (a->scope == SCOPE_LOCAL || want->route.action.vni == a->vni);
}

/* Behind a local route: the VM's NC, or none, and then the packet falls back.  But a
 * live IPv6 one that is not here may hit another's key. */
static bool hosts_as(const struct intent *n, uint32_t vni, const struct ip *dst,
                     const struct entry *vm)
{
    const struct entry *want = vm_of(n, vni, dst);

    return vm ? want && ip_compare(&vm->vm_nc.nc, &want->vm_nc.nc) == 0
              : dst->family == IP_V4 || !want;
}

struct device {
    struct rig *rig;
    uint64_t session;
    struct table_set *tables;
    struct intent holds;
    bool is_up;
};

static void device_read(struct device *d, uint32_t vni)
{
    static const enum table_id tables[] = { TABLE_VXLAN_ROUTE, TABLE_VM_NC };

    d->holds.count = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct rows *rows = table_set_rows(d->tables, vni, tables[i]);
        struct rows_iter it = rows_begin(rows, tables[i]);
        struct row row;

        while (rows && rows_next(&it, &row)) {
            ck_assert(!entry_unpack(tables[i], vni, &row,
                                    &d->holds.at[d->holds.count++], NULL));
        }
    }
}

static struct ip some_dst(uint32_t i)
{
    uint8_t v6[16] = { 0xfd };

    if (i % 2) {
        v6[1] = (uint8_t)(i / 2 % 4 * 64);
        v6[15] = (uint8_t)(i / 8 % 4);
        return ip_v6(v6);
    }
    return ip_v4(0x0a000000u | (i / 2 % 4 * 64) << 16 | i / 8 % 4);
}

#define DESTINATIONS 64

/* Each packet gets the answer of before, that of after, or goes to XGW-x86. */
static void check_safe(struct device *d, uint32_t vni, const struct intent *before,
                       const struct intent *after)
{
    device_read(d, vni);
    for (uint32_t i = 0; i < DESTINATIONS; i++) {
        struct ip dst = some_dst(i);
        const struct entry *route = lookup(&d->holds, vni, &dst);
        const struct entry *vm = vm_of(&d->holds, vni, &dst);
        char text[IP_TEXT_MAX];

        if (!table_set_rows(d->tables, vni, TABLE_VNI) || !route ||
            route->route.action.scope == SCOPE_FALLBACK ||
            route->route.action.scope == SCOPE_INTERNET ||
            route->route.action.scope == SCOPE_SERVICE) {
            continue;
        }
        ip_print(&dst, text);
        ck_assert_msg(routes_as(before, vni, &dst, route) ||
                          routes_as(after, vni, &dst, route),
                      "vni %u, %s: scope %s of neither before nor after", vni, text,
                      scope_name(route->route.action.scope));
        ck_assert_msg(route->route.action.scope != SCOPE_LOCAL ||
                          hosts_as(before, vni, &dst, vm) ||
                          hosts_as(after, vni, &dst, vm),
                      "vni %u, %s: an NC of neither before nor after", vni, text);
    }
}

static void say(struct device *d, const struct agent_msg *msg)
{
    struct core_in in = { .kind = CORE_SESSION_MSG };

    in.session.id = d->session;
    in.session.device_id = "hw";
    in.session.msg = msg;
    rig_input(d->rig, &in);
}

static void ack(struct device *d, const struct ctl_batch *b)
{
    struct agent_msg m = { .kind = AGENT_ACK };

    m.ack.seq = b->seq;
    m.ack.applied = b->revision;
    m.ack.ready = true;
    say(d, &m);
}

/* Row by row, looked at after each. */
static void apply_rows(struct device *d, const struct ctl_batch *b,
                       const struct intent *before, const struct intent *after)
{
    struct batch_reader r = batch_reader_of(b->ops->data, b->ops->len);
    struct batch_run run;

    while (batch_next(&r, &run)) {
        struct run_reader rows = run_reader_of(&run);
        struct row row;

        while (run_next(&rows, &row)) {
            struct batch_writer w;
            struct blob *one;

            batch_writer_init(&w);
            batch_add_row(&w, (enum batch_op)run.op, (enum table_id)run.table, run.vni,
                          &row);
            one = batch_writer_finish(&w);
            ck_assert(
                !table_set_apply(d->tables, one->data, one->len, NULL, NULL, NULL));
            blob_unref(one);
            batch_writer_fini(&w);
            if (d->is_up) {
                check_safe(d, run.vni, before, after);
            }
        }
    }
}

static void serve(struct device *d, const struct intent *before,
                  const struct intent *after)
{
    for (uint32_t i = 0; i < d->rig->sent_count; i++) {
        struct ctl_msg *m = &d->rig->sent[i];

        if (m->kind != CTL_BATCH || d->rig->sent_to[i] != d->session) {
            continue;
        }
        if (m->batch.ops) {
            apply_rows(d, &m->batch, before, after);
        }
        ack(d, &m->batch);
        rig_run(d->rig);
    }
    for (uint32_t i = 0; i < d->rig->sent_count; i++) {
        ctl_msg_fini(&d->rig->sent[i]);
    }
    d->rig->sent_count = 0;
}

static void dial(struct device *d)
{
    struct core_in in = { .kind = CORE_SESSION_OPEN };
    struct agent_msg m = { .kind = AGENT_HELLO };
    const struct tree_node root = { 0 };

    in.session.id = ++d->session;
    in.session.device_id = "hw";
    rig_input(d->rig, &in);
    rig_copy(m.hello.device_id, "hw");
    m.hello.device_kind = DEVICE_SOFT_H;
    m.hello.boot_id = 7;
    m.hello.ready = d->is_up;
    m.hello.hello_id = d->session;
    for (int t = TABLE_VNI; t < TABLE_COUNT; t++) {
        m.hello.root[t] = table_set_digest(d->tables, (enum table_id)t, root);
    }
    say(d, &m);
    rig_run(d->rig);
}

static void random_route(uint32_t vni, char *at)
{
    static const char *const scopes[] = { LOCAL, LOCAL, IDC, INTERNET, DNS, REGION };
    static const unsigned lengths[] = { 0, 8, 9, 10, 16, 24, 31, 32 };
    static const unsigned v6_lengths[] = { 0, 8, 9, 10, 64, 120, 127, 128 };
    unsigned len = draw(8);
    struct prefix p = { some_dst(draw(DESTINATIONS)), 0 };
    char text[PREFIX_TEXT_MAX];

    p.len = (uint8_t)(p.addr.family == IP_V4 ? lengths[len] : v6_lengths[len]);
    prefix_mask(&p);
    prefix_print(&p, text);
    if (draw(3) == 0) {
        sprintf(at,
                "{\"op\":\"delete\",\"table\":\"vxlan_route\",\"vni\":%u,\"prefix\":"
                "\"%s\"}\n",
                vni, text);
    } else if (draw(6) == 0) {
        sprintf(at,
                "{\"table\":\"vxlan_route\",\"vni\":%u,\"prefix\":\"%s\",\"scope\":"
                "\"peer\",\"peer_vni\":%u}\n",
                vni, text, 1 + (vni + draw(VNIS - 1)) % VNIS);
    } else {
        sprintf(at,
                "{\"table\":\"vxlan_route\",\"vni\":%u,\"prefix\":\"%s\",\"scope\":%s}"
                "\n",
                vni, text, scopes[draw(6)]);
    }
}

static void random_vm(uint32_t vni, char *at)
{
    struct ip vm = some_dst(draw(DESTINATIONS));
    char text[IP_TEXT_MAX];

    ip_print(&vm, text);
    if (vm.b[vm.family == IP_V4 ? 3 : 15] == 0 || draw(3) == 0) {
        sprintf(at,
                "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":%u,\"vm\":\"%s\"}\n",
                vni, text);
    } else {
        sprintf(
            at,
            "{\"table\":\"vm_nc\",\"vni\":%u,\"vm\":\"%s\",\"nc\":\"172.16.1.%u\"%s}"
            "\n",
            vni, text, 1 + draw(9), draw(12) ? "" : MAC);
    }
}

static void random_line(char *lines)
{
    static const char *const homes[] = { "\"x1\",\"h_home\":\"h1\"",
                                         "\"x1\",\"h_home\":\"h1\"",
                                         "\"x2\",\"h_home\":\"h2\"", "\"x1\"",
                                         "\"x3\"" };
    uint32_t vni = 1 + draw(VNIS);
    char *at = lines + strlen(lines);

    switch (draw(12)) {
    case 0:
        sprintf(at, "{\"table\":\"tenant\",\"vni\":%u,\"cluster\":%s}\n", vni,
                homes[draw(5)]);
        break;
    case 1:
        if (draw(6) == 0) {
            sprintf(at, "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":%u}\n", vni);
        }
        break;
    case 2:
        sprintf(at,
                "{%s\"table\":\"acl\",\"vni\":%u,\"priority\":%u,\"src\":\"::/0\"%s}\n",
                draw(2) ? "\"op\":\"delete\"," : "", vni, 1 + draw(4),
                ",\"action\":\"permit\"");
        break;
    case 3:
    case 4:
    case 5:
        random_vm(vni, at);
        break;
    default:
        random_route(vni, at);
        break;
    }
}

static void random_policy(struct rig *r)
{
    static const char *const services[] = { "local",      "peer",     "idc",
                                            "region",     "internet", "service",
                                            "service:dns" };

    rig_policy(r, services[draw(7)], draw(2) ? POLICY_XGW_H : POLICY_XGW_X86);
}

START_TEST(through_any_edits_the_set_is_closed_and_so_is_every_step_to_it)
{
    struct rig *r = region();
    struct device d = { .rig = r, .session = 100, .tables = table_set_new() };
    struct intent *before = calloc(1, sizeof(*before));
    struct intent *after = calloc(1, sizeof(*after));
    int accepted = 0;

    seed = 0x9e3779b97f4a7c15u * (uint64_t)(_i + 1);
    rig_node(r, "hw", "h1", "172.16.0.77");
    dial(&d);
    serve(&d, before, after);
    d.is_up = true;
    for (int step = 0; step < 250; step++) {
        char lines[4096] = "";

        intent_read(before, r->core);
        if (draw(12) == 0) {
            random_policy(r);
        } else {
            for (uint32_t n = 1 + draw(8); n > 0; n--) {
                random_line(lines);
            }
            accepted += rig_entries_confirmed(r, lines)->err.code == RC_OK;
        }
        intent_read(after, r->core);
        serve(&d, before, after);
        for (uint32_t vni = 1; vni <= VNIS; vni++) {
            check_safe(&d, vni, after, after);
        }
        rig_check_desired(r);
        if (draw(200) == 0) {
            rig_restart(r);
            dial(&d);
            serve(&d, after, after);
        }
        for (int t = TABLE_VNI; t < TABLE_COUNT; t++) {
            const struct tree_node root = { 0 };
            struct digest have = table_set_digest(d.tables, (enum table_id)t, root);
            struct digest want = core_group_digest(r->core, "h1", (enum table_id)t);

            ck_assert_uint_eq(have.sum, want.sum);
        }
    }
    ck_assert_int_gt(accepted, 60);
    table_set_free(d.tables);
    free(before);
    free(after);
    rig_free(r);
}
END_TEST

START_TEST(a_new_policy_is_worked_off_in_slices_and_waits_know_it)
{
    struct rig *r = region();
    struct command put = { .kind = COMMAND_PUT_POLICY, .who = "test", .token = 9001 };
    struct command wait = { .kind = COMMAND_WAIT, .token = 9002 };
    struct policy policy = { 0 };
    struct core_in in = { .kind = CORE_COMMAND, .command = &put };
    struct device d = { .rig = r, .session = 100, .tables = table_set_new() };
    int slices = 0;

    rig_node(r, "hw", "h1", "172.16.0.77");
    dial(&d);
    serve(&d, &d.holds, &d.holds);
    for (uint32_t vni = 1; vni <= 200; vni++) {
        struct batch_writer w;
        struct entry e = { .table = TABLE_TENANT, .vni = vni };

        batch_writer_init(&w);
        rig_copy(e.tenant.cluster, "x1");
        rig_copy(e.tenant.h_home, "h1");
        batch_add_entry(&w, ENTRY_PUT, &e);
        for (uint32_t i = 0; i < 500; i++) {
            e = (struct entry){ .table = TABLE_VXLAN_ROUTE, .vni = vni };
            e.route.dst = (struct prefix){ ip_v4(0x0a000000 | i << 8), 24 };
            e.route.action.scope = i % 2 ? SCOPE_LOCAL : SCOPE_INTERNET;
            batch_add_entry(&w, ENTRY_PUT, &e);
        }
        ck_assert(!rig_reply(r, rig_queue(r, batch_writer_finish(&w))));
        batch_writer_fini(&w);
        rig_run(r);
        serve(&d, &d.holds, &d.holds);
    }
    ck_assert(!policy_set(&policy, "local", POLICY_XGW_X86, NULL));
    put.policy = &policy;
    rig_input(r, &in);
    while (!core_policy_is_pending(r->core)) {
        ck_assert(rig_step(r));
    }
    wait.wait.revision = core_revision(r->core);
    wait.wait.deadline_ms = r->now_ms + 60000;
    in.command = &wait;
    rig_input(r, &in);
    /* A tenant that is not reached yet and changes is right at once. */
    rig_queue(r, rig_batch(ROUTE(200, "11.0.0.0/8", LOCAL)));
    while (core_policy_is_pending(r->core)) {
        ck_assert_ptr_null(rig_reply(r, 9002));
        ck_assert(rig_step(r));
        slices++;
    }
    ck_assert_int_gt(slices, 4);
    rig_run(r);
    ck_assert_ptr_null(rig_reply(r, 9002)); /* the node has not said so yet */
    serve(&d, &d.holds, &d.holds);
    ck_assert_ptr_nonnull(rig_reply(r, 9002));
    ck_assert(rig_reply(r, 9002)->applied);
    rig_check_desired(r);
    ck_assert_ptr_null(desired(r, "h1", 200, TABLE_VXLAN_ROUTE));
    table_set_free(d.tables);
    rig_free(r);
}
END_TEST

START_TEST(an_xgw_h_node_is_told_the_members_of_the_active_side_behind_it)
{
    struct rig *r = region();
    struct device d = { .rig = r, .session = 100, .tables = table_set_new() };
    static struct device_config config;
    struct command cmd = { .kind = COMMAND_PUT_NODE, .who = "test" };
    const struct ctl_msg *assign = NULL;

    rig_node(r, "hw", "h1", "172.16.0.77");
    for (int i = 0; i < 3; i++) { /* n0 has no fallback address, n2 is of side b */
        rig_copy(cmd.node.cluster, "x1");
        snprintf(cmd.node.name, sizeof(cmd.node.name), "n%d", i);
        cmd.node.kind = DEVICE_X86;
        cmd.node.side = i == 2 ? 'b' : 'a';
        cmd.node.vtep_v4 = ip_v4(0xac100001 + (uint32_t)i);
        cmd.node.fallback_v4 = i ? ip_v4(0xac100101 + (uint32_t)i) : (struct ip){ 0 };
        ck_assert(!rig_command(r, &cmd)->err.code);
    }
    dial(&d);
    for (uint32_t i = 0; i < r->sent_count; i++) {
        assign = r->sent[i].kind == CTL_ASSIGN ? &r->sent[i] : assign;
    }
    ck_assert_ptr_nonnull(assign);
    ck_assert(!device_config_unpack(assign->assign.config->data,
                                    assign->assign.config->len, &config, NULL));
    ck_assert_int_eq(config.kind, DEVICE_SOFT_H);
    ck_assert_uint_eq(config.fallback_member_count, 1);
    ck_assert_uint_eq(config.fallback_members[0].v4.b[3], 0x02);
    ck_assert_uint_eq(config.fallback_meter.node[FALLBACK_MISS].rate_bps, 4000000000);
    serve(&d, &d.holds, &d.holds);
    table_set_free(d.tables);
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("resident");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, by_default_only_internet_is_left_off_where_nothing_covers_it);
    tcase_add_test(tc, a_service_that_goes_to_x86_leaves_fallbacks_under_what_stays);
    tcase_add_test(tc, ipv6_vms_are_resident_all_or_none_and_a_mac_is_not_for_the_chip);
    tcase_add_test(tc,
                   peers_are_looked_up_at_home_and_else_sent_to_where_they_are_steered);
    tcase_add_test(tc, rules_and_meters_stand_on_xgw_h_alone_and_turn_the_flag);
    tcase_add_test(tc, homes_that_do_not_fit_are_refused_with_the_reason);
    tcase_add_loop_test(
        tc, through_any_edits_the_set_is_closed_and_so_is_every_step_to_it, 0, 3);
    tcase_add_test(tc, a_new_policy_is_worked_off_in_slices_and_waits_know_it);
    tcase_add_test(tc, an_xgw_h_node_is_told_the_members_of_the_active_side_behind_it);
    return unit_run("resident", tc);
}
