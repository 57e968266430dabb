#include "controller/lifecycle/operation.h"

#include "controller/lifecycle/move.h"
#include "proto/model/name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PACK_VERSION 3

static const char *const move_steps[] = {
    [MOVE_INSTALL] = "install", [MOVE_AUDIT] = "audit", [MOVE_PROBE] = "probe",
    [MOVE_STEER] = "steer",     [MOVE_DRAIN] = "drain", [MOVE_REMOVE] = "remove",
};

static const struct {
    const char *name;
    const char *const *steps; /* from 1 */
    uint8_t step_count;
} kinds[] = {
    [OPERATION_MOVE] = { "move", move_steps, MOVE_STEPS },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static bool is_kind(unsigned kind)
{
    return kind < KINDS && kinds[kind].name;
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
    return is_kind(o->kind) && o->step >= 1 && o->step <= kinds[o->kind].step_count
               ? kinds[o->kind].steps[o->step]
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

bool home_equal(const struct home *a, const struct home *b)
{
    return strcmp(a->x86, b->x86) == 0 && strcmp(a->h, b->h) == 0;
}

/* ---- packing ---- */

static void pack_text(const char *text, struct buf *to)
{
    size_t len = strlen(text);

    buf_u8(to, (uint8_t)len);
    buf_add(to, text, len);
}

static void pack_home(const struct home *h, struct buf *to)
{
    pack_text(h->x86, to);
    pack_text(h->h, to);
    buf_u8(to, h->half);
}

void operation_pack(const struct operation *o, struct buf *to)
{
    buf_u8(to, 'O');
    buf_u8(to, PACK_VERSION);
    pack_text(o->id, to);
    buf_u8(to, o->kind);
    buf_u8(to, o->state);
    buf_u8(to, o->step);
    buf_u8(to, o->is_cancelled);
    pack_text(o->who, to);
    buf_u64(to, o->created_ms);
    buf_u64(to, o->changed_ms);
    pack_text(o->text, to);
    buf_u24(to, o->move.vni);
    pack_home(&o->move.from, to);
    pack_home(&o->move.to, to);
    buf_u32(to, o->move.drain_ms);
    buf_u8(to, o->move.ignores_steering);
    pack_text(o->move.waived_by, to);
    pack_text(o->move.waived_why, to);
}

static void read_text(struct reader *in, char *ret, size_t max)
{
    size_t len = read_u8(in);
    const uint8_t *bytes = read_bytes(in, len);

    if (!bytes || len > max || memchr(bytes, 0, len)) {
        in->failed = true;
        return;
    }
    memcpy(ret, bytes, len);
}

static void read_home(struct reader *in, struct home *ret)
{
    read_text(in, ret->x86, CLUSTER_NAME_MAX);
    read_text(in, ret->h, CLUSTER_NAME_MAX);
    ret->half = read_u8(in);
    in->failed |= !ret->x86[0] || ret->half > VNI_HALF_COUNT ||
                  (ret->half > 0) != (ret->h[0] != 0);
}

static bool read_bool(struct reader *in)
{
    uint8_t b = read_u8(in);

    in->failed |= b > 1;
    return b;
}

enum rc operation_unpack(const void *bytes, size_t len, struct operation *ret,
                         struct err *err)
{
    struct reader in = reader_of(bytes, len);
    struct operation o;

    memset(&o, 0, sizeof(o));
    in.failed |= read_u8(&in) != 'O' || read_u8(&in) != PACK_VERSION;
    read_text(&in, o.id, OPERATION_ID_MAX);
    o.kind = read_u8(&in);
    o.state = read_u8(&in);
    o.step = read_u8(&in);
    o.is_cancelled = read_bool(&in);
    read_text(&in, o.who, sizeof(o.who) - 1);
    o.created_ms = read_u64(&in);
    o.changed_ms = read_u64(&in);
    read_text(&in, o.text, OPERATION_TEXT_MAX);
    o.move.vni = read_u24(&in);
    read_home(&in, &o.move.from);
    read_home(&in, &o.move.to);
    o.move.drain_ms = read_u32(&in);
    o.move.ignores_steering = read_bool(&in);
    read_text(&in, o.move.waived_by, sizeof(o.move.waived_by) - 1);
    read_text(&in, o.move.waived_why, OPERATION_TEXT_MAX);
    if (in.failed || reader_left(&in) != 0 || !o.id[0] || !is_kind(o.kind) ||
        o.state < OPERATION_RUNNING || o.state > OPERATION_UNDONE || o.step < 1 ||
        o.step > kinds[o.kind].step_count || o.move.vni < VNI_MIN) {
        return err_set(err, RC_INVALID, "operation: damaged");
    }
    memcpy(ret, &o, sizeof(*ret));
    return RC_OK;
}
