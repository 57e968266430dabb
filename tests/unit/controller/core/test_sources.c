#include "controller/core/sources.h"
#include "tests/unit/unit.h"

#include <stdbool.h>

#define VNIS 3000u

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

static void expect(const struct sources *s, const uint32_t model[VNIS + 1])
{
    uint32_t count = 0;
    uint32_t at = sources_next(s, 1);

    for (uint32_t vni = 1; vni <= VNIS; vni++) {
        if (model[vni] > 0) {
            ck_assert_uint_eq(at, vni);
            at = sources_next(s, vni + 1);
            count++;
        }
    }
    ck_assert_uint_eq(at, 0);
    ck_assert_uint_eq(sources_count(s), count);
}

/* Grows past what one array holds, and shrinks to nothing. */
START_TEST(a_set_has_what_was_added_more_often_than_dropped_in_order)
{
    static uint32_t model[VNIS + 1];
    struct sources *s = NULL;
    uint64_t seed = (uint64_t)_i + 1;
    uint32_t held = 0;

    for (uint32_t step = 0; step < 60000; step++) {
        uint32_t vni = 1 + draw(&seed, VNIS);
        bool adds = draw(&seed, 60000) > step;

        if (adds) {
            sources_add(&s, vni);
            model[vni]++;
            held++;
        } else if (model[vni] > 0) {
            sources_drop(&s, vni);
            model[vni]--;
            held--;
        }
        if (step % 1500 == 0) {
            expect(s, model);
        }
    }
    ck_assert_uint_gt(held, 0);
    for (uint32_t vni = 1; vni <= VNIS; vni++) {
        while (model[vni] > 0) {
            sources_drop(&s, vni);
            model[vni]--;
        }
        if (vni % 500 == 0) {
            expect(s, model);
        }
    }
    ck_assert_ptr_null(s);
}
END_TEST

START_TEST(what_is_added_in_order_is_found_in_order)
{
    struct sources *s = NULL;
    uint32_t vni = 0;

    for (uint32_t i = 1; i <= 100000; i++) {
        sources_add(&s, 2 * i);
    }
    for (uint32_t i = 1; i <= 100000; i++) {
        vni = sources_next(s, vni + 1);
        ck_assert_uint_eq(vni, 2 * i);
    }
    ck_assert_uint_eq(sources_next(s, vni + 1), 0);
    ck_assert_uint_eq(sources_count(s), 100000);
    sources_free(s);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("sources");

    tcase_add_loop_test(tc, a_set_has_what_was_added_more_often_than_dropped_in_order,
                        0, 4);
    tcase_add_test(tc, what_is_added_in_order_is_found_in_order);
    return unit_run("sources", tc);
}
