/* Who is primary: the rules of the specification's chapter on arbitration. */
#include "tests/unit/unit.h"

#include "agent/gateway/arbiter.h"

static struct election id(uint64_t high, uint64_t low)
{
    return (struct election){ true, high, low };
}

START_TEST(the_highest_id_is_primary_and_its_place_stays_empty_after_it)
{
    struct arbiter a = { 0 };
    struct arbiter_stream s[3] = { 0 };
    const struct election two = id(0, 2);
    const struct election above = id(1, 0);
    bool changed;

    ck_assert_int_eq(arbiter_join(&a, &s[0], two, &changed), ARBITER_OK);
    ck_assert(changed && arbiter_may_write(&a, &two));
    ck_assert_int_eq(arbiter_join(&a, &s[1], id(0, 1), &changed), ARBITER_OK);
    ck_assert(!changed && arbiter_primary(&a) == &s[0]);
    ck_assert_int_eq(arbiter_join(&a, &s[2], above, &changed), ARBITER_OK);
    ck_assert(changed && arbiter_primary(&a) == &s[2]);
    ck_assert(!arbiter_may_write(&a, &two) && arbiter_may_write(&a, &above));

    ck_assert(arbiter_leave(&a, &s[2]));
    ck_assert_ptr_null(arbiter_primary(&a));
    ck_assert(!arbiter_may_write(&a, &above));
    ck_assert_int_eq(arbiter_join(&a, &s[0], id(0, 9), &changed), ARBITER_OK);
    ck_assert(!changed && arbiter_primary(&a) == NULL); /* 1,0 was seen */
    ck_assert_int_eq(arbiter_join(&a, &s[1], above, &changed), ARBITER_OK);
    ck_assert(changed && arbiter_primary(&a) == &s[1]);
    ck_assert(!arbiter_leave(&a, &s[2])); /* it is gone already */
}
END_TEST

START_TEST(an_id_that_is_taken_or_zero_is_refused_and_changes_nothing)
{
    struct arbiter a = { 0 };
    struct arbiter_stream s[2] = { 0 };
    const struct election none = { false, 0, 0 };
    bool changed;

    ck_assert_int_eq(arbiter_join(&a, &s[0], id(0, 2), &changed), ARBITER_OK);
    ck_assert_int_eq(arbiter_join(&a, &s[1], id(0, 2), &changed), ARBITER_TAKEN);
    ck_assert_int_eq(arbiter_join(&a, &s[1], id(0, 0), &changed), ARBITER_ZERO);
    ck_assert(!s[1].has_joined && arbiter_primary(&a) == &s[0]);
    ck_assert_int_eq(arbiter_join(&a, &s[0], id(0, 2), &changed), ARBITER_OK);
    ck_assert(!changed); /* its own id again */
    ck_assert_int_eq(arbiter_join(&a, &s[1], none, &changed), ARBITER_OK);
    ck_assert(!changed && !arbiter_may_write(&a, &none));
    /* The primary steps back: nobody is. */
    ck_assert_int_eq(arbiter_join(&a, &s[0], id(0, 1), &changed), ARBITER_OK);
    ck_assert(changed && arbiter_primary(&a) == NULL);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("arbiter");

    tcase_add_test(tc, the_highest_id_is_primary_and_its_place_stays_empty_after_it);
    tcase_add_test(tc, an_id_that_is_taken_or_zero_is_refused_and_changes_nothing);
    return unit_run("arbiter", tc);
}
