/*
 * probe_print - what controller/probe expects, for test_probes.py to hold against the
 * reference forwarder.
 *
 *   probe_print KIND DEVICE.json ENTRIES.ndjson < questions
 *
 * KIND is x86 or soft-h.  A question is "VNI DST UNDERLAY" (4 or 6); each is answered
 * with one line of JSON: the frame, and the drop reason ("kept": none) or all frames
 * that may come out.
 *
 *   probe_print KIND DEVICE.json ENTRIES.ndjson --matrix
 *
 * prints the cells of the matrix, a line each: its name, and its probe in the same form
 * or why there is none.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/probe/matrix.h"
#include "controller/probe/probe.h"
#include "proto/model/entry_text.h"

static void must(bool is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "probe_print: %s\n", what);
        exit(2);
    }
}

/* ---- the device, as the reference describes it ---- */

static struct ip read_ip(const char *text)
{
    struct ip ip = { 0 };

    must(text && ip_parse(text, strlen(text), &ip, NULL) == RC_OK, "an address");
    return ip;
}

static void put_by_family(json_t *list, struct ip *v4, struct ip *v6)
{
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        struct ip ip = read_ip(json_string_value(item));

        *(ip.family == IP_V4 ? v4 : v6) = ip;
    }
}

static void read_device(const char *path, struct device_config *c)
{
    json_t *root = json_load_file(path, 0, NULL);
    json_t *item;
    size_t i;

    must(root, path);
    put_by_family(json_object_get(root, "vteps"), &c->vtep_v4, &c->vtep_v6);
    put_by_family(json_object_get(root, "vips"), &c->vip_v4, &c->vip_v6);
    c->udp6_zero_csum = json_is_true(json_object_get(root, "udp6_zero_csum"));
    json_array_foreach(json_object_get(root, "underlay_source"), i, item)
    {
        const char *text = json_string_value(item);

        must(prefix_parse(text, strlen(text),
                          &c->underlay_sources[c->underlay_source_count++],
                          NULL) == RC_OK,
             text);
    }
    json_array_foreach(json_object_get(root, "uplinks"), i, item)
    {
        struct ip ip = read_ip(json_string_value(json_object_get(item, "address")));
        struct uplink *u = &c->uplinks[c->uplink_count++];

        *(ip.family == IP_V4 ? &u->addr_v4 : &u->addr_v6) = ip;
        u->mtu = (uint16_t)json_integer_value(json_object_get(item, "mtu"));
    }
    json_array_foreach(json_object_get(root, "members"), i, item)
    {
        struct fallback_member *m = &c->fallback_members[c->fallback_member_count++];

        put_by_family(item, &m->v4, &m->v6);
    }
    json_decref(root);
}

static struct table_set *read_tables(const char *path)
{
    FILE *f = fopen(path, "r");
    struct table_set *s = table_set_new();
    struct batch_writer w;
    char line[2048];
    struct blob *b;

    must(f && s, path);
    batch_writer_init(&w);
    while (fgets(line, sizeof(line), f)) {
        struct entry e;
        enum entry_op op;

        line[strcspn(line, "\n")] = '\0';
        must(entry_parse_json(line, strlen(line), &op, &e, NULL) == RC_OK, line);
        batch_add_entry(&w, op, &e);
    }
    fclose(f);
    b = batch_writer_finish(&w);
    must(b && table_set_apply(s, b->data, b->len, NULL, NULL, NULL) == RC_OK,
         "the entries");
    blob_unref(b);
    batch_writer_fini(&w);
    return s;
}

/* ---- answers ---- */

static json_t *hex_of(const uint8_t *frame, size_t len)
{
    char text[2 * PROBE_FRAME_MAX + 1] = "";

    for (size_t i = 0; i < len; i++) {
        snprintf(text + 2 * i, 3, "%02x", frame[i]);
    }
    return json_string(text);
}

/* What is sent, and what must come of it. */
static void describe(const struct probe *p, json_t *out)
{
    const struct probe_want *w = &p->want;
    json_t *frames = json_array();
    uint8_t frame[PROBE_FRAME_MAX];

    for (unsigned i = 0; w->is_fallback && i < w->member_count; i++) {
        json_array_append_new(frames,
                              hex_of(frame, probe_frame_out(p, &w->members[i], frame)));
    }
    if (w->outcome == PROBE_FORWARDED && !w->is_fallback) {
        json_array_append_new(
            frames, hex_of(frame, probe_frame_out(p, &w->packet.outer_dst, frame)));
    }
    json_object_set_new(out, "sent", hex_of(frame, probe_frame(p, frame)));
    json_object_set_new(out, "reason",
                        json_string(w->outcome == PROBE_KEPT ? "kept" : w->reason));
    json_object_set_new(out, "frames", frames);
}

static void print(json_t *out)
{
    json_dumpf(out, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(out);
}

static void answer_questions(const struct probe_node *node)
{
    unsigned family;
    char text[64];
    unsigned vni;

    while (scanf("%u %63s %u", &vni, text, &family) == 3) {
        json_t *out = json_object();
        struct probe p;

        struct ip dst = read_ip(text);

        probe_make_to(node, vni, &dst, (uint8_t)family, 7, &p);
        describe(&p, out);
        print(out);
    }
}

/* In slices of a few rows, as a core that has other things to do. */
static void print_matrix(const struct probe_node *node)
{
    struct matrix *m = matrix_new(node->config->kind != DEVICE_X86, 0);
    struct matrix_cell cells[MATRIX_CELLS_MAX];
    uint16_t count = matrix_cells(cells);
    bool is_done = false;

    must(m, "a matrix");
    while (!is_done) {
        uint32_t units = 7;

        is_done = matrix_work(m, node->tables, &units);
    }
    for (uint16_t i = 0; i < count; i++) {
        char name[MATRIX_NAME_MAX + 1];
        enum matrix_reach reach;
        json_t *out;
        struct probe p;

        matrix_cell_print(&cells[i], name, sizeof(name));
        reach = matrix_probe(m, &cells[i], node, 1000 + i, &p);
        out = json_pack("{s:s, s:s}", "cell", name, "reach", matrix_reach_text(reach));
        if (reach == MATRIX_COVERED) {
            describe(&p, out);
        }
        print(out);
    }
    matrix_unref(m);
}

int main(int argc, char **argv)
{
    struct device_config *config = calloc(1, sizeof(*config));
    struct probe_node node;

    must((argc == 4 || argc == 5) && config, "KIND DEVICE.json ENTRIES.ndjson");
    config->kind = strcmp(argv[1], "x86") == 0 ? DEVICE_X86 : DEVICE_SOFT_H;
    read_device(argv[2], config);
    node = (struct probe_node){ read_tables(argv[3]), config };
    if (argc == 5) {
        print_matrix(&node);
    } else {
        answer_questions(&node);
    }
    return 0;
}
