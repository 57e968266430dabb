/* GetTrace: what happens to a packet, as the entries say, and as the nodes do. */
#include "controller/api/grpc_api_internal.h"

#include "controller/core/live.h"

#include <stdlib.h>
#include <string.h>

/* A live one that is under way. */
struct tracing {
    struct rpc_call *call; /* null: the caller is gone */
};

struct trace_reply {
    struct trace_hop hops[TRACE_HOPS_MAX];
    struct blob *ops[TRACE_HOPS_MAX];
    Xgw__Controller__V1__TraceHop at[TRACE_HOPS_MAX];
    Xgw__Controller__V1__TraceHop *list[TRACE_HOPS_MAX];
    Xgw__Controller__V1__TraceNode *nodes; /* one behind the other */
    Xgw__Controller__V1__TraceNode **node_list;
};

/* ---- the answer ---- */

/* protobuf-c does not write to what it packs. */
static ProtobufCBinaryData address(struct ip *ip)
{
    return (ProtobufCBinaryData){ ip_size(ip), ip->b };
}

static struct blob *put_of(const struct entry *e)
{
    struct batch_writer w;
    struct blob *ops;

    batch_writer_init(&w);
    batch_add_entry(&w, ENTRY_PUT, e);
    ops = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return ops;
}

static void fill_hop(struct trace_reply *r, uint32_t i)
{
    struct trace_hop *hop = &r->hops[i];
    Xgw__Controller__V1__TraceHop *to = &r->at[i];

    xgw__controller__v1__trace_hop__init(to);
    to->kind = (Xgw__Controller__V1__TraceKind)hop->kind;
    to->vni = hop->vni;
    to->cluster = hop->cluster;
    to->note = hop->note;
    to->reason = hop->reason;
    if (hop->kind == TRACE_FORWARD) {
        to->outer_dst = address(&hop->outer_dst);
    } else if (hop->kind != TRACE_DROP && hop->kind != TRACE_FALLBACK) {
        r->ops[i] = put_of(&hop->entry);
        if (r->ops[i]) {
            to->ops = (ProtobufCBinaryData){ r->ops[i]->len, r->ops[i]->data };
        }
    }
    r->list[i] = to;
}

/* Answers are in the order of hops. */
static void fill_nodes(struct trace_reply *r, const struct live_trace *t)
{
    for (uint32_t i = 0; i < t->answer_count; i++) {
        struct live_answer *a = &t->answers[i];
        Xgw__Controller__V1__TraceHop *hop = &r->at[a->hop];

        xgw__controller__v1__trace_node__init(&r->nodes[i]);
        r->nodes[i].node = a->node;
        r->nodes[i].verdict = (Xgw__Controller__V1__TraceVerdict)a->verdict;
        r->nodes[i].expected = a->expected;
        r->nodes[i].found = a->found;
        r->node_list[i] = &r->nodes[i];
        hop->nodes = hop->n_nodes ? hop->nodes : &r->node_list[i];
        hop->n_nodes++;
    }
}

static void reply_free(struct trace_reply *r)
{
    for (uint32_t i = 0; r && i < TRACE_HOPS_MAX; i++) {
        blob_unref(r->ops[i]);
    }
    if (r) {
        free(r->nodes);
        free(r->node_list);
    }
    free(r);
}

static struct trace_reply *reply_new(uint32_t answer_count)
{
    struct trace_reply *r = calloc(1, sizeof(*r));

    if (r && answer_count > 0) {
        r->nodes = calloc(answer_count, sizeof(*r->nodes));
        r->node_list = calloc(answer_count, sizeof(void *));
        if (!r->nodes || !r->node_list) {
            reply_free(r);
            return NULL;
        }
    }
    return r;
}

static void answer(struct rpc_call *call, uint64_t revision,
                   const struct trace_hop *hops, uint32_t count,
                   const struct live_trace *live)
{
    Xgw__Controller__V1__Trace msg = XGW__CONTROLLER__V1__TRACE__INIT;
    struct trace_reply *r = reply_new(live ? live->answer_count : 0);

    if (!r) {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
        return;
    }
    memcpy(r->hops, hops, count * sizeof(*hops));
    for (uint32_t i = 0; i < count; i++) {
        fill_hop(r, i);
    }
    if (live) {
        fill_nodes(r, live);
        msg.verdict = (Xgw__Controller__V1__TraceVerdict)live_trace_verdict(live);
    }
    msg.revision = revision;
    msg.hops = r->list;
    msg.n_hops = count;
    rpc_pb_reply(call, &msg.base);
    reply_free(r);
}

/* ---- the request ---- */

static enum rc read_ip(const ProtobufCBinaryData *from, const char *field,
                       struct ip *ret, struct err *err)
{
    if (from->len == 4) {
        *ret = (struct ip){ .family = IP_V4 };
    } else if (from->len == 16) {
        *ret = (struct ip){ .family = IP_V6 };
    } else {
        return err_field(err, RC_INVALID, field, "length", "%s: 4 or 16 bytes", field);
    }
    memcpy(ret->b, from->data, from->len);
    return RC_OK;
}

static enum rc read_request(const Xgw__Controller__V1__GetTraceRequest *request,
                            struct command *ret, struct err *err)
{
    enum rc rc = read_ip(&request->dst, "dst", &ret->trace.dst, err);

    ret->trace.vni = request->vni;
    if (rc == RC_OK && request->src.len > 0) {
        rc = read_ip(&request->src, "src", &ret->trace.src, err);
    }
    if (rc == RC_OK && (request->vni < VNI_MIN || request->vni > VNI_MAX)) {
        rc = err_field(err, RC_RANGE, "vni", "vni_range", "vni %u: not 1 to 16777215",
                       request->vni);
    }
    if (rc == RC_OK && request->src.len > 0 &&
        ret->trace.src.family != ret->trace.dst.family) {
        rc = err_field(err, RC_INVALID, "src", "family_mismatch",
                       "src: not of the family of dst");
    }
    if (rc == RC_OK && request->underlay != 0 && request->underlay != 4 &&
        request->underlay != 6) {
        rc =
            err_field(err, RC_INVALID, "underlay", "family", "underlay: not 0, 4 or 6");
    }
    ret->trace.underlay = request->underlay == 4   ? IP_V4
                          : request->underlay == 6 ? IP_V6
                                                   : IP_NONE;
    return rc;
}

static void on_traced(void *arg, const struct core_reply *reply)
{
    struct tracing *t = arg;

    if (t->call) {
        rpc_call_set_data(t->call, NULL);
        if (reply->err.code != RC_OK) {
            rpc_call_finish_err(t->call, &reply->err);
        } else {
            answer(t->call, reply->live->revision, reply->live->hops,
                   reply->live->hop_count, reply->live);
        }
    }
    free(t);
}

static void begin_live(struct rpc_call *call, struct command *command)
{
    struct tracing *t = malloc(sizeof(*t));
    struct err err = { 0 };

    if (t) {
        *t = (struct tracing){ call };
        rpc_call_set_data(call, t);
    }
    if (!t || shell_command(grpc_api_of(call)->shell, command, on_traced, t) != RC_OK) {
        rpc_call_set_data(call, NULL);
        free(t);
        err_set(&err, RC_NO_MEMORY, "too many requests are waiting: try again");
        rpc_call_finish_err(call, &err);
    }
}

static void look_up(struct rpc_call *call, const struct command *asked)
{
    const struct core *core = shell_core(grpc_api_of(call)->shell);
    struct trace_hop hops[TRACE_HOPS_MAX];
    uint32_t count = core_trace(core, asked->trace.vni, &asked->trace.dst,
                                asked->trace.underlay, hops);

    answer(call, core_revision(core), hops, count, NULL);
}

static void on_get_trace(struct rpc_call *call, const struct rpc_msg *msg)
{
    const Xgw__Controller__V1__GetTraceRequest *request;
    struct command command = { .kind = COMMAND_TRACE };
    struct err err = { 0 };

    rpc_call_set_data(call, NULL);
    request = GRPC_TAKE(Xgw__Controller__V1__GetTraceRequest, call,
                        xgw__controller__v1__get_trace_request__descriptor, msg);
    if (request && grpc_api_allow(call, request->live ? ROLE_OPERATOR : ROLE_VIEWER,
                                  command.who)) {
        if (read_request(request, &command, &err) != RC_OK) {
            rpc_call_finish_err(call, &err);
        } else if (request->live) {
            begin_live(call, &command);
        } else {
            look_up(call, &command);
        }
    }
    rpc_arena_reset(&grpc_api_of(call)->arena);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct tracing *t = rpc_call_data(call);

    (void)status;
    if (t) {
        t->call = NULL; /* the reply frees it */
    }
}

enum rc grpc_trace_register(struct grpc_api *a, struct rpc_server *server,
                            struct err *err)
{
    const struct rpc_method method = { .path = "/xgw.controller.v1.Controller/GetTrace",
                                       .kind = RPC_UNARY,
                                       .ops = { .on_message = on_get_trace,
                                                .on_closed = on_closed },
                                       .arg = a };

    return rpc_server_add(server, &method, err);
}
