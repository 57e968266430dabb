#include "agent/gateway/arbiter.h"

#include <stddef.h>

static bool is_same(const struct election *a, const struct election *b)
{
    return a->is_set && b->is_set && a->high == b->high && a->low == b->low;
}

static bool is_above(const struct election *a, const struct election *b)
{
    return a->is_set &&
           (!b->is_set || a->high > b->high || (a->high == b->high && a->low > b->low));
}

struct arbiter_stream *arbiter_primary(const struct arbiter *a)
{
    for (struct arbiter_stream *s = a->streams; s; s = s->next) {
        if (is_same(&s->id, &a->highest)) {
            return s;
        }
    }
    return NULL;
}

enum arbiter_result arbiter_join(struct arbiter *a, struct arbiter_stream *s,
                                 struct election id, bool *ret_changed)
{
    const struct arbiter_stream *before = arbiter_primary(a);

    if (id.is_set && id.high == 0 && id.low == 0) {
        return ARBITER_ZERO;
    }
    for (const struct arbiter_stream *other = a->streams; other; other = other->next) {
        if (other != s && is_same(&other->id, &id)) {
            return ARBITER_TAKEN;
        }
    }
    if (!s->has_joined) {
        s->has_joined = true;
        s->next = a->streams;
        a->streams = s;
    }
    s->id = id;
    if (is_above(&id, &a->highest)) {
        a->highest = id;
    }
    *ret_changed = arbiter_primary(a) != before;
    return ARBITER_OK;
}

bool arbiter_leave(struct arbiter *a, struct arbiter_stream *s)
{
    const struct arbiter_stream *before = arbiter_primary(a);

    for (struct arbiter_stream **at = &a->streams; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            s->has_joined = false;
            break;
        }
    }
    return arbiter_primary(a) != before;
}

bool arbiter_may_write(const struct arbiter *a, const struct election *id)
{
    return is_same(id, &a->highest) && arbiter_primary(a) != NULL;
}
