#include "controller/lifecycle/move.h"

#include <stdio.h>
#include <string.h>

bool move_is_revocable(const struct operation *o)
{
    return o->state == OPERATION_RUNNING && o->step < MOVE_STEER;
}

const struct home *move_also(const struct operation *o)
{
    if (o->state != OPERATION_RUNNING || o->step == MOVE_REMOVE) {
        return NULL;
    }
    return o->step < MOVE_STEER ? &o->move.to : &o->move.from;
}

static enum move_verdict verdict(enum move_verdict v, const char *what, const char *why,
                                 char ret_why[OPERATION_TEXT_MAX + 1])
{
    snprintf(ret_why, OPERATION_TEXT_MAX + 1, "%s%s%s", what, why ? ": " : "",
             why ? why : "");
    return v;
}

static enum move_verdict gate(enum gate g, const char *waits, const char *failed,
                              const char *why, char ret_why[OPERATION_TEXT_MAX + 1])
{
    switch (g) {
    case GATE_PASSED:
        return verdict(MOVE_GOES_ON, "", NULL, ret_why);
    case GATE_FAILED:
        return verdict(MOVE_GOES_BACK, failed, why, ret_why);
    default:
        return verdict(MOVE_STAYS, waits, why, ret_why);
    }
}

static enum move_verdict install(const struct move_facts *f,
                                 char ret_why[OPERATION_TEXT_MAX + 1])
{
    if (f->target_refused) {
        return verdict(MOVE_GOES_BACK, "the target does not take it", f->why, ret_why);
    }
    if (!f->target_has_node) {
        return verdict(MOVE_STAYS, "waits for a node of the target that forwards",
                       f->why, ret_why);
    }
    if (!f->target_is_applied) {
        return verdict(MOVE_STAYS, "waits for the target's nodes to hold the tenant",
                       f->why, ret_why);
    }
    return verdict(MOVE_GOES_ON, "", NULL, ret_why);
}

static enum move_verdict until_steered(const struct operation *o,
                                       const struct move_facts *f,
                                       char ret_why[OPERATION_TEXT_MAX + 1])
{
    switch (o->step) {
    case MOVE_INSTALL:
        return install(f, ret_why);
    case MOVE_AUDIT:
        return gate(f->gate, "waits for the target's read-back",
                    "the target does not hold what it should", f->why, ret_why);
    default:
        return gate(f->gate, "waits for probes of the target",
                    "a probe says otherwise than the entries", f->why, ret_why);
    }
}

enum move_verdict move_next(const struct operation *o, const struct move_facts *f,
                            char ret_why[OPERATION_TEXT_MAX + 1])
{
    enum move_verdict v;

    if (f->tenant_is_gone) {
        return verdict(MOVE_GOES_BACK, "the tenant was deleted", NULL, ret_why);
    }
    if (move_is_revocable(o)) {
        if (o->is_cancelled) {
            return verdict(MOVE_GOES_BACK, "cancelled", NULL, ret_why);
        }
        v = until_steered(o, f, ret_why);
        if (v == MOVE_STAYS && f->step_ms >= MOVE_TIMEOUT_MS) {
            char waits[OPERATION_TEXT_MAX + 1];

            memcpy(waits, ret_why, sizeof(waits));
            return verdict(MOVE_GOES_BACK, "took too long", waits, ret_why);
        }
        return v;
    }
    switch (o->step) {
    case MOVE_STEER:
        return f->is_steered
                   ? verdict(MOVE_GOES_ON, "", NULL, ret_why)
                   : verdict(MOVE_STAYS, "waits for those who steer", f->why, ret_why);
    case MOVE_DRAIN:
        return f->step_ms >= o->move.drain_ms
                   ? verdict(MOVE_GOES_ON, "", NULL, ret_why)
                   : verdict(MOVE_STAYS, "waits for packets under way to the source",
                             NULL, ret_why);
    default:
        return f->source_is_applied
                   ? verdict(MOVE_GOES_ON, "", NULL, ret_why)
                   : verdict(MOVE_STAYS, "waits for the source's nodes to forget it",
                             f->why, ret_why);
    }
}
