/* BeginProbes and GetProbes: what nodes make of packets. */
#include "controller/api/grpc_api_internal.h"

#include <stdlib.h>
#include <string.h>

/* One that is begun. */
struct beginning {
    struct rpc_call *call; /* null: the caller is gone */
};

struct probes_reply {
    struct probes_record record;
    struct matrix_cell cells[MATRIX_CELLS_MAX];
    char names[MATRIX_CELLS_MAX][MATRIX_NAME_MAX + 1];
    Xgw__Controller__V1__ProbesCell at[MATRIX_CELLS_MAX];
    Xgw__Controller__V1__ProbesCell *list[MATRIX_CELLS_MAX];
    char *differs[PROBES_LISTED_MAX];
};

/* ---- looking ---- */

static void fill_cell(struct probes_reply *r, uint16_t i,
                      Xgw__Controller__V1__ProbesCell *to)
{
    struct probes_cell *c = &r->record.cells[i];

    xgw__controller__v1__probes_cell__init(to);
    matrix_cell_print(&r->cells[i], r->names[i], sizeof(r->names[i]));
    to->cell = r->names[i];
    if (c->reach == MATRIX_COVERED) {
        to->probe = c->number;
        to->expected = c->want;
        to->verdict = (Xgw__Controller__V1__ProbesVerdict)c->verdict;
    } else {
        to->reason = (char *)matrix_reach_text(c->reach); /* it is only packed */
    }
}

static void answer(struct rpc_call *call, struct probes_reply *r)
{
    Xgw__Controller__V1__Probes msg = XGW__CONTROLLER__V1__PROBES__INIT;
    uint16_t count = matrix_cells(r->cells);

    for (uint16_t i = 0; i < count && i < r->record.cell_count; i++) {
        if (r->record.cells[i].reach != MATRIX_UNSEEN) {
            fill_cell(r, i, &r->at[msg.n_coverage]);
            r->list[msg.n_coverage] = &r->at[msg.n_coverage];
            msg.n_coverage++;
        }
    }
    for (uint32_t i = 0; i < r->record.listed; i++) {
        r->differs[i] = r->record.differs[i];
    }
    msg.coverage = r->list;
    msg.differences = r->differs;
    msg.n_differences = r->record.listed;
    msg.number = r->record.number;
    msg.node = r->record.node;
    msg.cluster = r->record.cluster;
    msg.vni = r->record.vni;
    msg.who = r->record.who;
    msg.state = (Xgw__Controller__V1__ProbesState)r->record.state;
    msg.result = (Xgw__Controller__V1__ProbesResult)r->record.result;
    msg.asked_ms = r->record.asked_ms;
    msg.ended_ms = r->record.ended_ms;
    msg.probes = r->record.probes;
    msg.agreed = r->record.agreed;
    msg.differed = r->record.differed;
    msg.unsaid = r->record.unsaid;
    msg.reason = r->record.why;
    rpc_pb_reply(call, &msg.base);
}

static void look_up(struct rpc_call *call, uint64_t number)
{
    struct probes_reply *r = calloc(1, sizeof(*r));
    struct err err = { 0 };

    if (!r) {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
    } else if (core_probes(shell_core(grpc_api_of(call)->shell), number, &r->record) !=
               RC_OK) {
        err_field(&err, RC_NOT_FOUND, "number", "unknown_probes", "no such probes");
        rpc_call_finish_err(call, &err);
    } else {
        answer(call, r);
    }
    free(r);
}

static void on_get(struct rpc_call *call, const struct rpc_msg *msg)
{
    const Xgw__Controller__V1__GetProbesRequest *request =
        GRPC_TAKE(Xgw__Controller__V1__GetProbesRequest, call,
                  xgw__controller__v1__get_probes_request__descriptor, msg);
    char who[AUTH_NAME_MAX + 1];

    if (request && grpc_api_allow(call, ROLE_VIEWER, who)) {
        look_up(call, request->number);
    }
    rpc_arena_reset(&grpc_api_of(call)->arena);
}

/* ---- beginning ---- */

static enum rc take_name(const char *from, const char *field, char *to, size_t size,
                         struct err *err)
{
    if (strlen(from) >= size) {
        return err_field(err, RC_INVALID, field, "name_length", "%s: no name", field);
    }
    memcpy(to, from, strlen(from) + 1);
    return RC_OK;
}

static enum rc read_request(const Xgw__Controller__V1__BeginProbesRequest *request,
                            struct command *ret, struct err *err)
{
    enum rc rc =
        take_name(request->node, "node", ret->probe.node, sizeof(ret->probe.node), err);

    rc = rc ? rc
            : take_name(request->cluster, "cluster", ret->probe.cluster,
                        sizeof(ret->probe.cluster), err);
    if (rc == RC_OK && request->vni > VNI_MAX) {
        rc = err_field(err, RC_RANGE, "vni", "vni_range", "vni %u: not 1 to 16777215",
                       request->vni);
    }
    ret->probe.vni = request->vni;
    return rc;
}

static void on_begun(void *arg, const struct core_reply *reply)
{
    Xgw__Controller__V1__BeginProbesReply msg =
        XGW__CONTROLLER__V1__BEGIN_PROBES_REPLY__INIT;
    struct beginning *b = arg;

    if (b->call) {
        rpc_call_set_data(b->call, NULL);
        if (reply->err.code != RC_OK) {
            rpc_call_finish_err(b->call, &reply->err);
        } else {
            msg.first = reply->probes_first;
            msg.count = reply->probes_count;
            rpc_pb_reply(b->call, &msg.base);
        }
    }
    free(b);
}

static void begin(struct rpc_call *call, struct command *command)
{
    struct beginning *b = malloc(sizeof(*b));
    struct err err = { 0 };

    if (b) {
        *b = (struct beginning){ call };
        rpc_call_set_data(call, b);
    }
    if (!b || shell_command(grpc_api_of(call)->shell, command, on_begun, b) != RC_OK) {
        rpc_call_set_data(call, NULL);
        free(b);
        err_set(&err, RC_NO_MEMORY, "too many requests are waiting: try again");
        rpc_call_finish_err(call, &err);
    }
}

static void on_begin(struct rpc_call *call, const struct rpc_msg *msg)
{
    const Xgw__Controller__V1__BeginProbesRequest *request;
    struct command command = { .kind = COMMAND_PROBE };
    struct err err = { 0 };

    rpc_call_set_data(call, NULL);
    request = GRPC_TAKE(Xgw__Controller__V1__BeginProbesRequest, call,
                        xgw__controller__v1__begin_probes_request__descriptor, msg);
    if (request && grpc_api_allow(call, ROLE_OPERATOR, command.who)) {
        if (read_request(request, &command, &err) != RC_OK) {
            rpc_call_finish_err(call, &err);
        } else {
            begin(call, &command);
        }
    }
    rpc_arena_reset(&grpc_api_of(call)->arena);
}

static void on_begin_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct beginning *b = rpc_call_data(call);

    (void)status;
    if (b) {
        b->call = NULL; /* the reply frees it */
    }
}

enum rc grpc_probes_register(struct grpc_api *a, struct rpc_server *server,
                             struct err *err)
{
    const struct rpc_method methods[] = {
        { .path = "/xgw.controller.v1.Controller/BeginProbes",
          .kind = RPC_UNARY,
          .ops = { .on_message = on_begin, .on_closed = on_begin_closed },
          .arg = a },
        { .path = "/xgw.controller.v1.Controller/GetProbes",
          .kind = RPC_UNARY,
          .ops = { .on_message = on_get },
          .arg = a },
    };
    enum rc rc = rpc_server_add(server, &methods[0], err);

    return rc == RC_OK ? rpc_server_add(server, &methods[1], err) : rc;
}
