/*
 * bench_p4rt - how fast one core packs and reads P4Runtime's writes and responses, in
 * requests of 1 MiB.  Prints `name value unit` lines.
 *
 *   bench_p4rt [ENTRIES]      default 1,000,000 of each table
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/p4rt/p4rt_codec.h"

#define REQUEST_BYTES (1u << 20)

static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Keys as they are: VNIs of two bytes, v4 addresses, NC indexes of two. */
static struct phys_entry entry_at(enum phys_table table, uint32_t i)
{
    struct phys_entry e = { .table = (uint8_t)table };
    uint32_t vni = 1 + i / 8 % 60000;

    if (table == PHYS_VM_NC) {
        e.action = PHYS_SET_NC;
        memcpy(e.key,
               (uint8_t[]){ 0, (uint8_t)(vni >> 8), (uint8_t)vni, 1, 10,
                            (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i },
               8);
    } else {
        e.action = PHYS_TUNNEL;
        e.priority = 121;
        memcpy(e.key,
               (uint8_t[]){ (uint8_t)(i >> 12), (uint8_t)(i >> 4), 0,
                            (uint8_t)(vni >> 8), (uint8_t)vni },
               5);
        e.key[0] &= 0x3f;
        memcpy(e.key + 15, "\xff\xff\x0a", 3);
        memcpy(e.key + 18, (uint8_t[]){ (uint8_t)(i >> 8), (uint8_t)i }, 2);
        memset(e.mask + 2, 0xff, 18);
        e.data[1] = (uint8_t)(vni >> 8);
        e.data[2] = (uint8_t)vni;
    }
    e.data[4] = (uint8_t)(i >> 8);
    e.data[5] = (uint8_t)i;
    if (table == PHYS_VM_NC) {
        memcpy(e.data, (uint8_t[]){ 0, (uint8_t)(i >> 8), (uint8_t)i, 0, 0, 0 }, 6);
    }
    phys_mask_exact(table, e.mask);
    return e;
}

struct sums {
    double encode_s, decode_s;
    uint64_t bytes, sum;
};

static void die(void)
{
    fprintf(stderr, "bench_p4rt: what was packed is not read\n");
    exit(EXIT_FAILURE);
}

static void read_writes(const struct buf *b, struct sums *s)
{
    struct p4rt_write_head head;
    struct p4rt_cursor c;
    struct p4rt_piece piece;
    struct p4rt_entity e;
    enum phys_op op;

    if (p4rt_write_open(b->data, b->len, &head, &c, NULL) != RC_OK) {
        die();
    }
    while (p4rt_next(&c, &piece)) {
        if (p4rt_update_decode(piece, &op, &e, NULL) != RC_OK) {
            die();
        }
        s->sum += e.entry.key[7];
    }
}

static void read_responses(const struct buf *b, struct sums *s)
{
    struct p4rt_cursor c;
    struct p4rt_piece piece;
    struct p4rt_entity e;

    if (p4rt_response_open(b->data, b->len, &c, NULL) != RC_OK) {
        die();
    }
    while (p4rt_next(&c, &piece)) {
        if (p4rt_entity_decode(piece, &e, NULL) != RC_OK) {
            die();
        }
        s->sum += e.entry.key[7];
    }
}

static void bench(const char *name, const struct phys_entry *entries, uint32_t count,
                  bool is_write)
{
    struct p4rt_write_head head = { .device_id = 1, .election_high = 7 };
    struct buf b = BUF_INIT;
    struct sums s = { 0 };

    for (uint32_t i = 0; i < count;) {
        double start = cpu_s();

        buf_reset(&b);
        if (is_write) {
            p4rt_write_begin(&b, &head);
        }
        for (; i < count && b.len < REQUEST_BYTES; i++) {
            if (is_write) {
                p4rt_write_entry(&b, PHYS_INSERT, &entries[i]);
            } else {
                p4rt_response_entry(&b, &entries[i]);
            }
        }
        s.encode_s += cpu_s() - start;
        s.bytes += b.len;
        start = cpu_s();
        (is_write ? read_writes : read_responses)(&b, &s);
        s.decode_s += cpu_s() - start;
    }
    printf("p4rt_%s_encode %.0f entries/s\n", name, count / s.encode_s);
    printf("p4rt_%s_decode %.0f entries/s\n", name, count / s.decode_s);
    printf("p4rt_%s_bytes %.1f bytes/entry\n", name, (double)s.bytes / count);
    buf_fini(&b);
}

int main(int argc, char **argv)
{
    uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000000;
    struct phys_entry *entries = calloc(count, sizeof(*entries));

    if (!entries || count == 0) {
        fprintf(stderr, "bench_p4rt [ENTRIES]\n");
        return EXIT_FAILURE;
    }
    for (int t = 0; t < 2; t++) {
        enum phys_table table = t == 0 ? PHYS_VM_NC : PHYS_ROUTE_PART;

        for (uint32_t i = 0; i < count; i++) {
            entries[i] = entry_at(table, i);
        }
        bench(t == 0 ? "vm_nc_write" : "route_part_write", entries, count, true);
        bench(t == 0 ? "vm_nc_response" : "route_part_response", entries, count, false);
    }
    free(entries);
    return EXIT_SUCCESS;
}
