#include "agent/fwd/lines.h"

#include <string.h>

#include "tests/unit/proto/model/naive.h"
#include "tests/unit/unit.h"

struct piece {
    uint32_t index;
    uint32_t count;
    uint8_t mark;
};

static uint32_t random_count(uint64_t *seed)
{
    switch (random_below(seed, 4)) {
    case 0:
        return 1 + random_below(seed, 8);
    case 1:
        return 1 + random_below(seed, 128);
    case 2:
        return 129 + random_below(seed, 900);
    default:
        return 1 + random_below(seed, 5000);
    }
}

static void piece_check(const struct lines *l, const struct piece *p)
{
    const uint8_t *at = lines_at(l, p->index);
    size_t bytes = (size_t)p->count * LINE_BYTES;

    ck_assert_uint_eq((uintptr_t)at % LINE_BYTES, 0);
    ck_assert_uint_eq(at[0], p->mark);
    ck_assert_mem_eq(at, at + 1, bytes - 1); /* all the same */
}

START_TEST(pieces_never_overlap_and_everything_comes_back)
{
    struct piece piece[500] = { 0 };
    struct lines l;
    uint64_t seed = 4;
    uint64_t top = 0;

    ck_assert_int_eq(lines_init(&l, 64 << 20), 0);
    for (unsigned round = 0; round < 60000; round++) {
        struct piece *p = &piece[random_below(&seed, ARRAY_LEN(piece))];

        if (p->index) {
            piece_check(&l, p);
            lines_free(&l, p->index, p->count);
            p->index = 0;
        } else if (round < 50000) {
            p->count = random_count(&seed);
            p->mark = (uint8_t)random_next(&seed);
            p->index = lines_alloc(&l, p->count);
            ck_assert_uint_ne(p->index, 0);
            memset(lines_at(&l, p->index), p->mark, (size_t)p->count * LINE_BYTES);
        }
        top = round == 10000 ? lines_memory(&l) : top;
    }
    /* A live set that stays the same in size does not spread. */
    ck_assert_uint_le(lines_memory(&l), top + top / 4);
    for (unsigned i = 0; i < ARRAY_LEN(piece); i++) {
        if (piece[i].index) {
            piece_check(&l, &piece[i]);
            lines_free(&l, piece[i].index, piece[i].count);
        }
    }
    ck_assert_uint_eq(l.in_use_bytes, 0);
    lines_fini(&l);
}
END_TEST

START_TEST(the_end_is_refused_and_freed_memory_serves_again)
{
    struct lines l;
    uint32_t first;
    uint32_t count = 0;

    ck_assert_int_eq(lines_init(&l, 2 << 20), 0);
    first = lines_alloc(&l, 1000);
    ck_assert_uint_ne(first, 0);
    while (lines_alloc(&l, 1000)) {
        count++;
    }
    ck_assert_uint_ge(count, 30); /* 2 MiB less the page that means none */
    ck_assert_uint_eq(lines_alloc(&l, 1000), 0);
    lines_free(&l, first, 1000);
    ck_assert_uint_eq(lines_alloc(&l, 1000), first);
    lines_fini(&l);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("lines");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, pieces_never_overlap_and_everything_comes_back);
    tcase_add_test(tc, the_end_is_refused_and_freed_memory_serves_again);
    return unit_run("lines", tc);
}
