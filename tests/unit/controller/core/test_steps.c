/*
 * That no step of the core goes over all that one command touches: what it looks up,
 * reads and writes is counted, by wrapping the functions that do it (the linker's
 * --wrap), not by what the core says that it spent.
 */
#include "controller/core/map.h"
#include "tests/unit/controller/core/heavy.h"

static struct {
    uint64_t now;
    uint64_t most;
} looks;

#define WRAP(type, name, params, args)                                                 \
    type __real_##name params;                                                         \
    type __wrap_##name params;                                                         \
    type __wrap_##name params                                                          \
    {                                                                                  \
        looks.now++;                                                                   \
        return __real_##name args;                                                     \
    }

WRAP(bool, rows_next, (struct rows_iter * it, struct row *ret), (it, ret))
WRAP(bool, rows_find,
     (const struct rows *r, enum table_id table, const uint8_t *key, uint8_t key_len,
      struct row *ret),
     (r, table, key, key_len, ret))
WRAP(struct rows *, table_set_rows,
     (const struct table_set *s, uint32_t vni, enum table_id table), (s, vni, table))
WRAP(enum rc, table_set_put,
     (struct table_set * s, uint32_t vni, enum table_id table, struct rows *rows),
     (s, vni, table, rows))
WRAP(struct map_slot *, map_find, (const struct map *m, uint64_t key), (m, key))
WRAP(struct map_slot *, map_add, (struct map * m, uint64_t key), (m, key))

static void before(void *ctx)
{
    (void)ctx;
    looks.now = 0;
}

static void after(void *ctx)
{
    (void)ctx;
    looks.most = looks.now > looks.most ? looks.now : looks.most;
}

#define BATCH      500u
#define STEP_UNITS 512u
/* What a batch, whose check has stages that are not cut, and the units come to. */
#define LOOKS_MAX (8 * (BATCH + STEP_UNITS))

/* Where a step may look at more, whatever the size. */
static const struct {
    const char *name;
    uint32_t looks_max;
} wider[] = {
    { "many_routes_of_one",
      30000 }, /* 20,000 prefixes are looked up for a few routes */
    { "default_turns", 30000 },
    { "move", 30000 },
    { "first_download", 80000 }, /* a call of sync looks at 60,000 rows */
    { "repair", 80000 },
};

static uint32_t limit_of(const char *name)
{
    for (unsigned i = 0; i < ARRAY_LEN(wider); i++) {
        if (strcmp(name, wider[i].name) == 0) {
            return wider[i].looks_max;
        }
    }
    return LOOKS_MAX;
}

/* Thousands of VNIs, tens of thousands of rows of one: all of them, looked at in one
 * step, would be far more than any limit. */
START_TEST(no_step_goes_over_all_that_one_command_touches)
{
    const struct heavy_size size = { .rows = 30000,
                                     .vnis = 9000,
                                     .nodes = 10,
                                     .waits = 50,
                                     .batch = BATCH,
                                     .step_units = STEP_UNITS };
    const struct rig_watch watch = { .before = before, .after = after };
    struct heavy *h = heavy_new(size, &watch);

    for (unsigned i = 0; i < heavy_case_count; i++) {
        const char *name = heavy_cases[i].name;

        looks.most = 0;
        heavy_cases[i].run(h);
        ck_assert_msg(looks.most <= limit_of(name), "%s: %llu looks in one step", name,
                      (unsigned long long)looks.most);
    }
    heavy_check(h);
    heavy_free(h);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("steps");

    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, no_step_goes_over_all_that_one_command_touches);
    return unit_run("steps", tc);
}
