/* The advice on the policy: what it is judged by, and what would come of it. */
#include "controller/core/suggest.h"

#include "controller/core/activity.h"
#include "tests/unit/controller/core/rig.h"

#define HOUR_MS UINT64_C(3600000)
#define DAY_MS  (24 * HOUR_MS)

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % below;
}

/* ---- the judgement ---- */

static const struct suggest_limits limits = { SUGGEST_WATCH_MS, SUGGEST_MATURE_MS };

struct judged {
    struct service_figures f;
    enum policy_place want;
    const char *words; /* in the reason */
};

/* Old, still, watched for a day. */
#define SETTLED(service_, place_)                                                      \
    .service = (service_), .place = (place_), .entries = 1000, .window_ms = DAY_MS,    \
    .age_ms = 8 * DAY_MS

static const struct judged cases[] = {
    { { SETTLED("internet", POLICY_XGW_X86) }, POLICY_XGW_X86, "anyway" },
    { { SETTLED("internet", POLICY_XGW_H) }, POLICY_XGW_X86, "1000 entries that only" },
    { { .service = "idc", .place = POLICY_XGW_H, .window_ms = DAY_MS },
      POLICY_XGW_H,
      "no entries" },
    { { SETTLED("service", POLICY_XGW_X86), .is_rest = true, .changes = 90000 },
      POLICY_XGW_X86,
      "not judged" },
    { { SETTLED("idc", POLICY_XGW_H) }, POLICY_XGW_H, "mature, 8 d old" },
    { { SETTLED("idc", POLICY_XGW_X86) }, POLICY_XGW_X86, "was not measured" },
    { { SETTLED("service:dns", POLICY_XGW_H) }, POLICY_XGW_H, "hands its packets" },
    { { SETTLED("service:dns", POLICY_XGW_X86) }, POLICY_XGW_X86, "hands its packets" },
};

START_TEST(services_are_judged_with_the_reason)
{
    const struct judged *j = &cases[_i];
    char reason[SUGGEST_REASON_MAX + 1] = "";

    ck_assert_int_eq(suggest_judge(&limits, &j->f, reason), j->want);
    ck_assert_msg(strstr(reason, j->words), "%s", reason);
}
END_TEST

static enum policy_place judge(struct service_figures f, const char *words)
{
    char reason[SUGGEST_REASON_MAX + 1] = "";
    enum policy_place place = suggest_judge(&limits, &f, reason);

    ck_assert_msg(strstr(reason, words), "%s", reason);
    return place;
}

START_TEST(the_limits_are_where_they_are_said_to_be)
{
    struct service_figures f = { SETTLED("peer", POLICY_XGW_H) };

    f.changes = 24 * 100; /* 100/h of 1000: a tenth */
    ck_assert_int_eq(judge(f, "stable (100 changes/h)"), POLICY_XGW_H);
    f.changes = 24 * 101;
    ck_assert_int_eq(judge(f, "volatile: 101 changes/h of 1000"), POLICY_XGW_X86);
    ck_assert_int_eq(judge(f, "see first that XGW-x86 can carry"), POLICY_XGW_X86);
    f.entries = 2;
    f.changes = 24 * 60;
    ck_assert_int_eq(judge(f, "stable (60 changes/h)"), POLICY_XGW_H);
    f.changes = 24 * 60 + 1;
    ck_assert_int_eq(judge(f, "volatile"), POLICY_XGW_X86);

    f = (struct service_figures){ SETTLED("peer", POLICY_XGW_H) };
    f.age_ms = 7 * DAY_MS;
    ck_assert_int_eq(judge(f, "mature"), POLICY_XGW_H);
    f.age_ms = 7 * DAY_MS - 1;
    ck_assert_int_eq(judge(f, "new: its first entry came 6 d ago"), POLICY_XGW_X86);
    f.is_older = true; /* how old is not known */
    ck_assert_int_eq(judge(f, "at least 6 d old"), POLICY_XGW_H);

    f.changes = 1000000;
    f.window_ms = HOUR_MS - 1;
    ck_assert_int_eq(judge(f, "watched for 59 min"), POLICY_XGW_H);
    f.window_ms = HOUR_MS;
    ck_assert_int_eq(judge(f, "volatile"), POLICY_XGW_X86);
}
END_TEST

/* ---- in the core ---- */

#define TENANT(vni)                                                                    \
    "{\"table\":\"tenant\",\"vni\":" #vni ",\"cluster\":\"x1\",\"h_home\":\"h1\"}\n"

static struct rig *region(void)
{
    struct rig *r = rig_new();

    rig_cluster(r, "x1", "172.16.255.1");
    rig_h_cluster(r, "h1", "172.16.254.1", "x1");
    return r;
}

static const struct suggestion *suggest(struct rig *r)
{
    struct command cmd = { .kind = COMMAND_SUGGEST };
    const struct core_reply *reply = rig_command(r, &cmd);

    ck_assert_msg(!reply->err.code, "%s", reply->err.msg);
    return core_suggestion(r->core);
}

/* Null: it is not listed. */
static const struct service_advice *advice(const struct suggestion *s,
                                           const char *service)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (strcmp(s->services[i].figures.service, service) == 0) {
            return &s->services[i];
        }
    }
    return NULL;
}

static const struct service_figures *figures(struct rig *r, const char *service)
{
    const struct service_advice *a = advice(suggest(r), service);

    ck_assert_msg(a, "%s is not listed", service);
    return &a->figures;
}

/* Entries of a service by the rows that readers see; null: of all named ones. */
static uint64_t count_entries(const struct rig *r, const char *service)
{
    uint64_t count = 0;

    for (uint32_t vni = core_tenant_next(r->core, 1); vni;
         vni = core_tenant_next(r->core, vni + 1)) {
        struct rows *routes = core_rows(r->core, vni, TABLE_VXLAN_ROUTE);
        struct rows_iter it = rows_begin(routes, TABLE_VXLAN_ROUTE);
        char name[POLICY_SERVICE_MAX + 1];
        struct row row;
        struct entry e;

        while (routes && rows_next(&it, &row)) {
            ck_assert(!entry_unpack(TABLE_VXLAN_ROUTE, vni, &row, &e, NULL));
            policy_service_name(&e.route.action, name);
            count += service ? strcmp(name, service) == 0
                             : e.route.action.scope == SCOPE_SERVICE;
        }
        if (service && strcmp(service, "local") == 0) {
            count += rows_count(core_rows(r->core, vni, TABLE_VM_NC));
        }
    }
    return count;
}

/* Every service is listed with the entries it has. */
static void check_entries(struct rig *r)
{
    const struct suggestion *s = suggest(r);
    uint64_t named = 0;

    for (uint32_t i = 0; i < s->count; i++) {
        const struct service_figures *f = &s->services[i].figures;

        if (!f->is_rest) {
            ck_assert_uint_eq(f->entries, count_entries(r, f->service));
        }
        named += strncmp(f->service, "service", 7) == 0 ? f->entries : 0;
    }
    ck_assert_uint_eq(named, count_entries(r, NULL));
}

static void put_route(struct rig *r, uint32_t vni, unsigned n, const char *action)
{
    char line[256];

    snprintf(line, sizeof(line),
             "{\"table\":\"vxlan_route\",\"vni\":%u,\"prefix\":\"10.%u.%u.0/24\","
             "\"scope\":%s}\n",
             vni, n / 256, n % 256, action);
    rig_must(r, line);
}

static void put_named(struct rig *r, unsigned n, unsigned name)
{
    char action[64];

    snprintf(action, sizeof(action), "\"service\",\"service\":\"s%u\"", name);
    put_route(r, 1, n, action);
}

static void delete_route(struct rig *r, uint32_t vni, unsigned n)
{
    char line[128];

    snprintf(line, sizeof(line),
             "{\"op\":\"delete\",\"table\":\"vxlan_route\",\"vni\":%u,"
             "\"prefix\":\"10.%u.%u.0/24\"}\n",
             vni, n / 256, n % 256);
    rig_must(r, line);
}

#define REGION "\"region\",\"endpoint\":\"172.16.0.8\",\"endpoint_vni\":77"
#define IDC    "\"idc\",\"endpoint\":\"172.16.0.9\",\"endpoint_vni\":5000"

START_TEST(changes_are_counted_for_a_day_and_age_from_the_first_entry)
{
    struct rig *r = region();
    const struct service_figures *f;

    rig_must(r, TENANT(1));
    rig_pass(r, 2 * HOUR_MS);
    for (unsigned i = 0; i < 10; i++) {
        put_route(r, 1, i, IDC);
    }
    put_route(r, 1, 3, IDC); /* nothing new */
    f = figures(r, "idc");
    ck_assert_uint_eq(f->entries, 10);
    ck_assert_uint_eq(f->changes, 10);
    ck_assert_uint_eq(f->window_ms, 2 * HOUR_MS);
    ck_assert(!f->is_older);
    ck_assert_uint_eq(f->age_ms, 0);
    ck_assert(!figures(r, "region")->has_changed);
    rig_pass(r, 3 * HOUR_MS);
    put_route(r, 1, 3, "\"local\""); /* leaves one, comes to the other */
    rig_pass(r, HOUR_MS / 2);
    f = figures(r, "idc");
    ck_assert_uint_eq(f->entries, 9);
    ck_assert_uint_eq(f->changes, 11);
    ck_assert_uint_eq(f->age_ms, 7 * HOUR_MS / 2);
    ck_assert_uint_eq(f->quiet_ms, HOUR_MS / 2);
    ck_assert_uint_eq(figures(r, "local")->changes, 1);
    rig_pass(r, 41 * HOUR_MS / 2); /* 26 h: what was in hour 2 is over */
    ck_assert_uint_eq(figures(r, "idc")->changes, 1);
    ck_assert_uint_eq(figures(r, "idc")->window_ms, 23 * HOUR_MS);
    rig_pass(r, 100 * HOUR_MS);
    ck_assert_uint_eq(figures(r, "idc")->changes, 0);
    delete_route(r, 1, 5);
    ck_assert_uint_eq(figures(r, "idc")->changes, 1);
    rig_free(r);
}
END_TEST

START_TEST(what_was_there_at_the_start_is_older_than_it)
{
    struct rig *r = region();
    const struct service_figures *f;

    rig_must(r, TENANT(1));
    put_route(r, 1, 1, IDC);
    put_named(r, 2, 7);
    rig_restart(r);
    rig_pass(r, 5 * HOUR_MS);
    f = figures(r, "service:s7");
    ck_assert(f->is_older && !f->has_changed);
    ck_assert_uint_eq(f->age_ms, 5 * HOUR_MS);
    ck_assert_uint_eq(f->quiet_ms, 5 * HOUR_MS);
    ck_assert_uint_eq(f->changes, 0);
    ck_assert(figures(r, "idc")->is_older);
    delete_route(r, 1, 1);
    put_route(r, 1, 1, IDC); /* gone and come again: new */
    ck_assert(!figures(r, "idc")->is_older);
    ck_assert_uint_eq(figures(r, "idc")->age_ms, 0);
    check_entries(r);
    rig_free(r);
}
END_TEST

START_TEST(names_beyond_the_bound_are_counted_together_and_exactly)
{
    struct rig *r = region();
    const struct suggestion *s;

    rig_must(r, TENANT(1));
    for (unsigned i = 0; i < ACTIVITY_NAMES_MAX; i++) {
        put_named(r, i, i);
    }
    ck_assert_ptr_null(advice(suggest(r), "service"));
    put_named(r, 3, 1000); /* s3 has none any more, but s1000 came first */
    check_entries(r);
    put_named(r, 5, 1001);
    put_named(r, 900, 1002);
    check_entries(r);
    delete_route(r, 1, 6); /* room for one, but not for one that the rest has too */
    put_named(r, 901, 1000);
    check_entries(r);
    s = suggest(r);
    ck_assert_ptr_nonnull(advice(s, "service"));
    ck_assert(advice(s, "service")->figures.is_rest);
    for (unsigned n = 0; n < 60; n++) { /* names give way to others, and come back */
        seed = n + 1;
        put_named(r, draw(ACTIVITY_NAMES_MAX), draw(2 * ACTIVITY_NAMES_MAX));
        delete_route(r, 1, draw(ACTIVITY_NAMES_MAX));
        if (n % 10 == 0) {
            check_entries(r);
        }
    }
    check_entries(r);
    for (unsigned n = 0; n < ACTIVITY_NAMES_MAX; n++) {
        delete_route(r, 1, n);
    }
    delete_route(r, 1, 900);
    delete_route(r, 1, 901);
    ck_assert_ptr_null(advice(suggest(r), "service")); /* room again */
    put_named(r, 1, 2000);
    ck_assert_ptr_nonnull(advice(suggest(r), "service:s2000"));
    check_entries(r);
    rig_free(r);
}
END_TEST

static void edit(struct rig *r)
{
    static const char *const actions[] = { "\"local\"",
                                           IDC,
                                           "\"internet\"",
                                           "\"service\",\"service\":\"dns\"",
                                           "\"peer\",\"peer_vni\":9",
                                           REGION };
    uint32_t vni = 1 + draw(3);
    char line[256];

    switch (draw(4)) {
    case 0:
        snprintf(line, sizeof(line),
                 "{\"table\":\"vm_nc\",\"vni\":%u,\"vm\":\"%s%u\","
                 "\"nc\":\"172.16.1.1\"%s}\n",
                 vni, draw(2) ? "10.0.0." : "fd00::", 1 + draw(9),
                 draw(8) ? "" : ",\"mac\":\"02:00:00:00:00:05\"");
        rig_must(r, line);
        break;
    case 1:
        snprintf(line, sizeof(line),
                 "{\"table\":\"vxlan_route\",\"vni\":%u,\"prefix\":\"%s/%u\","
                 "\"scope\":%s}\n",
                 vni, draw(2) ? "10.0.0.0" : "fd00::", 8 + 2 * draw(8),
                 actions[draw(6)]);
        rig_entries(r, line); /* host bits of some are refused */
        break;
    case 2:
        delete_route(r, vni, draw(20));
        break;
    default:
        put_route(r, vni, draw(20), actions[draw(6)]);
    }
}

START_TEST(who_follows_gets_the_entries_that_were_promised)
{
    struct rig *r = region();
    unsigned moved = 0;

    seed = 77 + (uint64_t)_i;
    rig_must(r, TENANT(1) TENANT(2) "{\"table\":\"tenant\",\"vni\":3,\"cluster\":"
                                    "\"x1\"}\n" TENANT(9));
    for (unsigned round = 0; round < 12; round++) {
        static struct policy policy;
        struct command cmd = { .kind = COMMAND_PUT_POLICY, .policy = &policy };
        struct resident_size then;
        struct resident_size before;
        const struct suggestion *s;

        for (unsigned i = 0; i < 150; i++) {
            edit(r);
        }
        rig_pass(r, draw(2) ? HOUR_MS : 40 * HOUR_MS);
        rig_policy(r, round % 2 ? "idc" : "local",
                   draw(2) ? POLICY_XGW_H : POLICY_XGW_X86);
        rig_policy(r, "internet", draw(2) ? POLICY_XGW_H : POLICY_XGW_X86);
        policy = *core_policy(r->core);
        check_entries(r);
        s = suggest(r);
        ck_assert_mem_eq(core_policy(r->core), &policy, sizeof(policy));
        before = s->now;
        then = s->then;
        for (uint32_t i = 0; i < s->count; i++) {
            const struct service_advice *a = &s->services[i];

            ck_assert_int_eq(a->figures.place, policy_of_service(core_policy(r->core),
                                                                 a->figures.service));
            if (a->place != a->figures.place) {
                ck_assert(!policy_set(&policy, a->figures.service, a->place, NULL));
            }
        }
        s = suggest(r); /* asking moves nothing */
        ck_assert_uint_eq(s->now.routes, before.routes);
        ck_assert_uint_eq(s->now.vms, before.vms);
        ck_assert(!rig_command(r, &cmd)->err.code);
        s = suggest(r);
        ck_assert_uint_eq(s->now.routes, then.routes);
        ck_assert_uint_eq(s->now.vms, then.vms);
        moved += then.routes != before.routes;
        rig_check_desired(r);
    }
    ck_assert_uint_gt(moved, 0);
    rig_free(r);
}
END_TEST

START_TEST(where_nothing_is_served_nobody_waits)
{
    struct rig *r = region();
    struct core_in in = { .kind = CORE_COMMAND };
    struct command cmd = { .kind = COMMAND_SUGGEST, .token = 1000001 };
    struct core *fresh = core_new(&r->config);
    struct core_effect e;

    in.command = &cmd;
    core_step(fresh, 0, 0, &in);
    ck_assert(core_next_effect(fresh, &e));
    ck_assert_int_eq(e.kind, CORE_REPLY);
    ck_assert_int_eq(e.reply.err.code, RC_UNREACHABLE);
    core_effect_fini(&e);
    core_free(fresh);
    rig_free(r);
}
END_TEST

START_TEST(a_full_policy_is_not_advised_to_hold_more)
{
    struct rig *r = region();
    static struct policy policy;
    struct command cmd = { .kind = COMMAND_PUT_POLICY, .policy = &policy };
    const struct service_advice *a;
    char name[32];

    for (unsigned i = 0; i < POLICY_RULES_MAX; i++) {
        snprintf(name, sizeof(name), "service:t%u", i);
        ck_assert(!policy_set(&policy, name, POLICY_XGW_X86, NULL));
    }
    ck_assert(!rig_command(r, &cmd)->err.code);
    rig_must(r, TENANT(1));
    put_route(r, 1, 1, IDC);
    rig_pass(r, 2 * HOUR_MS);
    a = advice(suggest(r), "idc"); /* new, else */
    ck_assert_int_eq(a->place, POLICY_XGW_H);
    ck_assert_msg(strstr(a->reason, "no room"), "%s", a->reason);
    rig_free(r);
}
END_TEST

START_TEST(who_comes_meanwhile_is_answered_with_the_others)
{
    struct rig *r = region();
    struct core_in in = { .kind = CORE_COMMAND };
    struct command cmd = { .kind = COMMAND_SUGGEST };
    char line[256];

    in.command = &cmd;
    for (unsigned vni = 1; vni <= 6000; vni++) { /* 8 a tenant: more than one slice */
        snprintf(
            line, sizeof(line),
            "{\"table\":\"tenant\",\"vni\":%u,\"cluster\":\"x1\",\"h_home\":\"h1\"}\n",
            vni);
        rig_must(r, line);
    }
    cmd.token = 1000001;
    rig_input(r, &in);
    cmd.token = 1000002;
    rig_input(r, &in);
    ck_assert_ptr_null(core_suggestion(r->core)); /* the first is at work */
    rig_run(r);
    for (uint64_t token = 1000001; token <= 1000002; token++) {
        ck_assert_ptr_nonnull(rig_reply(r, token));
        ck_assert(!rig_reply(r, token)->err.code);
    }
    ck_assert_ptr_nonnull(core_suggestion(r->core));
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("suggest");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, services_are_judged_with_the_reason, 0,
                        sizeof(cases) / sizeof(cases[0]));
    tcase_add_test(tc, the_limits_are_where_they_are_said_to_be);
    tcase_add_test(tc, changes_are_counted_for_a_day_and_age_from_the_first_entry);
    tcase_add_test(tc, what_was_there_at_the_start_is_older_than_it);
    tcase_add_test(tc, names_beyond_the_bound_are_counted_together_and_exactly);
    tcase_add_loop_test(tc, who_follows_gets_the_entries_that_were_promised, 0, 3);
    tcase_add_test(tc, who_comes_meanwhile_is_answered_with_the_others);
    tcase_add_test(tc, where_nothing_is_served_nobody_waits);
    tcase_add_test(tc, a_full_policy_is_not_advised_to_hold_more);
    return unit_run("suggest", tc);
}
