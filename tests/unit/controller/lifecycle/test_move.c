/* The steps of a move. */
#include "tests/unit/unit.h"

#include "controller/lifecycle/move.h"

#include <string.h>

static struct operation at_step(uint8_t step)
{
    struct operation o = { .id = "op-0000000007",
                           .kind = OPERATION_MOVE,
                           .state = OPERATION_RUNNING,
                           .step = step,
                           .who = "ann",
                           .created_ms = 5,
                           .changed_ms = 6 };

    o.move.vni = 100;
    strcpy(o.move.from.x86, "c1");
    strcpy(o.move.from.h, "h1");
    o.move.from.half = 1 + VNI_HALF_1;
    strcpy(o.move.to.x86, "c2");
    o.move.drain_ms = 3000;
    return o;
}

static const struct {
    uint8_t step;
    struct move_facts facts;
    bool is_cancelled;
    enum verdict want;
} cases[] = {
    { MOVE_INSTALL, { 0 }, false, VERDICT_STAYS },
    { MOVE_INSTALL, { .target_is_applied = true }, false, VERDICT_STAYS },
    { MOVE_INSTALL, { .target_has_node = true }, false, VERDICT_STAYS },
    { MOVE_INSTALL,
      { .target_has_node = true, .target_is_applied = true },
      false,
      VERDICT_GOES_ON },
    { MOVE_INSTALL,
      { .target_has_node = true, .target_is_applied = true, .target_refused = true },
      false,
      VERDICT_GOES_BACK },
    { MOVE_INSTALL,
      { .target_has_node = true, .target_is_applied = true },
      true,
      VERDICT_GOES_BACK },
    { MOVE_INSTALL, { .step_ms = MOVE_TIMEOUT_MS }, false, VERDICT_GOES_BACK },
    { MOVE_AUDIT, { .gate = GATE_OPEN_YET }, false, VERDICT_STAYS },
    { MOVE_AUDIT, { .gate = GATE_PASSED }, false, VERDICT_GOES_ON },
    { MOVE_AUDIT, { .gate = GATE_FAILED }, false, VERDICT_GOES_BACK },
    { MOVE_PROBE, { .gate = GATE_OPEN_YET }, false, VERDICT_STAYS },
    { MOVE_PROBE, { .gate = GATE_PASSED }, false, VERDICT_GOES_ON },
    { MOVE_PROBE, { .gate = GATE_PASSED }, true, VERDICT_GOES_BACK },
    { MOVE_PROBE, { .gate = GATE_FAILED }, false, VERDICT_GOES_BACK },
    { MOVE_PROBE, { .step_ms = MOVE_TIMEOUT_MS }, false, VERDICT_GOES_BACK },
    { MOVE_AUDIT, { .step_ms = MOVE_TIMEOUT_MS }, false, VERDICT_GOES_BACK },
    /* Its parent takes the time that it needs. */
    { MOVE_HELD, { .step_ms = 2 * MOVE_TIMEOUT_MS }, false, VERDICT_STAYS },
    { MOVE_HELD, { 0 }, true, VERDICT_GOES_BACK },
    { MOVE_HELD, { .tenant_is_gone = true }, false, VERDICT_GOES_BACK },
    /* From here on it only goes forward, however long it takes. */
    { MOVE_STEER, { .step_ms = 2 * MOVE_TIMEOUT_MS }, true, VERDICT_STAYS },
    { MOVE_STEER, { .is_steered = true }, true, VERDICT_GOES_ON },
    { MOVE_DRAIN, { .step_ms = 2999 }, false, VERDICT_STAYS },
    { MOVE_DRAIN, { .step_ms = 3000 }, true, VERDICT_GOES_ON },
    { MOVE_REMOVE, { .step_ms = 2 * MOVE_TIMEOUT_MS }, true, VERDICT_STAYS },
    { MOVE_REMOVE, { .source_is_applied = true }, false, VERDICT_GOES_ON },
    { MOVE_INSTALL, { .tenant_is_gone = true }, false, VERDICT_GOES_BACK },
    { MOVE_DRAIN, { .tenant_is_gone = true }, false, VERDICT_GOES_BACK },
};

START_TEST(a_step_waits_for_its_facts_and_for_no_others)
{
    struct operation o = at_step(cases[_i].step);
    char why[OPERATION_TEXT_MAX + 1];

    o.is_cancelled = cases[_i].is_cancelled;
    ck_assert_int_eq(move_next(&o, &cases[_i].facts, why), cases[_i].want);
    ck_assert_int_eq(why[0] == '\0', cases[_i].want == VERDICT_GOES_ON);
}
END_TEST

START_TEST(rows_stand_on_both_sides_until_they_are_removed)
{
    for (uint8_t step = 1; step <= MOVE_STEPS; step++) {
        struct operation o = at_step(step);
        const struct home *also = move_also(&o);

        ck_assert_int_eq(operation_is_revocable(&o), step <= MOVE_HELD);
        if (step == MOVE_REMOVE) {
            ck_assert_ptr_null(also);
        } else {
            ck_assert_str_eq(also->x86, step <= MOVE_HELD ? "c2" : "c1");
        }
        o.state = OPERATION_UNDONE;
        ck_assert_ptr_null(move_also(&o));
        ck_assert(!operation_is_revocable(&o));
    }
}
END_TEST

START_TEST(only_a_move_with_a_parent_that_holds_it_is_held)
{
    for (int is_held = 0; is_held < 2; is_held++) {
        struct operation o = at_step(MOVE_PROBE);

        o.move.is_held = is_held;
        operation_advance(&o, VERDICT_STAYS, "");
        ck_assert_int_eq(o.step, MOVE_PROBE);
        operation_advance(&o, VERDICT_GOES_ON, "");
        ck_assert_int_eq(o.step, is_held ? MOVE_HELD : MOVE_STEER);
        operation_advance(&o, VERDICT_GOES_BACK, "why");
        ck_assert_int_eq(o.state, OPERATION_UNDONE);
        ck_assert_str_eq(o.text, "why");
    }
}
END_TEST

START_TEST(names_sort_by_age)
{
    char young[OPERATION_ID_MAX + 1];
    char old[OPERATION_ID_MAX + 1];

    operation_name(9, old);
    operation_name(10, young);
    ck_assert_int_lt(strcmp(old, young), 0);
    ck_assert_str_eq(old, "op-0000000009");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("move");

    tcase_add_loop_test(tc, a_step_waits_for_its_facts_and_for_no_others, 0,
                        ARRAY_LEN(cases));
    tcase_add_test(tc, rows_stand_on_both_sides_until_they_are_removed);
    tcase_add_test(tc, only_a_move_with_a_parent_that_holds_it_is_held);
    tcase_add_test(tc, names_sort_by_age);
    return unit_run("move", tc);
}
