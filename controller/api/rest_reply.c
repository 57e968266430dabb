/* Answers: JSON, text, problem details (RFC 9457). */
#include "controller/api/rest_internal.h"

#include <string.h>

void rest_set_etag(struct rest_request *r, uint64_t revision)
{
    char text[24];

    snprintf(text, sizeof(text), "\"%llu\"", (unsigned long long)revision);
    evhttp_add_header(evhttp_request_get_output_headers(r->http), "ETag", text);
}

void rest_reply_text(struct rest_request *r, int status, const char *type,
                     const void *text, size_t len)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(r->http);
    struct evhttp_request *http = r->http;

    if (status != 204) {
        evhttp_add_header(headers, "Content-Type", type);
    }
    evhttp_add_header(headers, "Cache-Control", "no-store");
    evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
    if (status == 503) {
        evhttp_add_header(headers, "Retry-After", "1");
    }
    if (evhttp_request_get_command(http) == EVHTTP_REQ_HEAD) {
        /* evhttp would send the body as well, and no length. */
        char length[24];

        snprintf(length, sizeof(length), "%zu", len);
        evhttp_add_header(headers, "Content-Length", length);
    } else {
        evbuffer_add(evhttp_request_get_output_buffer(http), text, len);
    }
    r->rest->errors_total += status >= 500;
    rest_conn_answered(r->rest, http);
    evhttp_send_reply(http, status, NULL, NULL);
    rest_request_free(r);
}

void rest_reply_json(struct rest_request *r, int status, json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct err err = { 0 };

    json_decref(body);
    if (text) {
        rest_reply_text(r, status, "application/json", text, strlen(text));
    } else {
        err_set(&err, RC_NO_MEMORY, "no memory for the answer");
        rest_problem(r, &err);
    }
    free(text);
}

void rest_reply_buf(struct rest_request *r, struct buf *text)
{
    struct err err = { 0 };

    if (buf_failed(text)) {
        err_set(&err, RC_NO_MEMORY, "no memory for the answer");
        rest_problem(r, &err);
    } else {
        rest_reply_text(r, 200, "application/json", text->data, text->len);
    }
    buf_fini(text);
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

/* What a caller wrote stands in messages, perhaps cut within a character. */
json_t *rest_text_json(const char *text)
{
    json_t *json = json_string(text);
    char plain[sizeof(((struct err *)0)->msg)];
    size_t n = 0;

    if (json) {
        return json;
    }
    for (; text[n] && n < sizeof(plain) - 1; n++) {
        plain[n] = (text[n] & 0x80) || text[n] < ' ' ? '?' : text[n];
    }
    plain[n] = '\0';
    return json_string(plain);
}

json_t *rest_problem_json(int status, const char *code, const char *detail)
{
    json_t *json = json_object();

    json_object_set_new(json, "title", json_string(code));
    json_object_set_new(json, "status", json_integer(status));
    json_object_set_new(json, "detail", rest_text_json(detail));
    json_object_set_new(json, "code", json_string(code));
    return json;
}

void rest_problem_send(struct rest_request *r, json_t *problem)
{
    int status = (int)json_integer_value(json_object_get(problem, "status"));
    char *text = problem ? json_dumps(problem, JSON_COMPACT) : NULL;

    json_decref(problem);
    rest_reply_text(r, status ? status : 503, "application/problem+json",
                    text ? text : "{}", text ? strlen(text) : 2);
    free(text);
}

json_t *rest_problem_of(const struct err *err, int status)
{
    json_t *json = rest_problem_json(status, rc_name(err->code), err->msg);

    if (err->field[0]) {
        json_object_set_new(json, "field", rest_text_json(err->field));
    }
    if (err->rule[0]) {
        json_object_set_new(json, "rule", json_string(err->rule));
    }
    return json;
}

void rest_problem_at(struct rest_request *r, const struct err *err, uint64_t line)
{
    json_t *json = rest_problem_of(err, rest_status_of(err->code));

    if (line > 0) {
        json_object_set_new(json, "line", json_integer((json_int_t)line));
    }
    rest_problem_send(r, json);
}

void rest_problem(struct rest_request *r, const struct err *err)
{
    rest_problem_at(r, err, 0);
}

void rest_refuse(struct rest_request *r, int status, const char *code, const char *rule,
                 const char *detail)
{
    json_t *json = rest_problem_json(status, code, detail);

    if (rule) {
        json_object_set_new(json, "rule", json_string(rule));
    }
    rest_problem_send(r, json);
}
