/* Those who follow steering from outside: they read it now and then, send traffic where
 * it says, and acknowledge; sometimes they are silent for long. */
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

#define SILENT_MAX_MS 900000

void consumers_name(unsigned consumer, char ret[REGION_NAME_MAX + 1])
{
    snprintf(ret, REGION_NAME_MAX + 1, "vswitches-%u", consumer);
}

/* There is somebody to ask. */
static bool can_ask(const struct sim *s)
{
    return s->core && core_is_ready(s->core) && churn_is_set_up(s);
}

uint64_t consumers_wake(const struct sim *s)
{
    uint64_t at = UINT64_MAX;

    for (unsigned i = 0; can_ask(s) && i < SIM_CONSUMERS; i++) {
        at = s->consumers[i].at_ms < at ? s->consumers[i].at_ms : at;
    }
    return at;
}

/* Its traffic goes where steering says at this moment; it remembers the moves whose
 * target that is. */
static void follow(struct sim *s, struct sim_consumer *c)
{
    const struct operation *o;

    for (uint32_t i = moves_first_of_newest(s); (o = core_operation_at(s->core, i));
         i++) {
        const struct home *to = &o->move.to;
        const struct cluster *k =
            o->kind == OPERATION_MOVE && o->state == OPERATION_RUNNING
                ? core_steering(s->core, o->move.vni)
                : NULL;

        if (k && strcmp(k->name, to->h[0] ? to->h : to->x86) == 0) {
            c->followed[o->move.vni % SIM_FOLLOWED] = operation_number(o);
        }
    }
}

static void acknowledge(struct sim *s, unsigned which)
{
    struct command cmd = { .kind = COMMAND_CONSUMER_ACK, .who = "sim" };

    consumers_name(which, cmd.consumer_ack.name);
    cmd.consumer_ack.revision = core_steering_revision(s->core);
    cmd.token = sim_next_token(s);
    s->counts.followings++;
    controller_command(s, &cmd);
}

/* An operator has enough of waiting. */
static void proceed(struct sim *s)
{
    const struct operation *o;

    for (uint32_t i = moves_first_of_newest(s); (o = core_operation_at(s->core, i));
         i++) {
        if (o->kind == OPERATION_MOVE && o->state == OPERATION_RUNNING &&
            o->step == MOVE_STEER) {
            struct command cmd = { .kind = COMMAND_PROCEED, .who = "sim" };

            memcpy(cmd.proceed.id, o->id, sizeof(cmd.proceed.id));
            strcpy(cmd.proceed.why, "enough");
            cmd.token = sim_next_token(s);
            controller_command(s, &cmd);
            return;
        }
    }
}

void consumers_step(struct sim *s)
{
    for (unsigned i = 0; can_ask(s) && i < SIM_CONSUMERS; i++) {
        struct sim_consumer *c = &s->consumers[i];

        if (c->at_ms > s->now_ms && !(s->is_quiet && c->is_silent)) {
            continue;
        }
        c->is_silent = !s->is_quiet && sim_random(s, 30) == 0;
        c->at_ms = s->now_ms + (c->is_silent ? sim_between(s, 1000, SILENT_MAX_MS)
                                             : sim_between(s, 50, 10000));
        follow(s, c);
        acknowledge(s, i);
        if (sim_random(s, 200) == 0) {
            proceed(s);
        }
    }
}

/* No move goes on to where its source is left before all have followed, or somebody
 * said that it may. */
void consumers_check(struct sim *s)
{
    const struct operation *o;

    if (!s->core || !core_is_ready(s->core) ||
        core_revision(s->core) == s->consumers_revision) {
        return;
    }
    s->consumers_revision = core_revision(s->core);
    for (uint32_t i = moves_first_of_newest(s); (o = core_operation_at(s->core, i));
         i++) {
        uint64_t *passed = &s->passed[o->move.vni % SIM_FOLLOWED];
        bool is_past = o->state == OPERATION_DONE ||
                       (o->state == OPERATION_RUNNING && o->step > MOVE_STEER);

        if (o->kind != OPERATION_MOVE || !is_past || operation_number(o) <= *passed) {
            continue;
        }
        *passed = operation_number(o);
        s->counts.waived += o->move.waived_by[0] != '\0';
        for (unsigned k = 0; k < SIM_CONSUMERS && !o->move.waived_by[0]; k++) {
            if (s->consumers[k].followed[o->move.vni % SIM_FOLLOWED] !=
                operation_number(o)) {
                sim_fail(s,
                         "%s: vni %u leaves its source, and consumer %u did not "
                         "follow",
                         o->id, o->move.vni, k);
            }
        }
    }
}
