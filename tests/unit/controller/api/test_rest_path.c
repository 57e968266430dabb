#include "tests/unit/unit.h"

#include "controller/api/rest_path.h"

#include <string.h>

#define ROUTE "/v1/tenants/{vni}/routes/{prefix}"

static const struct {
    const char *template;
    const char *path;
    const char *first; /* null: no match */
    const char *second;
} cases[] = {
    { "/v1/status", "/v1/status", "", "" },
    { "/v1/status", "/v1/status/", NULL, NULL },
    { "/v1/status", "/v1/statu", NULL, NULL },
    { "/v1/status", "/v1/statusx", NULL, NULL },
    { "/v1/status", "", NULL, NULL },
    { "/v1/status", "/v1/%73tatus", NULL, NULL },
    { "/v1/nodes/{name}", "/v1/nodes/gw-7a", "gw-7a", "" },
    { "/v1/nodes/{name}", "/v1/nodes/", NULL, NULL },
    { "/v1/nodes/{name}", "/v1/nodes", NULL, NULL },
    { "/v1/nodes/{name}", "/v1/nodes/a/b", NULL, NULL },
    { "/v1/nodes/{name}", "/v1/nodes/a%2Fb", "a/b", "" },
    { "/v1/nodes/{name}", "/v1/nodes/a%2fb", "a/b", "" },
    { "/v1/nodes/{name}", "/v1/nodes/a+b", "a+b", "" }, /* no form encoding here */
    { "/v1/nodes/{name}", "/v1/nodes/%41%25", "A%", "" },
    { "/v1/nodes/{name}", "/v1/nodes/a%00b", NULL, NULL },
    { "/v1/nodes/{name}", "/v1/nodes/a%0ab", NULL, NULL },
    { "/v1/nodes/{name}", "/v1/nodes/a%7f", NULL, NULL },
    { "/v1/nodes/{name}", "/v1/nodes/a%", NULL, NULL },
    { "/v1/nodes/{name}", "/v1/nodes/a%4", NULL, NULL },
    { "/v1/nodes/{name}", "/v1/nodes/a%4g", NULL, NULL },
    { "/v1/nodes/{name}", "/v1/nodes/a%g4", NULL, NULL },
    { "/v1/nodes/{name}", "/v1/nodes/%c3%a9", "\xc3\xa9", "" }, /* RFC 3629 */
    { "/v1/nodes/{name}", "/v1/nodes/%c3", NULL, NULL },
    { "/v1/nodes/{name}", "/v1/nodes/%c0%af", NULL, NULL },    /* overlong */
    { "/v1/nodes/{name}", "/v1/nodes/%ed%a0%80", NULL, NULL }, /* a surrogate */
    { ROUTE, "/v1/tenants/100/routes/10.0.0.0%2F24", "100", "10.0.0.0/24" },
    { ROUTE, "/v1/tenants/100/routes/2001%3Adb8%3A%3A%2F32", "100", "2001:db8::/32" },
    { ROUTE, "/v1/tenants/100/routes/10.0.0.0/24", NULL, NULL },
    { ROUTE, "/v1/tenants//routes/x", NULL, NULL },
    { ROUTE, "/v1/tenants/100/vms/x", NULL, NULL },
};

START_TEST(a_path_matches_by_whole_segments_that_decode_to_text)
{
    char params[REST_PARAMS][REST_PARAM_SIZE] = { 0 };
    bool matches = rest_path_match(cases[_i].template, cases[_i].path, params);

    ck_assert_int_eq(matches, cases[_i].first != NULL);
    if (matches) {
        ck_assert_str_eq(params[0], cases[_i].first);
        ck_assert_str_eq(params[1], cases[_i].second);
    }
}
END_TEST

START_TEST(a_segment_fits_or_matches_nothing)
{
    char params[REST_PARAMS][REST_PARAM_SIZE];
    char path[600] = "/v1/nodes/";

    for (size_t len = 1; len < 300; len++) {
        memset(path + 10, 'a', len);
        path[10 + len] = '\0';
        ck_assert_int_eq(rest_path_match("/v1/nodes/{name}", path, params),
                         len < REST_PARAM_SIZE);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rest_path");

    tcase_add_loop_test(tc, a_path_matches_by_whole_segments_that_decode_to_text, 0,
                        ARRAY_LEN(cases));
    tcase_add_test(tc, a_segment_fits_or_matches_nothing);
    return unit_run("rest_path", tc);
}
