#include "controller/api/rest_internal.h"

#include "proto/base/log.h"

#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define REQUEST_TIMEOUT_S 60

/* ---- life of a request ---- */

static void request_free(struct rest_request *r)
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

/* The client hung up: libevent frees the request itself. */
static void on_connection_closed(struct evhttp_connection *connection, void *arg)
{
    struct rest *rest = arg;
    struct rest_request *next;

    for (struct rest_request *r = rest->open; r; r = next) {
        next = r->next;
        if (r->connection == connection) {
            r->http = NULL;
            request_free(r);
        }
    }
}

void rest_reply_text(struct rest_request *r, int status, const char *type,
                     const void *text, size_t len)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(r->http);
    struct evbuffer *body = evhttp_request_get_output_buffer(r->http);

    evhttp_add_header(headers, "Content-Type", type);
    evhttp_add_header(headers, "Cache-Control", "no-store");
    evbuffer_add(body, text, len);
    r->rest->errors_total += status >= 500;
    evhttp_send_reply(r->http, status, NULL, NULL);
    request_free(r);
}

void rest_reply_json(struct rest_request *r, int status, json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    json_decref(body);
    if (body && !text) {
        rest_reply_text(r, 503, "text/plain", "no memory\n", 10);
    } else {
        rest_reply_text(r, status, "application/json", text ? text : "",
                        text ? strlen(text) : 0);
    }
    free(text);
}

int rest_status_of(enum rc rc)
{
    static const int status[] = {
        [RC_OK] = 200,        [RC_INVALID] = 400,     [RC_RANGE] = 400,
        [RC_NOT_FOUND] = 404, [RC_EXISTS] = 409,      [RC_CONFLICT] = 409,
        [RC_DENIED] = 403,    [RC_FULL] = 507,        [RC_STALE] = 412,
        [RC_TIMEOUT] = 504,   [RC_UNREACHABLE] = 503, [RC_NO_MEMORY] = 503,
        [RC_BUG] = 500,
    };

    return status[rc];
}

void rest_problem_at(struct rest_request *r, const struct err *err, uint64_t line)
{
    int status = rest_status_of(err->code);
    json_t *json =
        json_pack("{s:s, s:i, s:s, s:s}", "title", rc_name(err->code), "status", status,
                  "detail", err->msg, "code", rc_name(err->code));
    char *text;

    if (json && err->field[0]) {
        json_object_set_new(json, "field", json_string(err->field));
    }
    if (json && err->rule[0]) {
        json_object_set_new(json, "rule", json_string(err->rule));
    }
    if (json && line > 0) {
        json_object_set_new(json, "line", json_integer((json_int_t)line));
    }
    text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    rest_reply_text(r, status, "application/problem+json", text ? text : "{}",
                    text ? strlen(text) : 2);
    free(text);
}

void rest_problem(struct rest_request *r, const struct err *err)
{
    rest_problem_at(r, err, 0);
}

/* ---- asking ---- */

const char *rest_query(const struct rest_request *r, const char *name)
{
    return evhttp_find_header(&r->query, name);
}

enum rc rest_query_bool(const struct rest_request *r, const char *name, bool *ret,
                        struct err *err)
{
    const char *text = rest_query(r, name);

    *ret = text && (strcmp(text, "true") == 0 || strcmp(text, "1") == 0);
    if (text && !*ret && strcmp(text, "false") != 0 && strcmp(text, "0") != 0) {
        return err_field(err, RC_INVALID, name, "boolean", "%s: not true or false",
                         name);
    }
    return RC_OK;
}

enum rc rest_query_u32(const struct rest_request *r, const char *name, uint32_t min,
                       uint32_t max, uint32_t *io, struct err *err)
{
    const char *text = rest_query(r, name);
    uint64_t value = 0;

    if (!text) {
        return RC_OK;
    }
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || value > max) {
            value = UINT64_MAX;
            break;
        }
        value = value * 10 + (uint64_t)(*p - '0');
    }
    if (*text == '\0' || value < min || value > max) {
        return err_field(err, RC_RANGE, name, "number",
                         "%s: not a number from %u to %u", name, min, max);
    }
    *io = (uint32_t)value;
    return RC_OK;
}

const char *rest_body_bytes(struct rest_request *r, size_t *ret_len)
{
    struct evbuffer *in = evhttp_request_get_input_buffer(r->http);

    *ret_len = evbuffer_get_length(in);
    return *ret_len ? (const char *)evbuffer_pullup(in, -1) : "";
}

json_t *rest_body(struct rest_request *r)
{
    size_t len;
    const char *bytes = rest_body_bytes(r, &len);
    json_error_t where;
    struct err err = { 0 };

    r->body = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &where);
    if (r->body && json_is_object(r->body)) {
        return r->body;
    }
    if (r->body) {
        err_field(&err, RC_INVALID, "", "json_object", "the body is no JSON object");
    } else {
        err_field(&err, RC_INVALID, "", "json_syntax",
                  "the body, line %d column %d: %s", where.line, where.column,
                  where.text);
    }
    rest_problem(r, &err);
    return NULL;
}

/* ---- commands ---- */

static enum rc read_if_match(struct rest_request *r, struct command *command,
                             struct err *err)
{
    const char *text =
        evhttp_find_header(evhttp_request_get_input_headers(r->http), "If-Match");
    char *end;

    if (!text || strcmp(text, "*") == 0) {
        return RC_OK;
    }
    text += *text == '"';
    command->if_revision = strtoull(text, &end, 10);
    end += *end == '"';
    if (*end != '\0' || command->if_revision == 0) {
        return err_field(err, RC_INVALID, "If-Match", "revision",
                         "If-Match: not a revision");
    }
    return RC_OK;
}

enum rc rest_command_init(struct rest_request *r, struct command *command,
                          struct err *err)
{
    const char *id = rest_query(r, "requestId");
    enum rc rc = rest_query_bool(r, "dryRun", &command->dry_run, err);

    rc = rc == RC_OK ? rest_query_bool(r, "confirm", &command->confirm, err) : rc;
    rc = rc == RC_OK ? read_if_match(r, command, err) : rc;
    if (rc == RC_OK && id && strlen(id) >= sizeof(command->request_id)) {
        rc = err_field(err, RC_RANGE, "requestId", "length",
                       "requestId: at most %zu bytes", sizeof(command->request_id) - 1);
    }
    if (rc == RC_OK) {
        strcpy(command->who, r->who);
        strcpy(command->request_id, id ? id : "");
    }
    return rc;
}

static void on_waited(void *arg, const struct core_reply *reply)
{
    struct rest_request *r = arg;

    if (reply->err.code != RC_OK && reply->err.code != RC_TIMEOUT) {
        rest_problem(r, &reply->err);
        return;
    }
    r->reply.applied = reply->applied;
    memcpy(r->reply.missing, reply->missing, sizeof(r->reply.missing));
    r->render(r);
}

static void on_reply(void *arg, const struct core_reply *reply)
{
    struct rest_request *r = arg;
    struct command wait = { .kind = COMMAND_WAIT };
    struct err err = { 0 };

    r->reply = *reply;
    if (reply->err.code != RC_OK) {
        rest_problem_at(r, &reply->err,
                        reply->bad_index == UINT32_MAX ? 0 : reply->bad_index + 1ull);
        return;
    }
    if (!r->is_waiting || reply->applied) {
        r->render(r);
        return;
    }
    wait.wait.revision = reply->revision;
    wait.wait.deadline_ms = shell_now_ms() + r->wait_ms;
    if (shell_command(r->rest->config.shell, &wait, on_waited, r) != RC_OK) {
        err_set(&err, RC_NO_MEMORY, "the change is stored; too many wait for theirs");
        rest_problem(r, &err);
    }
}

void rest_command(struct rest_request *r, struct command *command,
                  void (*render)(struct rest_request *r))
{
    const char *wait = rest_query(r, "wait");
    struct err err = { 0 };
    enum rc rc = RC_OK;

    r->render = render;
    r->wait_ms = REST_WAIT_MS;
    r->is_waiting = wait && strcmp(wait, "applied") == 0;
    if (wait && !r->is_waiting && strcmp(wait, "none") != 0) {
        rc = err_field(&err, RC_INVALID, "wait", "choice", "wait: not none or applied");
    }
    if (rc == RC_OK) {
        rc = rest_query_u32(r, "waitMs", 1, REST_WAIT_MS_MAX, &r->wait_ms, &err);
    }
    if (rc == RC_OK &&
        shell_command(r->rest->config.shell, command, on_reply, r) != RC_OK) {
        rc = err_set(&err, RC_NO_MEMORY, "too many requests are waiting: try again");
    }
    if (rc != RC_OK) {
        rest_problem(r, &err);
    }
}

void rest_render_change(struct rest_request *r)
{
    const struct core_reply *reply = &r->reply;
    json_t *json = json_pack(
        "{s:I, s:s, s:i, s:i, s:i, s:i}", "revision", (json_int_t)reply->revision,
        "state", reply->applied ? "applied" : "pending", "added",
        (int)reply->counts.added, "changed", (int)reply->counts.changed, "deleted",
        (int)reply->counts.deleted, "unchanged", (int)reply->counts.unchanged);

    if (reply->repeated) {
        json_object_set_new(json, "repeated", json_true());
    }
    if (reply->missing[0]) {
        json_object_set_new(json, "missing", json_string(reply->missing));
    }
    rest_reply_json(r, r->is_waiting && !reply->applied ? 202 : 200, json);
}

/* ---- dispatch ---- */

/* Matches `path` with a template; fills params with the decoded segments. */
static bool path_matches(const char *template, const char *path,
                         char params[REST_PARAMS][REST_PARAM_SIZE])
{
    unsigned n = 0;

    while (*template) {
        size_t segment = strcspn(path, "/");

        if (*template != '{') {
            if (*template ++ != *path++) {
                return false;
            }
            continue;
        }
        if (segment == 0) {
            return false;
        }
        {
            size_t len = 0;
            char *raw = strndup(path, segment);
            char *decoded = raw ? evhttp_uridecode(raw, 0, &len) : NULL;
            bool fits = decoded && len < REST_PARAM_SIZE && strlen(decoded) == len;

            if (fits) {
                strcpy(params[n++], decoded);
            }
            free(raw);
            free(decoded);
            if (!fits) {
                return false;
            }
        }
        path += segment;
        template += strcspn(template, "}") + 1;
    }
    return *path == '\0';
}

static const struct rest_route *find_route(struct rest_request *r, const char *path,
                                           bool *ret_path_exists)
{
    enum evhttp_cmd_type method = evhttp_request_get_command(r->http);

    *ret_path_exists = false;
    for (unsigned i = 0; i < rest_route_count; i++) {
        if (path_matches(rest_routes[i].path, path, r->params)) {
            *ret_path_exists = true;
            if (rest_routes[i].method == method) {
                return &rest_routes[i];
            }
        }
    }
    return NULL;
}

/* Not of the rc table: what only HTTP has words for. */
static void refuse(struct rest_request *r, int status, const char *code,
                   const char *detail)
{
    json_t *json = json_pack("{s:s, s:i, s:s, s:s}", "title", code, "status", status,
                             "detail", detail, "code", code);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    json_decref(json);
    rest_reply_text(r, status, "application/problem+json", text ? text : "{}",
                    text ? strlen(text) : 2);
    free(text);
}

static void dispatch(struct rest_request *r, const char *path)
{
    const char *authorization =
        evhttp_find_header(evhttp_request_get_input_headers(r->http), "Authorization");
    bool path_exists;
    enum role role;

    r->route = find_route(r, path, &path_exists);
    if (!r->route) {
        refuse(r, path_exists ? 405 : 404, path_exists ? "method" : "not_found",
               path_exists ? "this path does not take that method"
                           : "no such path: see /openapi.json");
        return;
    }
    role = auth_check(r->rest->config.auth, authorization, r->who);
    if (r->route->role > ROLE_NONE && role == ROLE_NONE) {
        refuse(r, 401, "unauthenticated", "no valid bearer token");
    } else if (role < r->route->role) {
        refuse(r, 403, "denied", "the token's role may not do this");
    } else if (r->route->needs_region &&
               !core_is_ready(shell_core(r->rest->config.shell))) {
        refuse(r, 503, "loading", "the region is still being loaded: try again");
    } else {
        r->route->handle(r);
    }
}

static void on_request(struct evhttp_request *http, void *arg)
{
    struct rest *rest = arg;
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(http);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    const char *query = uri ? evhttp_uri_get_query(uri) : NULL;
    struct rest_request *r =
        rest->open_count < REST_OPEN_MAX ? calloc(1, sizeof(*r)) : NULL;

    rest->requests_total++;
    if (!r) {
        evhttp_send_error(http, 503, "too many requests");
        return;
    }
    r->rest = rest;
    r->http = http;
    r->connection = evhttp_request_get_connection(http);
    r->next = rest->open;
    rest->open = r;
    rest->open_count++;
    TAILQ_INIT(&r->query);
    evhttp_connection_set_closecb(r->connection, on_connection_closed, rest);
    if (!path || (query && evhttp_parse_query_str(query, &r->query) != 0)) {
        refuse(r, 400, "invalid", "malformed path or query");
        return;
    }
    dispatch(r, path);
}

/* ---- life ---- */

static struct bufferevent *tls_bufferevent(struct event_base *base, void *arg)
{
    SSL *ssl = SSL_new(arg);

    return ssl ? bufferevent_openssl_socket_new(
                     base, -1, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE)
               : NULL;
}

static enum rc start_tls(struct rest *rest, struct err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    rest->tls = ctx;
    if (!ctx || !SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) ||
        SSL_CTX_use_certificate_chain_file(ctx, rest->config.cert_file) != 1 ||
        SSL_CTX_use_PrivateKey_file(ctx, rest->config.key_file, SSL_FILETYPE_PEM) !=
            1 ||
        SSL_CTX_check_private_key(ctx) != 1) {
        return err_set(err, RC_INVALID, "rest: %s, %s: %s", rest->config.cert_file,
                       rest->config.key_file, ERR_reason_error_string(ERR_get_error()));
    }
    evhttp_set_bevcb(rest->http, tls_bufferevent, ctx);
    return RC_OK;
}

static enum rc listen_on(struct rest *rest, struct err *err)
{
    const char *listen = rest->config.listen;
    const char *colon = strrchr(listen, ':');
    char host[128] = "";
    char *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : -1;
    size_t len = colon ? (size_t)(colon - listen) : 0;

    if (port < 0 || port > 65535 || *end != '\0' || len >= sizeof(host)) {
        return err_field(err, RC_INVALID, "rest-listen", "address",
                         "rest-listen '%s': not HOST:PORT", listen);
    }
    memcpy(host, listen, len);
    if (host[0] == '[' && len > 1) { /* evhttp takes IPv6 addresses bare */
        memmove(host, host + 1, len - 1);
        host[strcspn(host, "]")] = '\0';
    }
    if (evhttp_bind_socket(rest->http, host, (uint16_t)port) != 0) {
        return err_set(err, RC_EXISTS, "rest: cannot listen on %s", listen);
    }
    return RC_OK;
}

enum rc rest_new(const struct rest_config *config, struct rest **ret, struct err *err)
{
    struct rest *rest = calloc(1, sizeof(*rest));
    enum rc rc = RC_OK;

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
    evhttp_set_timeout(rest->http, REQUEST_TIMEOUT_S);
    evhttp_set_allowed_methods(rest->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD |
                                               EVHTTP_REQ_PUT | EVHTTP_REQ_POST |
                                               EVHTTP_REQ_PATCH | EVHTTP_REQ_DELETE);
    evhttp_set_gencb(rest->http, on_request, rest);
    if (config->cert_file && config->cert_file[0]) {
        rc = start_tls(rest, err);
    }
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
        request_free(rest->open);
    }
    SSL_CTX_free(rest->tls);
    free(rest);
}
