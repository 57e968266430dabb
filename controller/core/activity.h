/*
 * activity - what happens to each service's entries: how many there are, how often they
 * change, since when.
 *
 * Counted at commit from the rows that differ.  It lives as long as the core: what was
 * before the start is not known.  Names of services are counted one by one up to a
 * bound; what comes then is counted together, as the scope `service`.  Inside the core.
 */
#pragma once

#include "controller/core/core.h"

#define ACTIVITY_NAMES_MAX 200
#define ACTIVITY_HOURS     24

struct service_activity {
    char service[POLICY_SERVICE_MAX + 1];
    uint64_t entries;
    bool is_older;     /* than the start */
    bool has_changed;  /* since the start */
    uint64_t first_ms; /* when it got its first entry; the start if it had some */
    uint64_t last_ms;  /* of the last change */
    uint64_t hour;     /* since the start, of the newest of … */
    uint64_t changes[ACTIVITY_HOURS];
};

struct activity {
    uint64_t start_ms;
    bool has_started; /* before that, rows are what was stored */
    struct service_activity scopes[SCOPE_SERVICE]; /* at scope - 1; service: the rest */
    struct service_activity *names;                /* sorted */
    uint32_t name_count;
};

void activity_fini(struct activity *a);
/* What is noted from here on are changes. */
void activity_start(struct activity *a, uint64_t now_ms);
/* A route or VM-NC entry went from `before` to `after`; null: it was not, or is not. */
void activity_note(struct activity *a, uint64_t now_ms, enum table_id table,
                   const struct row *before, const struct row *after);
/* Changes within the window that ends now; its length. */
uint64_t activity_changes(const struct activity *a, const struct service_activity *s,
                          uint64_t now_ms, uint64_t *ret_window_ms);
