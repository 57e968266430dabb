/*
 * entry_text - entries as people and files write them: NDJSON, CSV and JSON objects.
 *
 * One JSON object a line, keys in any order, unknown or repeated keys refused:
 *
 *   {"table":"tenant","vni":100,"cluster":"x86-1","h_home":"h-1","name":"acme",
 *    "flags":["internet"]}       (all but vni are optional: without a cluster the
 *     tenant is placed; also half: "0", "1" or "by_dst", of a tenant with an h_home;
 *     and announced growth: reserved_routes, reserved_vms, reserved_bps, reserved_pps)
 *   {"table":"vxlan_route","vni":100,"prefix":"10.0.0.0/24","scope":"local"}
 *   {"table":"vxlan_route","vni":100,"prefix":"10.1.0.0/16","scope":"peer","peer_vni":7}
 *   {"table":"vxlan_route","vni":100,"prefix":"0.0.0.0/0","scope":"internet"}
 *   {"table":"vxlan_route","vni":100,"prefix":"192.168.0.0/16","scope":"idc",
 *    "endpoint":"172.16.0.9","endpoint_vni":5000}          (scope "region" likewise)
 *   {"table":"vxlan_route","vni":100,"prefix":"100.64.0.0/10","scope":"service",
 *    "service":"dns"}
 *   {"table":"vm_nc","vni":100,"vm":"10.0.0.5","nc":"172.16.1.1",
 *    "mac":"02:00:00:00:00:05"}                             (mac is optional)
 *   {"table":"acl","vni":100,"priority":1000,"src":"10.0.0.0/8","dst":"0.0.0.0/0",
 *    "proto":"tcp","dport":"443","action":"permit"}
 *   {"table":"meter","vni":100,"committed_bps":1000000000,"peak_bps":2000000000,
 *    "committed_burst":1250000,"peak_burst":2500000}
 *
 * "op":"put" (default) or "op":"delete"; a delete needs only the key fields.
 * CSV has a header line that names the same fields; empty cells are absent fields;
 * flags are separated by '|'.  The printer writes what the parser reads, with fields
 * in the order shown.  Flags: internet, acl, inner_vlan.
 *
 * acl: of src and dst one may be absent (any address of the other's family); proto is
 * icmp, tcp, udp, icmpv6 or a decimal number, absent: any; sport and dport are "80" or
 * "8000-8099", absent: any; action is permit or deny.
 *
 * The parser is written for import speed (a million lines a second and more): one
 * pass, no allocation, no copy.  Any thread.
 */
#pragma once

#include "proto/model/entry.h"

enum entry_op { ENTRY_PUT = 1, ENTRY_DELETE = 2 };

/* Reads one line of `len` bytes (no newline needed; trailing spaces allowed), checks
 * it with entry_check(), fills `*ret_op` and `*ret`.  On failure says field and rule
 * and leaves both alone.  Lines longer than 1,024 bytes are refused. */
enum rc entry_parse_json(const char *line, size_t len, enum entry_op *ret_op,
                         struct entry *ret, struct err *err);

/* The CSV reader remembers the header's column order; a value. */
struct entry_csv {
    uint8_t column[32]; /* field id of each column */
    uint8_t column_count;
};
enum rc entry_csv_header(struct entry_csv *csv, const char *line, size_t len,
                         struct err *err);
enum rc entry_parse_csv(const struct entry_csv *csv, const char *line, size_t len,
                        enum entry_op *ret_op, struct entry *ret, struct err *err);

/* Append one JSON object, without newline; op is written only for ENTRY_DELETE. */
void entry_print_json(const struct entry *e, enum entry_op op, struct buf *to);
