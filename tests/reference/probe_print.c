/*
 * probe_print - what controller/probe expects, for test_probes.py to hold against the
 * reference forwarder.
 *
 *   probe_print KIND DEVICE.json ENTRIES.ndjson < questions
 *
 * KIND is x86 or soft-h.  A question is "VNI DST UNDERLAY" (4 or 6), or "VNI - FAMILY"
 * for the probe that a move would send; each is answered with one line of JSON: the
 * frame, and the drop reason or all frames that may come out.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static json_t *hex_of(const struct vxlan_packet *p)
{
    uint8_t frame[VXLAN_PACKET_MAX];
    char text[2 * VXLAN_PACKET_MAX + 1];
    size_t len = vxlan_packet_build(p, frame);

    for (size_t i = 0; i < len; i++) {
        snprintf(text + 2 * i, 3, "%02x", frame[i]);
    }
    return json_string(text);
}

static void print(const struct probe *p)
{
    const struct probe_want *w = &p->want;
    json_t *out = json_object();
    json_t *frames = json_array();

    for (unsigned i = 0; w->is_fallback && i < w->member_count; i++) {
        struct vxlan_packet packet = w->packet;

        packet.outer_dst = w->members[i];
        json_array_append_new(frames, hex_of(&packet));
    }
    if (w->outcome == PROBE_FORWARDED && !w->is_fallback) {
        json_array_append_new(frames, hex_of(&w->packet));
    }
    json_object_set_new(out, "sent", hex_of(&p->sent));
    json_object_set_new(out, "reason", json_string(w->reason));
    json_object_set_new(out, "frames", frames);
    json_dumpf(out, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(out);
}

int main(int argc, char **argv)
{
    struct device_config *config = calloc(1, sizeof(*config));
    struct probe_node node;
    char text[64];
    unsigned vni;
    unsigned family;

    must(argc == 4 && config, "KIND DEVICE.json ENTRIES.ndjson");
    config->kind = strcmp(argv[1], "x86") == 0 ? DEVICE_X86 : DEVICE_SOFT_H;
    read_device(argv[2], config);
    node = (struct probe_node){ read_tables(argv[3]), config };
    while (scanf("%u %63s %u", &vni, text, &family) == 3) {
        struct probe p;

        if (strcmp(text, "-") == 0) {
            probe_make(&node, vni, (uint8_t)family, 7, &p);
        } else {
            struct ip dst = read_ip(text);

            probe_make_to(&node, vni, &dst, (uint8_t)family, 7, &p);
        }
        print(&p);
    }
    return 0;
}
