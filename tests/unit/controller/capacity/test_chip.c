/* Figures of CAPACITY.md and of Sailfish, section 5.1. */
#include "tests/unit/unit.h"

#include <math.h>

#include "controller/capacity/chip.h"

#define TOFINO (chip_find("tofino-6.4t"))

START_TEST(a_pipe_holds_what_its_blocks_hold)
{
    const struct chip *c = TOFINO;

    ck_assert_ptr_nonnull(c);
    ck_assert_ptr_eq(c, &chips[0]);
    ck_assert_double_eq(chip_pipe_words(c), 983040);
    ck_assert_double_eq(chip_pipe_tcam_blocks(c), 288);
    ck_assert_uint_eq(chip_tcam_width(c, 56), 2);
    ck_assert_uint_eq(chip_tcam_width(c, 152), 4);
    ck_assert_uint_eq(chip_tcam_width(c, 44), 1);
    ck_assert_uint_eq(chip_tcam_width(c, 45), 2);
    ck_assert_uint_eq(chip_tcam_width(c, 0), 1);
    ck_assert_double_eq(chip_pipe_tcam_rows(c, 56), 73728);
    ck_assert_double_eq(chip_pipe_tcam_rows(c, 152), 36864);
    ck_assert_ptr_null(chip_find("tofino"));
}
END_TEST

START_TEST(the_linear_model_meets_the_published_entry_sizes)
{
    const struct chip *c = TOFINO;

    /* Two IPv4 entries a word, two words an IPv6 one. */
    ck_assert_double_eq_tol(chip_cost(c, MATCH_EXACT, 1000, 56, 0), 500, 1e-6);
    ck_assert_double_eq_tol(chip_cost(c, MATCH_EXACT, 1000, 152, 0), 2000, 1e-6);
    /* Two slots in five RAMs, and half a word of action. */
    ck_assert_double_eq_tol(chip_cost(c, MATCH_ATCAM, 147456, 152, 64), 442368, 1e-3);
    ck_assert_double_eq_tol(chip_cost(c, MATCH_INDEX, 131072, 17, 128), 131072, 1e-6);
    /* Linear where the blocks are a staircase: within half a block a row. */
    for (unsigned k = 1; k <= 300; k++) {
        double blocks = chip_cost(c, MATCH_TERNARY, 512, k, 0);

        ck_assert_double_le(fabs(blocks - chip_tcam_width(c, k)), 0.5);
    }
}
END_TEST

static const struct {
    unsigned passes;
    double tbps;
} layouts[] = { { 1, 6.4 }, { 2, 3.2 }, { 4, 1.6 } };

START_TEST(each_pass_divides_the_throughput)
{
    struct chip_path path = { .passes = layouts[_i].passes };

    ck_assert_double_eq_tol(chip_bps(TOFINO, &path, 1500), layouts[_i].tbps * 1e12,
                            1e6);
}
END_TEST

START_TEST(folded_it_carries_what_was_measured)
{
    struct chip_path folded = { .passes = 2 };

    ck_assert_double_eq_tol(chip_pps(TOFINO, &folded, 64), 1.8e9, 1);
    /* 3.2 Tbps / 1.8 Gpps: a frame of 202 bytes, so line rate is below 256. */
    ck_assert_double_eq_tol(chip_line_rate_bytes(TOFINO, &folded), 202, 0.5);
    ck_assert_double_eq_tol(chip_bps(TOFINO, &folded, 256), 3.2e12, 1e6);
    ck_assert_double_lt(chip_bps(TOFINO, &folded, 128), 3.2e12);
    /* 2.173 µs at 128 B, 2.303 µs at 1,024 B. */
    ck_assert_double_eq_tol(chip_latency_ns(TOFINO, &folded, 128), 2173, 2);
    ck_assert_double_eq_tol(chip_latency_ns(TOFINO, &folded, 1024), 2303, 2);
}
END_TEST

START_TEST(a_peer_hop_costs_a_pass_of_latency_and_of_throughput)
{
    struct chip_path folded = { .passes = 2 };
    struct chip_path hop = { .passes = 2, .extra_passes = 1 };

    ck_assert_double_eq_tol(chip_bps(TOFINO, &hop, 1500), 6.4e12 / 3, 1e6);
    ck_assert_double_eq_tol(chip_latency_ns(TOFINO, &hop, 512) -
                                chip_latency_ns(TOFINO, &folded, 512),
                            chip_latency_ns(TOFINO, &folded, 0) / 2, 1e-6);
}
END_TEST

START_TEST(a_bridge_costs_its_share_of_the_wire)
{
    struct chip_path plain = { .passes = 2 };
    struct chip_path bridge = { .passes = 2, .bridge_bytes = 16 };

    for (unsigned frame = 256; frame <= 9000; frame += 256) {
        double lost =
            1 - chip_bps(TOFINO, &bridge, frame) / chip_bps(TOFINO, &plain, frame);

        /* b / (L + 20 + b) */
        ck_assert_double_eq_tol(lost, 16.0 / (frame + 20 + 16), 1e-9);
    }
    ck_assert_double_eq_tol(chip_line_rate_bytes(TOFINO, &plain) -
                                chip_line_rate_bytes(TOFINO, &bridge),
                            16, 1e-9);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("chip");

    tcase_add_test(tc, a_pipe_holds_what_its_blocks_hold);
    tcase_add_test(tc, the_linear_model_meets_the_published_entry_sizes);
    tcase_add_loop_test(tc, each_pass_divides_the_throughput, 0, ARRAY_LEN(layouts));
    tcase_add_test(tc, folded_it_carries_what_was_measured);
    tcase_add_test(tc, a_peer_hop_costs_a_pass_of_latency_and_of_throughput);
    tcase_add_test(tc, a_bridge_costs_its_share_of_the_wire);
    return unit_run("chip", tc);
}
