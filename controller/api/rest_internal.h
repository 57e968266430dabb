/* rest_internal - shared by the files of rest: rest.c (server, dispatch), rest_json.c
 * (objects), rest_objects.c, rest_tenants.c, rest_status.c (handlers). */
#pragma once

#include "controller/api/rest.h"
#include "proto/model/entry_text.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <jansson.h>

#define REST_BODY_MAX    (4u << 20)
#define REST_HEADERS_MAX 16384
#define REST_OPEN_MAX    1024 /* requests at once */
#define REST_PARAMS      2
#define REST_PARAM_SIZE  128
#define REST_PAGE_SIZE   100 /* default; at most REST_PAGE_MAX */
#define REST_PAGE_MAX    1000
#define REST_WAIT_MS     30000 /* default of ?waitMs */
#define REST_WAIT_MS_MAX 600000

struct rest_request;

/* One row of the API: what a request must look like, who may send it, who answers. */
struct rest_route {
    enum evhttp_cmd_type method;
    const char *path;  /* "/v1/tenants/{vni}"; each {…} matches one segment */
    enum role role;    /* least; ROLE_NONE: nobody is asked */
    bool needs_region; /* 503 while it is still being loaded */
    void (*handle)(struct rest_request *r);
};

extern const struct rest_route rest_routes[];
extern const unsigned rest_route_count;

struct rest {
    struct rest_config config;
    struct evhttp *http;
    void *tls; /* SSL_CTX, or null */
    struct rest_request *open;
    unsigned open_count;
    uint64_t requests_total;
    uint64_t errors_total;
};

struct rest_request {
    struct rest_request *next;
    struct rest *rest;
    struct evhttp_request *http; /* null once the client is gone */
    struct evhttp_connection *connection;
    const struct rest_route *route;
    char params[REST_PARAMS][REST_PARAM_SIZE]; /* decoded, in the path's order */
    struct evkeyvalq query;
    char who[AUTH_NAME_MAX + 1];
    json_t *body; /* of requests that have a JSON body; see rest_body() */
    /* while a command is in the core */
    struct core_reply reply;
    void (*render)(struct rest_request *r);
    uint32_t wait_ms;
    bool is_waiting;
};

/* ---- answering: exactly one of these for each request, which is gone afterwards ----
 */

/* Takes `body` (null: no content). */
void rest_reply_json(struct rest_request *r, int status, json_t *body);
void rest_reply_text(struct rest_request *r, int status, const char *type,
                     const void *text, size_t len);
/* Problem details; the status follows from err->code. */
void rest_problem(struct rest_request *r, const struct err *err);
/* The same with the place of the bad entry ("line", 1-based); 0: none. */
void rest_problem_at(struct rest_request *r, const struct err *err, uint64_t line);
int rest_status_of(enum rc rc);

/* ---- asking ---- */

/* The value of a query parameter, or null. */
const char *rest_query(const struct rest_request *r, const char *name);
/* "true" or "1"; absent is false; anything else is an error. */
enum rc rest_query_bool(const struct rest_request *r, const char *name, bool *ret,
                        struct err *err);
enum rc rest_query_u32(const struct rest_request *r, const char *name, uint32_t min,
                       uint32_t max, uint32_t *io, struct err *err);

/* The body as one JSON object without repeated keys; borrowed.  Null: answered. */
json_t *rest_body(struct rest_request *r);
/* The raw body. */
const char *rest_body_bytes(struct rest_request *r, size_t *ret_len);

/* Fills in what every mutation takes: who, requestId, dryRun, confirm, If-Match. */
enum rc rest_command_init(struct rest_request *r, struct command *command,
                          struct err *err);
/* Gives the command to the core and later calls `render`, with r->reply, unless it
 * failed, which is answered as a problem.  Honours ?wait=applied: then render comes
 * after the wait, with r->reply.applied and .missing. */
void rest_command(struct rest_request *r, struct command *command,
                  void (*render)(struct rest_request *r));
/* The usual render: revision, counts, state ("applied" or "pending"); 202 where a wait
 * ended before everybody had it. */
void rest_render_change(struct rest_request *r);

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

/* ---- handlers ---- */

void rest_get_region(struct rest_request *r);
void rest_put_region(struct rest_request *r);
void rest_list_clusters(struct rest_request *r);
void rest_get_cluster(struct rest_request *r);
void rest_put_cluster(struct rest_request *r);
void rest_delete_cluster(struct rest_request *r);
void rest_list_nodes(struct rest_request *r);
void rest_get_node(struct rest_request *r);
void rest_put_node(struct rest_request *r);
void rest_delete_node(struct rest_request *r);
void rest_list_tenants(struct rest_request *r);
void rest_get_tenant(struct rest_request *r);
void rest_put_tenant(struct rest_request *r);
void rest_delete_tenant(struct rest_request *r);
void rest_list_routes(struct rest_request *r);
void rest_get_route(struct rest_request *r);
void rest_put_route(struct rest_request *r);
void rest_delete_route(struct rest_request *r);
void rest_list_vms(struct rest_request *r);
void rest_get_vm(struct rest_request *r);
void rest_put_vm(struct rest_request *r);
void rest_delete_vm(struct rest_request *r);
void rest_post_entries(struct rest_request *r);
void rest_get_status(struct rest_request *r);
void rest_get_trace(struct rest_request *r);
void rest_get_metrics(struct rest_request *r);
void rest_get_healthz(struct rest_request *r);
void rest_get_readyz(struct rest_request *r);
void rest_get_openapi(struct rest_request *r);
