#include "controller/lifecycle/operation.h"

#include "controller/lifecycle/build.h"
#include "controller/lifecycle/drain.h"
#include "controller/lifecycle/move.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const move_steps[] = {
    [MOVE_INSTALL] = "install", [MOVE_AUDIT] = "audit", [MOVE_PROBE] = "probe",
    [MOVE_HELD] = "held",       [MOVE_STEER] = "steer", [MOVE_DRAIN] = "drain",
    [MOVE_REMOVE] = "remove",
};
static const char *const build_steps[] = {
    [BUILD_JOIN] = "join",   [BUILD_LOAD] = "load",         [BUILD_AUDIT] = "audit",
    [BUILD_PROBE] = "probe", [BUILD_ANNOUNCE] = "announce", [BUILD_ADMIT] = "admit",
    [BUILD_SERVE] = "serve", [BUILD_BACK] = "back",
};
static const char *const drain_steps[] = { [DRAIN_MOVE] = "move" };
static const char *const retire_steps[] = { [RETIRE_WITHDRAW] = "withdraw" };

static const struct {
    const char *name;
    const char *const *steps; /* from 1 */
    uint8_t step_count;       /* of those that lead forward */
    uint8_t back;             /* the one that leads back; 0: it just ends */
} kinds[] = {
    [OPERATION_MOVE] = { "move", move_steps, MOVE_STEPS, 0 },
    [OPERATION_BUILD] = { "build", build_steps, BUILD_STEPS, BUILD_BACK },
    [OPERATION_DRAIN] = { "drain", drain_steps, DRAIN_STEPS, 0 },
    [OPERATION_RETIRE] = { "retire", retire_steps, RETIRE_STEPS, 0 },
};

static bool is_kind(unsigned kind)
{
    return kind >= OPERATION_MOVE && kind <= OPERATION_KINDS;
}

static bool is_step(unsigned kind, unsigned step)
{
    return step >= 1 && (step <= kinds[kind].step_count || step == kinds[kind].back);
}

bool operation_is_valid(const struct operation *o)
{
    return is_kind(o->kind) && o->state >= OPERATION_RUNNING &&
           o->state <= OPERATION_UNDONE && is_step(o->kind, o->step);
}

const char *operation_kind_name(unsigned kind)
{
    return is_kind(kind) ? kinds[kind].name : "unknown";
}

const char *operation_state_name(unsigned state)
{
    static const char *const names[] = { "unknown", "running", "done", "undone" };

    return names[state <= OPERATION_UNDONE ? state : 0];
}

const char *operation_step_name(const struct operation *o)
{
    return is_kind(o->kind) && is_step(o->kind, o->step) ? kinds[o->kind].steps[o->step]
                                                         : "unknown";
}

uint32_t operation_step_count(const struct operation *o)
{
    return is_kind(o->kind) ? kinds[o->kind].step_count : 0;
}

void operation_name(uint64_t number, char ret[OPERATION_ID_MAX + 1])
{
    snprintf(ret, OPERATION_ID_MAX + 1, "op-%010" PRIu64, number);
}

uint64_t operation_number(const struct operation *o)
{
    return strtoull(o->id + 3, NULL, 10);
}

const char *operation_cluster(const struct operation *o)
{
    switch (o->kind) {
    case OPERATION_BUILD:
        return o->build.cluster;
    case OPERATION_DRAIN:
        return o->drain.cluster;
    case OPERATION_RETIRE:
        return o->retire.cluster;
    default:
        return "";
    }
}

void operation_hold(const struct operation *o)
{
    if (o->kind == OPERATION_BUILD) {
        blob_ref(o->build.vnis);
    }
}

void operation_fini(struct operation *o)
{
    if (o->kind == OPERATION_BUILD) {
        blob_unref(o->build.vnis);
        o->build.vnis = NULL;
    }
}

uint32_t build_vni(const struct build *b, uint32_t index)
{
    uint32_t vni;

    memcpy(&vni, b->vnis->data + index * sizeof(vni), sizeof(vni));
    return vni;
}

bool home_equal(const struct home *a, const struct home *b)
{
    return strcmp(a->x86, b->x86) == 0 && strcmp(a->h, b->h) == 0;
}

/* ---- going on ---- */

bool operation_is_revocable(const struct operation *o)
{
    if (o->state != OPERATION_RUNNING) {
        return false;
    }
    switch (o->kind) {
    case OPERATION_MOVE:
        return o->step < MOVE_STEER;
    case OPERATION_BUILD:
        return o->step < BUILD_SERVE; /* and not BUILD_BACK */
    case OPERATION_DRAIN:
        return true;
    default:
        return false;
    }
}

static void go_back(struct operation *o, const char *why)
{
    if (why[0]) {
        memset(o->text, 0, sizeof(o->text));
        memcpy(o->text, why, strnlen(why, OPERATION_TEXT_MAX));
    }
    if (kinds[o->kind].back) {
        o->step = kinds[o->kind].back;
    } else {
        o->state = OPERATION_UNDONE;
    }
}

void operation_advance(struct operation *o, enum verdict v, const char *why)
{
    if (v == VERDICT_GOES_BACK) {
        go_back(o, why);
    } else if (v == VERDICT_GOES_ON && o->step == kinds[o->kind].back) {
        o->state = OPERATION_UNDONE;
    } else if (v == VERDICT_GOES_ON && o->step == kinds[o->kind].step_count) {
        o->state = OPERATION_DONE;
    } else if (v == VERDICT_GOES_ON && o->kind == OPERATION_BUILD &&
               o->step == BUILD_ADMIT && o->build.stage + 1 < BUILD_STAGES) {
        o->build.stage++;
    } else if (v == VERDICT_GOES_ON) {
        o->step++;
        o->step +=
            o->kind == OPERATION_MOVE && o->step == MOVE_HELD && !o->move.is_held;
    }
}
