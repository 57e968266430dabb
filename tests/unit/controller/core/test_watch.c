/* What the core makes of telemetry, and of nodes that are not well. */
#include "tests/unit/controller/core/rig.h"

static void rig_message(struct rig *r, uint64_t session, const char *device,
                        const struct agent_msg *m)
{
    struct core_in in = { .kind = CORE_SESSION_MSG };

    in.session.id = session;
    in.session.device_id = device;
    in.session.msg = m;
    rig_input(r, &in);
    rig_run(r);
}

/* A device that is there and forwards. */
static uint64_t rig_session(struct rig *r, const char *device)
{
    static uint64_t last = 100;
    struct core_in in = { .kind = CORE_SESSION_OPEN };
    struct agent_msg m = { .kind = AGENT_HELLO };

    in.session.id = ++last;
    in.session.device_id = device;
    rig_input(r, &in);
    rig_copy(m.hello.device_id, device);
    m.hello.device_kind = DEVICE_X86;
    m.hello.boot_id = 1;
    m.hello.ready = true;
    m.hello.hello_id = 1;
    rig_message(r, last, device, &m);
    return last;
}

static void rig_close(struct rig *r, uint64_t session, const char *device)
{
    struct core_in in = { .kind = CORE_SESSION_CLOSED };

    in.session.id = session;
    in.session.device_id = device;
    rig_input(r, &in);
}

static void send_load(struct rig *r, uint64_t session, uint64_t used)
{
    struct telemetry *t = calloc(1, sizeof(*t));
    struct agent_msg m = { .kind = AGENT_TELEMETRY, .telemetry = t };

    t->boot_id = 1;
    t->span_ms = 1000;
    t->received = 1000;
    t->reading_count = 2;
    t->readings[0] =
        (struct telemetry_reading){ "port/up0", "rx_bps", READING_LOAD, 1000,
                                    used,       used,     used };
    t->readings[1] = (struct telemetry_reading){
        "", "table.vxlan_route", READING_TABLE, 1000, used, used, used
    };
    rig_message(r, session, "gw-1", &m);
    agent_msg_fini(&m);
}

static uint64_t open_node(struct rig *r)
{
    rig_cluster(r, "x86-1", "172.16.255.1");
    rig_node(r, "gw-1", "x86-1", "172.16.0.1");
    return rig_session(r, "gw-1");
}

static const struct alarm *standing(const struct rig *r, enum alarm_kind kind,
                                    const char *subject)
{
    return alarms_find(health_alarms_of(core_health(r->core)), kind, subject);
}

START_TEST(telemetry_becomes_levels_of_node_and_cluster_and_closes_the_sale)
{
    struct rig *r = rig_new();
    uint64_t s = open_node(r);
    const struct health *h = core_health(r->core);
    const struct level *l;

    send_load(r, s, 690);
    rig_wait(r, 1000);
    ck_assert(health_is_on_sale(h, "x86-1"));
    send_load(r, s, 720);
    rig_wait(r, 1000);
    ck_assert(!health_is_on_sale(h, "x86-1"));
    l = level_of(levels_find(health_levels(h), "cluster/x86-1"), "table.vxlan_route");
    ck_assert_uint_eq(l->bp, 7200);
    ck_assert_int_eq(l->water, WATER_SALE);
    l = level_of(levels_find(health_levels(h), "node/gw-1/port/up0"), "rx_bps");
    ck_assert_uint_eq(l->used, 720);
    ck_assert_uint_eq(r->alarm_count, 0); /* sale is no alarm */
    send_load(r, s, 590);
    rig_wait(r, 1000);
    ck_assert(health_is_on_sale(h, "x86-1"));
    rig_free(r);
}
END_TEST

START_TEST(safe_is_an_alarm_and_a_critical_node_is_handed_on_once)
{
    struct rig *r = rig_new();
    uint64_t s = open_node(r);
    const struct alarm *a;

    send_load(r, s, 850);
    rig_wait(r, 1000);
    a = standing(r, ALARM_LEVEL, "node/gw-1/port/up0/rx_bps");
    ck_assert_ptr_nonnull(a);
    ck_assert_int_eq(a->severity, ALARM_WARNING);
    ck_assert_double_eq(a->value, 85);
    ck_assert_double_eq(a->threshold, 80);
    a = standing(r, ALARM_LEVEL, "cluster/x86-1/table.vxlan_route");
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_null(strstr(r->logs, "node critical"));
    r->logs[0] = '\0';
    for (int i = 0; i < 5; i++) {
        send_load(r, s, 950);
        rig_wait(r, 1000);
    }
    a = standing(r, ALARM_LEVEL, "node/gw-1/port/up0/rx_bps");
    ck_assert_int_eq(a->severity, ALARM_CRITICAL);
    /* By its load once; table memory is no node's fault. */
    ck_assert_ptr_nonnull(strstr(r->logs, "node critical"));
    ck_assert_ptr_null(strstr(strstr(r->logs, "node critical") + 1, "node critical"));
    rig_free(r);
}
END_TEST

#define TENANT(vni) "{\"table\":\"tenant\",\"vni\":" #vni ",\"cluster\":\"x86-1\"}\n"
#define VM(host, nc)                                                                   \
    "{\"table\":\"vm_nc\",\"vni\":1,\"vm\":\"10.0.0." #host "\",\"nc\":\"" nc "\"}\n"
#define NO_VM(host)                                                                    \
    "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":1,\"vm\":\"10.0.0." #host "\"}\n"

START_TEST(tables_that_a_device_reports_close_the_sale_and_at_critical_refuse_entries)
{
    struct rig *r = rig_new();
    uint64_t s = open_node(r);
    const struct core_reply *p;

    rig_must(r, TENANT(1) VM(1, "172.16.1.1") VM(2, "172.16.1.1") VM(3, "172.16.1.1"));
    send_load(r, s, 750);
    rig_wait(r, 1000);
    p = rig_entries(r, TENANT(2));
    ck_assert_int_eq(p->err.code, RC_CONFLICT);
    ck_assert_str_eq(p->err.rule, "sale_closed");
    ck_assert_ptr_nonnull(
        strstr(p->err.msg, "is at 75.00 %, 750 of 1000 (sale level 70"));
    rig_must(r, VM(4, "172.16.1.1")); /* sale closes for tenants, not for entries */
    send_load(r, s, 912);
    rig_wait(r, 1000);
    p = rig_entries(r, VM(4, "172.16.1.2") VM(5, "172.16.1.1"));
    ck_assert_int_eq(p->err.code, RC_FULL);
    ck_assert_str_eq(p->err.rule, "critical_level");
    ck_assert_uint_eq(p->bad_index, 0);
    ck_assert_ptr_nonnull(strstr(p->err.msg, "cluster x86-1 takes no more entries: "
                                             "table.vxlan_route is at 91.20 %, 912 of "
                                             "1000"));
    rig_must(r, VM(4, "172.16.1.2")); /* an update */
    rig_must(r, VM(5, "172.16.1.2") NO_VM(4));
    rig_must(r, NO_VM(3));
    send_load(r, s, 850); /* cleared 10 points lower */
    rig_wait(r, 1000);
    RIG_REFUSES(r, VM(6, "172.16.1.1"), RC_FULL, "critical_level");
    send_load(r, s, 790);
    rig_wait(r, 1000);
    rig_must(r, VM(6, "172.16.1.1"));
    rig_free(r);
}
END_TEST

static uint64_t counted_bps(const struct rig *r)
{
    uint32_t id = core_place_of(r->core, "x86-1");
    const struct placement *p = core_placement(r->core);
    struct usage u;

    placement_usage(p, id, &u);
    return u.amount[0][resource_find(&placement_cluster_at(p, id)->set, "bps")];
}

START_TEST(what_ports_receive_counts_for_the_cluster_beside_what_is_announced)
{
    struct rig *r = rig_new();
    uint64_t s = open_node(r);

    send_load(r, s, 500);
    rig_wait(r, 2000);
    ck_assert_uint_eq(counted_bps(r), 500);
    rig_must(r, "{\"table\":\"tenant\",\"vni\":1,\"reserved_bps\":300}\n");
    rig_wait(r, 2000);
    ck_assert_uint_le(counted_bps(r), 500); /* it is part of it, or not yet here */
    ck_assert_uint_ge(counted_bps(r), 490);
    rig_must(r, "{\"table\":\"tenant\",\"vni\":2,\"reserved_bps\":700}\n");
    rig_wait(r, 2000);
    ck_assert_uint_eq(counted_bps(r), 1000);
    rig_entries_confirmed(r, "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":1}\n"
                             "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":2}\n");
    rig_wait(r, 2000);
    ck_assert_uint_ge(counted_bps(r), 450); /* a peak is kept for a while … */
    rig_wait(r, 800 * 1000);
    ck_assert_uint_eq(counted_bps(r), 0); /* … and goes when nothing is told */
    rig_free(r);
}
END_TEST

START_TEST(a_lost_session_is_one_alarm_that_ends_when_it_is_back)
{
    struct core_config config;
    const struct alarm *a;
    struct rig *r;
    uint64_t s;

    core_config_default(&config);
    config.session_timeout_ms = 600000; /* our device answers no QUERY */
    r = rig_new_with(&config);
    s = open_node(r);
    send_load(r, s, 850);
    rig_wait(r, 1000);
    rig_close(r, s, "gw-1");
    rig_wait(r, 3000); /* an agent that restarts is back by then */
    ck_assert_ptr_null(standing(r, ALARM_NODE_SILENT, "node/gw-1"));
    rig_wait(r, 3000);
    a = standing(r, ALARM_NODE_SILENT, "node/gw-1");
    ck_assert_ptr_nonnull(a);
    ck_assert_uint_eq(a->folded, 1); /* its port's */
    rig_session(r, "gw-1");
    rig_wait(r, 1000 * (ALARM_CLEAR_S + 2));
    ck_assert_ptr_null(standing(r, ALARM_NODE_SILENT, "node/gw-1"));
    rig_free(r);
}
END_TEST

START_TEST(settings_of_levels_are_kept_over_a_restart_and_count_at_once)
{
    struct rig *r = rig_new();
    struct command put = { .kind = COMMAND_PUT_LEVELS, .who = "test" };
    uint64_t s;

    level_settings_default(&put.levels);
    put.levels.of[CLUSTER_X86].marks = (struct level_marks){ 3000, 4000, 5000, 500 };
    ck_assert_int_eq(rig_command(r, &put)->err.code, RC_OK);
    put.levels.of[CLUSTER_X86].marks.safe_bp = 100;
    ck_assert_int_eq(rig_command(r, &put)->err.code, RC_RANGE);
    rig_restart(r);
    ck_assert_uint_eq(core_levels(r->core)->of[CLUSTER_X86].marks.safe_bp, 4000);
    s = open_node(r);
    send_load(r, s, 450);
    rig_wait(r, 1000);
    ck_assert_ptr_nonnull(standing(r, ALARM_LEVEL, "node/gw-1/port/up0/rx_bps"));
    rig_free(r);
}
END_TEST

START_TEST(agents_of_a_large_region_are_told_to_gather_also_when_it_becomes_one)
{
    struct rig *r = rig_new();
    uint32_t before;

    rig_cluster(r, "x86-2", "172.16.255.2"); /* a side has at most 64 nodes */
    open_node(r);
    ck_assert_int_eq(r->sent[0].kind, CTL_ASSIGN);
    ck_assert_uint_eq(r->sent[0].assign.telemetry_ms, 1000);
    before = r->sent_count;
    for (int i = 2; i <= 65; i++) {
        char name[16];
        char vtep[32];

        snprintf(name, sizeof(name), "gw-%d", i);
        snprintf(vtep, sizeof(vtep), "172.16.0.%d", i);
        rig_node(r, name, i % 2 ? "x86-1" : "x86-2", vtep);
        ck_assert_uint_eq(r->sent_count, before + (i == 65));
    }
    ck_assert_int_eq(r->sent[before].kind, CTL_ASSIGN);
    ck_assert_uint_eq(r->sent[before].assign.telemetry_ms, 10000);
    rig_free(r);
}
END_TEST

START_TEST(an_alarm_is_acknowledged_by_a_command)
{
    struct rig *r = rig_new();
    uint64_t s = open_node(r);
    struct command ack = { .kind = COMMAND_ACK, .who = "ann" };

    send_load(r, s, 850);
    rig_wait(r, 1000);
    ack.alarm_id = 1;
    ck_assert_int_eq(rig_command(r, &ack)->err.code, RC_NOT_FOUND);
    ack.alarm_id = standing(r, ALARM_LEVEL, "node/gw-1/port/up0/rx_bps")->id;
    ck_assert_int_eq(rig_command(r, &ack)->err.code, RC_OK);
    ck_assert_str_eq(standing(r, ALARM_LEVEL, "node/gw-1/port/up0/rx_bps")->acked_by,
                     "ann");
    rig_free(r);
}
END_TEST

static void on_event(void *ctx, const struct store_event *event)
{
    (void)ctx;
    (void)event;
}

static void on_done(void *ctx, const struct store_done *done)
{
    (void)ctx;
    (void)done;
}

static void on_range(void *ctx, const struct store_range_reply *reply)
{
    *(uint32_t *)ctx = reply->kv_count;
}

/* Looks into the database, as another process would. */
static uint32_t stored_acks(const struct rig *r)
{
    static const struct store_events events = { on_event, on_done, on_range };
    uint32_t count = UINT32_MAX;
    struct store *s = store_memory_open(r->db, &events, &count);

    store_range(s, 1, store_key_of("/o/ack/", 7), store_key_of("/o/ack0", 7), 100);
    while (store_memory_step(s)) {
    }
    store_close(s);
    return count;
}

START_TEST(an_acknowledgement_outlives_a_restart_and_not_its_alarm)
{
    static const char subject[] = "node/gw-1/port/up0/rx_bps";
    struct rig *r = rig_new();
    uint64_t s = open_node(r);
    struct command ack = { .kind = COMMAND_ACK, .who = "ann" };

    send_load(r, s, 850);
    rig_wait(r, 1000);
    ack.alarm_id = standing(r, ALARM_LEVEL, subject)->id;
    ack.dry_run = true;
    ck_assert_int_eq(rig_command(r, &ack)->err.code, RC_OK);
    ck_assert_uint_eq(standing(r, ALARM_LEVEL, subject)->acked_s, 0);
    ack.dry_run = false;
    ck_assert_int_eq(rig_command(r, &ack)->err.code, RC_OK);
    rig_crash(r, 0);
    rig_open(r);
    s = open_node(r);
    send_load(r, s, 850);
    rig_wait(r, 1000);
    ck_assert_str_eq(standing(r, ALARM_LEVEL, subject)->acked_by, "ann");
    ck_assert_uint_eq(stored_acks(r), 1);
    /* A second time is no change. */
    ack.alarm_id = standing(r, ALARM_LEVEL, subject)->id;
    ck_assert_int_eq(rig_command(r, &ack)->err.code, RC_OK);
    ck_assert_uint_eq(stored_acks(r), 1);
    /* The alarm ends, and the acknowledgement with it. */
    send_load(r, s, 100);
    rig_wait(r, 1000 * (ALARM_CLEAR_S + 2));
    ck_assert_ptr_null(standing(r, ALARM_LEVEL, subject));
    ck_assert_uint_eq(stored_acks(r), 0);
    rig_restart(r);
    ck_assert_uint_eq(stored_acks(r), 0);
    s = open_node(r);
    send_load(r, s, 850);
    rig_wait(r, 1000);
    ck_assert_uint_eq(standing(r, ALARM_LEVEL, subject)->acked_s, 0);
    rig_free(r);
}
END_TEST

START_TEST(an_acknowledgement_whose_alarm_does_not_come_again_is_forgotten)
{
    struct rig *r = rig_new();
    uint64_t s = open_node(r);
    struct command ack = { .kind = COMMAND_ACK, .who = "ann" };

    send_load(r, s, 850);
    rig_wait(r, 1000);
    ack.alarm_id = standing(r, ALARM_LEVEL, "node/gw-1/port/up0/rx_bps")->id;
    ck_assert_int_eq(rig_command(r, &ack)->err.code, RC_OK);
    rig_restart(r);
    rig_wait(r, 1000 * (ALARM_ACK_WAIT_S - 2));
    ck_assert_uint_eq(stored_acks(r), 1);
    rig_wait(r, 5000);
    ck_assert_uint_eq(stored_acks(r), 0);
    rig_restart(r);
    ck_assert_uint_eq(stored_acks(r), 0);
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("watch");

    tcase_set_timeout(tc, 30);
    tcase_add_test(tc,
                   telemetry_becomes_levels_of_node_and_cluster_and_closes_the_sale);
    tcase_add_test(tc, safe_is_an_alarm_and_a_critical_node_is_handed_on_once);
    tcase_add_test(
        tc, tables_that_a_device_reports_close_the_sale_and_at_critical_refuse_entries);
    tcase_add_test(tc,
                   what_ports_receive_counts_for_the_cluster_beside_what_is_announced);
    tcase_add_test(tc, a_lost_session_is_one_alarm_that_ends_when_it_is_back);
    tcase_add_test(tc, settings_of_levels_are_kept_over_a_restart_and_count_at_once);
    tcase_add_test(
        tc, agents_of_a_large_region_are_told_to_gather_also_when_it_becomes_one);
    tcase_add_test(tc, an_alarm_is_acknowledged_by_a_command);
    tcase_add_test(tc, an_acknowledgement_outlives_a_restart_and_not_its_alarm);
    tcase_add_test(tc, an_acknowledgement_whose_alarm_does_not_come_again_is_forgotten);
    return unit_run("watch", tc);
}
