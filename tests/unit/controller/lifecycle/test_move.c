/* The steps of a move, and what is stored of it. */
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
    enum move_verdict want;
} cases[] = {
    { MOVE_INSTALL, { 0 }, false, MOVE_STAYS },
    { MOVE_INSTALL, { .target_is_applied = true }, false, MOVE_STAYS },
    { MOVE_INSTALL, { .target_has_node = true }, false, MOVE_STAYS },
    { MOVE_INSTALL,
      { .target_has_node = true, .target_is_applied = true },
      false,
      MOVE_GOES_ON },
    { MOVE_INSTALL,
      { .target_has_node = true, .target_is_applied = true, .target_refused = true },
      false,
      MOVE_GOES_BACK },
    { MOVE_INSTALL,
      { .target_has_node = true, .target_is_applied = true },
      true,
      MOVE_GOES_BACK },
    { MOVE_INSTALL, { .step_ms = MOVE_TIMEOUT_MS }, false, MOVE_GOES_BACK },
    { MOVE_AUDIT, { .gate = GATE_OPEN_YET }, false, MOVE_STAYS },
    { MOVE_AUDIT, { .gate = GATE_PASSED }, false, MOVE_GOES_ON },
    { MOVE_AUDIT, { .gate = GATE_FAILED }, false, MOVE_GOES_BACK },
    { MOVE_PROBE, { .gate = GATE_OPEN_YET }, false, MOVE_STAYS },
    { MOVE_PROBE, { .gate = GATE_PASSED }, false, MOVE_GOES_ON },
    { MOVE_PROBE, { .gate = GATE_PASSED }, true, MOVE_GOES_BACK },
    { MOVE_PROBE, { .gate = GATE_FAILED }, false, MOVE_GOES_BACK },
    { MOVE_PROBE, { .step_ms = MOVE_TIMEOUT_MS }, false, MOVE_GOES_BACK },
    { MOVE_AUDIT, { .step_ms = MOVE_TIMEOUT_MS }, false, MOVE_GOES_BACK },
    /* From here on it only goes forward, however long it takes. */
    { MOVE_STEER, { .step_ms = 2 * MOVE_TIMEOUT_MS }, true, MOVE_STAYS },
    { MOVE_STEER, { .is_steered = true }, true, MOVE_GOES_ON },
    { MOVE_DRAIN, { .step_ms = 2999 }, false, MOVE_STAYS },
    { MOVE_DRAIN, { .step_ms = 3000 }, true, MOVE_GOES_ON },
    { MOVE_REMOVE, { .step_ms = 2 * MOVE_TIMEOUT_MS }, true, MOVE_STAYS },
    { MOVE_REMOVE, { .source_is_applied = true }, false, MOVE_GOES_ON },
    { MOVE_INSTALL, { .tenant_is_gone = true }, false, MOVE_GOES_BACK },
    { MOVE_DRAIN, { .tenant_is_gone = true }, false, MOVE_GOES_BACK },
};

START_TEST(a_step_waits_for_its_facts_and_for_no_others)
{
    struct operation o = at_step(cases[_i].step);
    char why[OPERATION_TEXT_MAX + 1];

    o.is_cancelled = cases[_i].is_cancelled;
    ck_assert_int_eq(move_next(&o, &cases[_i].facts, why), cases[_i].want);
    ck_assert_int_eq(why[0] == '\0', cases[_i].want == MOVE_GOES_ON);
}
END_TEST

START_TEST(rows_stand_on_both_sides_until_they_are_removed)
{
    for (uint8_t step = 1; step <= MOVE_STEPS; step++) {
        struct operation o = at_step(step);
        const struct home *also = move_also(&o);

        ck_assert_int_eq(move_is_revocable(&o), step <= MOVE_PROBE);
        if (step == MOVE_REMOVE) {
            ck_assert_ptr_null(also);
        } else {
            ck_assert_str_eq(also->x86, step <= MOVE_PROBE ? "c2" : "c1");
        }
        o.state = OPERATION_UNDONE;
        ck_assert_ptr_null(move_also(&o));
        ck_assert(!move_is_revocable(&o));
    }
}
END_TEST

START_TEST(what_is_packed_comes_back_and_damage_does_not)
{
    struct operation o = at_step(MOVE_AUDIT);
    struct operation got;
    struct buf bytes = BUF_INIT;

    strcpy(o.text, "why");
    o.is_cancelled = true;
    o.move.ignores_steering = true;
    strcpy(o.move.waived_by, "ann");
    strcpy(o.move.waived_why, "gone");
    operation_pack(&o, &bytes);
    ck_assert(!operation_unpack(bytes.data, bytes.len, &got, NULL));
    ck_assert_mem_eq(&got, &o, sizeof(o));
    for (size_t len = 0; len < bytes.len; len++) {
        ck_assert_int_eq(operation_unpack(bytes.data, len, &got, NULL), RC_INVALID);
    }
    buf_u8(&bytes, 0);
    ck_assert_int_eq(operation_unpack(bytes.data, bytes.len, &got, NULL), RC_INVALID);
    bytes.len--;
    for (size_t bit = 0; bit < bytes.len * 8; bit++) {
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        operation_unpack(bytes.data, bytes.len, &got, NULL); /* survives */
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    buf_fini(&bytes);
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
    tcase_add_test(tc, what_is_packed_comes_back_and_damage_does_not);
    tcase_add_test(tc, names_sort_by_age);
    return unit_run("move", tc);
}
