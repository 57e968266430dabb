/* What is stored of an operation. */
#include "controller/lifecycle/operation.h"

#include "proto/model/name.h"

#include <string.h>

#define PACK_VERSION 4

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

static void pack_move(const struct move *m, struct buf *to)
{
    buf_u24(to, m->vni);
    pack_home(&m->from, to);
    pack_home(&m->to, to);
    buf_u32(to, m->drain_ms);
    buf_u8(to, m->ignores_steering);
    buf_u8(to, m->is_held);
    pack_text(m->waived_by, to);
    pack_text(m->waived_why, to);
}

static void pack_build(const struct build *b, struct buf *to)
{
    pack_text(b->cluster, to);
    buf_u32(to, b->hold_ms);
    buf_u32(to, b->drain_ms);
    buf_u8(to, b->stage);
    for (unsigned i = 0; i < BUILD_STAGES; i++) {
        buf_u32(to, b->cut[i]);
    }
    buf_u32(to, b->vni_count);
    for (uint32_t i = 0; i < b->vni_count; i++) {
        buf_u24(to, build_vni(b, i));
    }
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
    buf_u64(to, o->parent);
    switch (o->kind) {
    case OPERATION_MOVE:
        pack_move(&o->move, to);
        break;
    case OPERATION_BUILD:
        pack_build(&o->build, to);
        break;
    case OPERATION_DRAIN:
        pack_text(o->drain.cluster, to);
        pack_text(o->drain.to, to);
        buf_u32(to, o->drain.drain_ms);
        break;
    default:
        pack_text(o->retire.cluster, to);
        break;
    }
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

static void read_move(struct reader *in, struct move *ret)
{
    ret->vni = read_u24(in);
    read_home(in, &ret->from);
    read_home(in, &ret->to);
    ret->drain_ms = read_u32(in);
    ret->ignores_steering = read_bool(in);
    ret->is_held = read_bool(in);
    read_text(in, ret->waived_by, sizeof(ret->waived_by) - 1);
    read_text(in, ret->waived_why, OPERATION_TEXT_MAX);
    in->failed |= ret->vni < VNI_MIN;
}

static void read_cluster(struct reader *in, char ret[CLUSTER_NAME_MAX + 1])
{
    read_text(in, ret, CLUSTER_NAME_MAX);
    in->failed |= !ret[0];
}

static void read_vnis(struct reader *in, struct build *ret, bool *ret_no_memory)
{
    uint32_t count = read_u32(in);

    if (in->failed || count < 1 || count > BUILD_TENANTS_MAX ||
        reader_left(in) != (size_t)count * 3) {
        in->failed = true;
        return;
    }
    ret->vnis = blob_new(count * sizeof(uint32_t));
    *ret_no_memory = !ret->vnis;
    for (uint32_t i = 0; ret->vnis && i < count; i++) {
        uint32_t vni = read_u24(in);

        in->failed |= vni < VNI_MIN;
        memcpy(ret->vnis->data + i * sizeof(vni), &vni, sizeof(vni));
    }
    ret->vni_count = count;
}

static void read_build(struct reader *in, struct build *ret, bool *ret_no_memory)
{
    uint32_t least = 0;

    read_cluster(in, ret->cluster);
    ret->hold_ms = read_u32(in);
    ret->drain_ms = read_u32(in);
    ret->stage = read_u8(in);
    in->failed |= ret->stage >= BUILD_STAGES;
    for (unsigned i = 0; i < BUILD_STAGES; i++) {
        ret->cut[i] = read_u32(in);
        in->failed |= ret->cut[i] < least || ret->cut[i] > BUILD_TENANTS_MAX;
        least = ret->cut[i];
    }
    read_vnis(in, ret, ret_no_memory);
    in->failed |= least > ret->vni_count;
}

static void read_kind(struct reader *in, struct operation *o, bool *ret_no_memory)
{
    switch (o->kind) {
    case OPERATION_MOVE:
        read_move(in, &o->move);
        break;
    case OPERATION_BUILD:
        read_build(in, &o->build, ret_no_memory);
        break;
    case OPERATION_DRAIN:
        read_cluster(in, o->drain.cluster);
        read_text(in, o->drain.to, CLUSTER_NAME_MAX);
        o->drain.drain_ms = read_u32(in);
        break;
    default:
        read_cluster(in, o->retire.cluster);
        break;
    }
}

enum rc operation_unpack(const void *bytes, size_t len, struct operation *ret,
                         struct err *err)
{
    struct reader in = reader_of(bytes, len);
    bool no_memory = false;
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
    o.parent = read_u64(&in);
    in.failed |= !o.id[0] || !operation_is_valid(&o);
    if (!in.failed) {
        read_kind(&in, &o, &no_memory);
    }
    if (no_memory || in.failed || reader_left(&in) != 0) {
        operation_fini(&o);
        return no_memory ? err_set(err, RC_NO_MEMORY, "out of memory")
                         : err_set(err, RC_INVALID, "operation: damaged");
    }
    memcpy(ret, &o, sizeof(*ret));
    return RC_OK;
}
