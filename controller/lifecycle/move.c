#include "controller/lifecycle/move.h"

#include "controller/lifecycle/verdict.h"

#include <string.h>

const struct home *move_also(const struct operation *o)
{
    if (o->state != OPERATION_RUNNING || o->step == MOVE_REMOVE) {
        return NULL;
    }
    return o->step < MOVE_STEER ? &o->move.to : &o->move.from;
}

static enum verdict install(const struct move_facts *f,
                            char ret_why[OPERATION_TEXT_MAX + 1])
{
    if (f->target_refused) {
        return verdict_of(VERDICT_GOES_BACK, "the target does not take it", f->why,
                          ret_why);
    }
    if (!f->target_has_node) {
        return verdict_of(VERDICT_STAYS, "waits for a node of the target that forwards",
                          f->why, ret_why);
    }
    if (!f->target_is_applied) {
        return verdict_of(VERDICT_STAYS,
                          "waits for the target's nodes to hold the tenant", f->why,
                          ret_why);
    }
    return verdict_of(VERDICT_GOES_ON, "", NULL, ret_why);
}

static enum verdict until_steered(const struct operation *o, const struct move_facts *f,
                                  char ret_why[OPERATION_TEXT_MAX + 1])
{
    switch (o->step) {
    case MOVE_INSTALL:
        return install(f, ret_why);
    case MOVE_HELD:
        return verdict_of(VERDICT_STAYS, "waits to be let in", NULL, ret_why);
    case MOVE_AUDIT:
        return verdict_of_gate(f->gate, "waits for the target's read-back",
                               "the target does not hold what it should", f->why,
                               ret_why);
    default:
        return verdict_of_gate(f->gate, "waits for probes of the target",
                               "a probe says otherwise than the entries", f->why,
                               ret_why);
    }
}

enum verdict move_next(const struct operation *o, const struct move_facts *f,
                       char ret_why[OPERATION_TEXT_MAX + 1])
{
    enum verdict v;

    if (f->tenant_is_gone) {
        return verdict_of(VERDICT_GOES_BACK, "the tenant was deleted", NULL, ret_why);
    }
    if (operation_is_revocable(o)) {
        if (o->is_cancelled) {
            return verdict_of(VERDICT_GOES_BACK, "cancelled", NULL, ret_why);
        }
        v = until_steered(o, f, ret_why);
        if (v == VERDICT_STAYS && o->step != MOVE_HELD &&
            f->step_ms >= MOVE_TIMEOUT_MS) {
            char waits[OPERATION_TEXT_MAX + 1];

            memcpy(waits, ret_why, sizeof(waits));
            return verdict_of(VERDICT_GOES_BACK, "took too long", waits, ret_why);
        }
        return v;
    }
    switch (o->step) {
    case MOVE_STEER:
        return f->is_steered ? verdict_of(VERDICT_GOES_ON, "", NULL, ret_why)
                             : verdict_of(VERDICT_STAYS, "waits for those who steer",
                                          f->why, ret_why);
    case MOVE_DRAIN:
        return f->step_ms >= o->move.drain_ms
                   ? verdict_of(VERDICT_GOES_ON, "", NULL, ret_why)
                   : verdict_of(VERDICT_STAYS,
                                "waits for packets under way to the source", NULL,
                                ret_why);
    default:
        return f->source_is_applied
                   ? verdict_of(VERDICT_GOES_ON, "", NULL, ret_why)
                   : verdict_of(VERDICT_STAYS,
                                "waits for the source's nodes to forget it", f->why,
                                ret_why);
    }
}
