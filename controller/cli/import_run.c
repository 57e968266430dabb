#include "controller/cli/import_run.h"

#include <event2/event.h>
#include <event2/thread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "controller/cli/import_reader.h"
#include "controller/cli/import_window.h"
#include "proto/api/controller.pb-c.h"
#include "proto/rpc/program.h"
#include "proto/rpc/rpc_pb.h"

#define SERVICE        "/xgw.controller.v1.Controller/"
#define ASK_MS         10000
#define PROGRESS_MS    200
#define RETRY_FIRST_MS 100
#define RETRY_MOST_MS  2000
#define RUNS_MAX       1000 /* repeats of one input by --restart */
#define OPS_FIELD      15   /* ImportRequest.ops */
/* A shared machine may be busy for a while; a dead peer is noticed all the same. */
#define KEEPALIVE_MS         10000
#define KEEPALIVE_TIMEOUT_MS 20000

struct run {
    const struct import_input *in;
    const struct import_options *options;
    import_progress_fn *progress;
    void *progress_arg;
    struct import_result *result;
    struct err *err;
    enum rc rc; /* how it ended */
    bool is_over;
    struct event_base *base;
    struct rpc_loop *loop;
    struct rpc_channel *channel;
    struct rpc_call *call; /* the stream, or null */
    struct rpc_arena arena;
    struct event *on_reader;
    struct event *on_progress;
    struct event *on_retry;
    struct import_reader *reader;
    uint8_t digest[IMPORT_DIGEST_SIZE];
    uint64_t digest_run;   /* which of the input's digests is asked about */
    uint64_t last_seen;    /* next line of the digest before */
    bool has_begun;        /* the digest is chosen and the reader runs */
    bool reader_ended;     /* everything was taken from it */
    struct err reader_err; /* why it ended, if not at the end of the input */
    uint64_t reader_bad_line;
    struct import_window window;
    uint32_t retry_ms;
    uint64_t lost_ms; /* since when there was no answer but losses; 0: not lost */
    char authorization[300];
    struct rpc_header header;
};

static void ask(struct run *r);
static void pump(struct run *r);

static void finish(struct run *r, enum rc rc)
{
    if (!r->is_over) {
        r->is_over = true;
        r->rc = rc;
        event_base_loopbreak(r->base);
    }
}

/* The oldest batch is applied. */
static void batch_done(struct run *r)
{
    const struct import_batch *b = import_window_at(&r->window, 0);

    r->result->entries += b->entry_count;
    r->result->next_line = b->next_line;
    r->result->bytes_done = b->to;
    import_window_drop(&r->window);
    r->lost_ms = 0;
    r->retry_ms = RETRY_FIRST_MS;
}

/* ---- losing and finding the controller ---- */

static bool is_passing(enum rpc_code code)
{
    switch (code) {
    case RPC_OK: /* the server ended the stream early: it stops */
    case RPC_CANCELLED:
    case RPC_UNKNOWN:
    case RPC_DEADLINE_EXCEEDED:
    case RPC_RESOURCE_EXHAUSTED:
    case RPC_ABORTED:
    case RPC_INTERNAL:
    case RPC_UNAVAILABLE:
        return true;
    default:
        return false;
    }
}

static void lost(struct run *r, const struct rpc_status *status)
{
    struct timeval wait = { .tv_sec = r->retry_ms / 1000,
                            .tv_usec = (long)(r->retry_ms % 1000) * 1000 };
    struct err why = { 0 };

    rpc_status_to_err(status, &why);
    if (!is_passing(status->code)) {
        *r->err = why;
        finish(r, why.code);
        return;
    }
    r->lost_ms = r->lost_ms ? r->lost_ms : program_now_ms();
    if (!r->has_begun || program_now_ms() - r->lost_ms >= r->options->patience_ms) {
        finish(r, err_set(r->err, RC_UNREACHABLE, "%s: %s", r->options->address,
                          why.msg[0] ? why.msg : "the stream ended early"));
        return;
    }
    r->window.sent = 0;
    r->result->reconnects++;
    r->retry_ms = r->retry_ms * 2 > RETRY_MOST_MS ? RETRY_MOST_MS : r->retry_ms * 2;
    event_add(r->on_retry, &wait);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    ask(arg);
}

/* ---- answers ---- */

/* A refused batch: says which line is meant, if it is one. */
static void refused(struct run *r, const Xgw__Controller__V1__ImportReply *reply)
{
    const struct import_batch *b = import_window_at(&r->window, 0);
    enum rc rc = reply->code <= RC_BUG ? (enum rc)reply->code : RC_BUG;

    if (reply->field[0] || reply->rule[0]) {
        err_field(r->err, rc, reply->field, reply->rule, "%s", reply->error);
    } else {
        err_set(r->err, rc, "%s", reply->error);
    }
    r->result->bad_first = b->first_line;
    r->result->bad_next = b->next_line;
    if (reply->bad_index < b->entry_count) {
        r->result->bad_line =
            import_lines_of_entry(r->in->text, r->in->format, b, reply->bad_index);
    }
    finish(r, rc);
}

static void take_reply(struct run *r, const Xgw__Controller__V1__ImportReply *reply)
{
    if (r->window.sent == 0) {
        finish(r, err_set(r->err, RC_BUG, "an answer without a question"));
        return;
    }
    if (reply->code == RC_UNREACHABLE || reply->code == RC_TIMEOUT) {
        return; /* the stream ends with it, and we come back */
    }
    if (reply->code != RC_OK) {
        refused(r, reply);
        return;
    }
    if (reply->next_line != import_window_at(&r->window, 0)->next_line) {
        finish(r,
               err_set(r->err, RC_BUG, "an answer for line %llu, not %llu",
                       (unsigned long long)reply->next_line,
                       (unsigned long long)import_window_at(&r->window, 0)->next_line));
        return;
    }
    r->result->revision = reply->revision;
    r->result->added += reply->added;
    r->result->changed += reply->changed;
    r->result->deleted += reply->deleted;
    r->result->unchanged += reply->unchanged;
    if (reply->added + reply->changed + reply->deleted + reply->unchanged == 0) {
        /* A repeat of what an earlier connection brought: its counts are gone. */
        r->result->unanswered += import_window_at(&r->window, 0)->entry_count;
    }
    batch_done(r);
}

static void on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct run *r = rpc_call_arg(call);
    ProtobufCMessage *reply = NULL;

    if (r->is_over) {
        return;
    }
    if (rpc_pb_unpack(&r->arena, &xgw__controller__v1__import_reply__descriptor,
                      msg->data, msg->len, &reply, r->err) != RC_OK) {
        finish(r, r->err->code);
        return;
    }
    take_reply(r, (const Xgw__Controller__V1__ImportReply *)reply);
    rpc_arena_reset(&r->arena);
    pump(r);
}

static void on_writable(struct rpc_call *call)
{
    pump(rpc_call_arg(call));
}

static void on_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct run *r = rpc_call_arg(call);

    r->call = NULL;
    if (!r->is_over) {
        lost(r, status);
    }
}

/* ---- sending ---- */

/* Takes batches from the reader while the window has room. */
static void take_ahead(struct run *r)
{
    while (r->window.count < IMPORT_WINDOW && !r->reader_ended) {
        struct import_batch *b = import_window_at(&r->window, r->window.count);

        switch (import_reader_take(r->reader, b, &r->reader_bad_line, &r->reader_err)) {
        case IMPORT_READ_BATCH:
            r->window.count++;
            break;
        case IMPORT_READ_NOT_YET:
            return;
        case IMPORT_READ_END:
        case IMPORT_READ_FAILED:
            r->reader_ended = true;
            break;
        }
    }
}

static enum rc send_batch(struct run *r, const struct import_batch *b)
{
    Xgw__Controller__V1__ImportRequest msg = XGW__CONTROLLER__V1__IMPORT_REQUEST__INIT;

    msg.input_digest.data = r->digest;
    msg.input_digest.len = sizeof(r->digest);
    msg.first_line = b->first_line;
    msg.next_line = b->next_line;
    msg.confirm = r->options->confirm;
    msg.create_only = r->options->create_only;
    return rpc_pb_send_blob(r->call, 0, &msg.base, OPS_FIELD, b->ops);
}

/* Everything that was read is applied, or a line was bad. */
static void wind_up(struct run *r)
{
    if (r->reader_err.code != RC_OK) {
        *r->err = r->reader_err;
        r->result->bad_line = r->reader_bad_line;
        r->result->bad_first = r->result->next_line;
        finish(r, r->reader_err.code);
        return;
    }
    r->result->bytes_done = r->in->len;
    rpc_call_close_send(r->call);
    finish(r, RC_OK);
}

static void pump(struct run *r)
{
    if (r->is_over || !r->call) {
        return;
    }
    take_ahead(r);
    while (r->window.sent < r->window.count && rpc_call_is_writable(r->call)) {
        enum rc rc = send_batch(r, import_window_at(&r->window, r->window.sent));

        if (rc == RC_NO_MEMORY) {
            finish(r, err_set(r->err, rc, "no memory to send a batch"));
        }
        if (rc != RC_OK) {
            return; /* full: on_writable comes; closing: on_closed comes */
        }
        r->window.sent++;
        take_ahead(r);
    }
    if (r->reader_ended && r->window.count == 0) {
        wind_up(r);
    }
}

static void on_reader(evutil_socket_t fd, short what, void *arg)
{
    uint64_t n;

    (void)what;
    (void)!read(fd, &n, sizeof(n));
    pump(arg);
}

/* ---- where to go on ---- */

static void open_stream(struct run *r)
{
    static const struct rpc_call_ops ops = { .on_message = on_message,
                                             .on_writable = on_writable,
                                             .on_closed = on_closed };
    struct rpc_call_options options = { .headers = &r->header,
                                        .header_count = r->options->token[0] ? 1 : 0 };

    if (rpc_stream(r->channel, SERVICE "Import", &options, &ops, r, &r->call) !=
        RC_OK) {
        finish(r, err_set(r->err, RC_NO_MEMORY, "no memory for a stream"));
        return;
    }
    pump(r);
}

/* The first time: which of the input's digests, and from which line on. */
static void begin(struct run *r, uint64_t next_line)
{
    struct event *ev = NULL;

    if (next_line != 0 && r->digest_run < RUNS_MAX) {
        r->last_seen = next_line; /* seen: is there a later run of it? */
        r->digest_run++;
        ask(r);
        return;
    }
    if (next_line == 0 && r->digest_run > 0 && !r->options->restart) {
        r->digest_run--; /* the latest run is the one to go on with */
        next_line = r->last_seen;
    }
    import_input_digest(r->in, r->digest_run, r->digest);
    r->result->from_line = next_line > 1 ? next_line : 1;
    r->result->next_line = r->result->from_line;
    if (import_reader_new(r->in, r->result->from_line, &r->reader, r->err) != RC_OK) {
        finish(r, r->err->code);
        return;
    }
    ev = event_new(r->base, import_reader_fd(r->reader), EV_READ | EV_PERSIST,
                   on_reader, r);
    if (!ev || event_add(ev, NULL) != 0) {
        finish(r, err_set(r->err, RC_NO_MEMORY, "no memory for an event"));
        return;
    }
    r->on_reader = ev;
    r->has_begun = true;
    open_stream(r);
}

/* After a break: strikes off what the controller has, and sends the rest again. */
static void resume(struct run *r, uint64_t next_line)
{
    while (r->window.count > 0 &&
           import_window_at(&r->window, 0)->next_line <= next_line) {
        r->result->unanswered += import_window_at(&r->window, 0)->entry_count;
        batch_done(r);
    }
    r->window.sent = 0;
    if (next_line != r->result->next_line &&
        !(next_line == 0 && r->result->next_line == 1)) {
        finish(r, err_set(r->err, RC_CONFLICT,
                          "the controller goes on with line %llu, not %llu: another "
                          "import of this input, or another store",
                          (unsigned long long)next_line,
                          (unsigned long long)r->result->next_line));
        return;
    }
    open_stream(r);
}

static void on_asked(const struct rpc_status *status, const struct rpc_msg *reply,
                     void *arg)
{
    struct run *r = arg;
    ProtobufCMessage *msg = NULL;
    uint64_t next_line;

    if (r->is_over) {
        return;
    }
    if (status->code != RPC_OK) {
        lost(r, status);
        return;
    }
    if (rpc_pb_unpack(&r->arena, &xgw__controller__v1__get_import_reply__descriptor,
                      reply->data, reply->len, &msg, r->err) != RC_OK) {
        finish(r, r->err->code);
        return;
    }
    next_line = ((const Xgw__Controller__V1__GetImportReply *)msg)->next_line;
    rpc_arena_reset(&r->arena);
    if (r->has_begun) {
        resume(r, next_line);
    } else {
        begin(r, next_line);
    }
}

static void ask(struct run *r)
{
    Xgw__Controller__V1__GetImportRequest msg =
        XGW__CONTROLLER__V1__GET_IMPORT_REQUEST__INIT;
    struct rpc_call_options options = { .deadline_ms = ASK_MS,
                                        .headers = &r->header,
                                        .header_count = r->options->token[0] ? 1 : 0 };

    if (!r->has_begun) {
        import_input_digest(r->in, r->digest_run, r->digest);
    }
    msg.input_digest.data = r->digest;
    msg.input_digest.len = sizeof(r->digest);
    if (rpc_pb_unary(r->channel, SERVICE "GetImport", &msg.base, &options, on_asked, r,
                     NULL) != RC_OK) {
        finish(r, err_set(r->err, RC_NO_MEMORY, "no memory for a call"));
    }
}

/* ---- life ---- */

static void on_progress(evutil_socket_t fd, short what, void *arg)
{
    struct run *r = arg;

    (void)fd;
    (void)what;
    r->progress(r->result, r->progress_arg);
}

static enum rc start(struct run *r)
{
    struct rpc_channel_options channel = { .address = r->options->address,
                                           .tls = r->options->tls,
                                           .keepalive_ms = KEEPALIVE_MS,
                                           .keepalive_timeout_ms =
                                               KEEPALIVE_TIMEOUT_MS };
    struct timeval tick = { .tv_usec = PROGRESS_MS * 1000L };
    enum rc rc;

    evthread_use_pthreads();
    r->base = event_base_new();
    if (!r->base) {
        return err_set(r->err, RC_NO_MEMORY, "no event loop");
    }
    rc = rpc_loop_new(r->base, &r->loop, r->err);
    rc = rc == RC_OK ? rpc_channel_new(r->loop, &channel, &r->channel, r->err) : rc;
    if (rc != RC_OK) {
        return rc;
    }
    r->on_retry = evtimer_new(r->base, on_retry, r);
    r->on_progress = event_new(r->base, -1, EV_PERSIST, on_progress, r);
    if (!r->on_retry || !r->on_progress ||
        (r->progress && event_add(r->on_progress, &tick) != 0)) {
        return err_set(r->err, RC_NO_MEMORY, "no memory for an event");
    }
    return RC_OK;
}

static void end(struct run *r)
{
    struct event *events[] = { r->on_reader, r->on_progress, r->on_retry };

    for (unsigned i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (events[i]) {
            event_free(events[i]);
        }
    }
    import_reader_free(r->reader);
    rpc_loop_free(r->loop); /* with the channel and its calls */
    import_window_fini(&r->window);
    rpc_arena_fini(&r->arena);
    if (r->base) {
        event_base_free(r->base);
    }
}

enum rc import_run(const struct import_input *in, const struct import_options *options,
                   import_progress_fn *progress, void *arg, struct import_result *ret,
                   struct err *err)
{
    struct err ignored = { 0 };
    struct run r = { .in = in,
                     .options = options,
                     .progress = progress,
                     .progress_arg = arg,
                     .result = ret,
                     .err = err ? err : &ignored,
                     .arena = { .limit = 1 << 20 },
                     .retry_ms = RETRY_FIRST_MS,
                     .header = { .name = "authorization" } };

    memset(ret, 0, sizeof(*ret));
    snprintf(r.authorization, sizeof(r.authorization), "Bearer %s", options->token);
    r.header.value = r.authorization;
    r.rc = start(&r);
    if (r.rc == RC_OK) {
        ask(&r);
        if (!r.is_over) {
            event_base_dispatch(r.base);
        }
    }
    r.is_over = true;
    end(&r);
    return r.rc;
}
