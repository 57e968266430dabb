#include "agent/gateway/hserver.h"

#include "proto/api/p4runtime.pb-c.h"
#include "proto/rpc/rpc_pb.h"
#include "proto/rpc/wire.h"

#include <stdio.h>
#include <string.h>

#define API_VERSION "1.3.0"

void hserver_init(struct hserver *s, struct hswitch *tables)
{
    *s = (struct hserver){ .tables = tables };
}

static void program_drop(struct hprogram *p)
{
    if (p->config) {
        blob_unref(p->config);
    }
    *p = (struct hprogram){ 0 };
}

void hserver_fini(struct hserver *s)
{
    for (unsigned i = 0; i < HSWITCH_HALVES; i++) {
        program_drop(&s->device[i].running);
        program_drop(&s->device[i].saved);
    }
}

void hanswer_fini(struct hanswer *a)
{
    buf_fini(&a->details);
}

int hserver_half(uint64_t device_id)
{
    return device_id >= HSERVER_DEVICE_FIRST &&
                   device_id < HSERVER_DEVICE_FIRST + HSWITCH_HALVES
               ? (int)(device_id - HSERVER_DEVICE_FIRST)
               : -1;
}

static void say(struct hanswer *ret, enum rpc_code code, const char *message)
{
    ret->code = code;
    snprintf(ret->message, sizeof(ret->message), "%s", message);
}

/* ---- writes ---- */

static enum rpc_code cell_id(const struct p4rt_info *info,
                             const struct p4rt_entity *cell, unsigned *ret)
{
    int counter;

    if (cell->kind == P4RT_COUNTER) {
        counter = p4rt_info_counter(info, cell->id);
        *ret = (unsigned)counter;
        return counter < 0 ? RPC_NOT_FOUND : RPC_OK;
    }
    for (unsigned i = 0; i < PHYS_METERS; i++) {
        if (info->meter_id[i] == cell->id) {
            *ret = i;
            return RPC_OK;
        }
    }
    return RPC_NOT_FOUND;
}

static enum rc write_cell(struct hserver *s, unsigned half, enum phys_op op,
                          const struct p4rt_entity *cell, struct err *err)
{
    const struct phys_meter_config open = { 0, 0, 0, 0 };
    const struct hcount value = { cell->packets, cell->bytes };
    unsigned which;

    if (op != PHYS_MODIFY) {
        return err_set(err, RC_INVALID, "a meter or counter can only be modified");
    }
    if (cell_id(&s->device[half].running.info, cell, &which) != RPC_OK) {
        return err_set(err, RC_NOT_FOUND, "no meter or counter of this id");
    }
    if (!cell->has_index) {
        return err_set(err, RC_INVALID, "an index is needed");
    }
    return cell->kind == P4RT_METER
               ? hswitch_set_meter(s->tables, half, (enum phys_meter)which, cell->index,
                                   cell->has_config ? &cell->config : &open, err)
               : hswitch_set_counter(s->tables, half, (enum phys_counter)which,
                                     cell->index, &value, err);
}

/* Updates are decoded some ahead of when they are done, so that the memory that they
 * will look at is on its way meanwhile. */
struct update {
    struct p4rt_entity entity;
    enum phys_op op;
    enum rc rc;
    struct err err;
};
#define UPDATES_AHEAD 16u

static unsigned decode_some(const struct hserver *s, unsigned half,
                            struct p4rt_cursor *updates,
                            struct update ret[UPDATES_AHEAD])
{
    struct p4rt_piece piece;
    unsigned count = 0;

    while (count < UPDATES_AHEAD && p4rt_next(updates, &piece)) {
        struct update *u = &ret[count++];

        u->err = (struct err){ 0 };
        u->rc = p4rt_update_decode(piece, &u->op, &u->entity, &u->err);
        if (u->rc == RC_OK && u->entity.kind == P4RT_TABLE && !u->entity.is_default) {
            hswitch_prefetch(s->tables, half, &u->entity.entry);
        }
    }
    return count;
}

static enum rc write_update(struct hserver *s, unsigned half, struct update *u)
{
    if (u->rc != RC_OK) {
        return u->rc;
    }
    if (u->entity.kind != P4RT_TABLE) {
        return write_cell(s, half, u->op, &u->entity, &u->err);
    }
    if (u->entity.is_default) {
        return err_set(&u->err, RC_INVALID, "the default action is constant");
    }
    return hswitch_write(s->tables, half, u->op, &u->entity.entry, &u->err);
}

/* May this request write?  Fills the answer when not. */
static bool may_write(const struct hserver *s, uint64_t device_id, bool has_role,
                      const struct election *id, int *ret_half, struct hanswer *ret)
{
    *ret_half = hserver_half(device_id);
    if (*ret_half < 0) {
        say(ret, RPC_NOT_FOUND, "no such device: 1 and 2 are the halves");
    } else if (has_role) {
        say(ret, RPC_UNIMPLEMENTED, "no role but the default one");
    } else if (!arbiter_may_write(&s->device[*ret_half].arbiter, id)) {
        say(ret, RPC_PERMISSION_DENIED, "not the primary");
    } else {
        return true;
    }
    return false;
}

/* The outcome of one update; from the first failure on, each has an error in `details`.
 */
static void note_outcome(struct hanswer *ret, unsigned done, enum rc rc,
                         const struct err *err)
{
    static const char *const failed = "an update failed";

    if (rc != RC_OK && ret->code == RPC_OK) {
        say(ret, RPC_UNKNOWN, failed); /* the specification's code for it */
        p4rt_errors_begin(&ret->details, RPC_UNKNOWN, failed);
        for (unsigned i = 0; i < done; i++) {
            p4rt_errors_add(&ret->details, RPC_OK, NULL);
        }
    }
    if (ret->code != RPC_OK) {
        p4rt_errors_add(&ret->details, rpc_code_of_rc(rc),
                        rc == RC_OK ? NULL : err->msg);
    }
}

static void write_all(struct hserver *s, unsigned half, struct p4rt_cursor *updates,
                      struct hanswer *ret)
{
    struct update some[UPDATES_AHEAD];
    unsigned done = 0;
    unsigned count;

    while ((count = decode_some(s, half, updates, some)) > 0) {
        for (unsigned i = 0; i < count; i++) {
            enum rc rc = write_update(s, half, &some[i]);

            s->updates += rc == RC_OK;
            note_outcome(ret, done++, rc, &some[i].err);
        }
    }
}

static void publish(struct hserver *s, struct hanswer *ret)
{
    struct err err = { 0 };
    bool changed;

    if (hswitch_publish(s->tables, &changed, &err) != RC_OK && ret->code == RPC_OK) {
        say(ret, rpc_code_of_rc(err.code), err.msg);
    }
    s->config_changed |= changed;
}

void hserver_write(struct hserver *s, const uint8_t *bytes, size_t len,
                   struct hanswer *ret)
{
    struct p4rt_write_head head;
    struct p4rt_cursor updates;
    struct election id;
    struct err err = { 0 };
    int half;

    *ret = (struct hanswer){ .code = RPC_OK };
    if (p4rt_write_open(bytes, len, &head, &updates, &err) != RC_OK) {
        say(ret, rpc_code_of_rc(err.code), err.msg);
        return;
    }
    id = (struct election){ head.has_election, head.election_high, head.election_low };
    if (!may_write(s, head.device_id, head.has_role, &id, &half, ret)) {
        return;
    }
    if (!s->device[half].running.config) {
        say(ret, RPC_FAILED_PRECONDITION, "no pipeline yet");
        return;
    }
    if (head.atomicity != 0) {
        say(ret, RPC_UNIMPLEMENTED, "no atomicity but CONTINUE_ON_ERROR");
        return;
    }
    write_all(s, (unsigned)half, &updates, ret);
    publish(s, ret);
}

/* ---- for tests ---- */

enum rc hserver_tamper(struct hserver *s, enum htamper_place place, bool keeps,
                       const uint8_t *bytes, size_t len, struct err *err)
{
    struct p4rt_write_head head;
    struct p4rt_cursor updates;
    struct p4rt_piece piece;
    enum rc rc = p4rt_write_open(bytes, len, &head, &updates, err);
    int half = rc == RC_OK ? hserver_half(head.device_id) : 0;

    if (half < 0) {
        return err_set(err, RC_NOT_FOUND, "no such device: 1 and 2 are the halves");
    }
    while (rc == RC_OK && p4rt_next(&updates, &piece)) {
        struct p4rt_entity entity;
        enum phys_op op;

        rc = p4rt_update_decode(piece, &op, &entity, err);
        if (rc == RC_OK && (entity.kind != P4RT_TABLE || entity.is_default)) {
            return err_set(err, RC_INVALID, "tamper: no entry of a table");
        }
        if (rc == RC_OK) {
            rc = keeps ? hswitch_tamper_keep(s->tables, (unsigned)half, place,
                                             &entity.entry, err)
                       : hswitch_tamper(s->tables, (unsigned)half, place, op,
                                        &entity.entry, err);
        }
    }
    /* Whoever is in the middle of a lookup starts it anew, as behind a write. */
    atomic_fetch_add(&s->tables->retire.epoch, 1);
    return rc;
}

/* ---- the pipeline ---- */

/* Takes what was pushed: the encoded config that stands in field 5 of the request. */
static bool verify(const uint8_t *bytes, size_t len, struct hprogram *ret,
                   struct hanswer *answer)
{
    const uint8_t *config;
    const uint8_t *info;
    size_t config_len;
    size_t info_len;
    struct err err = { 0 };

    if (rpc_pb_find(bytes, len, 5, &config, &config_len) != RC_OK ||
        rpc_pb_find(config, config_len, 1, &info, &info_len) != RC_OK) {
        say(answer, RPC_INVALID_ARGUMENT, "no p4info");
        return false;
    }
    if (p4rt_info_read(info, info_len, NULL, &ret->info, &err) != RC_OK) {
        say(answer, RPC_INVALID_ARGUMENT, err.msg); /* whichever: it is not XGW-H */
        return false;
    }
    ret->config = blob_copy(config, config_len);
    if (!ret->config) {
        say(answer, RPC_RESOURCE_EXHAUSTED, "no memory for the pipeline");
        return false;
    }
    return true;
}

/* Another program runs, by the same tables; they stay or go. */
static void commit(struct hserver *s, unsigned half, struct hprogram *program,
                   bool keeps, struct hanswer *ret)
{
    struct hdevice *d = &s->device[half];
    struct err err = { 0 };

    if (!keeps && hswitch_clear(s->tables, half, &err) != RC_OK) {
        say(ret, rpc_code_of_rc(err.code), err.msg);
        program_drop(program);
    } else {
        program_drop(&d->running);
        program_drop(&d->saved);
        d->running = *program;
    }
    publish(s, ret);
}

static void set_pipeline(struct hserver *s, unsigned half, int action,
                         const uint8_t *bytes, size_t len, struct hanswer *ret)
{
    struct hdevice *d = &s->device[half];
    struct hprogram program = { 0 };

    if (action == P4__V1__SET_FORWARDING_PIPELINE_CONFIG_REQUEST__ACTION__COMMIT) {
        if (!d->saved.config) {
            say(ret, RPC_FAILED_PRECONDITION, "nothing was saved to commit");
            return;
        }
        program = d->saved;
        d->saved = (struct hprogram){ 0 };
        commit(s, half, &program, false, ret);
        return;
    }
    if (!verify(bytes, len, &program, ret)) {
        return;
    }
    switch (action) {
    case P4__V1__SET_FORWARDING_PIPELINE_CONFIG_REQUEST__ACTION__VERIFY:
        program_drop(&program);
        return;
    case P4__V1__SET_FORWARDING_PIPELINE_CONFIG_REQUEST__ACTION__VERIFY_AND_SAVE:
        program_drop(&d->saved);
        d->saved = program;
        return;
    case P4__V1__SET_FORWARDING_PIPELINE_CONFIG_REQUEST__ACTION__VERIFY_AND_COMMIT:
        commit(s, half, &program, false, ret);
        return;
    case P4__V1__SET_FORWARDING_PIPELINE_CONFIG_REQUEST__ACTION__RECONCILE_AND_COMMIT:
        commit(s, half, &program, true, ret);
        return;
    default:
        program_drop(&program);
        say(ret, RPC_INVALID_ARGUMENT, "no such action");
    }
}

void hserver_set_pipeline(struct hserver *s, const uint8_t *bytes, size_t len,
                          struct hanswer *ret)
{
    struct rpc_arena arena = RPC_ARENA_INIT;
    const P4__V1__SetForwardingPipelineConfigRequest *request;
    ProtobufCMessage *base;
    struct err err = { 0 };
    struct election id = { false, 0, 0 };
    int half;

    *ret = (struct hanswer){ .code = RPC_OK };
    if (rpc_pb_unpack(&arena,
                      &p4__v1__set_forwarding_pipeline_config_request__descriptor,
                      bytes, len, &base, &err) != RC_OK) {
        say(ret, rpc_code_of_rc(err.code), err.msg);
        rpc_arena_fini(&arena);
        return;
    }
    request = (const P4__V1__SetForwardingPipelineConfigRequest *)base;
    if (request->election_id) {
        id = (struct election){ true, request->election_id->high,
                                request->election_id->low };
    }
    if (may_write(s, request->device_id,
                  request->role_id != 0 || request->role[0] != '\0', &id, &half, ret)) {
        set_pipeline(s, (unsigned)half, (int)request->action, bytes, len, ret);
    }
    rpc_arena_fini(&arena);
}

/* Field `number` of an encoded config, as it stands there. */
static void copy_field(struct buf *to, const struct blob *config, uint32_t number)
{
    const uint8_t *field;
    size_t len;
    uint8_t head[2 * WIRE_VARINT_MAX];

    if (rpc_pb_find(config->data, config->len, number, &field, &len) == RC_OK) {
        buf_add(to, head, wire_head(head, number, len));
        buf_add(to, field, len);
    }
}

void hserver_get_pipeline(const struct hserver *s, const uint8_t *bytes, size_t len,
                          struct buf *to, struct hanswer *ret)
{
    /* p4info, device config, cookie: which of them each kind of answer carries. */
    static const bool carries[4][4] = { { false, true, true, true },
                                        { false, false, false, true },
                                        { false, true, false, true },
                                        { false, false, true, true } };
    struct reader r = reader_of(bytes, len);
    struct buf config = BUF_INIT;
    uint8_t head[2 * WIRE_VARINT_MAX];
    struct wire_field f;
    uint64_t device = 0;
    uint64_t kind = 0;
    int half;

    *ret = (struct hanswer){ .code = RPC_OK };
    while (reader_left(&r) > 0) {
        if (!wire_next(&r, &f)) {
            say(ret, RPC_INVALID_ARGUMENT, "not a request");
            return;
        }
        device = f.number == 1 && f.type == WIRE_VARINT ? f.value : device;
        kind = f.number == 2 && f.type == WIRE_VARINT ? f.value : kind;
    }
    half = hserver_half(device);
    if (half < 0) {
        say(ret, RPC_NOT_FOUND, "no such device: 1 and 2 are the halves");
    } else if (kind > 3) {
        say(ret, RPC_INVALID_ARGUMENT, "no such kind of response");
    } else if (!s->device[half].running.config) {
        say(ret, RPC_FAILED_PRECONDITION, "no pipeline yet");
    } else {
        for (uint32_t n = 1; n <= 3; n++) {
            if (carries[kind][n]) {
                copy_field(&config, s->device[half].running.config, n);
            }
        }
        buf_add(to, head, wire_head(head, 1, config.len));
        buf_add(to, config.data, config.len);
    }
    to->failed |= config.failed;
    buf_fini(&config);
}

void hserver_capabilities(struct buf *to)
{
    uint8_t head[2 * WIRE_VARINT_MAX];

    buf_add(to, head, wire_head(head, 1, strlen(API_VERSION)));
    buf_text(to, API_VERSION);
}
