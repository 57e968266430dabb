#include "tests/sim/sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS   UINT64_C(3600000)
#define SETTLE_MS UINT64_C(600000) /* longest way back to calm */

/* splitmix64 (Steele, Lea, Flood 2014) */
uint64_t sim_random(struct sim *s, uint64_t below)
{
    uint64_t z = (s->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

uint64_t sim_between(struct sim *s, uint64_t low, uint64_t high)
{
    return low + sim_random(s, high - low + 1);
}

void sim_note(struct sim *s, const char *what, uint64_t a, uint64_t b)
{
    uint64_t values[3] = { s->now_ms, a, b };

    if (s->config.is_verbose) {
        printf("%9.3f %s %llu %llu\n", (double)s->now_ms / 1e3, what,
               (unsigned long long)a, (unsigned long long)b);
    }
    for (; *what; what++) {
        s->hash = (s->hash ^ (uint8_t)*what) * UINT64_C(0x100000001b3); /* FNV-1a */
    }
    for (unsigned i = 0; i < 3; i++) {
        s->hash = (s->hash ^ values[i]) * UINT64_C(0x100000001b3);
        s->hash ^= s->hash >> 29;
    }
}

void sim_fail(struct sim *s, const char *fmt, ...)
{
    va_list args;
    int n;

    if (s->failure[0]) {
        return; /* the first one counts */
    }
    n = snprintf(s->failure, sizeof(s->failure),
                 "at %.3f s: ", (double)s->now_ms / 1e3);
    va_start(args, fmt);
    vsnprintf(s->failure + n, sizeof(s->failure) - (size_t)n, fmt, args);
    va_end(args);
}

/* ---- time ---- */

static uint64_t next_wake(const struct sim *s)
{
    uint64_t at = controller_wake(s);
    uint64_t other = links_wake(s);

    at = other < at ? other : at;
    other = consumers_wake(s);
    at = other < at ? other : at;
    other = works_wake(s);
    at = other < at ? other : at;
    for (unsigned i = 0; i < s->config.nodes; i++) {
        other = agent_wake(&s->agents[i]);
        at = other < at ? other : at;
    }
    if (!s->is_quiet) {
        at = s->churn_at_ms < at ? s->churn_at_ms : at;
        at = s->fault_at_ms < at ? s->fault_at_ms : at;
    }
    return at;
}

static void step(struct sim *s, uint64_t until_ms)
{
    uint64_t at = next_wake(s);

    at = at < until_ms ? at : until_ms;
    if (at > s->now_ms) {
        s->now_ms = at;
    }
    s->counts.steps++;
    controller_step(s);
    moves_follow(s);
    consumers_check(s);
    consumers_step(s);
    works_step(s);
    churn_setup(s);
    links_step(s);
    for (unsigned i = 0; i < s->config.nodes; i++) {
        agent_step(&s->agents[i]);
    }
    if (s->is_quiet) {
        return;
    }
    if (s->churn_at_ms <= s->now_ms) {
        churn_step(s);
        s->churn_at_ms = s->now_ms + sim_between(s, 10, 40000);
        if (sim_random(s, 3) == 0) {
            s->churn_at_ms = s->now_ms + sim_between(s, 1, 5); /* a burst */
        }
    }
    if (s->fault_at_ms <= s->now_ms) {
        fault_step(s);
        s->fault_at_ms = s->now_ms + sim_between(s, 1000, 120000);
    }
}

static void run_until(struct sim *s, uint64_t until_ms)
{
    while (s->now_ms < until_ms && !s->failure[0]) {
        step(s, until_ms);
    }
}

/* ---- the course of things ---- */

static const char *unsettled(const struct sim *s)
{
    static char text[400];
    const struct operation *o;
    size_t n = 0;

    text[0] = '\0';
    for (unsigned i = 0; s->core && i < s->config.nodes; i++) {
        struct node_status st;

        if (core_node_status(s->core, s->agents[i].name, &st) == RC_OK && !st.in_sync &&
            n < sizeof(text) - 80) {
            n += (size_t)snprintf(text + n, sizeof(text) - n,
                                  " %s(session=%d applied=%llu/%llu exceptions=%u)",
                                  s->agents[i].name, st.has_session,
                                  (unsigned long long)st.applied,
                                  (unsigned long long)st.desired, st.exception_count);
        }
    }
    for (uint32_t i = 0; s->core && (o = core_operation_at(s->core, i)); i++) {
        if (o->state == OPERATION_RUNNING && n < sizeof(text) - 1) {
            n += (size_t)snprintf(text + n, sizeof(text) - n, " %s (%s %s: %s)", o->id,
                                  operation_kind_name(o->kind), operation_step_name(o),
                                  core_operation_waits(s->core, o->id));
        }
    }
    return text;
}

/* No faults and no changes: everything must find its way back. */
static void settle(struct sim *s)
{
    uint64_t deadline = s->now_ms + SETTLE_MS;

    s->is_quiet = true;
    fault_heal(s);
    while (!s->failure[0] && !check_is_settled(s)) {
        if (s->now_ms >= deadline) {
            sim_fail(s, "does not settle within %llu s:%s",
                     (unsigned long long)SETTLE_MS / 1000, unsettled(s));
            return;
        }
        step(s, deadline);
    }
}

static uint64_t total_writes(const struct sim *s)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < s->config.nodes; i++) {
        n += memory_device_counts(s->agents[i].device).writes;
    }
    return n;
}

/* Everything but the data planes starts anew, and nothing is written to them. */
static void check_restart(struct sim *s)
{
    uint64_t before = total_writes(s);

    controller_crash(s);
    controller_start(s);
    for (unsigned i = 0; i < s->config.nodes; i++) {
        if (sim_random(s, 2)) {
            agent_crash(&s->agents[i]);
            agent_start(&s->agents[i]);
        }
    }
    run_until(s, s->now_ms + 1000);
    settle(s);
    if (!s->failure[0] && total_writes(s) != before) {
        sim_fail(s, "a restart with unchanged intent wrote %llu times",
                 (unsigned long long)(total_writes(s) - before));
    }
}

static void run_hours(struct sim *s)
{
    uint64_t end = (uint64_t)(s->config.hours * (double)HOUR_MS);

    while (!churn_is_set_up(s) && s->now_ms < SETTLE_MS && !s->failure[0]) {
        step(s, SETTLE_MS);
    }
    while (s->now_ms < end && !s->failure[0]) {
        uint64_t hour_end = s->now_ms + sim_between(s, HOUR_MS / 2, HOUR_MS);

        s->is_quiet = false;
        s->churn_at_ms = s->now_ms;
        s->fault_at_ms = s->now_ms + sim_between(s, 1000, 120000);
        run_until(s, hour_end < end ? hour_end : end);
        settle(s);
        if (!s->failure[0]) {
            check_all(s);
        }
        if (!s->failure[0]) {
            check_restart(s);
        }
    }
    if (s->counts.acknowledged == 0) {
        sim_fail(s, "not one write was acknowledged");
    }
}

bool sim_run(struct sim *s, const struct sim_config *config)
{
    memset(s, 0, sizeof(*s));
    s->config = *config;
    s->random = config->seed;
    s->hash = UINT64_C(0xcbf29ce484222325);
    s->now_ms = 1000;
    s->is_quiet = true;
    s->store_at_ms = UINT64_MAX;
    s->model = table_set_new();
    s->db = memory_db_new();
    controller_start(s);
    for (unsigned i = 0; i < config->nodes; i++) {
        agent_init(s, i);
    }
    run_hours(s);
    return !s->failure[0];
}

void sim_fini(struct sim *s)
{
    controller_crash(s);
    for (unsigned i = 0; i < s->config.nodes; i++) {
        agent_fini(&s->agents[i]);
    }
    links_fini(s);
    churn_fini(s);
    memory_db_free(s->db);
    table_set_free(s->model);
}
