/* choose: the place of one tenant, and why. */
#include "controller/placement/placement_internal.h"

#include <string.h>

/* ---- one cluster ---- */

bool slot_needs_both(const struct placement *p, uint32_t id, const struct need *need)
{
    const struct slot *s = &p->slots[id];
    const struct pool *pool = &p->pools[s->is.pool];
    bool needs = false;

    for (unsigned i = 0; i < pool->count; i++) {
        needs = needs || (pool->per_half[i] && need->one.at[i] > s->room.at[i]);
    }
    return needs;
}

/* How full half `in` would be with it, of what has halves. */
static double half_level(const struct placement *p, uint32_t id,
                         const struct need *need, unsigned in)
{
    const struct slot *s = &p->slots[id];
    const struct pool *pool = &p->pools[s->is.pool];
    double level = 0;

    for (unsigned i = 0; i < pool->count; i++) {
        double share = (s->used[in].at[i] + need->one.at[i]) / s->capacity.at[i];

        level = pool->per_half[i] && share > level ? share : level;
    }
    return level;
}

enum half slot_half(const struct placement *p, uint32_t id, const struct need *need,
                    bool may_0, bool may_1)
{
    if (may_0 && may_1) {
        return half_level(p, id, need, 1) < half_level(p, id, need, 0) ? HALF_1
                                                                       : HALF_0;
    }
    return may_1 ? HALF_1 : HALF_0;
}

double level_with(const struct placement *p, uint32_t id, const struct need *need,
                  enum half half)
{
    const struct slot *s = &p->slots[id];
    const struct row *more = half == HALF_BOTH ? &need->both : &need->one;
    double level =
        row_level(&s->used[half == HALF_1], more, &s->capacity, s->is.set.count, NULL);
    double other = half == HALF_BOTH ? row_level(&s->used[1], more, &s->capacity,
                                                 s->is.set.count, NULL)
                                     : 0;

    return level > other ? level : other;
}

bool slot_takes(const struct placement *p, uint32_t id, const struct need *need,
                enum half *ret_half)
{
    const struct pool *pool = &p->pools[p->slots[id].is.pool];
    const struct row *left = p->left[id];
    bool fits_0 = row_fits(&left[0], &need->one, pool->fours);
    bool fits_1 = pool->has_halves && row_fits(&left[1], &need->one, pool->fours);

    if (fits_0 || fits_1) {
        *ret_half = slot_half(p, id, need, fits_0, fits_1);
        return true;
    }
    if (pool->has_halves && row_fits(&left[0], &need->both, pool->fours) &&
        row_fits(&left[1], &need->both, pool->fours) && slot_needs_both(p, id, need)) {
        *ret_half = HALF_BOTH;
        return true;
    }
    return false;
}

/* ---- a question ---- */

struct question {
    const struct placement *p;
    const struct placement_ask *ask;
    struct need need;
    bool has_backing;
    struct need backing;
    const struct pool *backing_pool;
};

static void question_init(struct question *q, const struct placement *p,
                          const struct placement_ask *ask)
{
    q->p = p;
    q->ask = ask;
    q->need = need_of(&p->pools[ask->pool], &ask->need);
    q->backing_pool = NULL;
}

/* The rows of what is needed behind are made for the first cluster that has a backing;
 * all of a pool have theirs in one pool, as a rule. */
static bool backing_takes(struct question *q, uint32_t id)
{
    uint32_t backing = q->p->slots[id].is.backing;
    const struct pool *pool;

    if (backing == PLACEMENT_NONE) {
        return true;
    }
    pool = &q->p->pools[q->p->slots[backing].is.pool];
    if (pool != q->backing_pool) {
        q->backing = need_of(pool, &q->ask->backing_need);
        q->backing_pool = pool;
    }
    return row_fits(&q->p->left[backing][0], &q->backing.one, pool->fours);
}

static bool takes(struct question *q, uint32_t id, enum half *ret_half)
{
    return q->p->slots[id].is.is_open && id != q->ask->except &&
           slot_takes(q->p, id, &q->need, ret_half) && backing_takes(q, id);
}

static uint32_t count_near(const struct placement_ask *ask, uint32_t id)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < ask->near_count; i++) {
        count += ask->near[i] == id;
    }
    return count;
}

struct placement_answer placement_choose(const struct placement *p,
                                         const struct placement_ask *ask)
{
    const struct pool *pool = &p->pools[ask->pool];
    struct placement_answer best = { PLACEMENT_NONE, HALF_0 };
    uint32_t best_near = 0;
    struct question q;

    question_init(&q, p, ask);
    for (uint32_t i = 0; i < pool->order_count; i++) {
        uint32_t id = pool->order[i].id;
        uint32_t near = ask->near_count ? count_near(ask, id) : 0;
        enum half half;

        if ((best.cluster == PLACEMENT_NONE || near > best_near) &&
            place_may_take(&pool->order[i], &q.need) && takes(&q, id, &half)) {
            best = (struct placement_answer){ id, half };
            best_near = near;
            if (ask->near_count == 0) {
                break;
            }
        }
    }
    return best;
}

bool placement_fits(const struct placement *p, const struct placement_ask *ask,
                    uint32_t id, enum half *ret_half)
{
    struct question q;

    question_init(&q, p, ask);
    return slot_takes(p, id, &q.need, ret_half) && backing_takes(&q, id);
}

static enum half likely_half(const struct placement *p, uint32_t id,
                             const struct need *need)
{
    bool has_halves = p->pools[p->slots[id].is.pool].has_halves;
    enum half half;

    if (slot_takes(p, id, need, &half)) {
        return half;
    }
    return has_halves && slot_needs_both(p, id, need)
               ? HALF_BOTH
               : slot_half(p, id, need, true, has_halves);
}

enum half placement_half(const struct placement *p, const struct placement_ask *ask,
                         uint32_t id)
{
    struct need need = need_of(&p->pools[ask->pool], &ask->need);

    return likely_half(p, id, &need);
}

/* ---- with all the numbers ---- */

static const char *const verdict_names[PLACEMENT_VERDICTS] = {
    [PLACEMENT_CHOSEN] = "chosen",
    [PLACEMENT_LESS_FULL] = "less_full",
    [PLACEMENT_CLOSED] = "closed",
    [PLACEMENT_NO_ROOM] = "no_room",
    [PLACEMENT_BACKING_NO_ROOM] = "backing_no_room",
};

const char *placement_verdict_name(enum placement_verdict v)
{
    return v < PLACEMENT_VERDICTS ? verdict_names[v] : "unknown";
}

/* The lines of cluster `id`; returns how many.  `*io_too_big` is set where an empty
 * one would not do. */
static unsigned lines_of(const struct placement *p, uint32_t id,
                         const struct need *need, bool is_in_both,
                         struct placement_line *ret, bool *io_too_big)
{
    const struct slot *s = &p->slots[id];
    const struct row *want = is_in_both ? &need->both : &need->one;
    unsigned count = s->is.set.count;
    bool has_halves = s->is.set.has_halves;

    for (unsigned i = 0; i < count; i++) {
        struct placement_line *l = &ret[i];

        l->need = (uint64_t)want->at[i];
        l->room = (uint64_t)s->room.at[i];
        l->capacity = s->is.set.capacity[i];
        for (unsigned in = 0; in < 2; in++) {
            unsigned from = has_halves ? in : 0;

            l->used[in] = (uint64_t)s->used[from].at[i];
            l->fits[in] = p->left[id][from].at[i] >= want->at[i];
        }
        *io_too_big = *io_too_big || want->at[i] > s->room.at[i];
    }
    return count;
}

static void explain_one(struct question *q, uint32_t id,
                        struct placement_candidate *ret)
{
    const struct placement *p = q->p;
    const struct slot *s = &p->slots[id];
    const struct pool *pool = &p->pools[s->is.pool];
    bool is_in_both = pool->has_halves && slot_needs_both(p, id, &q->need);
    bool fits;
    bool behind;

    memset(ret, 0, sizeof(*ret));
    ret->cluster = id;
    ret->backing = s->is.backing;
    ret->peers = count_near(q->ask, id);
    ret->count = lines_of(p, id, &q->need, is_in_both, ret->at, &ret->is_too_big);
    fits = slot_takes(p, id, &q->need, &ret->half);
    ret->half = likely_half(p, id, &q->need);
    ret->before = s->fullness;
    ret->after = level_with(p, id, &q->need, ret->half);
    behind = backing_takes(q, id);
    if (s->is.backing != PLACEMENT_NONE) {
        ret->backing_count = lines_of(p, s->is.backing, &q->backing, false,
                                      ret->backing_at, &ret->is_too_big);
    }
    ret->verdict = !s->is.is_open || id == q->ask->except ? PLACEMENT_CLOSED
                   : !fits                                ? PLACEMENT_NO_ROOM
                   : !behind                              ? PLACEMENT_BACKING_NO_ROOM
                                                          : PLACEMENT_LESS_FULL;
}

uint32_t placement_explain(const struct placement *p, const struct placement_ask *ask,
                           struct placement_candidate *ret, uint32_t cap)
{
    const struct pool *pool = &p->pools[ask->pool];
    struct placement_answer answer = placement_choose(p, ask);
    struct question q;

    question_init(&q, p, ask);
    for (uint32_t i = 0; i < pool->order_count && i < cap; i++) {
        explain_one(&q, pool->order[i].id, &ret[i]);
        if (ret[i].cluster == answer.cluster) {
            ret[i].verdict = PLACEMENT_CHOSEN;
        }
    }
    return pool->order_count;
}
