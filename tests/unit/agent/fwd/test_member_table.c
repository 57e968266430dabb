#include "tests/unit/unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "agent/fwd/member_table.h"

enum { NAMES = MEMBER_TABLE_MEMBERS + 1 };

/* Names as operators give them, by set: they differ little, and that must not show. */
static const char *const name_forms[] = { "gw-%u", "x86-a-%02u", "node%u.rack7.region",
                                          "%u" };

static uint64_t seeds[NAMES];
static struct member_table before;
static struct member_table after;

static void name_members(unsigned form)
{
    char name[64];

    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), name_forms[form], i + 1);
        seeds[i] = member_seed(name);
    }
}

/* The largest |share / mean - 1| over the members, in percent. */
static double worst_share(const struct member_table *t, unsigned count)
{
    double mean = (double)MEMBER_TABLE_SLOTS / count;
    uint32_t share[NAMES] = { 0 };
    double worst = 0;

    for (uint32_t s = 0; s < MEMBER_TABLE_SLOTS; s++) {
        share[t->slot[s] < count ? t->slot[s] : count]++;
    }
    ck_assert_uint_eq(share[count], 0); /* no such member */
    for (unsigned i = 0; i < count; i++) {
        worst = fmax(worst, fabs(share[i] / mean - 1) * 100);
    }
    return worst;
}

START_TEST(shares_are_within_5_percent_of_the_mean)
{
    static const unsigned counts[] = { 1, 2, 3, 8, 16, 33, 64 };

    name_members((unsigned)_i);
    for (unsigned i = 0; i < ARRAY_LEN(counts); i++) {
        double worst;

        member_table_fill(&before, seeds, counts[i]);
        worst = worst_share(&before, counts[i]);
        printf("%s: %u members: worst share %.2f %% off\n", name_forms[_i], counts[i],
               worst);
        ck_assert_double_le(worst, 5);
    }
}
END_TEST

START_TEST(a_member_that_leaves_moves_its_own_slots_only_and_takes_them_back)
{
    name_members((unsigned)_i);
    for (unsigned count = 2; count <= 16; count++) {
        member_table_fill(&before, seeds, count);
        for (unsigned gone = 0; gone < count; gone += 3) {
            uint64_t left[NAMES];
            unsigned n = 0;
            bool reached[NAMES] = { false };
            uint32_t moved = 0; /* of others: an assertion a slot would take minutes */

            for (unsigned i = 0; i < count; i++) {
                if (i != gone) {
                    left[n++] = seeds[i];
                }
            }
            member_table_fill(&after, left, n);
            for (uint32_t s = 0; s < MEMBER_TABLE_SLOTS; s++) {
                uint64_t now = left[after.slot[s]];

                if (before.slot[s] != gone) {
                    moved += now != seeds[before.slot[s]];
                } else {
                    reached[after.slot[s]] = true;
                }
            }
            ck_assert_uint_eq(moved, 0);
            for (unsigned i = 0; i < n; i++) {
                ck_assert_msg(reached[i], "%u of %u took nothing over", i, n);
            }
        }
    }
}
END_TEST

START_TEST(the_order_of_members_does_not_matter)
{
    enum { COUNT = 13 };
    uint64_t turned[COUNT];
    uint32_t differ = 0;

    name_members((unsigned)_i);
    member_table_fill(&before, seeds, COUNT);
    for (unsigned by = 1; by < COUNT; by++) {
        for (unsigned i = 0; i < COUNT; i++) {
            turned[i] = seeds[(i * 5 + by) % COUNT];
        }
        member_table_fill(&after, turned, COUNT);
        for (uint32_t s = 0; s < MEMBER_TABLE_SLOTS; s++) {
            differ += seeds[before.slot[s]] != turned[after.slot[s]];
        }
    }
    ck_assert_uint_eq(differ, 0);
}
END_TEST

START_TEST(names_that_differ_have_seeds_that_differ)
{
    for (unsigned form = 0; form < ARRAY_LEN(name_forms); form++) {
        name_members(form);
        for (unsigned i = 0; i < NAMES; i++) {
            for (unsigned k = 0; k < i; k++) {
                ck_assert_uint_ne(seeds[i], seeds[k]);
            }
        }
    }
    /* Worked out in Python from the description in tests/reference/README.md. */
    ck_assert_uint_eq(member_seed(""), UINT64_C(0x7cefa6b42b6bbe9e));
    ck_assert_uint_eq(member_seed("gw-1"), UINT64_C(0xfbdfe60cad4c8c2b));
}
END_TEST

/* ---- Maglev, by the paper's section 3.4: what we do not do, and why ---- */

enum { MAGLEV_SLOTS = 65537 }; /* the paper's small table; prime */

static void maglev_fill(uint8_t entry[MAGLEV_SLOTS], const uint64_t ids[],
                        unsigned count)
{
    uint32_t next[NAMES] = { 0 };
    uint32_t filled = 0;

    memset(entry, 0xff, MAGLEV_SLOTS);
    for (unsigned i = 0;; i = (i + 1) % count) {
        uint32_t offset = (uint32_t)(ids[i] >> 32) % MAGLEV_SLOTS;
        uint32_t skip = (uint32_t)ids[i] % (MAGLEV_SLOTS - 1) + 1;
        uint32_t at;

        do {
            at = (uint32_t)((offset + (uint64_t)next[i]++ * skip) % MAGLEV_SLOTS);
        } while (entry[at] != 0xff);
        entry[at] = (uint8_t)i;
        if (++filled == MAGLEV_SLOTS) {
            return;
        }
    }
}

START_TEST(maglevs_own_table_would_move_flows_of_others)
{
    static uint8_t full[MAGLEV_SLOTS];
    static uint8_t less[MAGLEV_SLOTS];
    uint32_t others = 0;
    uint32_t own = 0;

    name_members(0);
    maglev_fill(full, seeds, 8);
    maglev_fill(less, seeds + 1, 7); /* the first is gone */
    for (uint32_t s = 0; s < MAGLEV_SLOTS; s++) {
        own += full[s] == 0;
        others += full[s] != 0 && full[s] - 1u != less[s];
    }
    printf("Maglev, 1 of 8 leaves: %.2f %% of the slots are its own, %.2f %% are "
           "others' and move too\n",
           100.0 * own / MAGLEV_SLOTS, 100.0 * others / MAGLEV_SLOTS);
    ck_assert_uint_gt(others, 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("member_table");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, shares_are_within_5_percent_of_the_mean, 0,
                        ARRAY_LEN(name_forms));
    tcase_add_loop_test(
        tc, a_member_that_leaves_moves_its_own_slots_only_and_takes_them_back, 0,
        ARRAY_LEN(name_forms));
    tcase_add_loop_test(tc, the_order_of_members_does_not_matter, 0,
                        ARRAY_LEN(name_forms));
    tcase_add_test(tc, names_that_differ_have_seeds_that_differ);
    tcase_add_test(tc, maglevs_own_table_would_move_flows_of_others);
    return unit_run("member_table", tc);
}
