#include "tests/unit/unit.h"

#include "controller/health/history_block.h"

#include <string.h>

#define START 1767225600u /* 2026-01-01 00:00:00 UTC */

/* Every point of every tier in plain arrays: minutes from the seconds, hours from the
 * minutes, worked out from scratch whenever they are asked for. */
struct naive {
    struct history_point *at;
    size_t count;
};

static void naive_add(struct naive *n, const struct history_point *p)
{
    if ((n->count & (n->count - 1)) == 0) { /* doubled: a sanitizer copies each time */
        n->at = realloc(n->at, (n->count ? 2 * n->count : 1) * sizeof(*n->at));
    }
    n->at[n->count++] = *p;
}

/* The points of whole periods; the last one is whole only when a later point came. */
static struct naive naive_rollup(const struct naive *n, uint32_t step_s)
{
    struct naive up = { 0 };

    for (size_t i = 0; i < n->count;) {
        uint64_t period = n->at[i].t_s / step_s;
        struct history_point p = { period * step_s, UINT64_MAX, 0, 0 };
        double sum = 0;
        size_t first = i;

        for (; i < n->count && n->at[i].t_s / step_s == period; i++) {
            p.min = n->at[i].min < p.min ? n->at[i].min : p.min;
            p.max = n->at[i].max > p.max ? n->at[i].max : p.max;
            sum += (double)n->at[i].mean;
        }
        p.mean = (uint64_t)(sum / (double)(i - first));
        if (i < n->count) {
            naive_add(&up, &p);
        }
    }
    return up;
}

struct wanted {
    const struct naive *all;
    size_t at;
    uint64_t to_s;
};

static bool compare(void *arg, const struct history_point *p)
{
    struct wanted *w = arg;

    ck_assert_uint_lt(w->at, w->all->count);
    ck_assert_uint_eq(p->t_s, w->all->at[w->at].t_s);
    ck_assert_uint_eq(p->min, w->all->at[w->at].min);
    ck_assert_uint_eq(p->mean, w->all->at[w->at].mean);
    ck_assert_uint_eq(p->max, w->all->at[w->at].max);
    w->at++;
    return true;
}

/* Everything from `from_s` on, and up to `to_s`, is what the arrays say. */
static void check(const struct history *h, enum history_tier tier,
                  const struct naive *all, uint64_t from_s, uint64_t to_s)
{
    struct wanted w = { all, 0, to_s };

    while (w.at < all->count && all->at[w.at].t_s < from_s) {
        w.at++;
    }
    history_read(h, "node/a", "memory", tier, from_s, to_s, compare, &w);
    ck_assert(w.at == all->count || all->at[w.at].t_s >= to_s);
}

/* Values that stand still, drift, and jump; now and then a gap. */
static struct history_point next_point(struct history_point p, unsigned step_s)
{
    p.t_s += rand() % 500 == 0 ? (unsigned)(rand() % 5000) + 1 : step_s;
    if (rand() % 3 == 0) {
        p.mean = rand() % 200 == 0 ? (uint64_t)rand() << 10 : p.mean + 7;
        p.min = p.mean - (rand() % 2 ? p.mean % 5 : 0);
        p.max = p.mean + (rand() % 2 ? p.mean % 9 : 0);
    }
    return p;
}

START_TEST(minutes_and_hours_are_those_of_plain_arrays)
{
    struct history *h = history_new(64u << 20);
    struct naive seconds = { 0 }, minutes, hours;
    struct history_point p = { START, 10, 10, 10 };

    srand((unsigned)_i + 1);
    for (int i = 0; i < 30000; i++) {
        p = next_point(p, _i % 2 ? 10 : 1);
        naive_add(&seconds, &p);
        ck_assert(history_add(h, "node/a", "memory", &p));
        ck_assert(!history_add(h, "node/a", "memory", &p)); /* not newer */
    }
    minutes = naive_rollup(&seconds, 60);
    hours = naive_rollup(&minutes, 3600);
    ck_assert_uint_gt(hours.count, 5);
    check(h, HISTORY_SECONDS, &seconds, p.t_s - 3600, UINT64_MAX);
    check(h, HISTORY_SECONDS, &seconds, p.t_s - 1800, p.t_s - 600);
    check(h, HISTORY_MINUTES, &minutes, p.t_s - 7 * 86400, UINT64_MAX);
    check(h, HISTORY_HOURS, &hours, START, UINT64_MAX);
    free(seconds.at);
    free(minutes.at);
    free(hours.at);
    history_free(h);
}
END_TEST

/* Flushes all of it, in slices, to one file a tier. */
static void flush(struct history *h, uint64_t now_s, struct buf files[HISTORY_TIERS])
{
    while (!history_flush(h, now_s, 3, files)) {
    }
}

static void begin_files(struct buf files[HISTORY_TIERS])
{
    for (unsigned t = 0; t < HISTORY_TIERS; t++) {
        buf_add(&files[t], HISTORY_MAGIC, HISTORY_MAGIC_SIZE);
    }
}

static void end_files(struct buf files[HISTORY_TIERS])
{
    for (unsigned t = 0; t < HISTORY_TIERS; t++) {
        buf_fini(&files[t]);
    }
}

static struct history *load(const struct buf files[HISTORY_TIERS], uint64_t now_s)
{
    struct history *h = history_new(64u << 20);
    struct err err = { 0 };

    for (unsigned t = HISTORY_TIERS; t-- > 0;) {
        ck_assert_msg(history_load(h, files[t].data, files[t].len, now_s, &err) ==
                          RC_OK,
                      "%s", err.msg);
    }
    return h;
}

START_TEST(a_restart_at_any_time_loses_at_most_the_last_two_minutes)
{
    struct history *h = history_new(64u << 20);
    struct buf files[HISTORY_TIERS] = { 0 };
    struct naive seconds = { 0 }, minutes, hours;
    struct history_point p = { START, 10, 10, 10 };

    srand((unsigned)_i + 1);
    begin_files(files);
    for (int i = 0; i < 20000; i++) {
        p.t_s += 1;
        p.mean += (unsigned)rand() % 3;
        p.min = p.mean - 1;
        p.max = p.mean + 2;
        naive_add(&seconds, &p);
        history_add(h, "node/a", "memory", &p);
        if (p.t_s % 60 == 0) {
            flush(h, p.t_s, files);
        }
        if (rand() % 4000 == 0) { /* restart: what was not flushed is gone */
            history_free(h);
            h = load(files, p.t_s);
            /* The points since the last finished minute are sent again, as if they had
             * never been lost: what is there already is left out. */
            for (size_t n = seconds.count < 180 ? 0 : seconds.count - 180;
                 n < seconds.count; n++) {
                history_add(h, "node/a", "memory", &seconds.at[n]);
            }
        }
    }
    minutes = naive_rollup(&seconds, 60);
    hours = naive_rollup(&minutes, 3600);
    check(h, HISTORY_SECONDS, &seconds, p.t_s - 3600, UINT64_MAX);
    check(h, HISTORY_MINUTES, &minutes, START, UINT64_MAX);
    check(h, HISTORY_HOURS, &hours, START, UINT64_MAX);
    free(seconds.at);
    free(minutes.at);
    free(hours.at);
    end_files(files);
    history_free(h);
}
END_TEST

START_TEST(a_full_history_stays_within_its_bound_and_keeps_the_newest)
{
    enum { BOUND = 40000 };
    struct history *h = history_new(BOUND);
    struct history_point p = { START, 0, 0, 0 };
    struct naive last = { 0 };

    srand(1);
    for (int i = 0; i < 20000; i++) {
        p.t_s++;
        p.min = p.mean = p.max = (uint64_t)rand();
        for (int s = 0; s < 10; s++) {
            char subject[16];

            snprintf(subject, sizeof(subject), "node/%c", 'a' + s);
            history_add(h, subject, "memory", &p);
        }
        ck_assert_uint_le(history_stats(h).bytes, BOUND);
        if (i >= 20000 - 60) {
            naive_add(&last, &p);
        }
    }
    ck_assert_uint_gt(history_stats(h).early_blocks, 0);
    check(h, HISTORY_SECONDS, &last, last.at[0].t_s, UINT64_MAX);
    free(last.at);
    history_free(h);
}
END_TEST

/* Of the points that a tier tells: how many, the first, and the widest step. */
struct span {
    uint64_t count, first_s, last_s, widest_s;
};

static bool measure(void *arg, const struct history_point *p)
{
    struct span *s = arg;
    uint64_t step = s->count ? p->t_s - s->last_s : 0;

    s->first_s = s->count ? s->first_s : p->t_s;
    s->widest_s = step > s->widest_s ? step : s->widest_s;
    s->last_s = p->t_s;
    s->count++;
    return true;
}

/* Everything of the tier's time is there, at its step, and nothing that is older by
 * more than two blocks: they go whole, when another is finished. */
static void check_age(const struct history *h, enum history_tier tier, uint64_t now_s,
                      uint64_t step_s)
{
    static const uint64_t keep_s[] = { 3600, 7 * 86400, 365 * 86400 };
    static const uint64_t block_s[] = { 60, 3600, 86400 };
    uint64_t oldest = now_s - keep_s[tier];
    struct span s = { 0 };

    history_read(h, "node/a", "memory", tier, 0, UINT64_MAX, measure, &s);
    ck_assert_uint_gt(s.count, 0);
    ck_assert_uint_eq(s.widest_s, step_s);
    ck_assert_uint_ge(s.first_s + 2 * block_s[tier], oldest);
    if (oldest >= START) {
        ck_assert_uint_le(s.first_s, oldest);
    }
    ck_assert_uint_le(now_s, s.last_s + 2 * step_s);
}

/* For more than a year, points of each second, or of ten in the months between;
 * checked each hour at first, then each day. */
START_TEST(each_tier_drops_what_is_older_than_its_time_and_the_size_stays)
{
    const uint64_t end_s = START + 380 * 86400;
    struct history *h = history_new(64u << 20);
    struct history_point p = { START, 10, 10, 10 };
    uint64_t check_s = START + 2 * 3600 + 1230;
    size_t at_a_year = 0;
    uint64_t state = 1;
    bool is_kept = true;

    while (p.t_s < end_s) {
        uint64_t day = (p.t_s - START) / 86400;

        p.t_s += day < 9 || day >= 375 ? 1 : 10;
        if (p.t_s % 8 == 0) { /* it changes, but not always */
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
            p.mean = 1000 + (state >> 58);
            p.min = p.mean - 3;
            p.max = p.mean + 4;
        }
        is_kept &= history_add(h, "node/a", "memory", &p);
        if (p.t_s == check_s) {
            check_s += day < 9 ? 3600 : 86400;
            check_age(h, HISTORY_SECONDS, p.t_s, day < 9 || day >= 376 ? 1 : 10);
            check_age(h, HISTORY_MINUTES, p.t_s, 60);
            check_age(h, HISTORY_HOURS, p.t_s, 3600);
        }
        if (p.t_s == START + 374 * 86400) {
            at_a_year = history_stats(h).bytes;
        }
    }
    ck_assert(is_kept);
    ck_assert_uint_ge(check_s, end_s); /* none was passed over */
    /* 3,600 + 10,080 + 8,760 points, and two blocks of each tier more. */
    ck_assert_uint_le(history_stats(h).bytes, (3720 + 10200 + 8808) * 12);
    /* Seconds are ten times as many as they were then. */
    ck_assert_uint_le(history_stats(h).bytes, at_a_year + 3720 * 12);
    ck_assert_uint_gt(at_a_year, 10080);
    ck_assert_uint_eq(history_stats(h).early_blocks, 0);
    history_free(h);
}
END_TEST

START_TEST(what_does_not_change_costs_next_to_nothing)
{
    struct history *h = history_new(64u << 20);
    struct history_point p = { START, 5, 5, 5 };

    for (int i = 0; i < 3600; i++) {
        p.t_s++;
        history_add(h, "node/a", "memory", &p);
    }
    /* 60 blocks of a point, a step and one repeat byte. */
    ck_assert_uint_lt(history_stats(h).bytes, 60 * 64);
    history_free(h);
}
END_TEST

static bool count_points(void *arg, const struct history_point *p)
{
    (void)p;
    ++*(unsigned *)arg;
    return true;
}

START_TEST(a_damaged_file_is_an_error_that_says_where_and_keeps_what_is_before)
{
    struct history *h = history_new(1u << 20);
    struct buf files[HISTORY_TIERS] = { 0 };
    struct history_point p = { START, 1, 2, 3 };
    size_t first_end = 0;

    begin_files(files);
    for (int i = 0; i < 600; i++) {
        p.t_s++;
        p.mean = p.min = p.max = (unsigned)i * 3;
        history_add(h, "node/a", "memory", &p);
        if (p.t_s % 120 == 0) {
            flush(h, p.t_s, files);
            first_end = first_end ? first_end : files[HISTORY_SECONDS].len;
        }
    }
    history_free(h);
    /* Cut anywhere, or with any byte changed, it never crashes, and says so unless the
     * cut is between two chunks. */
    for (size_t at = 0; at < files[HISTORY_SECONDS].len; at++) {
        const struct buf *f = &files[HISTORY_SECONDS];
        struct err err = { 0 };
        unsigned points = 0;
        enum rc rc;

        h = history_new(1u << 20);
        rc = history_load(h, f->data, at, p.t_s, &err);
        ck_assert(rc == RC_INVALID || at >= HISTORY_MAGIC_SIZE);
        ck_assert(rc == RC_OK || err.msg[0]);
        history_free(h);

        h = history_new(1u << 20);
        f->data[at] ^= 0x41;
        rc = history_load(h, f->data, f->len, p.t_s, &err);
        f->data[at] ^= 0x41;
        ck_assert_int_eq(rc, RC_INVALID);
        history_read(h, "node/a", "memory", HISTORY_SECONDS, 0, UINT64_MAX,
                     count_points, &points);
        ck_assert(at < first_end || points >= 60);
        history_free(h);
    }
    end_files(files);
}
END_TEST

START_TEST(any_points_encode_and_decode_to_themselves)
{
    struct history_coder c = { 0 };
    struct buf bytes = BUF_INIT;
    struct history_point in[500];
    struct history_decoder d;
    struct history_point out;

    srand((unsigned)_i + 1);
    for (unsigned i = 0; i < ARRAY_LEN(in); i++) {
        uint64_t wild = (uint64_t)rand() << 33 ^ (uint64_t)rand() << 11;

        in[i] = i ? in[i - 1] : (struct history_point){ START, 0, 0, 0 };
        in[i].t_s += rand() % 4 ? 1 : (unsigned)(rand() % 100000) + 1;
        if (rand() % 4 == 0) {
            in[i].mean = rand() % 9 == 0 ? UINT64_MAX : wild;
            in[i].min = rand() % 2 ? in[i].mean : in[i].mean / 2;
            in[i].max = rand() % 2 ? in[i].mean : UINT64_MAX;
        }
        history_encode(&c, &in[i], &bytes);
    }
    d = history_decode(bytes.data, bytes.len);
    for (unsigned i = 0; i < ARRAY_LEN(in); i++) {
        ck_assert(history_decode_next(&d, &out));
        ck_assert_mem_eq(&in[i], &out, sizeof(out));
    }
    ck_assert(!history_decode_next(&d, &out));
    ck_assert(!d.bytes.failed);
    buf_fini(&bytes);
}
END_TEST

START_TEST(the_finest_tier_that_reaches_back_is_chosen)
{
    ck_assert_int_eq(history_tier_for(START, START + 3600), HISTORY_SECONDS);
    ck_assert_int_eq(history_tier_for(START, START + 3601), HISTORY_MINUTES);
    ck_assert_int_eq(history_tier_for(START, START + 7 * 86400), HISTORY_MINUTES);
    ck_assert_int_eq(history_tier_for(START, START + 7 * 86400 + 1), HISTORY_HOURS);
    ck_assert_int_eq(history_tier_for(0, START), HISTORY_HOURS);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("history");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, minutes_and_hours_are_those_of_plain_arrays, 0, 10);
    tcase_add_loop_test(tc, a_restart_at_any_time_loses_at_most_the_last_two_minutes, 0,
                        10);
    tcase_add_test(tc, a_full_history_stays_within_its_bound_and_keeps_the_newest);
    tcase_add_test(tc, each_tier_drops_what_is_older_than_its_time_and_the_size_stays);
    tcase_add_test(tc, what_does_not_change_costs_next_to_nothing);
    tcase_add_test(tc,
                   a_damaged_file_is_an_error_that_says_where_and_keeps_what_is_before);
    tcase_add_loop_test(tc, any_points_encode_and_decode_to_themselves, 0, 50);
    tcase_add_test(tc, the_finest_tier_that_reaches_back_is_chosen);
    return unit_run("history", tc);
}
