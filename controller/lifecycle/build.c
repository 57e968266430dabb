#include "controller/lifecycle/build.h"

#include "controller/lifecycle/verdict.h"

#include <stdio.h>

static const uint8_t percents[BUILD_STAGES] = { 1, 5, 25, 50, 100 };

unsigned build_stage_percent(unsigned stage)
{
    return percents[stage < BUILD_STAGES ? stage : BUILD_STAGES - 1];
}

void build_cuts(const uint64_t *bps, uint32_t count, uint32_t ret[BUILD_STAGES])
{
    double total = 0;
    double sum = 0;
    uint32_t in = 0;

    for (uint32_t i = 0; i < count; i++) {
        total += (double)bps[i];
    }
    for (unsigned stage = 0; stage < BUILD_STAGES; stage++) {
        uint32_t least = in < count ? in + 1 : count;
        double want = percents[stage] / 100.0 * (total > 0 ? total : count);

        while (in < count && (in < least || sum < want)) {
            sum += total > 0 ? (double)bps[in] : 1;
            in++;
        }
        ret[stage] = stage == BUILD_STAGES - 1 ? count : in;
    }
}

/* ---- states ---- */

static bool is_empty(const struct build_tally *t)
{
    return t->is_whole && t->there == 0 && t->held == 0 && t->moving == 0;
}

uint8_t build_state(const struct operation *o, const struct build_facts *f)
{
    static const uint8_t states[] = {
        [BUILD_JOIN] = CLUSTER_PLANNED,       [BUILD_LOAD] = CLUSTER_LOADING,
        [BUILD_AUDIT] = CLUSTER_CHECKING,     [BUILD_PROBE] = CLUSTER_PROBING,
        [BUILD_ANNOUNCE] = CLUSTER_ADMITTING, [BUILD_ADMIT] = CLUSTER_ADMITTING,
        [BUILD_SERVE] = CLUSTER_SERVING,
    };

    if (o->step != BUILD_BACK) {
        return states[o->step];
    }
    if (!is_empty(&f->tally)) {
        return f->state; /* tenants are on it */
    }
    return o->is_cancelled ? CLUSTER_PLANNED : CLUSTER_FAILED;
}

/* ---- steps ---- */

static enum verdict stays(char ret_why[OPERATION_TEXT_MAX + 1], const char *why,
                          const char *fmt, uint32_t a, uint32_t b)
{
    char what[80];

    snprintf(what, sizeof(what), fmt, a, b);
    return verdict_of(VERDICT_STAYS, what, why, ret_why);
}

static enum verdict join(const struct build_facts *f,
                         char ret_why[OPERATION_TEXT_MAX + 1])
{
    if (f->nodes == 0) {
        return verdict_of(VERDICT_STAYS, "waits for nodes: none is registered", NULL,
                          ret_why);
    }
    return f->nodes_ready == f->nodes
               ? verdict_of(VERDICT_GOES_ON, "", NULL, ret_why)
               : stays(ret_why, f->why, "%u of %u nodes are ready", f->nodes_ready,
                       f->nodes);
}

static enum verdict load(const struct build_facts *f,
                         char ret_why[OPERATION_TEXT_MAX + 1])
{
    const struct build_tally *t = &f->tally;

    if (t->is_broken) {
        return verdict_of(VERDICT_GOES_BACK, "a tenant cannot be loaded", f->why,
                          ret_why);
    }
    return t->is_whole && t->held + t->there == t->named
               ? verdict_of(VERDICT_GOES_ON, "", NULL, ret_why)
               : stays(ret_why, f->why, "%u of %u tenants stand on it",
                       t->held + t->there, t->named);
}

static enum verdict admit(const struct operation *o, const struct build_facts *f,
                          char ret_why[OPERATION_TEXT_MAX + 1])
{
    const struct build_tally *t = &f->tally;
    unsigned percent = build_stage_percent(o->build.stage);
    char what[80];

    snprintf(what, sizeof(what), "breach at %u %%", percent);
    if (f->has_breach) {
        return verdict_of(VERDICT_GOES_BACK, what, f->why, ret_why);
    }
    if (t->is_broken) {
        return verdict_of(VERDICT_GOES_BACK, "a tenant cannot be let in", f->why,
                          ret_why);
    }
    if (!t->is_whole || t->in < t->due) {
        snprintf(what, sizeof(what), "%u %%: %u of %u tenants are in", percent, t->in,
                 t->due);
        return verdict_of(VERDICT_STAYS, what, f->why, ret_why);
    }
    if (f->stage_ms < o->build.hold_ms) {
        snprintf(what, sizeof(what), "%u %%: watched for %u of %u s", percent,
                 (unsigned)(f->stage_ms / 1000), o->build.hold_ms / 1000);
        return verdict_of(VERDICT_STAYS, what, f->why, ret_why);
    }
    return verdict_of(VERDICT_GOES_ON, "", NULL, ret_why);
}

static enum verdict back(const struct build_facts *f,
                         char ret_why[OPERATION_TEXT_MAX + 1])
{
    const struct build_tally *t = &f->tally;

    if (!is_empty(t)) {
        return stays(ret_why, f->why, "%u tenants are on it, %u moves are under way",
                     t->there, t->held + t->moving);
    }
    return verdict_of(VERDICT_GOES_ON, "", NULL, ret_why);
}

enum verdict build_next(const struct operation *o, const struct build_facts *f,
                        char ret_why[OPERATION_TEXT_MAX + 1])
{
    if (o->is_cancelled && operation_is_revocable(o)) {
        return verdict_of(VERDICT_GOES_BACK, "cancelled", NULL, ret_why);
    }
    if (f->state != build_state(o, f)) {
        return verdict_of(VERDICT_STAYS, "waits for its state to be stored", NULL,
                          ret_why);
    }
    switch (o->step) {
    case BUILD_JOIN:
        return join(f, ret_why);
    case BUILD_LOAD:
        return load(f, ret_why);
    case BUILD_AUDIT:
        return verdict_of_gate(f->gate, "waits for the read-back",
                               "a node does not hold what it should", f->why, ret_why);
    case BUILD_PROBE:
        return verdict_of_gate(f->gate, "waits for probes",
                               "a probe says otherwise than the entries", f->why,
                               ret_why);
    case BUILD_ANNOUNCE:
        return f->is_announced ? verdict_of(VERDICT_GOES_ON, "", NULL, ret_why)
                               : verdict_of(VERDICT_STAYS, "waits for load balancers",
                                            f->why, ret_why);
    case BUILD_ADMIT:
        return admit(o, f, ret_why);
    case BUILD_BACK:
        return back(f, ret_why);
    default:
        return verdict_of(VERDICT_GOES_ON, "", NULL, ret_why);
    }
}
