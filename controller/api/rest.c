/* The server: requests in, to the handler that their path and method name. */
#include "controller/api/rest_internal.h"

#include "proto/base/log.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define READ_TIMEOUT_S 60

#define ALL_METHODS                                                                    \
    (EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_PUT |             \
     EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE | EVHTTP_REQ_CONNECT |  \
     EVHTTP_REQ_PATCH)

/* ---- life of a request ---- */

void rest_request_free(struct rest_request *r)
{
    struct rest *rest = r->rest;

    for (struct rest_request **at = &rest->open; *at; at = &(*at)->next) {
        if (*at == r) {
            *at = r->next;
            break;
        }
    }
    rest->open_count--;
    shell_forget(rest->config.shell, r);
    evhttp_clear_headers(&r->query);
    json_decref(r->body);
    free(r);
}

/* The client hung up, perhaps while we wait.  A request that evhttp has taken off its
 * connection is left to us; the others it frees itself. */
static void on_connection_closed(struct evhttp_connection *connection, void *arg)
{
    struct rest *rest = arg;
    struct rest_request *next;

    for (struct rest_request *r = rest->open; r; r = next) {
        next = r->next;
        if (r->connection == connection) {
            if (!evhttp_request_get_connection(r->http)) {
                evhttp_request_free(r->http);
            }
            rest_request_free(r);
        }
    }
    rest_conn_closed(rest, connection);
}

/* ---- dispatch ---- */

static const struct {
    enum evhttp_cmd_type method;
    const char *name;
} methods[] = {
    { EVHTTP_REQ_GET, "GET" },       { EVHTTP_REQ_PUT, "PUT" },
    { EVHTTP_REQ_PATCH, "PATCH" },   { EVHTTP_REQ_POST, "POST" },
    { EVHTTP_REQ_DELETE, "DELETE" },
};

/* Fills `allow` ("GET, HEAD, PUT") with what the path takes: "" is an unknown path. */
static const struct rest_route *find_route(struct rest_request *r, const char *path,
                                           char *allow, size_t size)
{
    enum evhttp_cmd_type method = evhttp_request_get_command(r->http);
    const struct rest_route *found = NULL;
    size_t len = 0;

    if (method == EVHTTP_REQ_HEAD) {
        method = EVHTTP_REQ_GET;
    }
    allow[0] = '\0';
    for (unsigned i = 0; i < rest_route_count; i++) {
        const struct rest_route *route = &rest_routes[i];

        if (!rest_path_match(route->path, path, r->params)) {
            continue;
        }
        if (route->method == method) {
            found = route;
            break;
        }
        for (size_t m = 0; m < sizeof(methods) / sizeof(methods[0]); m++) {
            if (methods[m].method == route->method && len < size) {
                len +=
                    (size_t)snprintf(allow + len, size - len, "%s%s%s", len ? ", " : "",
                                     methods[m].name, m == 0 ? ", HEAD" : "");
            }
        }
    }
    return found;
}

/* A browser names the page that sends for it.  Other sites' pages have no business
 * here, least of all where no token is asked for. */
static bool is_foreign_page(const struct rest_request *r)
{
    static const char *const here[] = { "127.0.0.1", "localhost", "[::1]" };
    const char *origin = rest_header(r, "Origin");
    const char *host = rest_header(r, "Host");
    const char *site = origin ? strstr(origin, "://") : NULL;

    if (!origin) {
        return false;
    }
    if (!site || !host || strcasecmp(site + 3, host) != 0) {
        return true;
    }
    for (unsigned i = 0; i < 3 && auth_is_open(r->rest->config.auth); i++) {
        size_t len = strlen(here[i]);

        if (strncasecmp(host, here[i], len) == 0 && (!host[len] || host[len] == ':')) {
            return false;
        }
    }
    return auth_is_open(r->rest->config.auth);
}

/* Bytes behind a request that has no body would be taken for the next request. */
static bool has_stray_body(const struct rest_request *r)
{
    const char *length = rest_header(r, "Content-Length");

    switch (evhttp_request_get_command(r->http)) {
    case EVHTTP_REQ_PUT:
    case EVHTTP_REQ_POST:
    case EVHTTP_REQ_PATCH:
        return false;
    default:
        return rest_header(r, "Transfer-Encoding") ||
               (length && strcmp(length, "0") != 0);
    }
}

static void refuse_and_close(struct rest_request *r, int status, const char *code,
                             const char *rule, const char *detail)
{
    evhttp_add_header(evhttp_request_get_output_headers(r->http), "Connection",
                      "close");
    rest_refuse(r, status, code, rule, detail);
}

static bool may(struct rest_request *r)
{
    const char *authorization = rest_header(r, "Authorization");
    enum role role = auth_check(r->rest->config.auth, authorization, r->who);

    if (r->route->role > ROLE_NONE && role == ROLE_NONE) {
        evhttp_add_header(evhttp_request_get_output_headers(r->http),
                          "WWW-Authenticate", "Bearer");
        rest_refuse(r, 401, "unauthenticated", "token", "no valid bearer token");
        return false;
    }
    if (role < r->route->role) {
        rest_refuse(r, 403, "denied", "role", "the token's role may not do this");
        return false;
    }
    if (r->route->role > ROLE_NONE && is_foreign_page(r)) {
        rest_refuse(r, 403, "denied", "origin", "a page of another site may not ask");
        return false;
    }
    return true;
}

static void dispatch(struct rest_request *r, const char *path)
{
    char allow[64];
    struct err err = { 0 };

    if (has_stray_body(r)) {
        refuse_and_close(r, 400, "invalid", "no_body", "this method takes no body");
        return;
    }
    r->route = find_route(r, path, allow, sizeof(allow));
    if (!r->route && allow[0]) {
        evhttp_add_header(evhttp_request_get_output_headers(r->http), "Allow", allow);
        rest_refuse(r, 405, "method", NULL, "this path does not take that method");
        return;
    }
    if (!r->route) {
        rest_refuse(r, 404, "not_found", "path", "no such path: see /openapi.json");
        return;
    }
    if (!may(r)) {
        return;
    }
    if (r->route->needs_region && !core_is_ready(shell_core(r->rest->config.shell))) {
        rest_refuse(r, 503, "loading", NULL,
                    "the region is still being loaded: try again");
    } else if (rest_query_check(r, &err) != RC_OK) {
        rest_problem(r, &err);
    } else {
        r->route->handle(r);
    }
}

static void take_request(struct rest_request *r)
{
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(r->http);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    const char *query = uri ? evhttp_uri_get_query(uri) : NULL;

    /* What evhttp cannot read, or will not (413), does not come here: rest_page.c. */
    if (!path) {
        refuse_and_close(r, 400, "invalid", "http_syntax", "no path");
    } else if (query && query[0] &&
               (strstr(query, "%00") ||
                evhttp_parse_query_str(query, &r->query) != 0)) {
        rest_refuse(r, 400, "invalid", "query_syntax", "malformed query");
    } else {
        dispatch(r, path);
    }
}

static void on_request(struct evhttp_request *http, void *arg)
{
    struct rest *rest = arg;
    struct evhttp_connection *connection = evhttp_request_get_connection(http);
    struct rest_request *r = calloc(1, sizeof(*r));

    rest->requests_total++;
    if (!r || !rest_conn_asked(rest, connection)) {
        free(r);
        evhttp_send_error(http, HTTP_SERVUNAVAIL, NULL); /* rest_page.c has the words */
        return;
    }
    evhttp_connection_set_closecb(connection, on_connection_closed, rest);
    r->rest = rest;
    r->http = http;
    r->connection = connection;
    r->next = rest->open;
    rest->open = r;
    rest->open_count++;
    TAILQ_INIT(&r->query);
    take_request(r);
}

/* ---- life ---- */

static void log_address(struct evhttp_bound_socket *bound)
{
    struct sockaddr_storage addr = { 0 };
    socklen_t len = sizeof(addr);
    uint16_t port = 0;

    if (getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&addr,
                    &len) == 0) {
        port = addr.ss_family == AF_INET6
                   ? ntohs(((struct sockaddr_in6 *)&addr)->sin6_port)
                   : ntohs(((struct sockaddr_in *)&addr)->sin_port);
    }
    log_info("rest listens", "port=%u", port);
}

static enum rc listen_on(struct rest *rest, struct err *err)
{
    const char *address = rest->config.listen;
    const char *colon = strrchr(address, ':');
    struct evhttp_bound_socket *bound;
    char host[128] = "";
    char *end = NULL;
    long port = colon && colon[1] ? strtol(colon + 1, &end, 10) : -1;
    size_t len = colon ? (size_t)(colon - address) : 0;

    if (port < 0 || port > 65535 || *end != '\0' || len >= sizeof(host)) {
        return err_field(err, RC_INVALID, "rest-listen", "address",
                         "rest-listen '%s': not HOST:PORT", address);
    }
    memcpy(host, address, len);
    if (host[0] == '[' && len > 1) { /* evhttp takes IPv6 addresses bare */
        memmove(host, host + 1, len);
        host[strcspn(host, "]")] = '\0';
    }
    bound = evhttp_bind_socket_with_handle(rest->http, host, (uint16_t)port);
    if (!bound) {
        return err_set(err, RC_EXISTS, "rest: cannot listen on %s", address);
    }
    log_address(bound);
    return RC_OK;
}

enum rc rest_new(const struct rest_config *config, struct rest **ret, struct err *err)
{
    struct rest *rest = calloc(1, sizeof(*rest));
    enum rc rc;

    if (rest) {
        rest->config = *config;
        rest->http = evhttp_new(config->base);
    }
    if (!rest || !rest->http) {
        rest_free(rest);
        return err_set(err, RC_NO_MEMORY, "rest: no memory");
    }
    evhttp_set_max_body_size(rest->http, REST_BODY_MAX);
    evhttp_set_max_headers_size(rest->http, REST_HEADERS_MAX);
    evhttp_set_timeout(rest->http, READ_TIMEOUT_S);
    evhttp_set_allowed_methods(rest->http, ALL_METHODS); /* 405 is ours to say */
    evhttp_set_default_content_type(rest->http, NULL);
    evhttp_set_gencb(rest->http, on_request, rest);
    rc = rest_conns_start(rest, err);
    rc = rc == RC_OK ? listen_on(rest, err) : rc;
    if (rc != RC_OK) {
        rest_free(rest);
        return rc;
    }
    *ret = rest;
    return RC_OK;
}

void rest_free(struct rest *rest)
{
    if (!rest) {
        return;
    }
    if (rest->http) {
        evhttp_free(rest->http); /* closes connections: open requests end with them */
    }
    while (rest->open) {
        rest_request_free(rest->open);
    }
    rest_conns_stop(rest);
    free(rest);
}
