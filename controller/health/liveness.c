#include "controller/health/liveness.h"

#include "proto/model/agent_msg.h"

#include <stdlib.h>
#include <string.h>

struct watched {
    char device_id[DEVICE_ID_MAX + 1];
    uint64_t last_ms;
    uint32_t held;  /* messages that wait */
    bool is_silent; /* as last told */
};

/* A few thousand devices, checked ten times a second: a plain array, searched by name
 * on a beat from the place where the name was last found. */
struct liveness {
    struct watched *at;
    uint32_t count;
    uint32_t cap;
    uint32_t hint;
    uint64_t silence_ms;
    uint64_t due_ms; /* of the next check */
};

struct liveness *liveness_new(uint32_t beat_ms, uint32_t missed, uint64_t now_ms)
{
    struct liveness *l = calloc(1, sizeof(*l));

    if (l) {
        l->silence_ms = (uint64_t)beat_ms * missed;
        l->due_ms = now_ms + LIVENESS_CHECK_MS;
    }
    return l;
}

void liveness_free(struct liveness *l)
{
    if (l) {
        free(l->at);
        free(l);
    }
}

static struct watched *find(struct liveness *l, const char *device_id)
{
    for (uint32_t n = 0; n < l->count; n++) {
        uint32_t i = (l->hint + n) % l->count;

        if (strcmp(l->at[i].device_id, device_id) == 0) {
            l->hint = i + 1; /* beats come in turn: the next is likely the next */
            return &l->at[i];
        }
    }
    return NULL;
}

void liveness_beat(struct liveness *l, const char *device_id, uint64_t now_ms)
{
    struct watched *w = find(l, device_id);

    if (!w && l->count == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 16;
        struct watched *at = realloc(l->at, cap * sizeof(*at));

        if (!at) {
            return;
        }
        l->at = at;
        l->cap = cap;
    }
    if (!w) {
        w = &l->at[l->count++];
        memset(w, 0, sizeof(*w));
        strncpy(w->device_id, device_id, DEVICE_ID_MAX);
    }
    w->last_ms = now_ms;
}

void liveness_hold(struct liveness *l, const char *device_id, uint32_t count)
{
    struct watched *w = find(l, device_id);

    if (w) {
        w->held += count;
    }
}

void liveness_release(struct liveness *l, const char *device_id, uint32_t count,
                      uint64_t now_ms)
{
    struct watched *w = find(l, device_id);

    if (w && w->held > 0 && count > 0) {
        w->held -= count < w->held ? count : w->held;
        w->last_ms = now_ms;
    }
}

void liveness_forget(struct liveness *l, const char *device_id)
{
    struct watched *w = find(l, device_id);

    if (w) {
        *w = l->at[--l->count];
    }
}

void liveness_check(struct liveness *l, uint64_t now_ms,
                    void (*on_transition)(void *arg, const char *device_id,
                                          bool is_silent),
                    void *arg)
{
    uint64_t late_ms = now_ms > l->due_ms ? now_ms - l->due_ms : 0;

    for (uint32_t i = 0; i < l->count; i++) {
        struct watched *w = &l->at[i];
        bool is_silent;

        w->last_ms += late_ms;
        w->last_ms = w->last_ms > now_ms ? now_ms : w->last_ms;
        is_silent = w->held == 0 && now_ms - w->last_ms >= l->silence_ms;
        if (is_silent != w->is_silent) {
            w->is_silent = is_silent;
            on_transition(arg, w->device_id, is_silent);
        }
    }
    l->due_ms = now_ms + LIVENESS_CHECK_MS;
}
