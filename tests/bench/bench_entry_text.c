/*
 * bench_entry_text - how fast one core reads entries from NDJSON and CSV, packs them
 * and takes their digests.  Prints `name value unit` lines.
 *
 *   bench_entry_text [ENTRIES]      default 1,000,000: half routes, half VM-NC
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/model/batch.h"

struct line {
    const char *p;
    size_t len;
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The i-th entry: routes of every common scope, VMs in v4 and v6, some with a MAC. */
static struct entry entry_at(uint32_t i)
{
    struct entry e = { .vni = VNI_MIN + i / 8 % VNI_MAX };
    uint8_t v6[16] = { 0x20,
                       0x01,
                       0x0d,
                       0xb8,
                       [12] = (uint8_t)(i >> 24),
                       (uint8_t)(i >> 16),
                       (uint8_t)(i >> 8),
                       (uint8_t)i };

    if (i % 2) {
        e.table = TABLE_VM_NC;
        e.vm_nc.vm = i % 5 ? ip_v4(0x0a000000u + i) : ip_v6(v6);
        e.vm_nc.nc = ip_v4(0xac100000u + i % 50000);
        e.vm_nc.has_mac = i % 3 == 0;
        memcpy(e.vm_nc.mac, (uint8_t[]){ 2, 0, 0, 0, (uint8_t)(i >> 8), (uint8_t)i },
               6);
        return e;
    }
    e.table = TABLE_VXLAN_ROUTE;
    e.route.dst = (struct prefix){ ip_v4(0x0a000000u + (i << 8)), 24 };
    e.route.action.scope = SCOPE_LOCAL;
    if (i % 10 == 4) {
        e.route.action.scope = SCOPE_PEER;
        e.route.action.vni = e.vni % VNI_MAX + 1;
    } else if (i % 10 == 6) {
        e.route.action.scope = SCOPE_IDC;
        e.route.action.vni = 5000;
        e.route.action.endpoint = ip_v4(0xac10ff01);
    }
    return e;
}

static void print_csv(const struct entry *e, struct buf *to)
{
    char a[PREFIX_TEXT_MAX];
    char b[IP_TEXT_MAX];
    const struct route_action *action = &e->route.action;

    if (e->table == TABLE_VM_NC) {
        ip_print(&e->vm_nc.vm, a);
        ip_print(&e->vm_nc.nc, b);
        buf_printf(to, "vm_nc,%u,,,,,,%s,%s\n", e->vni, a, b);
        return;
    }
    prefix_print(&e->route.dst, a);
    ip_print(&action->endpoint, b);
    buf_printf(to, "vxlan_route,%u,%s,%s,", e->vni, a, scope_name(action->scope));
    if (action->scope == SCOPE_PEER) {
        buf_printf(to, "%u,,,,\n", action->vni);
    } else if (action->scope == SCOPE_IDC) {
        buf_printf(to, ",%s,%u,,\n", b, action->vni);
    } else {
        buf_text(to, ",,,,\n");
    }
}

static struct line *split(const struct buf *text, uint32_t count)
{
    struct line *lines = calloc(count, sizeof(*lines));
    const char *p = (const char *)text->data;
    const char *end = p + text->len;

    for (uint32_t i = 0; lines && i < count; i++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));

        lines[i] = (struct line){ p, (size_t)(newline - p) };
        p = newline + 1;
    }
    return lines;
}

static void report(const char *name, uint32_t count, double seconds)
{
    printf("%s %.0f lines/s\n", name, count / seconds);
}

static void die(const char *what, const struct err *err)
{
    fprintf(stderr, "bench_entry_text: %s: %s\n", what, err->msg);
    exit(EXIT_FAILURE);
}

static void bench_pack(const struct buf *json, uint32_t count)
{
    struct line *lines = split(json, count);
    struct batch_writer w;
    struct err err = { 0 };
    double start = now_s();
    uint32_t got = 0;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < count; i++) {
        struct entry e;
        enum entry_op op;

        if (entry_parse_json(lines[i].p, lines[i].len, &op, &e, &err)) {
            die("json", &err);
        }
        batch_add_entry(&w, op, &e);
    }
    report("json_to_batch", count, now_s() - start);
    printf("json_line_bytes %.1f bytes\n", (double)json->len / count);
    printf("packed_entry_bytes %.1f bytes\n", (double)batch_writer_bytes(&w) / count);
    struct blob *b = batch_writer_finish(&w);
    start = now_s();
    if (batch_check(b->data, b->len, false, &got, NULL, &err) || got != count) {
        die("batch", &err);
    }
    report("batch_check", count, now_s() - start);

    struct batch_reader r = batch_reader_of(b->data, b->len);
    struct batch_run run;
    uint64_t sum = 0;

    start = now_s();
    while (batch_next(&r, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct row row;

        while (run_next(&it, &row)) {
            sum += row_digest(run.table, run.vni, &row);
        }
    }
    report("row_digest", count, now_s() - start);
    printf("digest_sum %016llx hex\n", (unsigned long long)sum);
    blob_unref(b);
    batch_writer_fini(&w);
    free(lines);
}

int main(int argc, char **argv)
{
    uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000000;
    static const char header[] =
        "table,vni,prefix,scope,peer_vni,endpoint,endpoint_vni,vm,nc";
    struct buf json = BUF_INIT;
    struct buf csv = BUF_INIT;
    struct entry_csv columns;
    struct err err = { 0 };
    struct line *lines;
    double start;

    for (uint32_t i = 0; i < count; i++) {
        struct entry e = entry_at(i);

        entry_print_json(&e, ENTRY_PUT, &json);
        buf_u8(&json, '\n');
        print_csv(&e, &csv);
    }
    if (count == 0 || buf_failed(&json) || buf_failed(&csv)) {
        fprintf(stderr, "usage: bench_entry_text [ENTRIES]\n");
        return EXIT_FAILURE;
    }
    lines = split(&json, count);
    start = now_s();
    for (uint32_t i = 0; i < count; i++) {
        struct entry e;
        enum entry_op op;

        if (entry_parse_json(lines[i].p, lines[i].len, &op, &e, &err)) {
            die("json", &err);
        }
    }
    report("json_parse", count, now_s() - start);
    free(lines);

    lines = split(&csv, count);
    if (entry_csv_header(&columns, header, strlen(header), &err)) {
        die("csv header", &err);
    }
    start = now_s();
    for (uint32_t i = 0; i < count; i++) {
        struct entry e;
        enum entry_op op;

        if (entry_parse_csv(&columns, lines[i].p, lines[i].len, &op, &e, &err)) {
            die("csv", &err);
        }
    }
    report("csv_parse", count, now_s() - start);
    free(lines);
    bench_pack(&json, count);
    buf_fini(&json);
    buf_fini(&csv);
    return EXIT_SUCCESS;
}
