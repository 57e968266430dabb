#include "tests/unit/unit.h"

#include "controller/cli/apply_plan.h"

#include <string.h>

static enum rc plan(const char *text, struct apply_plan *ret, struct err *err)
{
    struct cli_yaml y;
    enum rc rc = cli_yaml_read("f.yaml", text, strlen(text), &y, err);

    ck_assert_msg(rc == RC_OK, "%s", err->msg);
    rc = apply_plan_make("f.yaml", &y, ret, err);
    cli_yaml_fini(&y);
    return rc;
}

START_TEST(objects_come_in_the_order_in_which_they_need_each_other)
{
    static const char *const want[] = { "region",
                                        "cluster c1",
                                        "node n1",
                                        "tenant 7",
                                        "tenant 8",
                                        "route 8 2001:db8::/32",
                                        "route 7 10.0.0.0/24",
                                        "vm 7 10.0.0.5" };
    struct apply_plan p;
    struct err err = { 0 };

    ck_assert_int_eq(
        plan("routes: [{vni: 8, prefix: '2001:DB8::/32', scope: peer, peer_vni: 7}]\n"
             "tenants:\n"
             "- {vni: 7, cluster: c1, routes: [{prefix: 10.0.0.0/24, scope: local}],\n"
             "   vms: [{vm: 10.0.0.5, nc: 172.16.0.1}]}\n"
             "- {vni: 8, cluster: c1, routes: 3, vms: 2, revision: 9}\n"
             "---\n"
             "nodes: [{name: n1, cluster: c1, status: {state: online}, revision: 4}]\n"
             "clusters: [{name: c1, kind: x86}]\n"
             "region: {name: r}\n",
             &p, &err),
        RC_OK);
    ck_assert_uint_eq(p.count, ARRAY_LEN(want));
    for (size_t i = 0; i < p.count; i++) {
        ck_assert_str_eq(p.items[i].label, want[i]);
        /* what only answers carry is not sent back */
        ck_assert_ptr_null(json_object_get(p.items[i].body, "revision"));
        ck_assert_ptr_null(json_object_get(p.items[i].body, "status"));
        ck_assert_ptr_null(json_object_get(p.items[i].body, "routes"));
    }
    ck_assert_str_eq(p.items[2].needs[0], "cluster c1");
    ck_assert_str_eq(p.items[5].needs[1], "tenant 7");
    ck_assert_int_eq(p.items[6].line, 3);
    apply_plan_fini(&p);
}
END_TEST

static const struct {
    const char *yaml;
    const char *rule;
    const char *at;
} bad_cases[] = {
    { "tenant: []\n", "unknown_field", "f.yaml:1: " },
    { "colours: []\n", "unknown_field", "f.yaml:1: " },
    { "- a\n", "type", "f.yaml:1: " },
    { "clusters: {name: a}\n", "type", "f.yaml:1: " },
    { "clusters:\n- name: a\n  vip: 10.0.0.1\n", "unknown_field", "f.yaml:3: " },
    { "clusters:\n- name: a\n- name: a\n", "duplicate", "f.yaml:3: " },
    { "nodes:\n- side: a\n", "required", "f.yaml:2: " },
    { "tenants:\n- {vni: 0, cluster: a}\n", "vni_range", "f.yaml:2" },
    { "tenants:\n- vni: 7\n  cluster: a\n  routes:\n  - prefix: 10.0.0.1/24\n"
      "    scope: local\n",
      "host_bits", "f.yaml:5" },
    { "routes:\n- {vni: 1, prefix: 10.0.0.0/8, scope: local}\n"
      "- {vni: 1, prefix: 10.0.0.0/8, scope: internet}\n",
      "duplicate", "f.yaml:3: " },
    { "tenants:\n- vni: 7\n  cluster: a\n  vms:\n  - {vni: 8, vm: 10.0.0.1, nc: "
      "172.16.0.1}\n",
      "vni_differs", "f.yaml:5: " },
};

START_TEST(a_fault_is_found_before_anything_is_sent)
{
    struct apply_plan p = { 0 };
    struct err err = { 0 };

    ck_assert_int_ne(plan(bad_cases[_i].yaml, &p, &err), RC_OK);
    ck_assert_str_eq(err.rule, bad_cases[_i].rule);
    ck_assert_msg(strncmp(err.msg, bad_cases[_i].at, strlen(bad_cases[_i].at)) == 0,
                  "%s", err.msg);
}
END_TEST

START_TEST(the_sample_region_is_sound)
{
    static char text[1 << 16];
    FILE *f = fopen("deploy/region.yaml", "r");
    struct apply_plan p;
    struct err err = { 0 };

    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    ck_assert_msg(plan(text, &p, &err) == RC_OK, "%s", err.msg);
    ck_assert_uint_ge(p.count, 20);
    apply_plan_fini(&p);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("apply_plan");

    tcase_add_test(tc, objects_come_in_the_order_in_which_they_need_each_other);
    tcase_add_loop_test(tc, a_fault_is_found_before_anything_is_sent, 0,
                        ARRAY_LEN(bad_cases));
    tcase_add_test(tc, the_sample_region_is_sound);
    return unit_run("apply_plan", tc);
}
