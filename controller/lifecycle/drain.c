#include "controller/lifecycle/drain.h"

#include "controller/lifecycle/verdict.h"

#include <stdio.h>

static enum verdict wait_state(char ret_why[OPERATION_TEXT_MAX + 1])
{
    return verdict_of(VERDICT_STAYS, "waits for the cluster's state to be stored", NULL,
                      ret_why);
}

uint8_t drain_state(const struct operation *o)
{
    return o->is_cancelled ? CLUSTER_SERVING : CLUSTER_DRAINING;
}

static enum verdict move_all(const struct drain_facts *f,
                             char ret_why[OPERATION_TEXT_MAX + 1])
{
    char what[64];

    if (!f->is_whole || f->moving > 0 || f->left > f->stuck) {
        snprintf(what, sizeof(what), "%u tenants are left, %u of them moving", f->left,
                 f->moving);
        return verdict_of(VERDICT_STAYS, what, f->why, ret_why);
    }
    if (f->stuck > 0) {
        snprintf(what, sizeof(what), "%u tenants could not be moved", f->stuck);
        return verdict_of(VERDICT_GOES_BACK, what, f->why, ret_why);
    }
    return verdict_of(VERDICT_GOES_ON, "", NULL, ret_why);
}

enum verdict drain_next(const struct operation *o, const struct drain_facts *f,
                        char ret_why[OPERATION_TEXT_MAX + 1])
{
    if (f->state != drain_state(o)) {
        return wait_state(ret_why);
    }
    if (o->is_cancelled) {
        return f->is_whole && f->moving == 0
                   ? verdict_of(VERDICT_GOES_BACK, "cancelled", NULL, ret_why)
                   : verdict_of(VERDICT_STAYS, "waits for moves that are under way",
                                f->why, ret_why);
    }
    return move_all(f, ret_why);
}

enum verdict retire_next(const struct retire_facts *f,
                         char ret_why[OPERATION_TEXT_MAX + 1])
{
    if (f->state != CLUSTER_RETIRED) {
        return wait_state(ret_why);
    }
    return f->is_withdrawn
               ? verdict_of(VERDICT_GOES_ON, "", NULL, ret_why)
               : verdict_of(VERDICT_STAYS, "waits for load balancers", f->why, ret_why);
}
