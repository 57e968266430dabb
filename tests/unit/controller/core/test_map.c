#include "tests/unit/unit.h"

#include "controller/core/map.h"

#include <string.h>

#define KEYS 5000

/* Against an array that says for each key what it leads to. */
START_TEST(a_map_holds_what_was_added_and_not_removed)
{
    static uint64_t model[KEYS + 1];
    struct map copy = { 0 };
    struct map m = { 0 };
    uint64_t seed = 1;
    uint32_t held = 0;

    memset(model, 0, sizeof(model));
    for (int step = 0; step < 60000; step++) {
        uint64_t key;
        struct map_slot *slot;

        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        key = (seed >> 33) % KEYS + 1;
        slot = map_find(&m, key);
        ck_assert_int_eq(slot != NULL, model[key] != 0);
        if (slot && step % 3 == 0) {
            map_remove(&m, slot);
            model[key] = 0;
            held--;
        } else {
            held += slot == NULL;
            slot = map_add(&m, key);
            ck_assert_uint_eq(slot->a, model[key]);
            slot->a = (uint64_t)step + 1;
            model[key] = slot->a;
        }
        ck_assert_uint_eq(m.count, held);
    }
    ck_assert(map_copy(&m, &copy));
    for (uint64_t key = 1; key <= KEYS; key++) {
        struct map_slot *slot = map_find(&m, key);

        ck_assert_uint_eq(slot ? slot->a : 0, model[key]);
        slot = map_find(&copy, key);
        ck_assert_uint_eq(slot ? slot->a : 0, model[key]);
        map_add(&copy, KEYS + key)->a = 1;
    }
    ck_assert_uint_eq(copy.count, held + KEYS);
    ck_assert_uint_eq(m.count, held);
    map_fini(&copy);
    map_fini(&m);
    ck_assert_ptr_null(map_find(&m, 1));
}
END_TEST

START_TEST(each_key_comes_once_whatever_the_size)
{
    struct map m = { 0 };

    for (uint32_t n = 0; n <= 20000; n++) {
        uint64_t sum = 0;
        uint32_t count = 0;
        uint32_t at = 0;
        struct map_slot *slot;

        if (n < 50 || n % 4000 == 0) {
            while ((slot = map_each(&m, &at))) {
                sum += slot->key;
                count++;
            }
            ck_assert_uint_eq(count, n);
            ck_assert_uint_eq(sum, (uint64_t)n * (n + 1) / 2);
        }
        ck_assert_ptr_nonnull(map_add(&m, n + 1));
    }
    map_fini(&m);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("map");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_map_holds_what_was_added_and_not_removed);
    tcase_add_test(tc, each_key_comes_once_whatever_the_size);
    return unit_run("map", tc);
}
