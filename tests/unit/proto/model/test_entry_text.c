#include "tests/unit/unit.h"

#include "proto/model/entry_text.h"
#include "tests/unit/proto/model/random_entry.h"

#define T    "\"table\":\"tenant\",\"vni\":1,\"cluster\":\"x\""
#define R    "\"table\":\"vxlan_route\",\"vni\":100,\"prefix\":\"10.0.0.0/24\""
#define A    "\"table\":\"acl\",\"vni\":100,\"priority\":1000"
#define ANY4 ",\"src\":\"0.0.0.0/0\""
#define M    "\"table\":\"vm_nc\",\"vni\":100,\"vm\":\"10.0.0.5\",\"nc\":\"172.16.1.1\""

/* What the printer gives for what the parser took; the examples of entry_text.h. */
static const struct {
    const char *line;
    const char *printed; /* null: the same */
} taken[] = {
    { "{\"table\":\"tenant\",\"vni\":100,\"cluster\":\"x86-1\",\"name\":\"acme\","
      "\"flags\":"
      "[\"internet\"]}",
      NULL },
    { "{\"table\":\"vxlan_route\",\"vni\":100,\"prefix\":\"10.0.0.0/"
      "24\",\"scope\":\"local\"}",
      NULL },
    { "{\"table\":\"vxlan_route\",\"vni\":100,\"prefix\":\"10.1.0.0/"
      "16\",\"scope\":\"peer\","
      "\"peer_vni\":7}",
      NULL },
    { "{\"table\":\"vxlan_route\",\"vni\":100,\"prefix\":\"0.0.0.0/0\",\"scope\":"
      "\"internet\"}",
      NULL },
    { "{\"table\":\"vxlan_route\",\"vni\":100,\"prefix\":\"192.168.0.0/"
      "16\",\"scope\":\"idc\","
      "\"endpoint\":\"172.16.0.9\",\"endpoint_vni\":5000}",
      NULL },
    { "{\"table\":\"vxlan_route\",\"vni\":100,\"prefix\":\"100.64.0.0/10\",\"scope\":"
      "\"service\",\"service\":\"dns\"}",
      NULL },
    { "{\"table\":\"vm_nc\",\"vni\":100,\"vm\":\"10.0.0.5\",\"nc\":\"172.16.1.1\","
      "\"mac\":"
      "\"02:00:00:00:00:05\"}",
      NULL },
    { "{\"table\":\"vni\",\"vni\":16777215,\"flags\":[\"internet\",\"acl\",\"inner_"
      "vlan\"]}",
      NULL },
    { "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":100,\"vm\":\"10.0.0.5\"}", NULL },
    { "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":100}", NULL },
    { "{\"table\":\"tenant\",\"vni\":100,\"cluster\":\"x86-1\",\"h_home\":\"h-1\","
      "\"name\":\"acme\",\"flags\":[\"internet\"]}",
      NULL },
    { "{\"table\":\"tenant\",\"vni\":100}", NULL },
    { "{\"table\":\"tenant\",\"vni\":100,\"cluster\":\"x86-1\",\"h_home\":\"h-1\","
      "\"half\":\"by_dst\",\"name\":\"acme\",\"flags\":[\"internet\"],"
      "\"reserved_routes\":5,\"reserved_vms\":6,\"reserved_bps\":7,"
      "\"reserved_pps\":8}",
      NULL },
    { "{\"table\":\"vni\",\"vni\":1,\"half\":\"by_dst\"}", NULL },
    { "{\"table\":\"vni\",\"vni\":1,\"half\":\"0\"}", "{\"table\":\"vni\",\"vni\":1}" },
    { "{\"table\":\"vxlan_route\",\"vni\":100,\"prefix\":\"10.3.0.0/16\","
      "\"scope\":\"fallback\"}",
      NULL },
    { "{" A ",\"src\":\"10.0.0.0/8\",\"dst\":\"0.0.0.0/0\",\"proto\":\"tcp\","
      "\"dport\":\"443\",\"action\":\"permit\"}",
      NULL },
    { "{" A ",\"dst\":\"fd00::/8\",\"proto\":\"6\",\"sport\":\"0-65535\","
      "\"dport\":\"80-90\",\"action\":\"deny\"}",
      "{" A ",\"src\":\"::/0\",\"dst\":\"fd00::/8\",\"proto\":\"tcp\","
      "\"dport\":\"80-90\",\"action\":\"deny\"}" },
    { "{" A ",\"src\":\"::/0\",\"proto\":\"132\",\"action\":\"deny\"}",
      "{" A ",\"src\":\"::/0\",\"dst\":\"::/0\",\"proto\":\"132\","
      "\"action\":\"deny\"}" },
    { "{\"op\":\"delete\"," A ",\"src\":\"10.0.0.0/8\",\"dst\":\"0.0.0.0/0\"}", NULL },
    { "{\"table\":\"meter\",\"vni\":100,\"committed_bps\":1000000000,"
      "\"peak_bps\":10000000000000,\"committed_burst\":1250000,\"peak_burst\":2500000}",
      NULL },
    { "{\"op\":\"put\"," T "}", "{" T "}" },
    { "{" T ",\"name\":\"\",\"h_home\":\"\",\"flags\":[]}", "{" T "}" },
    { "{ \"scope\" : \"local\" , " R " }\r\n \t", "{" R ",\"scope\":\"local\"}" },
    { "{" R ",\"scope\":\"l\\u006fcal\"}", "{" R ",\"scope\":\"local\"}" },
    { "{\"\\u0074able\":\"vni\",\"vni\":1}", "{\"table\":\"vni\",\"vni\":1}" },
    { "{" T ",\"name\":\"a\\\"\\\\\\/\\u00fc\\u4E91\\ud83d\\udef0\"}",
      "{" T ",\"name\":\"a\\\"\\\\/ü云\U0001f6f0\"}" },
    { "{\"table\":\"vm_nc\",\"vni\":100,\"vm\":\"2001:DB8:0::5\",\"nc\":\"FD00::1\","
      "\"mac\":"
      "\"0A:bC:00:00:00:05\"}",
      "{\"table\":\"vm_nc\",\"vni\":100,\"vm\":\"2001:db8::5\",\"nc\":\"fd00::1\","
      "\"mac\":"
      "\"0a:bc:00:00:00:05\"}" },
    { "{\"op\":\"delete\"," M "}",
      "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":100,\"vm\":\"10.0.0.5\"}" },
};

START_TEST(a_line_is_read_and_printed_in_the_one_form)
{
    const char *line = taken[_i].line;
    struct entry e;
    enum entry_op op;
    struct err err = { 0 };
    struct buf b = BUF_INIT;

    ck_assert_msg(entry_parse_json(line, strlen(line), &op, &e, &err) == RC_OK,
                  "%s: %s", line, err.msg);
    entry_print_json(&e, op, &b);
    ck_assert_str_eq(buf_cstr(&b), taken[_i].printed ? taken[_i].printed : line);
    buf_fini(&b);
}
END_TEST

static const struct {
    const char *line;
    const char *field;
    const char *rule;
} refused[] = {
    { "", "", "json_syntax" },
    { "[]", "", "json_syntax" },
    { "{", "", "json_syntax" },
    { "{\"table\"", "", "json_syntax" },
    { "{\"table\":", "table", "type" },
    { "{\"table\":\"vni", "", "json_syntax" },
    { "{\"table\":\"vni\"", "", "json_syntax" },
    { "{\"table\":\"vni\",", "", "json_syntax" },
    { "{\"table\":\"vni\",}", "", "json_syntax" },
    { "{,}", "", "json_syntax" },
    { "{" T "} x", "", "json_syntax" },
    { "{" T "}{" T "}", "", "json_syntax" },
    { "{" T ",\"name\":\"a\tb\"}", "", "json_syntax" },
    { "{" T ",\"name\":\"\\x\"}", "", "json_syntax" },
    { "{" T ",\"name\":\"\\u12\"}", "", "json_syntax" },
    { "{" T ",\"name\":\"\\ud83d\"}", "", "json_syntax" },
    { "{" T ",\"name\":\"\\udef0\\ud83d\"}", "", "json_syntax" },
    { "{" T ",\"name\":\"\\", "", "json_syntax" },
    { "{" T ",\"name\":\"\\u0000\"}", "name", "name_text" },
    { "{" T ",\"name\":\"\\u0007\"}", "name", "name_text" },
    { "{" T ",\"name\":\"\xff\"}", "name", "name_text" },
    { "{" T ",\"name\":null}", "name", "type" },
    { "{" T ",\"name\":5}", "name", "type" },
    { "{" T ",\"cluster\":\"y\"}", "cluster", "repeated_field" },
    { "{" T ",\"colour\":\"y\"}", "colour", "unknown_field" },
    { "{" T ",\"\":1}", "", "unknown_field" },
    { "{" T ",\"vm\":\"10.0.0.1\"}", "vm", "unexpected_field" },
    { "{" T ",\"flags\":\"acl\"}", "flags", "type" },
    { "{" T ",\"flags\":[\"acl\",\"acl\"]}", "flags", "flag_repeated" },
    { "{" T ",\"flags\":[\"fast\"]}", "flags", "flag_known" },
    { "{" T ",\"flags\":[\"acl\"", "", "json_syntax" },
    { "{" T ",\"flags\":[\"acl\",]}", "", "json_syntax" },
    { "{" T ",\"op\":\"upsert\"}", "op", "op_known" },
    { "{" T ",\"flags\":[\"acl\"]}", "flags", "flag_derived" },
    { "{" T ",\"h_home\":\"1h\"}", "h_home", "name_syntax" },
    { "{\"table\":\"vni\",\"vni\":1,\"half\":\"2\"}", "half", "half_known" },
    { "{\"table\":\"vni\",\"vni\":1,\"half\":1}", "half", "type" },
    { "{" A ",\"action\":\"deny\"}", "src", "required" },
    { "{" A ANY4 "}", "action", "required" },
    { "{" A ANY4 ",\"action\":\"drop\"}", "action", "action_known" },
    { "{" A ANY4 ",\"action\":\"deny\",\"proto\":\"TCP\"}", "proto", "proto_known" },
    { "{" A ANY4 ",\"action\":\"deny\",\"proto\":\"256\"}", "proto", "proto_known" },
    { "{" A ANY4 ",\"action\":\"deny\",\"proto\":\"06\"}", "proto", "proto_known" },
    { "{" A ANY4 ",\"action\":\"deny\",\"proto\":\"\"}", "proto", "proto_known" },
    { "{" A ANY4 ",\"action\":\"deny\",\"dport\":\"80\"}", "dport", "port_protocol" },
    { "{" A ANY4 ",\"action\":\"deny\",\"proto\":\"udp\",\"dport\":\"80-\"}", "dport",
      "port_syntax" },
    { "{" A ANY4 ",\"action\":\"deny\",\"proto\":\"udp\",\"dport\":\"65536\"}", "dport",
      "port_syntax" },
    { "{" A ANY4 ",\"action\":\"deny\",\"proto\":\"udp\",\"sport\":\"9-8\"}", "sport",
      "port_range" },
    { "{" A ",\"src\":\"10.0.0.1/8\",\"action\":\"deny\"}", "src", "host_bits" },
    { "{" A ",\"src\":\"10.0.0.0\",\"action\":\"deny\"}", "src", "prefix_syntax" },
    { "{" A ANY4 ",\"dst\":\"::/0\",\"action\":\"deny\"}", "dst", "family_mismatch" },
    { "{\"table\":\"acl\",\"vni\":1,\"priority\":0,\"src\":\"::/"
      "0\",\"action\":\"deny\"}",
      "priority", "priority_range" },
    { "{\"table\":\"acl\",\"vni\":1,\"priority\":65536,\"src\":\"::/"
      "0\",\"action\":\"deny\"}",
      "priority", "priority_range" },
    { "{\"table\":\"acl\",\"vni\":1,\"src\":\"::/0\",\"action\":\"deny\"}", "priority",
      "required" },
    { "{\"table\":\"meter\",\"vni\":1,\"committed_bps\":9007199254740992}",
      "committed_bps", "number_range" },
    { "{\"table\":\"meter\",\"vni\":1,\"committed_bps\":1,\"peak_bps\":1,"
      "\"committed_burst\":4294967296}",
      "committed_burst", "number_range" },
    { "{\"table\":\"meter\",\"vni\":1,\"committed_bps\":1,\"peak_bps\":1,"
      "\"committed_burst\":9600}",
      "peak_burst", "required" },
    { "{\"vni\":1}", "table", "required" },
    { "{\"table\":\"vni\"}", "vni", "required" },
    { "{\"table\":\"nope\",\"vni\":1}", "table", "table_known" },
    { "{\"table\":\"vni\",\"vni\":\"1\"}", "vni", "type" },
    { "{\"table\":\"vni\",\"vni\":-1}", "vni", "number" },
    { "{\"table\":\"vni\",\"vni\":+1}", "vni", "number" },
    { "{\"table\":\"vni\",\"vni\":1.0}", "vni", "number" },
    { "{\"table\":\"vni\",\"vni\":1e2}", "vni", "number" },
    { "{\"table\":\"vni\",\"vni\":01}", "vni", "number" },
    { "{\"table\":\"vni\",\"vni\":0x1}", "", "json_syntax" },
    { "{\"table\":\"vni\",\"vni\":0}", "vni", "vni_range" },
    { "{\"table\":\"vni\",\"vni\":16777216}", "vni", "vni_range" },
    { "{\"table\":\"vni\",\"vni\":4294967297}", "vni", "number_range" },
    { "{\"table\":\"vni\",\"vni\":18446744073709551617}", "vni", "number_range" },
    { "{\"table\":\"tenant\",\"vni\":1,\"cluster\":\"\"}", "cluster", "name_length" },
    { "{\"table\":\"tenant\",\"vni\":1,\"h_home\":\"h\"}", "cluster", "name_length" },
    { "{" T ",\"half\":\"0\"}", "half", "half_needs_h_home" },
    { "{" T ",\"h_home\":\"h\",\"half\":\"2\"}", "half", "half_known" },
    { "{" T ",\"reserved_routes\":4294967296}", "reserved_routes", "number_range" },
    { "{" T ",\"reserved_bps\":10000000000001}", "reserved_bps", "number_range" },
    { "{" R "}", "scope", "required" },
    { "{" R ",\"scope\":\"Local\"}", "scope", "scope_known" },
    { "{" R ",\"scope\":\"local\",\"peer_vni\":7}", "peer_vni", "unexpected_field" },
    { "{" R ",\"scope\":\"peer\"}", "peer_vni", "required" },
    { "{" R ",\"scope\":\"peer\",\"peer_vni\":100}", "peer_vni", "peer_self" },
    { "{" R ",\"scope\":\"idc\",\"endpoint\":\"10.0.0.9\"}", "endpoint_vni",
      "required" },
    { "{" R ",\"scope\":\"idc\",\"endpoint_vni\":9}", "endpoint", "required" },
    { "{" R ",\"scope\":\"idc\",\"endpoint_vni\":9,\"endpoint\":\"x\"}", "endpoint",
      "ip_syntax" },
    { "{" R ",\"scope\":\"service\",\"service\":\"\"}", "service", "name_length" },
    { "{" R ",\"scope\":\"service\",\"service\":\"a23456789012345678901234567890_2\"}",
      "service", "name_length" },
    { "{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"10.0.0.1/"
      "24\",\"scope\":\"local\"}",
      "prefix", "host_bits" },
    { "{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"10.0.0.0/"
      "40\",\"scope\":\"local\"}",
      "prefix", "prefix_length" },
    { "{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"10.0.0.0\",\"scope\":"
      "\"local\"}",
      "prefix", "prefix_syntax" },
    { "{\"op\":\"delete\",\"table\":\"vxlan_route\",\"vni\":1}", "prefix", "required" },
    { "{\"op\":\"delete\"," R ",\"scope\":\"peer\"}", "peer_vni", "required" },
    { "{" M ",\"mac\":\"02-00-00-00-00-05\"}", "mac", "mac_syntax" },
    { "{" M ",\"mac\":\"03:00:00:00:00:05\"}", "mac", "mac_unicast" },
    { "{\"table\":\"vm_nc\",\"vni\":1,\"vm\":\"10.0.0.5\"}", "nc", "required" },
    { "{\"table\":\"vm_nc\",\"vni\":1,\"vm\":\"::ffff:10.0.0.5\",\"nc\":\"10.0.0.1\"}",
      "vm", "family_mismatch" },
};

START_TEST(a_bad_line_names_field_and_rule_and_changes_nothing)
{
    size_t len = strlen(refused[_i].line);
    char *exact = malloc(len + 1); /* no zero behind: a sanitizer sees an overrun */
    struct entry e;
    struct entry before;
    enum entry_op op = (enum entry_op)77;
    struct err err = { 0 };

    memcpy(exact + 1, refused[_i].line, len);
    memset(&e, 0x5a, sizeof(e));
    before = e;
    ck_assert_int_ne(entry_parse_json(exact + 1, len, &op, &e, &err), RC_OK);
    ck_assert_str_eq(err.field, refused[_i].field);
    ck_assert_str_eq(err.rule, refused[_i].rule);
    ck_assert(err.msg[0]);
    ck_assert_int_eq((int)op, 77);
    ck_assert_mem_eq(&e, &before, sizeof(e));
    free(exact);
}
END_TEST

START_TEST(a_line_may_have_1024_bytes_and_no_more)
{
    char line[1100];
    struct entry e;
    enum entry_op op;
    struct err err = { 0 };

    memset(line, ' ', sizeof(line));
    memcpy(line, "{\"table\":\"vni\",\"vni\":1}", 23);
    ck_assert_int_eq(entry_parse_json(line, 1024, &op, &e, &err), RC_OK);
    ck_assert_int_eq(entry_parse_json(line, 1025, &op, &e, &err), RC_RANGE);
    ck_assert_str_eq(err.rule, "line_length");
    memset(line, '"', sizeof(line)); /* nothing but text for the scratch memory */
    memcpy(line, "{\"table\":\"\\n", 12);
    memset(line + 12, 'x', 1000);
    ck_assert_int_eq(entry_parse_json(line, 1024, &op, &e, &err), RC_INVALID);
}
END_TEST

START_TEST(what_is_printed_is_read_back_the_same)
{
    uint64_t seed = 11;
    struct buf b = BUF_INIT;

    for (int i = 0; i < 50000; i++) {
        struct entry e = random_entry(&seed);
        struct entry got;
        enum entry_op op;
        struct err err = { 0 };

        buf_reset(&b);
        entry_print_json(&e, ENTRY_PUT, &b);
        ck_assert_msg(entry_parse_json((char *)b.data, b.len, &op, &got, &err) == RC_OK,
                      "%s: %s", buf_cstr(&b), err.msg);
        ck_assert_int_eq(op, ENTRY_PUT);
        ck_assert_msg(entry_same(&e, &got), "%s", buf_cstr(&b));
    }
    buf_fini(&b);
}
END_TEST

#define HEADER "op,table,vni,cluster,name,flags,prefix,scope,peer_vni,vm,nc"

static const struct {
    const char *line;
    const char *printed; /* "" where it is refused */
    const char *field;
    const char *rule;
} csv_cases[] = {
    { ",tenant,1,x,acme,internet|inner_vlan,,,,,",
      "{" T ",\"name\":\"acme\",\"flags\":[\"internet\",\"inner_vlan\"]}", "", "" },
    { ",tenant,1,x,\"a,\"\"b\"\"\",,,,,,\r\n", "{" T ",\"name\":\"a,\\\"b\\\"\"}", "",
      "" },
    { "put,vxlan_route,100,,,,10.0.0.0/24,local,,,", "{" R ",\"scope\":\"local\"}", "",
      "" },
    { ",vxlan_route,100,,,,10.0.0.0/24,peer,7,,",
      "{" R ",\"scope\":\"peer\",\"peer_vni\":7}", "", "" },
    { ",vm_nc,100,,,,,,,10.0.0.5,172.16.1.1  ", "{" M "}", "", "" },
    { "delete,tenant,100,,,,,,,,",
      "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":100}", "", "" },
    { ",tenant,1,x,acme,,,,,", "", "", "column_count" },
    { ",tenant,1,x,acme,,,,,,,", "", "", "column_count" },
    { "", "", "", "column_count" },
    { ",tenant,1,x,\"acme,,,,,,", "", "", "csv_syntax" },
    { ",tenant,1,x,\"ac\"me,,,,,,", "", "", "csv_syntax" },
    { ",tenant,1,x,ac\"me,,,,,,", "", "", "csv_syntax" },
    { ",tenant,1x,x,acme,,,,,,", "", "vni", "number" },
    { ",tenant, 1,x,acme,,,,,,", "", "vni", "number" },
    { ",tenant,,x,acme,,,,,,", "", "vni", "required" },
    { ",tenant,1,x,,acl|,,,,,", "", "flags", "flag_known" },
    { ",tenant,1,x,,acl|acl,,,,,", "", "flags", "flag_repeated" },
    { ",tenant,1,x,,,,,,10.0.0.1,", "", "vm", "unexpected_field" },
    { ",vxlan_route,100,,,,10.0.0.1/24,local,,,", "", "prefix", "host_bits" },
};

START_TEST(csv_says_the_same_as_json)
{
    struct entry_csv csv;
    const char *line = csv_cases[_i].line;
    struct entry e;
    enum entry_op op;
    struct err err = { 0 };
    struct buf b = BUF_INIT;
    enum rc rc;

    ck_assert_int_eq(entry_csv_header(&csv, HEADER, strlen(HEADER), &err), RC_OK);
    rc = entry_parse_csv(&csv, line, strlen(line), &op, &e, &err);
    ck_assert_str_eq(err.field, csv_cases[_i].field);
    ck_assert_str_eq(err.rule, csv_cases[_i].rule);
    ck_assert_int_eq(rc == RC_OK, csv_cases[_i].printed[0] != '\0');
    if (rc == RC_OK) {
        entry_print_json(&e, op, &b);
        ck_assert_str_eq(buf_cstr(&b), csv_cases[_i].printed);
    }
    buf_fini(&b);
}
END_TEST

static const struct {
    const char *header;
    const char *rule; /* "" where it is taken */
} header_cases[] = {
    { "vni,table", "" },
    { "\xef\xbb\xbftable,vni,vm,nc\r\n", "" },
    { "\"table\",\"vni\"", "" },
    { "table", "required" },
    { "vni,prefix", "required" },
    { "", "unknown_field" },
    { "table,vni,", "unknown_field" },
    { "table,vni,vni", "repeated_field" },
    { "table,vni,color", "unknown_field" },
    { "table, vni", "unknown_field" },
    { "table,\"vni", "csv_syntax" },
};

START_TEST(a_csv_header_names_known_fields_once)
{
    struct entry_csv csv = { .column_count = 99 };
    struct err err = { 0 };
    const char *header = header_cases[_i].header;
    enum rc rc = entry_csv_header(&csv, header, strlen(header), &err);

    ck_assert_str_eq(err.rule, header_cases[_i].rule);
    ck_assert_int_eq(rc == RC_OK, header_cases[_i].rule[0] == '\0');
    ck_assert_int_eq(csv.column_count == 99, rc != RC_OK);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("entry_text");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, a_line_is_read_and_printed_in_the_one_form, 0,
                        ARRAY_LEN(taken));
    tcase_add_loop_test(tc, a_bad_line_names_field_and_rule_and_changes_nothing, 0,
                        ARRAY_LEN(refused));
    tcase_add_test(tc, a_line_may_have_1024_bytes_and_no_more);
    tcase_add_test(tc, what_is_printed_is_read_back_the_same);
    tcase_add_loop_test(tc, csv_says_the_same_as_json, 0, ARRAY_LEN(csv_cases));
    tcase_add_loop_test(tc, a_csv_header_names_known_fields_once, 0,
                        ARRAY_LEN(header_cases));
    return unit_run("entry_text", tc);
}
