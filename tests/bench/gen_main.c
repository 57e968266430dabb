/*
 * gen - writes the benches' tenants and entries as NDJSON.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/model/entry_text.h"
#include "tests/bench/gen.h"

#define WRITE_BYTES (1u << 20)

static const char usage[] =
    "usage: gen [options]\n"
    "  --routes N        routes, and as many VM-NC entries (default 1000000)\n"
    "  --seed N          (default 1)\n"
    "  --data DIR        announced prefixes from DIR/prefixes (default: made up)\n"
    "  --cluster NAME    home of all tenants (default x86-1)\n"
    "  --macs            give each VM a MAC address\n"
    "  --what WHAT       tenants, entries or all (default all: tenants first)\n"
    "  --output FILE     (default: standard output)\n";

struct options {
    struct gen_config config;
    bool has_tenants;
    bool has_entries;
    const char *output;
};

static bool parse_u64(const char *text, uint64_t max, uint64_t *ret)
{
    char *end;
    unsigned long long v = strtoull(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || v > max) {
        fprintf(stderr, "gen: '%s' is no number up to %llu\n", text,
                (unsigned long long)max);
        return false;
    }
    *ret = v;
    return true;
}

static bool parse_what(const char *text, struct options *o)
{
    o->has_tenants = strcmp(text, "entries") != 0;
    o->has_entries = strcmp(text, "tenants") != 0;
    if (o->has_tenants && o->has_entries && strcmp(text, "all") != 0) {
        fprintf(stderr, "gen: --what %s: not tenants, entries or all\n", text);
        return false;
    }
    return true;
}

static bool parse_options(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        { "routes", required_argument, NULL, 'n' },
        { "seed", required_argument, NULL, 's' },
        { "data", required_argument, NULL, 'd' },
        { "cluster", required_argument, NULL, 'c' },
        { "macs", no_argument, NULL, 'm' },
        { "what", required_argument, NULL, 'w' },
        { "output", required_argument, NULL, 'o' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    uint64_t n;
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (c) {
        case 'n':
            if (!parse_u64(optarg, UINT32_MAX, &n)) {
                return false;
            }
            o->config.routes = (uint32_t)n;
            break;
        case 's':
            if (!parse_u64(optarg, UINT64_MAX, &o->config.seed)) {
                return false;
            }
            break;
        case 'd':
            o->config.data_dir = optarg;
            break;
        case 'c':
            o->config.cluster = optarg;
            break;
        case 'm':
            o->config.has_macs = true;
            break;
        case 'w':
            if (!parse_what(optarg, o)) {
                return false;
            }
            break;
        case 'o':
            o->output = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            fputs(usage, stderr);
            return false;
        }
    }
    if (optind < argc) {
        fputs(usage, stderr);
        return false;
    }
    return true;
}

static bool flush(struct buf *b, FILE *to, size_t above)
{
    bool ok = !buf_failed(b);

    if (ok && b->len > above) {
        ok = fwrite(b->data, 1, b->len, to) == b->len;
        buf_reset(b);
    }
    return ok;
}

static bool write_entry(const struct entry *e, struct buf *b, FILE *to)
{
    entry_print_json(e, ENTRY_PUT, b);
    buf_u8(b, '\n');
    return flush(b, to, WRITE_BYTES);
}

static bool write_all(struct gen *g, const struct options *o, FILE *to)
{
    struct buf b = BUF_INIT;
    struct entry e;
    bool ok = true;

    if (o->has_tenants) {
        for (uint32_t i = 0; ok && i < gen_vni_count(g); i++) {
            gen_tenant(g, i, &e);
            ok = write_entry(&e, &b, to);
        }
    }
    while (o->has_entries && ok && gen_next(g, &e)) {
        ok = write_entry(&e, &b, to);
    }
    ok = ok && flush(&b, to, 0);
    buf_fini(&b);
    return ok;
}

int main(int argc, char **argv)
{
    struct options o = { .has_tenants = true, .has_entries = true };
    struct err err = { 0 };
    struct entry tenant;
    struct gen *g = NULL;
    FILE *to = stdout;
    bool ok;

    gen_config_init(&o.config);
    if (!parse_options(argc, argv, &o)) {
        return 2;
    }
    if (gen_new(&o.config, &g, &err)) {
        fprintf(stderr, "gen: %s\n", err.msg);
        return 1;
    }
    gen_tenant(g, 0, &tenant);
    if (strcmp(tenant.tenant.cluster, o.config.cluster) != 0 ||
        entry_check(&tenant, &err)) {
        fprintf(stderr, "gen: --cluster %s: not a cluster's name\n", o.config.cluster);
        gen_free(g);
        return 2;
    }
    if (o.output && !(to = fopen(o.output, "w"))) {
        perror(o.output);
        gen_free(g);
        return 1;
    }
    ok = write_all(g, &o, to);
    ok = fclose(to) == 0 && ok;
    gen_free(g);
    if (!ok) {
        perror("gen: writing");
        return 1;
    }
    return 0;
}
