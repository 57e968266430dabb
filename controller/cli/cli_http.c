#include "controller/cli/cli_http.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/cli/cli_options.h"

#define ANSWER_MAX     (64u << 20) /* more than any page the API gives */
#define CONNECT_MS     5000L
#define ANSWER_MS      60000L
#define LIST_PAGE_SIZE "1000"

struct cli_http {
    CURL *curl;
    struct curl_slist *headers;
    char server[256];
    long wait_ms;
    struct buf answer;
    char why[CURL_ERROR_SIZE];
};

static size_t on_data(char *data, size_t size, size_t count, void *arg)
{
    struct cli_http *h = arg;

    if (h->answer.len + size * count > ANSWER_MAX) {
        return 0;
    }
    buf_add(&h->answer, data, size * count);
    return buf_failed(&h->answer) ? 0 : size * count;
}

static enum rc set_up(struct cli_http *h, const struct cli_settings *settings,
                      struct err *err)
{
    char token[CLI_TOKEN_SIZE];
    char header[CLI_TOKEN_SIZE + 32];
    enum rc rc = cli_read_token(settings->token_file, token, sizeof(token), err);

    if (rc != RC_OK) {
        return rc;
    }
    h->headers = curl_slist_append(NULL, "Content-Type: application/json");
    h->headers = curl_slist_append(h->headers, "Expect:");
    if (token[0]) {
        snprintf(header, sizeof(header), "Authorization: Bearer %s", token);
        h->headers = curl_slist_append(h->headers, header);
    }
    curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, h->headers);
    curl_easy_setopt(h->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h->curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h->curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (settings->ca[0]) {
        curl_easy_setopt(h->curl, CURLOPT_CAINFO, settings->ca);
    }
    curl_easy_setopt(h->curl, CURLOPT_ERRORBUFFER, h->why);
    curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, h);
    curl_easy_setopt(h->curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    return RC_OK;
}

enum rc cli_http_new(const struct cli_settings *settings, struct cli_http **ret,
                     struct err *err)
{
    struct cli_http *h = calloc(1, sizeof(*h));
    enum rc rc;

    if (h) {
        h->curl = curl_easy_init();
    }
    if (!h || !h->curl) {
        cli_http_free(h);
        return err_set(err, RC_NO_MEMORY, "no memory for HTTP");
    }
    snprintf(h->server, sizeof(h->server), "%s", settings->server);
    h->wait_ms = settings->wait == CLI_WAIT_APPLIED ? (long)settings->wait_ms : 0;
    rc = set_up(h, settings, err);
    if (rc != RC_OK) {
        cli_http_free(h);
        return rc;
    }
    *ret = h;
    return RC_OK;
}

void cli_http_free(struct cli_http *h)
{
    if (h) {
        curl_easy_cleanup(h->curl);
        curl_slist_free_all(h->headers);
        buf_fini(&h->answer);
        free(h);
    }
}

static void add_encoded(struct buf *to, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        /* RFC 3986, section 2.3: unreserved */
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
            (c >= 'A' && c <= 'Z') || strchr("-._~", c)) {
            buf_u8(to, c);
        } else {
            buf_printf(to, "%%%02X", c);
        }
    }
}

void cli_http_path(struct buf *path, const char *segment)
{
    buf_text(path, "/");
    add_encoded(path, segment);
}

void cli_http_query(struct buf *path, const char *name, const char *value)
{
    const char *text = buf_cstr(path);

    buf_text(path, strchr(text, '?') ? "&" : "?");
    add_encoded(path, name);
    buf_text(path, "=");
    add_encoded(path, value);
}

void cli_http_change_query(const struct cli *cli, struct buf *path)
{
    char ms[16];

    if (cli_option(cli, "dry-run")) {
        cli_http_query(path, "dryRun", "true");
    }
    if (cli_option(cli, "confirm")) {
        cli_http_query(path, "confirm", "true");
    }
    if (cli->settings.wait == CLI_WAIT_APPLIED && !cli_option(cli, "dry-run")) {
        snprintf(ms, sizeof(ms), "%u", cli->settings.wait_ms);
        cli_http_query(path, "wait", "applied");
        cli_http_query(path, "waitMs", ms);
    }
}

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text ? text : "";
}

/* By the stable code where the answer has one, else by the status. */
static enum rc rc_of(long status, const char *code)
{
    for (enum rc rc = RC_INVALID; rc <= RC_BUG; rc++) {
        if (strcmp(rc_name(rc), code) == 0) {
            return rc;
        }
    }
    switch (status) {
    case 401:
    case 403:
        return RC_DENIED;
    case 404:
        return RC_NOT_FOUND;
    case 409:
        return RC_CONFLICT;
    case 502:
    case 503:
    case 504:
        return RC_UNREACHABLE;
    default:
        return RC_INVALID;
    }
}

static enum rc problem(const struct cli_answer *a, struct err *err)
{
    enum rc rc = rc_of(a->status, text_of(a->json, "code"));
    const char *detail = text_of(a->json, "detail");

    if (detail[0] == '\0') {
        return err_set(err, rc, "the controller answered %ld %s", a->status, a->text);
    }
    if (text_of(a->json, "field")[0] || text_of(a->json, "rule")[0]) {
        return err_field(err, rc, text_of(a->json, "field"), text_of(a->json, "rule"),
                         "%s", detail);
    }
    return err_set(err, rc, "%s", detail);
}

static enum rc perform(struct cli_http *h, const char *method, const char *path,
                       const char *body, struct err *err)
{
    struct buf url = BUF_INIT;
    CURLcode code;

    buf_printf(&url, "%s%s", h->server, path);
    buf_reset(&h->answer);
    h->why[0] = '\0';
    curl_easy_setopt(h->curl, CURLOPT_URL, buf_cstr(&url));
    curl_easy_setopt(h->curl, CURLOPT_TIMEOUT_MS, ANSWER_MS + h->wait_ms);
    curl_easy_setopt(h->curl, CURLOPT_HTTPGET, 1L);
    if (body) {
        curl_easy_setopt(h->curl, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
        curl_easy_setopt(h->curl, CURLOPT_POSTFIELDS, body);
    }
    curl_easy_setopt(h->curl, CURLOPT_CUSTOMREQUEST, method);
    code = curl_easy_perform(h->curl);
    buf_fini(&url);
    if (code == CURLE_OK) {
        return RC_OK;
    }
    return err_set(err, code == CURLE_OPERATION_TIMEDOUT ? RC_TIMEOUT : RC_UNREACHABLE,
                   "%s: %s", h->server, h->why[0] ? h->why : curl_easy_strerror(code));
}

enum rc cli_http_call(struct cli_http *h, const char *method, const char *path,
                      const json_t *body, struct cli_answer *ret, struct err *err)
{
    struct cli_answer a = { 0 };
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    enum rc rc;

    if (body && !text) {
        return err_set(err, RC_NO_MEMORY, "no memory for a request");
    }
    rc = perform(h, method, path, text, err);
    free(text);
    if (rc != RC_OK) {
        return rc;
    }
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &a.status);
    a.json = json_loadb((const char *)h->answer.data, h->answer.len, 0, NULL);
    if (!a.json) {
        snprintf(a.text, sizeof(a.text), "%.*s",
                 (int)strcspn(buf_cstr(&h->answer), "\r\n"), buf_cstr(&h->answer));
    }
    if (a.status < 200 || a.status > 299) {
        rc = problem(&a, err);
        json_decref(a.json);
        return rc;
    }
    *ret = a;
    return RC_OK;
}

static enum rc add_page(json_t *items, struct cli_answer *a, const char *path,
                        struct err *err)
{
    json_t *page = json_object_get(a->json, "items");

    if (!json_is_array(page) || json_array_extend(items, page) != 0) {
        return err_set(err, RC_BUG, "%s: the answer is no list", path);
    }
    return RC_OK;
}

enum rc cli_http_list(struct cli_http *h, const char *path, size_t limit,
                      json_t **ret_items, struct err *err)
{
    json_t *items = json_array();
    char token[128] = "";
    enum rc rc = items ? RC_OK : err_set(err, RC_NO_MEMORY, "no memory for a list");

    do {
        struct buf page = BUF_INIT;
        struct cli_answer a = { 0 };

        if (rc != RC_OK) {
            break;
        }
        buf_text(&page, path);
        cli_http_query(&page, "pageSize", LIST_PAGE_SIZE);
        if (token[0]) {
            cli_http_query(&page, "pageToken", token);
        }
        rc = cli_http_call(h, "GET", buf_cstr(&page), NULL, &a, err);
        rc = rc == RC_OK ? add_page(items, &a, path, err) : rc;
        snprintf(token, sizeof(token), "%s",
                 rc == RC_OK ? text_of(a.json, "next_page_token") : "");
        json_decref(a.json);
        buf_fini(&page);
    } while (token[0] && (limit == 0 || json_array_size(items) < limit));
    if (rc != RC_OK) {
        json_decref(items);
        return rc;
    }
    while (limit > 0 && json_array_size(items) > limit) {
        json_array_remove(items, json_array_size(items) - 1);
    }
    *ret_items = items;
    return RC_OK;
}
