#include "tests/unit/unit.h"

#include <stdbool.h>
#include <string.h>

#include "agent/fwd/top_sketch.h"
#include "tests/unit/agent/fwd/flows.h"

/* Keys are numbered; what each really had stands in an array. */
static struct flow_key key_of(uint32_t number)
{
    struct flow_key key = { .vni = number % 7 + 1,
                            .family = IP_V4,
                            .proto = PROTO_UDP };

    memcpy(key.src, &number, sizeof(number));
    return key;
}

static uint32_t number_of(const struct flow_key *key)
{
    uint32_t number;

    memcpy(&number, key->src, sizeof(number));
    return number;
}

/* The paper's two theorems, for sketches of `capacity` counters each whose streams were
 * `total` in all: what is listed is bounded on both sides, and nothing heavy lacks. */
static void check_bounds(const struct top_sketch *const sketches[], uint32_t count,
                         const uint64_t had[], uint32_t keys, uint32_t capacity)
{
    struct top_entry *list = calloc(count * capacity, sizeof(*list));
    bool *is_listed = calloc(keys, sizeof(*is_listed));
    uint64_t total = 0;
    uint64_t rest = 0;
    uint32_t n = 0;

    for (uint32_t k = 0; k < keys; k++) {
        total += had[k];
    }
    ck_assert_int_eq(
        top_sketch_merge(sketches, count, list, count * capacity, &n, &rest), RC_OK);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = number_of(&list[i].key);
        struct flow_key key = key_of(k);

        ck_assert_mem_eq(&key, &list[i].key, sizeof(key));
        ck_assert_msg(!is_listed[k], "key %u twice", k);
        is_listed[k] = true;
        ck_assert_uint_le(had[k], list[i].bytes);
        ck_assert_uint_le(list[i].error, total / capacity);
        ck_assert_uint_ge(had[k], list[i].bytes - list[i].error);
        ck_assert(i == 0 || list[i].bytes <= list[i - 1].bytes);
    }
    for (uint32_t k = 0; k < keys; k++) {
        ck_assert_msg(is_listed[k] || had[k] <= total / capacity, "key %u of %lu lacks",
                      k, (unsigned long)had[k]);
        ck_assert(is_listed[k] || had[k] <= rest);
    }
    free(list);
    free(is_listed);
}

static const uint32_t capacities[] = { 1, 2, 3, 8, 61 };

START_TEST(bounds_hold_after_every_add)
{
    enum { KEYS = 97, ADDS = 3000 };
    uint32_t capacity = capacities[_i];
    struct top_sketch *s = top_sketch_new(capacity);
    uint64_t random = (uint64_t)_i + 1;
    uint64_t had[KEYS] = { 0 };

    ck_assert_ptr_nonnull(s);
    for (uint32_t i = 0; i < ADDS; i++) {
        /* A few are drawn often, and weights differ a thousandfold. */
        uint32_t k = (uint32_t)(flows_random(&random) % KEYS);
        uint64_t bytes = 1 + flows_random(&random) % 1500;
        struct flow_key key;

        k = flows_random(&random) % 2 ? k : k % 5;
        key = key_of(k);
        top_sketch_add(s, &key, bytes);
        had[k] += bytes;
        check_bounds((const struct top_sketch *const[]){ s }, 1, had, KEYS, capacity);
    }
    top_sketch_free(s);
}
END_TEST

START_TEST(a_sketch_with_room_counts_exactly_and_misses_nothing)
{
    struct top_sketch *s = top_sketch_new(10);
    const struct top_sketch *all[] = { s };
    struct top_entry list[10];
    uint64_t rest = 0;
    uint32_t n = 0;

    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 100; i++) {
            struct flow_key key = key_of(i % 10);

            top_sketch_add(s, &key, i % 10 + 1);
        }
        ck_assert_uint_eq(top_sketch_total(s), 550);
        ck_assert_int_eq(top_sketch_merge(all, 1, list, 3, &n, &rest), RC_OK);
        ck_assert_uint_eq(n, 3);
        ck_assert_uint_eq(rest, 70); /* the fourth */
        for (uint32_t i = 0; i < n; i++) {
            ck_assert_uint_eq(number_of(&list[i].key), 9 - i);
            ck_assert_uint_eq(list[i].bytes, 10 * (10 - i));
            ck_assert_uint_eq(list[i].error, 0);
        }
        top_sketch_clear(s); /* and nothing of it is left */
        ck_assert_uint_eq(top_sketch_total(s), 0);
        ck_assert_uint_eq(top_sketch_missed(s), 0);
        ck_assert_int_eq(top_sketch_merge(all, 1, list, 3, &n, &rest), RC_OK);
        ck_assert_uint_eq(n, 0);
        ck_assert_uint_eq(rest, 0);
    }
    top_sketch_free(s);
}
END_TEST

START_TEST(merged_sketches_of_several_streams_keep_the_bounds)
{
    enum { KEYS = 400, WORKERS = 4, CAPACITY = 50 };
    struct top_sketch *s[WORKERS];
    const struct top_sketch *all[WORKERS];
    uint64_t had[KEYS] = { 0 };
    uint64_t random = (uint64_t)_i + 100;

    for (unsigned w = 0; w < WORKERS; w++) {
        all[w] = s[w] = top_sketch_new(CAPACITY);
        ck_assert_ptr_nonnull(s[w]);
    }
    for (uint32_t i = 0; i < 20000; i++) {
        uint64_t r = flows_random(&random);
        uint32_t k = (uint32_t)(r % KEYS * (r >> 32 & 0xff) >> 8);
        uint64_t bytes = 64 + (r >> 40) % 1400;
        struct flow_key key = key_of(k);
        /* Some flows are on one worker, some on all, and one worker sees little. */
        unsigned w = k % 2                 ? k % (WORKERS - 1)
                     : (r >> 20) % 64 == 0 ? 3
                                           : (r >> 56) % 3;

        top_sketch_add(s[w], &key, bytes);
        had[k] += bytes;
    }
    check_bounds(all, WORKERS, had, KEYS, CAPACITY);
    for (unsigned w = 0; w < WORKERS; w++) {
        top_sketch_free(s[w]);
    }
}
END_TEST

/* Real flows: every packet is counted. */
START_TEST(the_heaviest_of_real_flows_are_found_in_order_within_the_bound)
{
    enum { FLOWS = 30000, CAPACITY = 1024, TOP = 20 };
    struct top_sketch *s = top_sketch_new(CAPACITY);
    const struct top_sketch *all[] = { s };
    uint64_t *had = calloc(FLOWS, sizeof(*had));
    struct top_entry list[TOP];
    struct flows f;
    uint64_t rest = 0;
    uint32_t n = 0;
    uint64_t listed = 0;

    flows_make(&f, FLOWS, (uint64_t)_i + 7);
    for (uint32_t i = 0; i < f.packet_count; i++) {
        struct flow_key key = key_of(f.order[i]);

        top_sketch_add(s, &key, f.flow[f.order[i]].packet_bytes);
        had[f.order[i]] += f.flow[f.order[i]].packet_bytes;
    }
    check_bounds(all, 1, had, FLOWS, CAPACITY);
    ck_assert_int_eq(top_sketch_merge(all, 1, list, TOP, &n, &rest), RC_OK);
    ck_assert_uint_eq(n, TOP);
    for (uint32_t i = 0; i < TOP; i++) {
        listed += had[number_of(&list[i].key)];
    }
    printf("%s flows: %u packets, %lu bytes; the top %d carry %.1f %%, first wrong by "
           "at most %.3f %% of all\n",
           f.is_real ? "real" : "invented", f.packet_count, (unsigned long)f.bytes, TOP,
           100.0 * (double)listed / (double)f.bytes,
           100.0 * (double)list[0].error / (double)f.bytes);
    flows_fini(&f);
    free(had);
    top_sketch_free(s);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("top_sketch");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, bounds_hold_after_every_add, 0, ARRAY_LEN(capacities));
    tcase_add_test(tc, a_sketch_with_room_counts_exactly_and_misses_nothing);
    tcase_add_loop_test(tc, merged_sketches_of_several_streams_keep_the_bounds, 0, 5);
    tcase_add_loop_test(
        tc, the_heaviest_of_real_flows_are_found_in_order_within_the_bound, 0, 3);
    return unit_run("top_sketch", tc);
}
