#include "tests/integration/fwdh_tables.h"

#include "proto/model/mac.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 512

static bool read_hex(const char *text, uint8_t *to, size_t size)
{
    size_t n = strcmp(text, "-") == 0 ? 0 : strlen(text) / 2;

    for (size_t i = 0; i < n; i++) {
        unsigned byte;

        if (i >= size || sscanf(text + 2 * i, "%2x", &byte) != 1) {
            return false;
        }
        to[i] = (uint8_t)byte;
    }
    return true;
}

static int table_named(const char *name)
{
    for (int i = 0; i < PHYS_TABLES; i++) {
        if (strcmp(phys_table_desc((enum phys_table)i)->name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static int action_named(const char *name)
{
    for (int i = 0; i < PHYS_ACTIONS; i++) {
        if (strcmp(phys_action_desc((enum phys_action)i)->name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static enum rc read_row(struct hswitch *s, const char *line, struct err *err)
{
    char table[32], action[32], key[128], mask[128], data[128];
    struct phys_entry e = { 0 };
    unsigned half;
    unsigned priority;

    if (sscanf(line, "row %u %31s %31s %u %127s %127s %127s", &half, table, action,
               &priority, key, mask, data) != 7 ||
        half >= HSWITCH_HALVES || table_named(table) < 0 || action_named(action) < 0 ||
        !read_hex(key, e.key, sizeof(e.key)) ||
        !read_hex(mask, e.mask, sizeof(e.mask)) ||
        !read_hex(data, e.data, sizeof(e.data))) {
        return err_set(err, RC_INVALID, "not a row");
    }
    e.table = (uint8_t)table_named(table);
    e.action = (uint8_t)action_named(action);
    e.half = (uint8_t)half;
    e.priority = priority;
    return hswitch_write(s, half, PHYS_INSERT, &e, err);
}

static enum rc read_meter(struct hswitch *s, const char *line, struct err *err)
{
    struct phys_meter_config c;
    char name[32];
    unsigned half;
    unsigned index;

    if (sscanf(line, "meter %u %31s %u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
               &half, name, &index, &c.cir, &c.cburst, &c.pir, &c.pburst) != 7 ||
        half >= HSWITCH_HALVES) {
        return err_set(err, RC_INVALID, "not a meter");
    }
    for (unsigned m = 0; m < PHYS_METERS; m++) {
        if (strcmp(phys_meter_name((enum phys_meter)m), name) == 0) {
            return hswitch_set_meter(s, half, (enum phys_meter)m, index, &c, err);
        }
    }
    return err_set(err, RC_INVALID, "no meter '%s'", name);
}

static bool read_ip(const char *text, struct ip *ret)
{
    *ret = (struct ip){ .family = IP_NONE };
    return strcmp(text, "-") == 0 || ip_parse(text, strlen(text), ret, NULL) == RC_OK;
}

static enum rc read_port(struct hswitch_options *o, const char *line, struct err *err)
{
    char mac[32], text[4][64];
    struct hswitch_port p = { 0 };
    unsigned index;

    if (sscanf(line, "port %u %31s %u %63s %63s %63s %63s", &index, mac, &p.mtu,
               text[0], text[1], text[2], text[3]) != 7 ||
        index >= HSWITCH_PORTS_MAX ||
        mac_parse(mac, strlen(mac), "mac", p.mac, NULL) != RC_OK ||
        !read_ip(text[0], &p.address[0]) || !read_ip(text[1], &p.next_hop[0]) ||
        !read_ip(text[2], &p.address[1]) || !read_ip(text[3], &p.next_hop[1])) {
        return err_set(err, RC_INVALID, "not a port");
    }
    o->ports[index] = p;
    o->port_count = index + 1 > o->port_count ? index + 1 : o->port_count;
    return RC_OK;
}

static enum rc read_line(struct hswitch_options *o, struct hswitch **s,
                         const char *line, struct err *err)
{
    unsigned flag;
    enum rc rc;

    if (sscanf(line, "udp6_zero_csum %u", &flag) == 1) {
        o->udp6_zero_csum = flag != 0;
        return RC_OK;
    }
    if (strncmp(line, "port ", 5) == 0) {
        return read_port(o, line, err);
    }
    if (!*s && (rc = hswitch_new(o, s, err)) != RC_OK) {
        return rc;
    }
    return strncmp(line, "meter ", 6) == 0 ? read_meter(*s, line, err)
                                           : read_row(*s, line, err);
}

enum rc fwdh_tables_load(const char *path, struct hswitch **ret, struct err *err)
{
    struct hswitch_options o = { .sizes = phys_sizes_tofino(),
                                 .workers = 1,
                                 .seed = 1 };
    char line[LINE_MAX_BYTES];
    struct hswitch *s = NULL;
    FILE *f = fopen(path, "r");
    unsigned number = 0;
    bool changed;
    enum rc rc = RC_OK;

    if (!f) {
        return err_set(err, RC_NOT_FOUND, "%s: cannot be read", path);
    }
    while (rc == RC_OK && fgets(line, sizeof(line), f)) {
        number++;
        rc = read_line(&o, &s, line, err);
        if (rc != RC_OK) {
            err_wrap(err, rc, "%s:%u", path, number);
        }
    }
    fclose(f);
    rc = rc == RC_OK && !s ? hswitch_new(&o, &s, err) : rc;
    rc = rc == RC_OK ? hswitch_publish(s, &changed, err) : rc;
    if (rc != RC_OK) {
        hswitch_free(s);
        return rc;
    }
    hworker_online(s, &s->workers[0]);
    *ret = s;
    return RC_OK;
}
