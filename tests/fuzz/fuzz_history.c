/* A history's file is taken or refused with a reason, and what was taken can be written
 * and read again. */
#include "controller/health/history.h"
#include "tests/fuzz/fuzz.h"

#define NOW_S 1767225600u

static bool count(void *arg, const struct history_point *p)
{
    FUZZ_CLAIM(p->min <= p->mean && p->mean <= p->max && p->t_s <= NOW_S);
    ++*(unsigned *)arg;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct history *h = history_new(1u << 20);
    struct buf files[HISTORY_TIERS] = { 0 };
    struct err err = { 0 };
    unsigned points = 0;
    enum rc rc = history_load(h, data, size, NOW_S, &err);

    FUZZ_CLAIM(rc == RC_OK || (rc == RC_INVALID && err.msg[0]));
    FUZZ_CLAIM(history_stats(h).bytes <= 1u << 20);
    for (unsigned t = 0; t < HISTORY_TIERS; t++) {
        history_read(h, "node/a", "memory", (enum history_tier)t, 0, UINT64_MAX, count,
                     &points);
    }
    while (!history_flush(h, NOW_S, 10, files)) {
    }
    for (unsigned t = 0; t < HISTORY_TIERS; t++) {
        buf_fini(&files[t]);
    }
    history_free(h);
    return 0;
}
