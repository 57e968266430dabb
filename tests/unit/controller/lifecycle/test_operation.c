/* What is stored of an operation, of every kind. */
#include "tests/unit/unit.h"

#include "controller/lifecycle/build.h"
#include "controller/lifecycle/drain.h"
#include "controller/lifecycle/move.h"

#include <string.h>

static struct operation of_kind(unsigned kind)
{
    static const uint32_t vnis[] = { 7, 100, 16777215 };
    struct operation o = { .id = "op-0000000007",
                           .kind = (uint8_t)kind,
                           .state = OPERATION_RUNNING,
                           .step = 1,
                           .is_cancelled = true,
                           .who = "ann",
                           .created_ms = 5,
                           .changed_ms = 6,
                           .text = "why",
                           .parent = 6 };

    switch (kind) {
    case OPERATION_MOVE:
        o.move = (struct move){ .vni = 100,
                                .from = { "c1", "h1", 1 + VNI_HALF_1 },
                                .to = { .x86 = "c2" },
                                .drain_ms = 3000,
                                .ignores_steering = true,
                                .is_held = true,
                                .waived_by = "ann",
                                .waived_why = "gone" };
        break;
    case OPERATION_BUILD:
        o.step = BUILD_ADMIT;
        o.build = (struct build){ .cluster = "c2",
                                  .hold_ms = 60000,
                                  .drain_ms = 5000,
                                  .stage = 2,
                                  .cut = { 1, 1, 2, 3, 3 },
                                  .vni_count = 3,
                                  .vnis = blob_copy(vnis, sizeof(vnis)) };
        break;
    case OPERATION_DRAIN:
        o.drain = (struct drain){ .cluster = "c2", .to = "c3", .drain_ms = 9 };
        break;
    default:
        o.retire = (struct retire){ .cluster = "c2" };
        break;
    }
    return o;
}

static void check_same(const struct operation *got, const struct operation *want)
{
    struct operation plain = *got;

    if (want->kind == OPERATION_BUILD) {
        ck_assert_uint_eq(got->build.vnis->len, want->build.vnis->len);
        ck_assert_mem_eq(got->build.vnis->data, want->build.vnis->data,
                         want->build.vnis->len);
        plain.build.vnis = want->build.vnis;
    }
    ck_assert_mem_eq(&plain, want, sizeof(plain));
}

START_TEST(what_is_packed_comes_back_and_damage_does_not)
{
    struct operation o = of_kind((unsigned)_i);
    struct operation got;
    struct buf bytes = BUF_INIT;

    operation_pack(&o, &bytes);
    ck_assert(!operation_unpack(bytes.data, bytes.len, &got, NULL));
    check_same(&got, &o);
    operation_fini(&got);
    for (size_t len = 0; len < bytes.len; len++) {
        ck_assert_int_eq(operation_unpack(bytes.data, len, &got, NULL), RC_INVALID);
    }
    buf_u8(&bytes, 0);
    ck_assert_int_eq(operation_unpack(bytes.data, bytes.len, &got, NULL), RC_INVALID);
    bytes.len--;
    for (size_t bit = 0; bit < bytes.len * 8; bit++) {
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (!operation_unpack(bytes.data, bytes.len, &got, NULL)) {
            operation_fini(&got); /* survives */
        }
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    buf_fini(&bytes);
    operation_fini(&o);
}
END_TEST

START_TEST(a_step_of_another_kind_is_damage)
{
    static const uint8_t beyond[] = { [OPERATION_MOVE] = MOVE_STEPS + 1,
                                      [OPERATION_BUILD] = BUILD_BACK + 1,
                                      [OPERATION_DRAIN] = DRAIN_STEPS + 1,
                                      [OPERATION_RETIRE] = RETIRE_STEPS + 1 };
    struct operation o = of_kind((unsigned)_i);
    struct operation got;
    struct buf bytes = BUF_INIT;

    o.step = beyond[_i];
    operation_pack(&o, &bytes);
    ck_assert_int_eq(operation_unpack(bytes.data, bytes.len, &got, NULL), RC_INVALID);
    ck_assert_str_eq(operation_step_name(&o), "unknown");
    buf_fini(&bytes);
    operation_fini(&o);
}
END_TEST

START_TEST(what_is_held_lives_as_long_as_its_last_holder)
{
    struct operation o = of_kind(OPERATION_BUILD);
    struct operation other = o;

    operation_hold(&other);
    operation_fini(&o);
    ck_assert_uint_eq(build_vni(&other.build, 2), 16777215);
    operation_fini(&other);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("operation");

    tcase_add_loop_test(tc, what_is_packed_comes_back_and_damage_does_not,
                        OPERATION_MOVE, OPERATION_KINDS + 1);
    tcase_add_loop_test(tc, a_step_of_another_kind_is_damage, OPERATION_MOVE,
                        OPERATION_KINDS + 1);
    tcase_add_test(tc, what_is_held_lives_as_long_as_its_last_holder);
    return unit_run("operation", tc);
}
