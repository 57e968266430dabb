#include "tests/unit/agent/driver/test_switch_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/p4rt/p4rt_info.h"
#include "proto/api/p4runtime.pb-c.h"
#include "proto/rpc/rpc_loop.h"
#include "proto/rpc/rpc_pb.h"
#include "proto/rpc/wire.h"

#define RESPONSE_BYTES 20000 /* of a ReadResponse: a read takes several */

int test_device_of(uint64_t id)
{
    return id >= 1 && id <= TEST_SWITCH_DEVICES ? (int)id - 1 : -1;
}

/* ---- Write ---- */

/* The checks of the specification, in its order. */
static enum rpc_code check_write(struct test_switch *s,
                                 const struct p4rt_write_head *head)
{
    int device = test_device_of(head->device_id);

    if (device < 0 || head->has_role) {
        return RPC_NOT_FOUND;
    }
    if (!head->has_election ||
        !test_switch_is_primary(s, (unsigned)device, head->election_high,
                                head->election_low)) {
        s->counts.denied++;
        return RPC_PERMISSION_DENIED;
    }
    if (s->impl->devices[device].program.len == 0) {
        return RPC_FAILED_PRECONDITION;
    }
    return RPC_OK;
}

static enum rpc_code do_update(struct test_switch *s, struct test_device *d,
                               struct p4rt_piece piece)
{
    struct p4rt_entity e;
    struct err err = { 0 };
    enum phys_op op;
    enum rc rc = p4rt_update_decode(piece, &op, &e, &err);

    return rc == RC_OK ? test_device_update(s, d, op, &e) : rpc_code_of_rc(rc);
}

#define UPDATES_MAX 20000

static void do_updates(struct test_switch *s, struct test_device *d,
                       struct p4rt_cursor *c, uint32_t count, enum rpc_code *codes)
{
    struct p4rt_piece *pieces = calloc(count + 1, sizeof(*pieces));

    for (uint32_t i = 0; i < count; i++) {
        p4rt_next(c, &pieces[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = s->faults.reorders ? count - 1 - i : i;

        codes[at] = do_update(s, d, pieces[at]);
        s->counts.failed_updates += codes[at] != RPC_OK;
    }
    free(pieces);
    s->counts.writes++;
    s->counts.updates += count;
    if (count > s->counts.most_updates) {
        s->counts.most_updates = count;
    }
}

static void answer_write(struct test_switch *s, struct rpc_call *call,
                         const enum rpc_code *codes, uint32_t count)
{
    struct buf details = BUF_INIT;
    bool has_failed = false;

    p4rt_errors_begin(&details, RPC_UNKNOWN, "Write failure.");
    for (uint32_t i = 0; i < count; i++) {
        p4rt_errors_add(&details, codes[i],
                        codes[i] != RPC_OK ? rpc_code_name(codes[i]) : NULL);
        has_failed |= codes[i] != RPC_OK;
    }
    if (!has_failed) {
        rpc_call_reply(call, NULL, 0);
    } else if (s->faults.no_details) {
        rpc_call_finish(call, RPC_UNKNOWN, "Write failure.", NULL, 0);
    } else {
        rpc_call_finish(call, RPC_UNKNOWN, "Write failure.", details.data, details.len);
    }
    buf_fini(&details);
}

static void on_write(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct test_switch *s = rpc_call_arg(call);
    enum rpc_code *codes = calloc(UPDATES_MAX, sizeof(*codes));
    struct p4rt_write_head head;
    struct p4rt_cursor c;
    struct err err = { 0 };
    enum rpc_code code;

    if (p4rt_write_open(msg->data, msg->len, &head, &c, &err) != RC_OK ||
        head.update_count > UPDATES_MAX) {
        rpc_call_finish_err(call, &err);
    } else if ((code = check_write(s, &head)) != RPC_OK) {
        rpc_call_finish(call, code, rpc_code_name(code), NULL, 0);
    } else if (s->faults.lose_writes > 0) {
        s->faults.lose_writes--;
    } else {
        do_updates(s, &s->impl->devices[test_device_of(head.device_id)], &c,
                   head.update_count, codes);
        if (s->faults.lose_answers > 0) {
            s->faults.lose_answers--;
        } else {
            answer_write(s, call, codes, head.update_count);
        }
    }
    free(codes);
}

static void on_write_open(struct rpc_call *call)
{
    struct test_switch *s = rpc_call_arg(call);

    if (++s->impl->writes_at_once > s->counts.most_writes_at_once) {
        s->counts.most_writes_at_once = s->impl->writes_at_once;
    }
}

static void on_write_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct test_switch *s = rpc_call_arg(call);

    (void)status;
    s->impl->writes_at_once--;
}

/* ---- Read ---- */

struct answer {
    struct rpc_call *call;
    struct buf body;
    const struct p4rt_query *query;
};

static void flush(struct answer *a)
{
    rpc_call_send_bytes(a->call, a->body.data, a->body.len);
    buf_reset(&a->body);
}

static void give(void *arg, const struct phys_entry *e)
{
    struct answer *a = arg;

    p4rt_response_entry(&a->body, e);
    if (a->body.len > RESPONSE_BYTES) {
        flush(a);
    }
}

static void read_cells(const struct test_device *d, const struct p4rt_query *q,
                       struct answer *a)
{
    for (size_t i = 0; i < CELLS; i++) {
        const struct cell *c = &d->cells[i];
        struct p4rt_entity e = { .kind = q->kind,
                                 .id = c->id,
                                 .has_index = true,
                                 .index = c->index,
                                 .has_config = true,
                                 .config = c->config,
                                 .packets = c->packets,
                                 .bytes = c->bytes };

        if (c->id != 0 && c->is_meter == (q->kind == P4RT_METER) &&
            (q->id == 0 || q->id == c->id) && (!q->has_index || q->index == c->index)) {
            p4rt_response_cell(&a->body, &e);
        }
    }
}

static bool read_one(struct test_switch *s, unsigned device, const struct p4rt_query *q,
                     struct answer *a)
{
    const struct test_device *d = &s->impl->devices[device];
    const struct phys_entry *e;

    if (q->kind != P4RT_TABLE) {
        read_cells(d, q, a);
        return true;
    }
    if (!q->has_key) {
        test_device_each(d, q->id ? (unsigned)phys_table_of_id(q->id) : PHYS_TABLES,
                         give, a);
        return true;
    }
    e = test_switch_find(s, device, &q->entry);
    if (e) {
        give(a, e);
    }
    return e != NULL;
}

static void on_read(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct test_switch *s = rpc_call_arg(call);
    struct answer a = { .call = call };
    struct p4rt_cursor c;
    struct p4rt_piece piece;
    struct p4rt_query q;
    struct err err = { 0 };
    uint64_t id;
    enum rc rc = p4rt_read_open(msg->data, msg->len, &id, &c, &err);
    int device = rc == RC_OK ? test_device_of(id) : -1;

    s->counts.reads++;
    if (device < 0) {
        rpc_call_finish(call, RPC_NOT_FOUND, "no such device", NULL, 0);
        return;
    }
    if (s->impl->devices[device].program.len == 0) {
        rpc_call_finish(call, RPC_FAILED_PRECONDITION, "no program", NULL, 0);
        return;
    }
    while (rc == RC_OK && p4rt_next(&c, &piece)) {
        rc = p4rt_query_decode(piece, &q, &err);
        if (rc == RC_OK && !read_one(s, (unsigned)device, &q, &a)) {
            rc = err_set(&err, RC_NOT_FOUND, "no such entry");
        }
    }
    flush(&a);
    buf_fini(&a.body);
    rpc_call_finish_err(call, &err);
}

/* ---- the pipeline ---- */

static bool find(const struct rpc_msg *msg, uint32_t outer, uint32_t inner,
                 const uint8_t **ret, size_t *ret_len)
{
    const uint8_t *at;
    size_t len;

    return rpc_pb_find(msg->data, msg->len, outer, &at, &len) == RC_OK &&
           rpc_pb_find(at, len, inner, ret, ret_len) == RC_OK;
}

static enum rpc_code do_push(struct test_switch *s, struct test_device *d, int action,
                             const uint8_t *p4info, size_t len)
{
    bool is_verify = action == 1;
    bool is_reconcile = action == 5;

    if ((is_verify && s->faults.no_verify) ||
        (is_reconcile && s->faults.no_reconcile)) {
        return RPC_UNIMPLEMENTED;
    }
    if (s->faults.refuses_program || len == 0 ||
        (!is_verify && !is_reconcile && action != 3)) {
        return RPC_INVALID_ARGUMENT;
    }
    if (is_verify) {
        return RPC_OK;
    }
    if (is_reconcile && d->program.len > 0 &&
        (d->program.len != len || memcmp(d->program.data, p4info, len) != 0)) {
        return RPC_INVALID_ARGUMENT; /* what is in the tables cannot be kept */
    }
    if (action == 3) {
        test_device_clear(d);
    }
    buf_reset(&d->program);
    buf_add(&d->program, p4info, len);
    return RPC_OK;
}

static void on_set(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct test_switch *s = rpc_call_arg(call);
    struct rpc_arena arena = RPC_ARENA_INIT;
    const P4__V1__SetForwardingPipelineConfigRequest *m =
        (const P4__V1__SetForwardingPipelineConfigRequest *)rpc_pb_take(
            call, &arena, &p4__v1__set_forwarding_pipeline_config_request__descriptor,
            msg);
    const uint8_t *p4info = NULL;
    size_t len = 0;
    enum rpc_code code = RPC_NOT_FOUND;
    int device = m ? test_device_of(m->device_id) : -1;

    if (!m) {
        return;
    }
    if (device >= 0 &&
        (!m->election_id ||
         !test_switch_is_primary(s, (unsigned)device, m->election_id->high,
                                 m->election_id->low))) {
        code = RPC_PERMISSION_DENIED;
    } else if (device >= 0) {
        find(msg, 5, 1, &p4info, &len);
        s->counts.pushes[m->action <= 5 ? m->action : 0]++;
        code = do_push(s, &s->impl->devices[device], (int)m->action, p4info, len);
        if (code == RPC_OK && m->config && m->config->cookie) {
            s->impl->devices[device].cookie = m->config->cookie->cookie;
        }
    }
    if (code == RPC_OK) {
        rpc_call_reply(call, NULL, 0);
    } else {
        rpc_call_finish(call, code, rpc_code_name(code), NULL, 0);
    }
    rpc_arena_fini(&arena);
}

static void on_get(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct test_switch *s = rpc_call_arg(call);
    uint8_t outer[2 * WIRE_VARINT_MAX];
    uint8_t inner[2 * WIRE_VARINT_MAX];
    struct wire_field f = { 0 };
    struct reader r = reader_of(msg->data, msg->len);
    int device = wire_next(&r, &f) && f.number == 1 ? test_device_of(f.value) : -1;
    const struct buf *program = device >= 0 ? &s->impl->devices[device].program : NULL;
    struct rpc_part parts[3];

    if (!program) {
        rpc_call_finish(call, RPC_NOT_FOUND, "no such device", NULL, 0);
        return;
    }
    if (program->len == 0) {
        if (s->faults.config_is_error) {
            rpc_call_finish(call, RPC_FAILED_PRECONDITION, "no program", NULL, 0);
        } else {
            rpc_call_reply(call, NULL, 0);
        }
        return;
    }
    parts[1] = (struct rpc_part){ .data = inner };
    parts[1].len = wire_head(inner, 1, program->len);
    parts[0] = (struct rpc_part){ .data = outer };
    parts[0].len = wire_head(outer, 1, parts[1].len + program->len);
    parts[2] = (struct rpc_part){ .data = program->data, .len = program->len };
    rpc_call_reply(call, parts, 3);
}

/* ---- life ---- */

static void start(struct test_switch *s)
{
    struct test_switch_impl *i = s->impl;
    struct rpc_server_options options = { .keepalive_ms = 1000 };
    const struct rpc_method methods[] = {
        { "/p4.v1.P4Runtime/Write",
          RPC_UNARY,
          { .on_open = on_write_open,
            .on_message = on_write,
            .on_closed = on_write_closed },
          s },
        { "/p4.v1.P4Runtime/Read", RPC_SERVER_STREAM, { .on_message = on_read }, s },
        { "/p4.v1.P4Runtime/SetForwardingPipelineConfig",
          RPC_UNARY,
          { .on_message = on_set },
          s },
        { "/p4.v1.P4Runtime/GetForwardingPipelineConfig",
          RPC_UNARY,
          { .on_message = on_get },
          s },
        { "/p4.v1.P4Runtime/StreamChannel", RPC_BIDI, test_switch_stream_ops, s },
    };
    struct err err = { 0 };
    enum rc rc = rpc_loop_new(i->base, &i->loop, &err);

    rc = rc == RC_OK ? rpc_server_new(i->loop, &options, &i->server, &err) : rc;
    for (size_t m = 0; rc == RC_OK && m < sizeof(methods) / sizeof(methods[0]); m++) {
        rc = rpc_server_add(i->server, &methods[m], &err);
    }
    rc = rc == RC_OK ? rpc_server_listen(i->server, i->address, NULL, NULL, &err) : rc;
    rc = rc == RC_OK ? rpc_server_start(i->server, &err) : rc;
    if (rc != RC_OK) {
        fprintf(stderr, "test_switch: %s\n", err.msg);
        abort();
    }
}

static void stop(struct test_switch *s)
{
    rpc_loop_free(s->impl->loop);
    for (unsigned i = 0; i < TEST_SWITCH_DEVICES; i++) {
        s->impl->devices[i].high = 0;
        s->impl->devices[i].low = 0;
    }
}

struct test_switch *test_switch_new(struct event_base *base, const char *address)
{
    struct test_switch *s = calloc(1, sizeof(*s));

    s->impl = calloc(1, sizeof(*s->impl));
    s->impl->base = base;
    snprintf(s->impl->address, sizeof(s->impl->address), "%s", address);
    LIST_INIT(&s->impl->peers);
    start(s);
    return s;
}

void test_switch_disconnect(struct test_switch *s)
{
    stop(s);
    start(s);
}

void test_switch_clear(struct test_switch *s)
{
    for (unsigned i = 0; i < TEST_SWITCH_DEVICES; i++) {
        test_device_clear(&s->impl->devices[i]);
    }
}

void test_switch_restart(struct test_switch *s)
{
    stop(s);
    test_switch_clear(s);
    for (unsigned i = 0; i < TEST_SWITCH_DEVICES; i++) {
        buf_reset(&s->impl->devices[i].program);
    }
    start(s);
}

void test_switch_load(struct test_switch *s, unsigned device, const void *p4info,
                      size_t len)
{
    buf_reset(&s->impl->devices[device].program);
    buf_add(&s->impl->devices[device].program, p4info, len);
}

const struct buf *test_switch_program(const struct test_switch *s, unsigned device)
{
    return &s->impl->devices[device].program;
}

void test_switch_free(struct test_switch *s)
{
    stop(s);
    test_switch_clear(s);
    for (unsigned i = 0; i < TEST_SWITCH_DEVICES; i++) {
        buf_fini(&s->impl->devices[i].program);
    }
    buf_fini(&s->impl->packet);
    free(s->impl);
    free(s);
}
