#include "tests/unit/unit.h"

#include <string.h>

#include "controller/audit/audit.h"
#include "proto/model/batch.h"

#define NOW UINT64_C(1000000)

/* Two VNIs with a route and a VM each, and the facts of a node that was sent them. */
static struct table_set *desired;
static struct audit_facts facts;
static struct audit *audit;
static struct ctl_msg msg;

static void setup(void)
{
    struct audit_record r = {
        .number = 7, .node = "gw-1", .cluster = "x", .side = 'a'
    };
    struct batch_writer w;
    struct blob *ops;

    batch_writer_init(&w);
    for (uint32_t vni = 1; vni <= 2; vni++) {
        struct entry route = { .table = TABLE_VXLAN_ROUTE, .vni = vni };
        struct entry vm = { .table = TABLE_VM_NC, .vni = vni };

        route.route.dst = (struct prefix){ ip_v4(0x0a000000), 8 };
        route.route.action.scope = SCOPE_LOCAL;
        vm.vm_nc.vm = ip_v4(0x0a000001);
        vm.vm_nc.nc = ip_v4(0xac100001);
        batch_add_entry(&w, ENTRY_PUT, &route);
        batch_add_entry(&w, ENTRY_PUT, &vm);
    }
    ops = batch_writer_finish(&w);
    batch_writer_fini(&w);
    desired = table_set_new();
    ck_assert_int_eq(table_set_apply(desired, ops->data, ops->len, NULL, NULL, NULL),
                     RC_OK);
    blob_unref(ops);
    facts = (struct audit_facts){ .session = 3,
                                  .is_level = true,
                                  .is_settled = true,
                                  .revision = 40,
                                  .desired = desired };
    audit = audit_new(&r);
    ck_assert_int_eq(audit_next(audit, &facts, NOW, &msg), AUDIT_SENDS);
    ck_assert_int_eq(msg.kind, CTL_AUDIT);
}

static void teardown(void)
{
    audit_free(audit);
    table_set_free(desired);
}

/* What a device that holds just that says. */
static struct agent_audit answer(void)
{
    struct agent_audit m = { .audit_id = msg.audit.audit_id, .rc = RC_OK };

    for (int t = 0; t < TABLE_COUNT; t++) {
        m.found[t] =
            table_set_digest(desired, (enum table_id)t, (struct tree_node){ 0 });
    }
    return m;
}

START_TEST(equal_digests_are_all_that_is_said)
{
    struct agent_audit m = answer();

    audit_answer(audit, &facts, NOW + 5, &m);
    ck_assert_int_eq(audit_next(audit, &facts, NOW + 5, &msg), AUDIT_ENDS);
    ck_assert_int_eq(audit_record_of(audit)->result, AUDIT_CLEAN);
    ck_assert_uint_eq(audit_record_of(audit)->read_ms, 5);
}
END_TEST

START_TEST(only_the_table_that_differs_is_asked_about)
{
    struct agent_audit m = answer();

    m.found[TABLE_VM_NC].sum++;
    audit_answer(audit, &facts, NOW + 5, &m);
    ck_assert_int_eq(audit_next(audit, &facts, NOW + 5, &msg), AUDIT_SENDS);
    ck_assert_int_eq(msg.kind, CTL_QUERY);
    ck_assert_uint_eq(msg.query.item_count, 1);
    ck_assert_uint_eq(msg.query.items[0].table, TABLE_VM_NC);
    ck_assert_int_eq(audit_record_of(audit)->result, AUDIT_OPEN);
}
END_TEST

/* What was desired has changed since it was read: the digests say nothing, all is asked
 * and compared with what is desired then. */
START_TEST(digests_of_another_moment_prove_nothing)
{
    struct agent_audit m = answer();

    facts.revision++;
    audit_answer(audit, &facts, NOW + 5, &m);
    ck_assert_int_eq(audit_next(audit, &facts, NOW + 5, &msg), AUDIT_SENDS);
    ck_assert_int_eq(msg.kind, CTL_QUERY);
    ck_assert_uint_eq(msg.query.item_count, TABLE_COUNT - TABLE_VNI);
}
END_TEST

START_TEST(an_answer_to_another_question_is_none)
{
    struct agent_audit m = answer();

    m.audit_id ^= 2;
    audit_answer(audit, &facts, NOW + 5, &m);
    ck_assert_int_eq(audit_next(audit, &facts, NOW + 5, &msg), AUDIT_STAYS);
    ck_assert_int_eq(audit_record_of(audit)->state, AUDIT_READING);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("audit");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, equal_digests_are_all_that_is_said);
    tcase_add_test(tc, only_the_table_that_differs_is_asked_about);
    tcase_add_test(tc, digests_of_another_moment_prove_nothing);
    tcase_add_test(tc, an_answer_to_another_question_is_none);
    return unit_run("audit", tc);
}
