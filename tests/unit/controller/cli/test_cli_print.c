#include "tests/unit/unit.h"

#include "controller/cli/cli_print.h"

static const struct cli_column columns[] = {
    { "NAME", "name" },   { "STATE", "status.state" },
    { "FLAGS", "flags" }, { "UPLINKS", "uplinks" },
    { NULL, NULL },
};

static const struct {
    const char *items;
    const char *want;
} table_cases[] = {
    { "[]", "NAME  STATE  FLAGS  UPLINKS\n" },
    { "[{\"name\":\"gw-1a\",\"status\":{\"state\":\"online\"},\"flags\":[\"acl\","
      "\"internet\"],\"uplinks\":[{},{}]},{\"name\":\"x\"}]",
      "NAME   STATE   FLAGS         UPLINKS\n"
      "gw-1a  online  acl,internet  2\n"
      "x      -       -             -\n" },
    { "[{\"name\":true,\"status\":{\"state\":-5},\"flags\":[],\"uplinks\":false}]",
      "NAME  STATE  FLAGS  UPLINKS\n"
      "yes   -5     0      no\n" },
    /* two characters in four bytes are two columns wide */
    { "[{\"name\":\"\\u00e9\\u00e9\",\"uplinks\":\"\"},{\"name\":\"abcde\"}]",
      "NAME   STATE  FLAGS  UPLINKS\n"
      "\xc3\xa9\xc3\xa9     -      -      -\n"
      "abcde  -      -      -\n" },
    /* escape sequences, C1's CSI and line breaks do not reach a terminal */
    { "[{\"name\":\"a\\u001b[2J\\nb\\u009b1m\"}]", "NAME        STATE  FLAGS  UPLINKS\n"
                                                   "a?[2J?b?1m  -      -      -\n" },
};

START_TEST(a_table_is_as_wide_as_its_widest_cells)
{
    json_t *items = json_loads(table_cases[_i].items, 0, NULL);
    struct buf text = BUF_INIT;

    ck_assert_ptr_nonnull(items);
    cli_table(items, columns, &text);
    ck_assert_str_eq(buf_cstr(&text), table_cases[_i].want);
    buf_fini(&text);
    json_decref(items);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("cli_print");

    tcase_add_loop_test(tc, a_table_is_as_wide_as_its_widest_cells, 0,
                        ARRAY_LEN(table_cases));
    return unit_run("cli_print", tc);
}
