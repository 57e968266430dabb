#include "tests/unit/unit.h"

#include "controller/cli/import_lines.h"

#include <string.h>

#define A   "{\"table\":\"vm_nc\",\"vni\":7,\"vm\":\"10.0.0.1\",\"nc\":\"172.16.0.1\"}"
#define B   "{\"table\":\"vm_nc\",\"vni\":7,\"vm\":\"10.0.0.2\",\"nc\":\"172.16.0.1\"}"
#define BAD "{\"table\":\"vm_nc\",\"vni\":0,\"vm\":\"10.0.0.2\",\"nc\":\"172.16.0.1\"}"

/* What one call of import_lines_next() gave. */
struct got {
    enum rc rc;
    uint64_t first_line;
    uint64_t next_line;
    uint32_t entries;
    uint64_t bad_line;
    struct err err;
};

static struct got next(struct import_lines *l)
{
    struct import_batch b = { 0 };
    struct got got = { 0 };

    got.rc = import_lines_next(l, &b, &got.bad_line, &got.err);
    got.first_line = b.first_line;
    got.next_line = b.next_line;
    got.entries = b.entry_count;
    if (b.ops) {
        uint32_t count;
        uint32_t index;

        ck_assert_int_eq(
            batch_check(b.ops->data, b.ops->len, false, &count, &index, NULL), RC_OK);
        ck_assert_uint_eq(count, b.entry_count);
        ck_assert_uint_le(b.ops->len, BATCH_MAX_BYTES);
    }
    blob_unref(b.ops);
    return got;
}

static const struct {
    const char *text;
    uint32_t entries;
    uint64_t next_line; /* of the first batch */
} whole_cases[] = {
    { A "\n" B "\n", 2, 3 },
    { A "\n" B, 2, 3 },                     /* the last newline is missing */
    { A "\r\n" B "\r\n", 2, 3 },            /* CRLF */
    { "\n\n" A "\n\n" B "\n", 2, 6 },       /* blank lines are lines */
    { "\n \t\r\n" A "\n", 1, 4 },           /* spaces and CR alone are blank */
    { "\xef\xbb\xbf" A "\n" B "\n", 2, 3 }, /* a byte order mark */
    { A "  \n", 1, 2 },
    { A "\n\n\n", 1, 4 },
    { "", 0, 1 },
    { "\n", 0, 2 },
};

START_TEST(a_batch_covers_every_line_of_a_small_input)
{
    struct import_lines l;
    struct got got;

    import_lines_init(&l, whole_cases[_i].text, strlen(whole_cases[_i].text),
                      IMPORT_NDJSON);
    got = next(&l);
    ck_assert_int_eq(got.rc, RC_OK);
    ck_assert_uint_eq(got.first_line, 1);
    ck_assert_uint_eq(got.entries, whole_cases[_i].entries);
    ck_assert_uint_eq(got.next_line, whole_cases[_i].next_line);
    got = next(&l);
    ck_assert_int_eq(got.rc, RC_OK);
    ck_assert_uint_eq(got.entries, 0);
    import_lines_fini(&l);
}
END_TEST

static const struct {
    const char *text;
    uint64_t bad_line;
    const char *rule;
} bad_cases[] = {
    { A "\n" BAD "\n" B "\n", 2, "vni_range" },
    { A "\n\n\r\n" BAD, 4, "vni_range" },
    { "x\n", 1, "" },
    { A "\n{\n", 2, "" },
};

START_TEST(a_bad_line_is_named_by_its_number)
{
    struct import_lines l;
    struct got got;

    import_lines_init(&l, bad_cases[_i].text, strlen(bad_cases[_i].text),
                      IMPORT_NDJSON);
    got = next(&l);
    ck_assert_int_ne(got.rc, RC_OK);
    ck_assert_uint_eq(got.bad_line, bad_cases[_i].bad_line);
    if (bad_cases[_i].rule[0]) {
        ck_assert_str_eq(got.err.rule, bad_cases[_i].rule);
    }
    import_lines_fini(&l);
}
END_TEST

START_TEST(a_line_of_more_than_1024_bytes_is_refused)
{
    static char text[2000];
    struct import_lines l;
    struct got got;

    memset(text, ' ', sizeof(text)); /* spaces behind it make the line too long */
    text[sprintf(text, "%s\n%s", A, B)] = ' ';
    import_lines_init(&l, text, sizeof(text), IMPORT_NDJSON);
    got = next(&l);
    ck_assert_int_ne(got.rc, RC_OK);
    ck_assert_uint_eq(got.bad_line, 2);
    import_lines_fini(&l);
}
END_TEST

/* `n` entries of one VNI each, one a line. */
static char *many(unsigned n, size_t *ret_len)
{
    char *text = malloc((size_t)n * 128);
    size_t len = 0;

    ck_assert_ptr_nonnull(text);
    for (unsigned i = 0; i < n; i++) {
        len += (size_t)sprintf(text + len,
                               "{\"table\":\"vxlan_route\",\"vni\":%u,\"prefix\":"
                               "\"10.0.0.0/24\",\"scope\":\"local\"}\n",
                               i + 1);
    }
    *ret_len = len;
    return text;
}

static const unsigned edges[] = { 9999, 10000, 10001, 20000, 25000 };

START_TEST(batches_hold_10000_entries_and_follow_without_a_gap)
{
    size_t len;
    char *text = many(edges[_i], &len);
    struct import_lines l;
    uint64_t line = 1;
    unsigned left = edges[_i];

    import_lines_init(&l, text, len, IMPORT_NDJSON);
    while (left > 0) {
        struct got got = next(&l);

        ck_assert_int_eq(got.rc, RC_OK);
        ck_assert_uint_eq(got.first_line, line);
        ck_assert_uint_eq(got.entries, left > 10000 ? 10000 : left);
        ck_assert_uint_eq(got.next_line, line + got.entries);
        line = got.next_line;
        left -= got.entries;
    }
    ck_assert_uint_eq(next(&l).entries, 0);
    import_lines_fini(&l);
    free(text);
}
END_TEST

START_TEST(nothing_of_a_batch_with_a_bad_line_comes_out)
{
    size_t len;
    char *text = many(20000, &len);
    struct import_lines l;
    struct got got;
    char *bad = text;

    for (unsigned i = 1; i < 15000; i++) {
        bad = strchr(bad, '\n') + 1;
    }
    *bad = '!';
    import_lines_init(&l, text, len, IMPORT_NDJSON);
    ck_assert_uint_eq(next(&l).next_line, 10001);
    got = next(&l);
    ck_assert_int_eq(got.rc, RC_INVALID);
    ck_assert_uint_eq(got.bad_line, 15000);
    import_lines_fini(&l);
    free(text);
}
END_TEST

START_TEST(a_resumed_input_gives_the_same_batches_from_there_on)
{
    size_t len;
    char *text = many(25000, &len);
    struct import_lines l;
    uint64_t bad;
    struct got got;
    struct err err = { 0 };

    import_lines_init(&l, text, len, IMPORT_NDJSON);
    ck_assert_int_eq(import_lines_seek(&l, 20001, &bad, &err), RC_OK);
    got = next(&l);
    ck_assert_uint_eq(got.first_line, 20001);
    ck_assert_uint_eq(got.entries, 5000);
    import_lines_fini(&l);

    import_lines_init(&l, text, len, IMPORT_NDJSON);
    ck_assert_int_eq(import_lines_seek(&l, 25001, &bad, &err), RC_OK);
    ck_assert_uint_eq(next(&l).entries, 0);
    import_lines_fini(&l);

    import_lines_init(&l, text, len, IMPORT_NDJSON);
    ck_assert_int_eq(import_lines_seek(&l, 25002, &bad, &err), RC_STALE);
    import_lines_fini(&l);
    free(text);
}
END_TEST

#define CSV                                                                            \
    "\ntable,vni,vm,nc\r\nvm_nc,7,10.0.0.1,172.16.0.1\r\n\r\nvm_nc,7,10.0.0.2,172.16." \
    "0.1"

START_TEST(csv_counts_its_header_as_a_line)
{
    struct import_lines l;
    struct got got;
    uint64_t bad;

    import_lines_init(&l, CSV, strlen(CSV), IMPORT_CSV);
    got = next(&l);
    ck_assert_int_eq(got.rc, RC_OK);
    ck_assert_uint_eq(got.entries, 2);
    ck_assert_uint_eq(got.first_line, 1);
    ck_assert_uint_eq(got.next_line, 6);
    import_lines_fini(&l);

    import_lines_init(&l, CSV, strlen(CSV), IMPORT_CSV);
    ck_assert_int_eq(import_lines_seek(&l, 4, &bad, NULL), RC_OK);
    got = next(&l);
    ck_assert_uint_eq(got.first_line, 4);
    ck_assert_uint_eq(got.entries, 1);
    import_lines_fini(&l);

    import_lines_init(&l, "table,colour\n", 13, IMPORT_CSV);
    got = next(&l);
    ck_assert_int_ne(got.rc, RC_OK);
    ck_assert_uint_eq(got.bad_line, 1);
    import_lines_fini(&l);
}
END_TEST

START_TEST(an_entry_of_a_batch_is_found_in_its_line)
{
    static const char text[] = "\n" A "\n\n" B "\n" A "\n";
    struct import_batch b = { .first_line = 1, .from = 0, .to = strlen(text) };
    struct import_batch csv = { .first_line = 1, .from = 0, .to = strlen(CSV) };
    struct import_batch tail = { .first_line = 4,
                                 .from = strlen("\n" A "\n\n"),
                                 .to = strlen(text) };

    ck_assert_uint_eq(import_lines_of_entry(text, IMPORT_NDJSON, &b, 0), 2);
    ck_assert_uint_eq(import_lines_of_entry(text, IMPORT_NDJSON, &b, 1), 4);
    ck_assert_uint_eq(import_lines_of_entry(text, IMPORT_NDJSON, &b, 2), 5);
    ck_assert_uint_eq(import_lines_of_entry(text, IMPORT_NDJSON, &tail, 1), 5);
    ck_assert_uint_eq(import_lines_of_entry(CSV, IMPORT_CSV, &csv, 0), 3);
    ck_assert_uint_eq(import_lines_of_entry(CSV, IMPORT_CSV, &csv, 1), 5);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("import_lines");

    tcase_add_loop_test(tc, a_batch_covers_every_line_of_a_small_input, 0,
                        ARRAY_LEN(whole_cases));
    tcase_add_loop_test(tc, a_bad_line_is_named_by_its_number, 0, ARRAY_LEN(bad_cases));
    tcase_add_test(tc, a_line_of_more_than_1024_bytes_is_refused);
    tcase_add_loop_test(tc, batches_hold_10000_entries_and_follow_without_a_gap, 0,
                        ARRAY_LEN(edges));
    tcase_add_test(tc, nothing_of_a_batch_with_a_bad_line_comes_out);
    tcase_add_test(tc, a_resumed_input_gives_the_same_batches_from_there_on);
    tcase_add_test(tc, csv_counts_its_header_as_a_line);
    tcase_add_test(tc, an_entry_of_a_batch_is_found_in_its_line);
    return unit_run("import_lines", tc);
}
