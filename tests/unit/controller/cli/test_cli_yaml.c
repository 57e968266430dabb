#include "tests/unit/unit.h"

#include "controller/cli/cli_print.h"
#include "controller/cli/cli_yaml.h"

#include <string.h>

static enum rc read(const char *text, struct cli_yaml *ret, struct err *err)
{
    return cli_yaml_read("f.yaml", text, strlen(text), ret, err);
}

/* Expected values: YAML 1.2.2, chapter 10.3, as far as cli_yaml.h takes it. */
static const struct {
    const char *yaml;
    const char *json; /* of all documents */
} good_cases[] = {
    { "", "[]" },
    { "# nothing\n", "[]" },
    { "a: 1\nb: [x, y]\n", "[{\"a\":1,\"b\":[\"x\",\"y\"]}]" },
    { "a: {b: {c: d}}", "[{\"a\":{\"b\":{\"c\":\"d\"}}}]" },
    { "- 0\n- -5\n- 16777215\n", "[[0,-5,16777215]]" },
    { "- 010\n- 1.5\n- 0x10\n- +1\n- 12:30\n",
      "[[\"010\",\"1.5\",\"0x10\",\"+1\",\"12:30\"]]" },
    { "- true\n- false\n- null\n- ~\n-\n", "[[true,false,null,null,null]]" },
    { "- yes\n- no\n- on\n- True\n", "[[\"yes\",\"no\",\"on\",\"True\"]]" },
    { "- '1'\n- \"true\"\n- |\n  x\n", "[[\"1\",\"true\",\"x\\n\"]]" },
    { "mac: 02:00:00:00:00:05\n", "[{\"mac\":\"02:00:00:00:00:05\"}]" },
    { "a: 1\n---\nb: 2\n...\n", "[{\"a\":1},{\"b\":2}]" },
    { "a: &x {p: 1}\nb: *x\n", "[{\"a\":{\"p\":1},\"b\":{\"p\":1}}]" },
    { "n: 999999999999999999\n", "[{\"n\":999999999999999999}]" },
    { "n: 9999999999999999999\n", "[{\"n\":\"9999999999999999999\"}]" },
};

START_TEST(scalars_and_structures_become_the_json_they_look_like)
{
    struct cli_yaml y;
    struct err err = { 0 };
    json_t *want = json_loads(good_cases[_i].json, 0, NULL);

    ck_assert_ptr_nonnull(want);
    ck_assert_int_eq(read(good_cases[_i].yaml, &y, &err), RC_OK);
    ck_assert(json_equal(y.documents, want));
    json_decref(want);
    cli_yaml_fini(&y);
}
END_TEST

static const struct {
    const char *yaml;
    const char *rule;
    const char *at; /* what the message begins with */
} bad_cases[] = {
    { "a: 1\na: 2\n", "yaml_duplicate", "f.yaml:2: " },
    { "x:\n  - {a: 1, a: 2}\n", "yaml_duplicate", "f.yaml:2: " },
    { "a: !!str 1\n", "yaml_tag", "f.yaml:1: " },
    { "a: !x {b: 1}\n", "yaml_tag", "f.yaml:1: " },
    { "? [1, 2]\n: x\n", "yaml_key", "f.yaml:1: " },
    { "a:\n\tb: 1\n", "yaml_syntax", "f.yaml:2: " },
    { "a: [1, 2\n", "yaml_syntax", "f.yaml:" },
    { "a: *x\n", "yaml_alias", "f.yaml:1: " },
    { "a: &x [*x]\n", "yaml_alias", "f.yaml:1: " }, /* within itself */
    { "a: &x 1\n---\nb: *x\n", "yaml_alias", "f.yaml:3: " },
    { "a: \"x\\0y\"\n", "yaml_syntax", "f.yaml:1: " },
    { "a: \xff\n", "yaml_syntax", "f.yaml:" },
    { "[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]", "yaml_limit", "f.yaml:1: " },
};

START_TEST(what_is_not_taken_is_refused_with_its_line)
{
    struct cli_yaml y = { NULL, NULL };
    struct err err = { 0 };

    ck_assert_int_eq(read(bad_cases[_i].yaml, &y, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, bad_cases[_i].rule);
    ck_assert_msg(strncmp(err.msg, bad_cases[_i].at, strlen(bad_cases[_i].at)) == 0,
                  "%s", err.msg);
    ck_assert_ptr_null(y.documents);
}
END_TEST

START_TEST(a_billion_laughs_are_refused)
{
    static const char text[] = "a: &a [lol,lol,lol,lol,lol,lol,lol,lol,lol,lol]\n"
                               "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
                               "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
                               "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
                               "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
                               "f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
    struct cli_yaml y;
    struct err err = { 0 };

    ck_assert_int_eq(read(text, &y, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "yaml_limit");
}
END_TEST

START_TEST(one_long_text_is_not_copied_without_end)
{
    const size_t size = 600000;
    char *text = malloc(size + 100);
    struct cli_yaml y;
    struct err err = { 0 };

    ck_assert_ptr_nonnull(text);
    strcpy(text, "a: &a ");
    memset(text + 6, 'x', size);
    strcpy(text + 6 + size, "\nb: [*a]\nc: [*a]\n");
    ck_assert_int_eq(read(text, &y, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "yaml_limit");
    free(text);
}
END_TEST

START_TEST(everything_knows_its_line)
{
    struct cli_yaml y;
    struct err err = { 0 };

    ck_assert_int_eq(read("region:\n"
                          "  name: r\n"
                          "nodes:\n"
                          "- name: a\n"
                          "  uplinks:\n"
                          "  - port: up0\n"
                          "    mtu: 9000\n"
                          "---\n"
                          "vms: []\n",
                          &y, &err),
                     RC_OK);
    ck_assert_int_eq(cli_yaml_line(&y, "[0].region.name"), 2);
    ck_assert_int_eq(cli_yaml_line(&y, "[0].nodes[0]"), 4);
    ck_assert_int_eq(cli_yaml_line(&y, "[0].nodes[0].uplinks[0].mtu"), 7);
    /* what is not there has the line of what is around it */
    ck_assert_int_eq(cli_yaml_line(&y, "[0].nodes[0].uplinks[0].mac"), 6);
    ck_assert_int_eq(cli_yaml_line(&y, "[1].vms"), 9);
    cli_yaml_fini(&y);
}
END_TEST

static const char *const round_cases[] = {
    "{}",
    "{\"nodes\":[]}",
    "{\"nodes\":[{\"name\":\"gw-1\",\"uplinks\":[{\"port\":\"up0\",\"mtu\":9000},{}],"
    "\"side\":\"a\"},{\"name\":\"x\"}]}",
    "{\"a\":[\"true\",\"no\",\"~\",\"null\",\"1\",\"-5\",\"\",\" x\",\"a: b\",\"#\"]}",
    "{\"a\":[true,false,null,0,-7,16777215]}",
    "{\"p\":[\"10.0.0.0/8\",\"2001:db8::/32\",\"02:00:00:00:00:05\",\"-\",\"- x\"]}",
    "{\"u\":[\"\\u00e9\",\"\\u4e2d\\u6587\",\"\\ud83d\\ude00\",\"\\n\\t\\\"\\\\\","
    "\"\\u007f\\u0085\\u2028\\ufeff\"]}",
    "{\"true\":1,\"a b\":2,\"\\u00e9\":3,\"[x]\":4}",
    "[[1,[2,[3]]],{\"a\":{\"b\":[{\"c\":[]}]}}]",
};

START_TEST(printed_yaml_reads_back_as_the_same_json)
{
    json_t *json = json_loads(round_cases[_i], 0, NULL);
    struct buf text = BUF_INIT;
    struct cli_yaml y;
    struct err err = { 0 };

    ck_assert_ptr_nonnull(json);
    cli_yaml_print(json, &text);
    ck_assert_msg(read(buf_cstr(&text), &y, &err) == RC_OK, "%s\n%s", err.msg,
                  buf_cstr(&text));
    ck_assert_msg(json_equal(json_array_get(y.documents, 0), json), "%s",
                  buf_cstr(&text));
    cli_yaml_fini(&y);
    json_decref(json);
    buf_fini(&text);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("cli_yaml");

    tcase_add_loop_test(tc, scalars_and_structures_become_the_json_they_look_like, 0,
                        ARRAY_LEN(good_cases));
    tcase_add_loop_test(tc, what_is_not_taken_is_refused_with_its_line, 0,
                        ARRAY_LEN(bad_cases));
    tcase_add_test(tc, a_billion_laughs_are_refused);
    tcase_add_test(tc, one_long_text_is_not_copied_without_end);
    tcase_add_test(tc, everything_knows_its_line);
    tcase_add_loop_test(tc, printed_yaml_reads_back_as_the_same_json, 0,
                        ARRAY_LEN(round_cases));
    return unit_run("cli_yaml", tc);
}
