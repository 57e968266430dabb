/* activity: entries, changes and age of each service. */
#include "controller/core/activity.h"

#include "controller/core/core_internal.h"

#include <stdio.h>

#define HOUR_MS UINT64_C(3600000)

static const char *service_name(const void *element)
{
    return ((const struct service_activity *)element)->service;
}

void activity_fini(struct activity *a)
{
    free(a->names);
    a->names = NULL;
    a->name_count = 0;
}

void activity_start(struct activity *a, uint64_t now_ms)
{
    a->start_ms = now_ms;
    a->has_started = true;
    for (unsigned i = 0; i < SCOPE_SERVICE; i++) {
        a->scopes[i].first_ms = now_ms;
    }
    for (uint32_t i = 0; i < a->name_count; i++) {
        a->names[i].first_ms = now_ms;
    }
}

/* ---- names ---- */

/* Room for one more name; one that has no entries gives way. */
static bool make_room(struct activity *a)
{
    if (a->name_count < ACTIVITY_NAMES_MAX) {
        a->names =
            core_need(realloc(a->names, (a->name_count + 1) * sizeof(*a->names)));
        return true;
    }
    for (uint32_t i = 0; i < a->name_count; i++) {
        if (a->names[i].entries == 0) {
            a->name_count--;
            memmove(&a->names[i], &a->names[i + 1],
                    (a->name_count - i) * sizeof(*a->names));
            return true;
        }
    }
    return false;
}

static struct service_activity *named(struct activity *a, const char *service, bool add)
{
    bool found;
    uint32_t at = names_search(a->names, a->name_count, sizeof(*a->names), service_name,
                               service, &found);

    if (!found) {
        /* While the rest has entries, any name may be one of them. */
        if (a->scopes[SCOPE_SERVICE - 1].entries > 0 || !add || !make_room(a)) {
            return &a->scopes[SCOPE_SERVICE - 1];
        }
        at = names_search(a->names, a->name_count, sizeof(*a->names), service_name,
                          service, &found);
        memmove(&a->names[at + 1], &a->names[at],
                (a->name_count - at) * sizeof(*a->names));
        a->name_count++;
        a->names[at] = (struct service_activity){ .first_ms = a->start_ms };
        memcpy(a->names[at].service, service, strlen(service));
    }
    return &a->names[at];
}

/* ---- rows ---- */

struct note {
    struct activity *activity;
    uint64_t now_ms;
    enum table_id table;
};

/* A name that is not known yet is added for a row that comes. */
static struct service_activity *service_of(const struct note *n, const struct row *row,
                                           bool add)
{
    struct route_action action = { .scope = SCOPE_LOCAL };
    char service[POLICY_SERVICE_MAX + 1];

    if (n->table == TABLE_VXLAN_ROUTE) {
        action.scope = row->value[0];
    }
    if (action.scope != SCOPE_SERVICE) {
        return &n->activity->scopes[action.scope - 1];
    }
    memcpy(action.service, row->value + 2, row->value[1]);
    policy_service_name(&action, service);
    return named(n->activity, service, add);
}

static void count_change(const struct note *n, struct service_activity *s)
{
    uint64_t hour = (n->now_ms - n->activity->start_ms) / HOUR_MS;

    for (unsigned gone = 0; s->hour < hour && gone < ACTIVITY_HOURS; gone++) {
        s->changes[++s->hour % ACTIVITY_HOURS] = 0;
    }
    s->hour = hour;
    s->changes[hour % ACTIVITY_HOURS]++;
    s->has_changed = true;
    s->last_ms = n->now_ms;
}

void activity_note(struct activity *a, uint64_t now_ms, enum table_id table,
                   const struct row *before, const struct row *after)
{
    const struct note n = { .activity = a, .now_ms = now_ms, .table = table };
    /* This order, for adding a name moves the others. */
    struct service_activity *now = after ? service_of(&n, after, true) : NULL;
    struct service_activity *was = before ? service_of(&n, before, false) : NULL;

    if (was) {
        was->entries--;
        count_change(&n, was);
    }
    if (now) {
        if (now->entries == 0 && now != was) {
            now->first_ms = now_ms;
            now->is_older = !a->has_started;
        }
        now->entries++;
        if (a->has_started && now != was) {
            count_change(&n, now);
        }
    }
}

uint64_t activity_changes(const struct activity *a, const struct service_activity *s,
                          uint64_t now_ms, uint64_t *ret_window_ms)
{
    uint64_t watched = now_ms - a->start_ms;
    uint64_t hour = watched / HOUR_MS;
    uint64_t oldest = hour >= ACTIVITY_HOURS ? hour - ACTIVITY_HOURS + 1 : 0;
    uint64_t sum = 0;

    for (unsigned i = 0; i < ACTIVITY_HOURS && i <= s->hour; i++) {
        if (s->hour - i >= oldest) {
            sum += s->changes[(s->hour - i) % ACTIVITY_HOURS];
        }
    }
    *ret_window_ms = watched - oldest * HOUR_MS;
    return sum;
}
