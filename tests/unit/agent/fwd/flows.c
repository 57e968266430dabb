#include "tests/unit/agent/fwd/flows.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* So that one flow is not the whole test: 1 in 100,000 flows of the data is longer. */
#define PACKETS_MAX 200000u

struct bin {
    uint64_t flows_so_far;
    double packets;      /* of a flow in it */
    double packet_bytes; /* of a packet */
};

struct bins {
    struct bin *at;
    uint32_t count;
};

uint64_t flows_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void bins_add(struct bins *b, double flows, double packets, double bytes)
{
    uint64_t before = b->count ? b->at[b->count - 1].flows_so_far : 0;

    if ((b->count & (b->count - 1)) == 0) {
        b->at = realloc(b->at, (b->count ? 2 * b->count : 1) * sizeof(*b->at));
        ck_assert_ptr_nonnull(b->at);
    }
    b->at[b->count++] =
        (struct bin){ before + (uint64_t)flows, packets / flows, bytes / packets };
}

static bool bins_read(struct bins *b)
{
    const char *dir = getenv("XGW_DATA") ? getenv("XGW_DATA") : "../shared/data";
    char path[512];
    char line[256];
    gzFile file;

    snprintf(path, sizeof(path), "%s/flows/agh_2015/histograms_all_length.csv.gz", dir);
    file = gzopen(path, "rb");
    if (!file) {
        return false;
    }
    while (gzgets(file, line, sizeof(line))) {
        double flows, packets, octets;

        if (sscanf(line, "%*u,%*u,%lf,%lf,%lf", &flows, &packets, &octets) == 3) {
            bins_add(b, flows, packets, octets);
        }
    }
    gzclose(file);
    return b->count > 0;
}

/* Twice as long flows are 1.6 times fewer. */
static void bins_invent(struct bins *b)
{
    double flows = 1e9;

    for (unsigned i = 0; i < 18; i++, flows /= 1.6) {
        double packets = 1u << i;

        bins_add(b, flows, flows * packets, flows * packets * (150 + 70.0 * i));
    }
}

static struct flow draw_flow(const struct bins *b, uint64_t *random)
{
    uint64_t at = flows_random(random) % b->at[b->count - 1].flows_so_far;
    const struct bin *bin = b->at;
    uint32_t n = b->count;

    while (n > 1) { /* to the first bin that ends behind `at` */
        uint32_t half = n / 2;

        if (bin[half - 1].flows_so_far <= at) {
            bin += half;
            n -= half;
        } else {
            n = half;
        }
    }
    return (struct flow){ (uint32_t)fmin(bin->packets, PACKETS_MAX),
                          (uint32_t)bin->packet_bytes };
}

void flows_make(struct flows *f, uint32_t flow_count, uint64_t seed)
{
    struct bins bins = { 0 };
    uint32_t at = 0;

    *f = (struct flows){ .flow_count = flow_count, .is_real = bins_read(&bins) };
    if (!f->is_real) {
        bins_invent(&bins);
    }
    f->flow = calloc(flow_count, sizeof(*f->flow));
    ck_assert_ptr_nonnull(f->flow);
    for (uint32_t i = 0; i < flow_count; i++) {
        f->flow[i] = draw_flow(&bins, &seed);
        f->packet_count += f->flow[i].packets;
        f->bytes += (uint64_t)f->flow[i].packets * f->flow[i].packet_bytes;
    }
    free(bins.at);
    f->order = malloc(f->packet_count * sizeof(*f->order));
    ck_assert_ptr_nonnull(f->order);
    for (uint32_t i = 0; i < flow_count; i++) {
        for (uint32_t k = 0; k < f->flow[i].packets; k++) {
            f->order[at++] = i;
        }
    }
    for (uint32_t i = f->packet_count - 1; i > 0; i--) { /* Fisher and Yates */
        uint32_t k = (uint32_t)(flows_random(&seed) % (i + 1));
        uint32_t other = f->order[k];

        f->order[k] = f->order[i];
        f->order[i] = other;
    }
}

void flows_fini(struct flows *f)
{
    free(f->flow);
    free(f->order);
}
