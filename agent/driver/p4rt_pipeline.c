/* Which program runs on each device, and ours put there. */
#include "agent/driver/p4rt_switch_impl.h"

#include <event2/event.h>
#include <string.h>
#include <xxhash.h>

#include "proto/rpc/wire.h"

#define PATH_GET "/p4.v1.P4Runtime/GetForwardingPipelineConfig"
#define PATH_SET "/p4.v1.P4Runtime/SetForwardingPipelineConfig"

#define LOOK_MS 10000
#define PUSH_MS 120000 /* loading an image takes a chip a while */

static bool is_old(const struct p4rt_device *d)
{
    return d->owner->is_closing || d->generation != d->owner->generation;
}

/* ---- looking ---- */

static void all_known(struct p4rt_switch *s)
{
    for (unsigned i = 0; i < s->device_count; i++) {
        if (s->devices[i].pipeline) {
            return;
        }
    }
    s->phase = P4RT_FOUND;
    s->events->found(s->ctx);
}

/* The p4info inside of a GetForwardingPipelineConfigResponse; false: there is none. */
static bool find_info(const struct rpc_msg *reply, const uint8_t **ret, size_t *ret_len)
{
    const uint8_t *config;
    size_t len;

    return rpc_pb_find(reply->data, reply->len, 1, &config, &len) == RC_OK &&
           rpc_pb_find(config, len, 1, ret, ret_len) == RC_OK && *ret_len > 0;
}

static enum rc judge(struct p4rt_device *d, const struct rpc_status *status,
                     const struct rpc_msg *reply, struct err *err)
{
    struct p4rt_switch *s = d->owner;
    struct p4rt_info info;
    const uint8_t *bytes;
    size_t len;

    d->program = P4RT_PROGRAM_NONE;
    if (!reply) {
        /* Some servers say so instead of answering without a config. */
        return status->code == RPC_FAILED_PRECONDITION ? RC_OK
                                                       : rpc_status_to_err(status, err);
    }
    if (!find_info(reply, &bytes, &len)) {
        return RC_OK;
    }
    if (p4rt_info_read(bytes, len, NULL, &info, err) == RC_OK) {
        d->program = P4RT_PROGRAM_OURS;
        s->info = info;
        return RC_OK;
    }
    d->program = P4RT_PROGRAM_OTHER;
    if (s->replaces_other) {
        return RC_OK;
    }
    return err_wrap(err, RC_CONFLICT, "another program is on the switch");
}

static void on_looked(const struct rpc_status *status, const struct rpc_msg *reply,
                      void *arg)
{
    struct p4rt_device *d = arg;
    struct err err = { 0 };

    d->pipeline = NULL;
    if (is_old(d)) {
        return;
    }
    if (judge(d, status, reply, &err) != RC_OK) {
        err_wrap(&err, err.code, "switch: device %llu", (unsigned long long)d->id);
        p4rt_switch_redial(d->owner, &err);
        return;
    }
    all_known(d->owner);
}

void p4rt_pipeline_look(struct p4rt_switch *s)
{
    P4__V1__GetForwardingPipelineConfigRequest request =
        P4__V1__GET_FORWARDING_PIPELINE_CONFIG_REQUEST__INIT;
    struct rpc_call_options options = { .deadline_ms = LOOK_MS };

    request.response_type =
        P4__V1__GET_FORWARDING_PIPELINE_CONFIG_REQUEST__RESPONSE_TYPE__P4INFO_AND_COOKIE;
    for (unsigned i = 0; i < s->device_count; i++) {
        struct p4rt_device *d = &s->devices[i];

        request.device_id = d->id;
        d->generation = s->generation;
        if (rpc_pb_unary(s->channel, PATH_GET, &request.base, &options, on_looked, d,
                         &d->pipeline) != RC_OK) {
            struct err err;

            d->pipeline = NULL;
            err_set(&err, RC_NO_MEMORY, "switch: cannot ask for the program");
            p4rt_switch_redial(s, &err);
            return;
        }
    }
}

/* ---- pushing ---- */

/* What is tried, in this order.  RECONCILE keeps what is in the tables; a target that
 * cannot gets COMMIT, but only where there is nothing to keep: no program, or one that
 * is to be replaced. */
enum { STEP_VERIFY, STEP_RECONCILE, STEP_COMMIT };
static const uint8_t step_action[] = {
    [STEP_VERIFY] = 1, [STEP_RECONCILE] = 5, [STEP_COMMIT] = 3
};

static void put_head(struct buf *to, uint32_t number, uint64_t len)
{
    uint8_t bytes[2 * WIRE_VARINT_MAX];

    buf_add(to, bytes, wire_head(bytes, number, len));
}

static void put_number(struct buf *to, uint32_t number, uint64_t v)
{
    uint8_t bytes[WIRE_VARINT_MAX];

    buf_u8(to, (uint8_t)(number << 3 | WIRE_VARINT));
    buf_add(to, bytes, wire_varint(bytes, v));
}

static size_t head_size(uint32_t number, uint64_t len)
{
    uint8_t bytes[2 * WIRE_VARINT_MAX];

    return wire_head(bytes, number, len);
}

/* A SetForwardingPipelineConfigRequest around the two blobs: [0] head, [1] p4info, [2]
 * head, [3] device config.  The cookie names both. */
static void pack_set(const struct p4rt_device *d, struct buf *head, struct buf *middle)
{
    const struct p4rt_switch *s = d->owner;
    size_t image = s->device_config ? s->device_config->len : 0;
    uint64_t cookie = XXH3_64bits(s->p4info->data, s->p4info->len);
    struct buf tail = BUF_INIT;
    size_t config;

    if (image > 0) {
        cookie ^= XXH3_64bits_withSeed(s->device_config->data, image, 1);
    }
    put_number(&tail, 1, cookie);
    config = head_size(1, s->p4info->len) + s->p4info->len + head_size(3, tail.len) +
             tail.len + (image > 0 ? head_size(2, image) + image : 0);
    put_number(head, 1, d->id);
    put_number(middle, 1, s->claimed);
    put_head(head, 3, middle->len);
    buf_add(head, middle->data, middle->len);
    buf_reset(middle);
    put_number(head, 4, step_action[d->push_step]);
    put_head(head, 5, config);
    put_head(head, 1, s->p4info->len);
    put_head(middle, 3, tail.len);
    buf_add(middle, tail.data, tail.len);
    if (image > 0) {
        put_head(middle, 2, image);
    }
    head->failed |= tail.failed;
    buf_fini(&tail);
}

static void on_set(const struct rpc_status *status, const struct rpc_msg *reply,
                   void *arg);

static enum rc send_set(struct p4rt_device *d)
{
    struct p4rt_switch *s = d->owner;
    struct rpc_call_options options = { .deadline_ms = PUSH_MS };
    struct buf head = BUF_INIT;
    struct buf middle = BUF_INIT;
    struct rpc_part parts[4];
    enum rc rc = RC_NO_MEMORY;

    pack_set(d, &head, &middle);
    parts[0] = (struct rpc_part){ .data = head.data, .len = head.len };
    parts[1] = (struct rpc_part){ .blob = s->p4info, .len = s->p4info->len };
    parts[2] = (struct rpc_part){ .data = middle.data, .len = middle.len };
    parts[3] = (struct rpc_part){ .blob = s->device_config,
                                  .len = s->device_config ? s->device_config->len : 0 };
    d->generation = s->generation;
    if (!buf_failed(&head) && !buf_failed(&middle)) {
        rc = rpc_unary(s->channel, PATH_SET, parts, s->device_config ? 4 : 3, &options,
                       on_set, d, &d->pipeline);
    }
    if (rc != RC_OK) {
        d->pipeline = NULL;
    }
    buf_fini(&head);
    buf_fini(&middle);
    return rc;
}

/* One device is through; told once both are, with the first that went wrong. */
static void end_push(struct p4rt_device *d, const struct err *err)
{
    struct p4rt_switch *s = d->owner;
    struct err first;

    if (err && s->push_err.code == RC_OK) {
        s->push_err = *err;
    }
    for (unsigned i = 0; i < s->device_count; i++) {
        if (s->devices[i].pipeline) {
            return;
        }
    }
    first = s->push_err;
    if (first.code == RC_OK) {
        s->info = s->own_info;
    }
    s->events->pushed(s->ctx, first.code, first.code == RC_OK ? NULL : &first);
}

static void on_set(const struct rpc_status *status, const struct rpc_msg *reply,
                   void *arg)
{
    struct p4rt_device *d = arg;
    struct err err = { 0 };
    bool can_not = status->code == RPC_UNIMPLEMENTED;

    (void)reply;
    d->pipeline = NULL;
    if (is_old(d)) {
        return;
    }
    if (d->push_step == STEP_VERIFY && (status->code == RPC_OK || can_not)) {
        d->push_step = d->program == P4RT_PROGRAM_OTHER || d->owner->cannot_reconcile
                           ? STEP_COMMIT
                           : STEP_RECONCILE;
    } else if (d->push_step == STEP_RECONCILE && can_not) {
        d->push_step = STEP_COMMIT;
    } else if (d->push_step != STEP_VERIFY && status->code == RPC_OK) {
        d->program = P4RT_PROGRAM_OURS;
        end_push(d, NULL);
        return;
    } else {
        rpc_status_to_err(status, &err);
        err_wrap(&err, err.code, "switch: device %llu does not take the program",
                 (unsigned long long)d->id);
        end_push(d, &err);
        return;
    }
    if (send_set(d) != RC_OK) {
        err_set(&err, RC_NO_MEMORY, "switch: no memory to push the program");
        end_push(d, &err);
    }
}

void p4rt_switch_push(struct p4rt_switch *s)
{
    struct err err = { 0 };

    s->push_err = err;
    for (unsigned i = 0; i < s->device_count; i++) {
        struct p4rt_device *d = &s->devices[i];

        if (d->program == P4RT_PROGRAM_OURS || d->pipeline) {
            continue;
        }
        d->push_step = STEP_VERIFY;
        if (send_set(d) != RC_OK) {
            err_set(&err, RC_NO_MEMORY, "switch: no memory to push the program");
            p4rt_switch_redial(s, &err); /* never an event from inside a call */
            return;
        }
    }
}
