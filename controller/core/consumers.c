/*
 * consumers: who steers from outside, and what each of them has acknowledged.
 *
 * Registration is an object in the store.  What a consumer acknowledged is kept here
 * alone: written for each change of steering it would be a change itself.  So after our
 * own start nothing is acknowledged, and a move at STEER waits until everybody has said
 * again what he has: too long at worst, never too short.
 *
 * A move's steering changes with the record of its step STEER, in one transaction: the
 * record's revision is what is to be acknowledged, also after a restart.
 */
#include "controller/core/core_internal.h"

#include <stdio.h>

const struct consumer *core_consumer_at(const struct core *c, uint32_t index)
{
    return index < c->objects.consumer_count ? &c->objects.consumers[index] : NULL;
}

const struct consumer *core_consumer_find(const struct core *c, const char *name)
{
    return objects_consumer(&c->objects, name);
}

enum rc consumer_evaluate(const struct core *c, const struct consumer *x,
                          struct err *err)
{
    enum rc rc = consumer_check(x, err);

    if (!rc && c->tip_objects.consumer_count == CONSUMERS_MAX &&
        !objects_consumer(&c->tip_objects, x->name)) {
        rc = err_field(err, RC_FULL, "name", "list_length",
                       "there are %d consumers already", CONSUMERS_MAX);
    }
    return rc;
}

/* ---- what they acknowledged ---- */

static struct consumer_ack *ack_find(const struct core *c, const char *name)
{
    for (uint32_t i = 0; i < c->consumer_ack_count; i++) {
        if (strcmp(c->consumer_acks[i].name, name) == 0) {
            return (struct consumer_ack *)&c->consumer_acks[i];
        }
    }
    return NULL;
}

/* The last revision that anybody may have heard of: a watch tells what is committed
 * before our own readers see it. */
static uint64_t last_revision(const struct core *c)
{
    uint64_t revision = c->revision;

    for (const struct deferred *d = c->deferred; d; d = d->next) {
        if (d->is_event && d->event.revision > revision) {
            revision = d->event.revision;
        }
    }
    return revision;
}

static enum rc take_ack(struct core *c, const char *name, uint64_t revision,
                        struct err *err)
{
    struct consumer_ack *a = ack_find(c, name);

    if (!core_consumer_find(c, name)) {
        return err_field(err, RC_NOT_FOUND, "name", "unknown_consumer",
                         "there is no consumer '%s'", name);
    }
    if (revision > last_revision(c)) {
        return err_field(err, RC_RANGE, "acknowledged_revision", "revision_ahead",
                         "acknowledged_revision: %llu is not there yet: the last is "
                         "%llu",
                         (unsigned long long)revision,
                         (unsigned long long)last_revision(c));
    }
    if (a && revision < a->revision) {
        return err_field(err, RC_RANGE, "acknowledged_revision", "revision_backwards",
                         "acknowledged_revision: %llu is acknowledged already",
                         (unsigned long long)a->revision);
    }
    if (!a) {
        a = &c->consumer_acks[c->consumer_ack_count++]; /* of registered ones only */
        snprintf(a->name, sizeof(a->name), "%s", name);
    }
    a->revision = revision;
    a->unix_ms = c->unix_ms;
    operations_note(c);
    return RC_OK;
}

void consumers_ack(struct core *c, const struct command *cmd)
{
    struct core_reply reply = { .token = cmd->token, .bad_index = UINT32_MAX };

    if (c->phase != PHASE_SERVING) {
        err_set(&reply.err, RC_UNREACHABLE, "the controller does not serve yet");
    } else {
        take_ack(c, cmd->consumer_ack.name, cmd->consumer_ack.revision, &reply.err);
    }
    reply.revision = cmd->consumer_ack.revision;
    effect_reply(c, &reply);
}

void consumers_gone(struct core *c, const char *name)
{
    struct consumer_ack *a = ack_find(c, name);

    if (a) {
        *a = c->consumer_acks[--c->consumer_ack_count];
    }
    health_consumer(c->health, c->unix_ms / 1000, name, 0);
    operations_note(c);
}

/* ---- what waits for them ---- */

static uint64_t acked(const struct core *c, const char *name)
{
    const struct consumer_ack *a = ack_find(c, name);

    return a ? a->revision : 0;
}

bool core_operation_awaits(const struct core *c, const struct operation *o,
                           const struct consumer *x)
{
    return o->kind == OPERATION_MOVE && o->state == OPERATION_RUNNING &&
           o->step == MOVE_STEER && !o->move.ignores_steering &&
           !o->move.waived_by[0] &&
           acked(c, x->name) < objects_revision(&c->objects, "operation", o->id);
}

bool consumers_follow(const struct core *c, const struct operation *o,
                      char why[OPERATION_TEXT_MAX + 1])
{
    bool explains = !why[0];
    bool all = true;
    size_t len = 0;

    for (uint32_t i = 0; i < c->objects.consumer_count; i++) {
        const struct consumer *x = &c->objects.consumers[i];

        if (!core_operation_awaits(c, o, x)) {
            continue;
        }
        /* Room for the longest name, and for more of them: the list has all. */
        if (explains && len + REGION_NAME_MAX + 16 < OPERATION_TEXT_MAX - 40) {
            len += (size_t)snprintf(why + len, OPERATION_TEXT_MAX + 1 - len, "%s%s",
                                    all ? "consumer " : ", ", x->name);
        } else if (explains) {
            len += (size_t)snprintf(why + len, OPERATION_TEXT_MAX + 1 - len, ", …");
            explains = false;
        }
        all = false;
    }
    return all;
}

/* The longest that a move has waited for it at this step. */
static uint64_t awaited_ms(const struct core *c, const struct consumer *x)
{
    uint64_t longest = 0;

    for (const struct run *r = c->runs; r; r = r->next) {
        const struct operation *o =
            r->step == MOVE_STEER ? objects_operation(&c->objects, r->id) : NULL;

        if (o && core_operation_awaits(c, o, x) && c->now_ms - r->began_ms > longest) {
            longest = c->now_ms - r->began_ms;
        }
    }
    return longest;
}

void consumers_tick(struct core *c)
{
    for (uint32_t i = 0; i < c->objects.consumer_count; i++) {
        const struct consumer *x = &c->objects.consumers[i];

        health_consumer(c->health, c->unix_ms / 1000, x->name,
                        (uint32_t)(awaited_ms(c, x) / 1000));
    }
}

/* ---- reads ---- */

void core_consumer_status(const struct core *c, const struct consumer *x,
                          struct consumer_status *ret)
{
    const struct consumer_ack *a = ack_find(c, x->name);

    *ret = (struct consumer_status){
        .acked = a ? a->revision : 0,
        .seen_ms = a ? a->unix_ms : 0,
        .awaited_s = (uint32_t)(awaited_ms(c, x) / 1000),
    };
}

uint64_t core_steering_revision(const struct core *c)
{
    const struct job *j = &c->job;

    /* A step's record is there before its rows are. */
    return j->kind == JOB_COMMIT && !j->is_visible && j->revision <= c->revision
               ? j->revision - 1
               : c->revision;
}

const struct cluster *core_steering(const struct core *c, uint32_t vni)
{
    struct homes homes = homes_of_vni(c, vni);
    const struct group *g = homes_steering(&homes);

    return g ? objects_cluster(&c->objects, g->name) : NULL;
}
