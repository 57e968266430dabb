/* rest_internal - shared by the files of rest:
 *
 *   rest.c          the server: requests to handlers
 *   rest_conn.c     connections: TLS, bound, deadlines
 *   rest_page.c     what is said of what is no request
 *   rest_ask.c      what a request says: query, headers, body
 *   rest_reply.c    answers: JSON, problem details
 *   rest_command.c  commands, waits, merge patches
 *   rest_json.c     objects as JSON; rest_batch.c: entries as JSON
 *   rest_festivals.c, rest_health.c, rest_objects.c, rest_operations.c, rest_policy.c,
 * rest_steering.c, rest_suggest.c, rest_tenants.c, rest_status.c: handlers
 * rest_routes.c the table of the API
 */
#pragma once

#include "controller/api/rest.h"
#include "controller/api/rest_path.h"
#include "proto/model/entry_text.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <jansson.h>
#include <time.h>

#define REST_BODY_MAX        (4u << 20)
#define REST_HEADERS_MAX     16384
#define REST_CONNECTIONS_MAX 512 /* each has at most one request open */
#define REST_PAGE_SIZE       100 /* default; at most REST_PAGE_MAX */
#define REST_PAGE_MAX        1000
#define REST_WAIT_MS         30000 /* default of ?waitMs */
#define REST_WAIT_MS_MAX     600000
#define REST_PATCH_RETRIES   8
#define REST_PAGE_KEY_MAX    63
#define REST_PAGE_TOKEN_SIZE (2 * REST_PAGE_KEY_MAX + 1)

struct rest_request;

/* One row of the API: what a request must look like, who may send it, who answers. */
struct rest_route {
    enum evhttp_cmd_type method;
    const char *path;  /* "/v1/tenants/{vni}"; each {…} matches one segment */
    enum role role;    /* least; ROLE_NONE: nobody is asked */
    bool needs_region; /* 503 while it is still being loaded */
    const char *query; /* parameters that it takes, separated by spaces; null: none */
    void (*handle)(struct rest_request *r);
};

extern const struct rest_route rest_routes[];
extern const unsigned rest_route_count;

struct rest_conn;

struct rest {
    struct rest_config config;
    struct evhttp *http;
    void *tls; /* SSL_CTX, or null */
    struct timespec tls_stamp[2];
    struct rest_conn *conns;
    unsigned conn_count;
    struct event *sweep;
    struct rest_request *open;
    unsigned open_count;
    uint64_t requests_total;
    uint64_t errors_total;
};

struct rest_request {
    struct rest_request *next;
    struct rest *rest;
    struct evhttp_request *http;
    struct evhttp_connection *connection;
    const struct rest_route *route;
    char params[REST_PARAMS][REST_PARAM_SIZE]; /* decoded, in the path's order */
    struct evkeyvalq query;
    char who[AUTH_NAME_MAX + 1];
    json_t *body; /* of requests that have a JSON body; see rest_body() */
    /* while a command is in the core */
    struct core_reply reply;
    uint32_t wait_ms;
    bool is_waiting;
    bool dry_run;
    bool is_batch; /* problems name the entry's line */
    bool is_patch;
    unsigned retries_left; /* of a patch */
};

/* ---- connections (rest_conn.c) ---- */

enum rc rest_conns_start(struct rest *rest, struct err *err);
void rest_conns_stop(struct rest *rest); /* after evhttp_free() */
/* A complete request came: no deadline while it is answered.  False: one connection too
 * many, or one that has no TLS where it should. */
bool rest_conn_asked(struct rest *rest, struct evhttp_connection *connection);
void rest_conn_answered(struct rest *rest, struct evhttp_request *http);
void rest_conn_closed(struct rest *rest, struct evhttp_connection *connection);

/* ---- in the place of evhttp's own pages (rest_page.c) ---- */

/* The status that evhttp says in its page; 100: it only asks for the body. */
int rest_page_status(struct evbuffer *page);
/* The whole answer, head and problem details, for the status that evhttp said. */
void rest_page_write(struct evbuffer *out, int status);

void rest_request_free(struct rest_request *r);

/* ---- answering: exactly one for each request, which is gone afterwards ---- */

/* Takes `body`. */
void rest_reply_json(struct rest_request *r, int status, json_t *body);
void rest_reply_text(struct rest_request *r, int status, const char *type,
                     const void *text, size_t len);
/* 200 with JSON; frees `text`. */
void rest_reply_buf(struct rest_request *r, struct buf *text);
/* Before the answer: the revision that If-Match compares with. */
void rest_set_etag(struct rest_request *r, uint64_t revision);

/* Problem details; the status follows from err->code. */
void rest_problem(struct rest_request *r, const struct err *err);
/* The same with the place of the bad entry ("line", 1-based); 0: none. */
void rest_problem_at(struct rest_request *r, const struct err *err, uint64_t line);
/* What only HTTP has words for, with a code of its own; `rule` may be null. */
void rest_refuse(struct rest_request *r, int status, const char *code, const char *rule,
                 const char *detail);
/* In pieces, for problems with more members.  rest_problem_send() takes `problem`. */
json_t *rest_problem_json(int status, const char *code, const char *detail);
json_t *rest_problem_of(const struct err *err, int status);
void rest_problem_send(struct rest_request *r, json_t *problem);
int rest_status_of(enum rc rc);
/* A string even of what is no UTF-8. */
json_t *rest_text_json(const char *text);

/* ---- asking ---- */

/* Only parameters of the route's list, each once, each printable text. */
enum rc rest_query_check(const struct rest_request *r, struct err *err);
/* The value of a query parameter or header, or null. */
const char *rest_query(const struct rest_request *r, const char *name);
const char *rest_header(const struct rest_request *r, const char *name);
/* "true" or "1"; absent is false; anything else is an error. */
enum rc rest_query_bool(const struct rest_request *r, const char *name, bool *ret,
                        struct err *err);
/* Absent: `*io` stays. */
enum rc rest_query_u32(const struct rest_request *r, const char *name, uint32_t min,
                       uint32_t max, uint32_t *io, struct err *err);
/* The VNI of the path; false: answered. */
bool rest_path_vni(struct rest_request *r, uint32_t *ret);

/* A page of a list: begins with `key`, which the token of the page before gave. */
struct rest_page {
    uint32_t size;
    uint8_t key_len; /* 0: begin */
    uint8_t key[REST_PAGE_KEY_MAX];
};
/* Keys of this list have `least` to `most` bytes.  False: answered. */
bool rest_page_read(struct rest_request *r, uint8_t least, uint8_t most,
                    struct rest_page *ret);
void rest_page_token(const void *key, size_t len, char ret[REST_PAGE_TOKEN_SIZE]);

/* Names are in order: whether this one comes before the page. */
bool rest_is_before(const struct rest_page *page, const char *name);
/* Takes `items`; `next`: the first name of the next page, null: there is none. */
void rest_send_page(struct rest_request *r, json_t *items, const char *next);

/* The body as one JSON object without repeated keys; borrowed.  Null: answered. */
json_t *rest_body(struct rest_request *r);
/* The raw body. */
const char *rest_body_bytes(struct rest_request *r, size_t *ret_len);

/* Fills in what every mutation takes: who, requestId, dryRun, confirm, If-Match. */
enum rc rest_command_init(struct rest_request *r, struct command *command,
                          struct err *err);
/* Gives the command to the core and answers with what comes of it; honours
 * ?wait=applied. */
void rest_command(struct rest_request *r, struct command *command);
/* Revision, counts and state of r->reply; 202 where a wait ended before everybody had
 * it. */
void rest_render_change(struct rest_request *r);
/* `current` (taken) with the body merged in, as RFC 7396 says; null: answered.  Unless
 * the client said If-Match, the command is bound to `revision`, which `current` is of,
 * and when that was overtaken, the route's handler is called again. */
json_t *rest_patched(struct rest_request *r, json_t *current, uint64_t revision,
                     struct command *command);

/* Makes a command of a whole object and sends it; takes `json`. */
typedef void rest_put_fn(struct rest_request *r, struct command *command, json_t *json);
/* A PUT: its body is the object. */
void rest_put(struct rest_request *r, rest_put_fn *put);
/* A PATCH of `current` (taken), of which `revision` is. */
void rest_patch(struct rest_request *r, json_t *current, uint64_t revision,
                rest_put_fn *put);
/* The end of a rest_put_fn: the command, or what its object was refused for. */
void rest_put_parsed(struct rest_request *r, struct command *command, enum rc rc,
                     const struct err *err);

/* ---- objects as JSON; keys are the fields' names in proto/model/object.h ---- */

enum rc rest_region_parse(json_t *json, struct region *ret, struct err *err);
enum rc rest_cluster_parse(json_t *json, const char *name, struct cluster *ret,
                           struct err *err);
enum rc rest_node_parse(json_t *json, const char *name, struct node *ret,
                        struct err *err);
json_t *rest_region_json(const struct region *r);
json_t *rest_cluster_json(const struct cluster *c);
json_t *rest_node_json(const struct node *n);
json_t *rest_ip_json(const struct ip *ip); /* null for no address */
json_t *rest_time_json(uint64_t unix_ms);  /* RFC 3339, UTC */
/* What is on a cluster, resource by resource (rest_place.c). */
json_t *rest_cluster_use(const struct core *core, const char *cluster);

/* ---- health (rest_health.c) ---- */

/* Adds "level" and "fullest" of "cluster" or "node" NAME. */
void rest_add_levels(const struct rest_request *r, json_t *status, const char *kind,
                     const char *name);
/* Alarms and levels as metrics (rest_health_metrics.c). */
void rest_print_health_metrics(const struct health *h, struct buf *to);
/* HELP and TYPE (rest_status.c). */
void rest_metric(struct buf *to, const char *name, const char *type, const char *help);
json_t *rest_marks_json(const struct level_marks *m);
enum rc rest_marks_parse(json_t *json, const char *prefix, struct level_marks *io,
                         struct err *err);

/* ---- entries as JSON (rest_batch.c) ---- */

/* Reads `json` (taken) by the one parser of entries (proto/model/entry_text.h). */
enum rc rest_entry_parse(json_t *json, enum entry_op *ret_op, struct entry *ret,
                         struct err *err);
/* NDJSON to a batch; on failure `*ret_line` is the bad line (1-based) or 0. */
enum rc rest_batch_read(const char *text, size_t len, struct blob **ret,
                        uint64_t *ret_line, struct err *err);

/* ---- handlers ---- */

void rest_get_region(struct rest_request *r);
void rest_put_region(struct rest_request *r);
void rest_patch_region(struct rest_request *r);
void rest_list_clusters(struct rest_request *r);
void rest_get_cluster(struct rest_request *r);
void rest_put_cluster(struct rest_request *r);
void rest_patch_cluster(struct rest_request *r);
void rest_delete_cluster(struct rest_request *r);
void rest_list_nodes(struct rest_request *r);
void rest_get_node(struct rest_request *r);
void rest_put_node(struct rest_request *r);
void rest_patch_node(struct rest_request *r);
void rest_delete_node(struct rest_request *r);
void rest_list_tenants(struct rest_request *r);
void rest_get_tenant(struct rest_request *r);
void rest_put_tenant(struct rest_request *r);
void rest_patch_tenant(struct rest_request *r);
void rest_delete_tenant(struct rest_request *r);
void rest_list_routes(struct rest_request *r);
void rest_get_route(struct rest_request *r);
void rest_put_route(struct rest_request *r);
void rest_delete_route(struct rest_request *r);
void rest_list_vms(struct rest_request *r);
void rest_get_vm(struct rest_request *r);
void rest_put_vm(struct rest_request *r);
void rest_delete_vm(struct rest_request *r);
void rest_list_rules(struct rest_request *r);
void rest_get_rule(struct rest_request *r);
void rest_put_rule(struct rest_request *r);
void rest_delete_rule(struct rest_request *r);
void rest_get_meter(struct rest_request *r);
void rest_put_meter(struct rest_request *r);
void rest_delete_meter(struct rest_request *r);
void rest_get_policy(struct rest_request *r);
void rest_put_policy(struct rest_request *r);
void rest_patch_policy(struct rest_request *r);
void rest_get_suggestion(struct rest_request *r);
void rest_get_placement(struct rest_request *r);
void rest_get_rebalance(struct rest_request *r);
void rest_get_levels(struct rest_request *r);
void rest_put_levels(struct rest_request *r);
void rest_patch_levels(struct rest_request *r);
void rest_list_alarms(struct rest_request *r);
void rest_get_alarm(struct rest_request *r);
void rest_ack_alarm(struct rest_request *r);
void rest_get_usage(struct rest_request *r);
void rest_get_history(struct rest_request *r);
void rest_get_forecast(struct rest_request *r);
void rest_get_top_flows(struct rest_request *r);
void rest_get_top_tenants(struct rest_request *r);
void rest_list_festivals(struct rest_request *r);
void rest_get_festival(struct rest_request *r);
void rest_put_festival(struct rest_request *r);
void rest_patch_festival(struct rest_request *r);
void rest_delete_festival(struct rest_request *r);
void rest_list_consumers(struct rest_request *r);
void rest_get_consumer(struct rest_request *r);
void rest_put_consumer(struct rest_request *r);
void rest_delete_consumer(struct rest_request *r);
void rest_ack_steering(struct rest_request *r);
void rest_list_steering(struct rest_request *r);
void rest_get_steering(struct rest_request *r);
void rest_post_entries(struct rest_request *r);
void rest_move_tenant(struct rest_request *r);
void rest_begin_audit(struct rest_request *r);
void rest_list_audits(struct rest_request *r);
void rest_get_audit(struct rest_request *r);
void rest_begin_probes(struct rest_request *r);
void rest_list_probes(struct rest_request *r);
void rest_get_probes(struct rest_request *r);
/* What was last observed of the node, beside what it is to hold. */
void rest_add_observed(const struct rest_request *r, json_t *status, const char *node);
void rest_build_cluster(struct rest_request *r);
void rest_drain_cluster(struct rest_request *r);
void rest_retire_cluster(struct rest_request *r);
json_t *rest_operation_json(const struct core *core, const struct operation *o);
/* Submits a command that begins or changes an operation. */
void rest_begin_operation(struct rest_request *r, struct command *command,
                          void (*on_reply)(void *arg, const struct core_reply *reply));
/* 202 with the operation, 200 after a dry run, or the problem; null `o`: it is gone. */
void rest_answer_operation(struct rest_request *r, const struct core_reply *reply,
                           const struct operation *o);
/* Milliseconds of the body, at most `most`; `*ret` stays where there are none. */
enum rc rest_read_ms(json_t *body, const char *key, uint32_t most, uint32_t *ret,
                     struct err *err);
enum rc rest_read_drain_ms(json_t *body, uint32_t *ret, struct err *err);
void rest_list_operations(struct rest_request *r);
void rest_get_operation(struct rest_request *r);
void rest_cancel_operation(struct rest_request *r);
void rest_proceed_operation(struct rest_request *r);
void rest_get_status(struct rest_request *r);
void rest_get_trace(struct rest_request *r);
void rest_live_trace(struct rest_request *r);
void rest_get_metrics(struct rest_request *r);
void rest_get_healthz(struct rest_request *r);
void rest_get_readyz(struct rest_request *r);
void rest_get_openapi(struct rest_request *r);
