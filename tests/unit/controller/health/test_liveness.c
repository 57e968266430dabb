#include "tests/unit/unit.h"

#include "controller/health/liveness.h"

#include <string.h>

struct told {
    char text[256];
};

static void on_transition(void *arg, const char *device_id, bool is_silent)
{
    struct told *told = arg;

    strcat(told->text, is_silent ? "-" : "+");
    strcat(told->text, device_id);
    strcat(told->text, " ");
}

/* Checks every LIVENESS_CHECK_MS from `from` to `to`; returns what was told. */
static const char *check_until(struct liveness *l, uint64_t from, uint64_t to,
                               struct told *told)
{
    told->text[0] = '\0';
    for (uint64_t now = from; now <= to; now += LIVENESS_CHECK_MS) {
        liveness_check(l, now, on_transition, told);
    }
    return told->text;
}

START_TEST(silence_is_told_once_and_so_is_its_end)
{
    struct liveness *l = liveness_new(1000, 3, 0);
    struct told told;

    liveness_beat(l, "gw-1", 50);
    ck_assert_str_eq(check_until(l, 100, 3000, &told), "");
    ck_assert_str_eq(check_until(l, 3100, 9000, &told), "-gw-1 ");
    liveness_beat(l, "gw-1", 9050);
    ck_assert_str_eq(check_until(l, 9100, 9500, &told), "+gw-1 ");
    liveness_free(l);
}
END_TEST

START_TEST(our_own_stall_is_nobodys_silence)
{
    struct liveness *l = liveness_new(1000, 3, 0);
    struct told told;

    liveness_beat(l, "gw-1", 100);
    liveness_check(l, 100, on_transition, &told);
    /* The loop stood still for a minute: the next check is late, not the device. */
    ck_assert_str_eq(check_until(l, 60000, 62800, &told), "");
    ck_assert_str_eq(check_until(l, 62900, 63100, &told), "-gw-1 ");
    liveness_free(l);
}
END_TEST

START_TEST(each_device_is_watched_by_itself_until_it_is_forgotten)
{
    struct liveness *l = liveness_new(1000, 3, 0);
    struct told told;
    char id[16];

    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof(id), "gw-%d", i);
        liveness_beat(l, id, 50);
    }
    for (int i = 0; i < 98; i++) {
        snprintf(id, sizeof(id), "gw-%d", i);
        liveness_forget(l, id);
    }
    check_until(l, 100, 2900, &told);
    liveness_beat(l, "gw-99", 2950);
    ck_assert_str_eq(check_until(l, 3000, 4000, &told), "-gw-98 ");
    liveness_free(l);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("liveness");

    tcase_add_test(tc, silence_is_told_once_and_so_is_its_end);
    tcase_add_test(tc, our_own_stall_is_nobodys_silence);
    tcase_add_test(tc, each_device_is_watched_by_itself_until_it_is_forgotten);
    return unit_run("liveness", tc);
}
