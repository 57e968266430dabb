#include "controller/alertmanager.h"

#include "proto/base/log.h"

#include <curl/curl.h>
#include <event2/event.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define URL_MAX       255
#define SOON_MS       200   /* several alarms of one moment go together */
#define TIMEOUT_MS    10000 /* of one POST */
#define BACKOFF_MS    1000  /* the first pause after a failure; it doubles … */
#define BACKOFF_MAX   60000 /* … up to this */
#define ENDS_AFTER    4     /* resends: an alarm that is not sent again ends then */
#define CLEARED_FOR_S 600   /* an end is told for so long, and until it was heard */

struct target {
    struct alertmanager *owner;
    char url[URL_MAX + 32];
    struct event *timer;
    CURL *easy;
    bool is_sending;
    bool is_dirty; /* something changed since the body was made */
    char *body;
    uint64_t made_s;  /* of the body */
    uint64_t heard_s; /* up to when it knows everything */
    unsigned attempt;
};

struct alertmanager {
    struct alertmanager_config config;
    CURLM *multi;
    struct curl_slist *headers;
    struct event *timeout; /* curl's */
    struct target targets[ALERTMANAGERS_MAX];
    unsigned count;
    struct alertmanager_stats stats;
};

/* ---- what is said ---- */

static json_t *time_json(uint64_t t)
{
    time_t seconds = (time_t)t;
    struct tm tm;
    char text[32];

    gmtime_r(&seconds, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    return json_string(text);
}

static json_t *alert_json(const struct alarm *x, const char *region, uint64_t ends_s)
{
    json_t *annotations = json_pack("{s:s}", "summary", x->text);
    json_t *json;

    /* Annotations are texts. */
    json_object_set_new(annotations, "value", json_sprintf("%g", x->value));
    json_object_set_new(annotations, "threshold", json_sprintf("%g", x->threshold));
    json_object_set_new(annotations, "alarm",
                        json_sprintf("%llu", (unsigned long long)x->id));
    if (x->acked_s) {
        json_object_set_new(annotations, "acknowledged_by",
                            json_stringn_nocheck(x->acked_by, strlen(x->acked_by)));
    }
    json = json_pack("{s:{s:s, s:s, s:s, s:s}, s:o}", "labels", "alertname",
                     alarm_kind_name(x->kind), "severity",
                     alarm_severity_name(x->severity), "subject", x->subject, "region",
                     region, "annotations", annotations);
    json_object_set_new(json, "startsAt", time_json(x->first_s));
    json_object_set_new(json, "endsAt", time_json(ends_s));
    return json;
}

/* Null: nothing to say. */
static char *make_body(const struct target *t, uint64_t now_s)
{
    const struct core *core = shell_core(t->owner->config.shell);
    const struct alarms *alarms = health_alarms_of(core_health(core));
    const struct region *region = core_region(core);
    uint64_t ends_s = now_s + (uint64_t)ENDS_AFTER * t->owner->config.resend_ms / 1000;
    json_t *list = json_array();
    const struct alarm *x;
    char *text = NULL;

    for (uint32_t i = 0; (x = alarms_at(alarms, i)) != NULL; i++) {
        bool is_over = x->cleared_s != 0;

        if (!x->is_told || (is_over && x->cleared_s + CLEARED_FOR_S < now_s &&
                            x->cleared_s < t->heard_s)) {
            continue;
        }
        json_array_append_new(list, alert_json(x, region ? region->name : "",
                                               is_over ? x->cleared_s : ends_s));
    }
    if (json_array_size(list) > 0) {
        text = json_dumps(list, JSON_COMPACT);
    }
    json_decref(list);
    return text;
}

/* ---- sending ---- */

static void after(struct target *t, uint64_t ms)
{
    struct timeval tv = { (time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000 };

    event_add(t->timer, &tv);
}

static size_t swallow(char *bytes, size_t size, size_t count, void *arg)
{
    (void)bytes;
    (void)arg;
    return size * count;
}

static bool prepare(struct target *t)
{
    const char *ca = t->owner->config.ca_file;

    t->easy = t->easy ? t->easy : curl_easy_init();
    if (!t->easy) {
        return false;
    }
    curl_easy_reset(t->easy);
    curl_easy_setopt(t->easy, CURLOPT_URL, t->url);
    curl_easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, t->body);
    curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(t->body));
    curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->owner->headers);
    curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, swallow);
    curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long)TIMEOUT_MS);
    curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(t->easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
    if (ca && ca[0]) {
        curl_easy_setopt(t->easy, CURLOPT_CAINFO, ca);
    }
    return true;
}

/* The next word is due: at once when something changed, else before the ends. */
static void on_due(evutil_socket_t fd, short what, void *arg)
{
    struct target *t = arg;
    uint64_t now_s = shell_unix_ms() / 1000;

    (void)fd;
    (void)what;
    if (t->is_sending) {
        return;
    }
    free(t->body);
    t->body = make_body(t, now_s);
    t->made_s = now_s;
    t->is_dirty = false;
    if (!t->body) {
        return; /* the next alarm wakes it */
    }
    if (prepare(t) && curl_multi_add_handle(t->owner->multi, t->easy) == CURLM_OK) {
        t->is_sending = true;
    } else {
        after(t, BACKOFF_MAX);
    }
}

static void sent(struct target *t, CURLcode code, long status)
{
    struct alertmanager *a = t->owner;
    bool is_heard = code == CURLE_OK && status / 100 == 2;

    t->is_sending = false;
    if (is_heard) {
        a->stats.posts++;
        t->attempt = 0;
        t->heard_s = t->made_s;
        after(t, t->is_dirty ? SOON_MS : a->config.resend_ms);
        return;
    }
    a->stats.failures++;
    log_warn("alarms not told", "url=%s status=%ld cause=\"%s\" next=\"tried again\"",
             t->url, status, code == CURLE_OK ? "refused" : curl_easy_strerror(code));
    if (t->attempt < 16) {
        t->attempt++;
    }
    after(t, (uint64_t)BACKOFF_MS << (t->attempt - 1) < BACKOFF_MAX
                 ? (uint64_t)BACKOFF_MS << (t->attempt - 1)
                 : BACKOFF_MAX);
}

static void take_outcomes(struct alertmanager *a)
{
    struct CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(a->multi, &left)) != NULL) {
        CURL *easy = m->easy_handle;
        CURLcode code = m->data.result;
        struct target *t = NULL;
        long status = 0;

        if (m->msg != CURLMSG_DONE) {
            continue;
        }
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&t);
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        curl_multi_remove_handle(a->multi, easy);
        sent(t, code, status);
    }
}

static void on_alarm(void *ctx)
{
    struct alertmanager *a = ctx;

    for (unsigned i = 0; i < a->count; i++) {
        a->targets[i].is_dirty = true;
        if (!a->targets[i].is_sending && a->targets[i].attempt == 0) {
            after(&a->targets[i], SOON_MS);
        } /* else its end, or its pause's, comes back to it */
    }
}

/* ---- curl on the loop ---- */

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct alertmanager *a = arg;
    int action = (what & EV_READ ? CURL_CSELECT_IN : 0) |
                 (what & EV_WRITE ? CURL_CSELECT_OUT : 0);
    int running;

    curl_multi_socket_action(a->multi, fd, action, &running);
    take_outcomes(a);
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
    struct alertmanager *a = arg;
    int running;

    (void)fd;
    (void)what;
    curl_multi_socket_action(a->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    take_outcomes(a);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *data)
{
    struct alertmanager *a = arg;
    struct event *event = data;
    short wanted = (short)((what & CURL_POLL_IN ? EV_READ : 0) |
                           (what & CURL_POLL_OUT ? EV_WRITE : 0));

    (void)easy;
    if (event) {
        event_free(event);
        event = NULL;
    }
    if (what != CURL_POLL_REMOVE) {
        event =
            event_new(a->config.base, fd, (short)(wanted | EV_PERSIST), on_event, a);
        if (event) {
            event_add(event, NULL);
        } /* else the request ends by its timeout */
    }
    curl_multi_assign(a->multi, fd, event);
    return 0;
}

static int on_curl_timer(CURLM *multi, long ms, void *arg)
{
    struct alertmanager *a = arg;
    struct timeval tv = { ms / 1000, (suseconds_t)(ms % 1000) * 1000 };

    (void)multi;
    if (ms < 0) {
        event_del(a->timeout);
    } else {
        event_add(a->timeout, &tv);
    }
    return 0;
}

/* ---- life ---- */

static bool is_local(const char *host)
{
    static const char *const names[] = { "127.", "localhost:", "localhost/", "[::1]",
                                         NULL };

    for (unsigned i = 0; names[i]; i++) {
        if (strncmp(host, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

enum rc alertmanager_check_urls(const char *urls, bool needs_tls, struct err *err)
{
    unsigned count = 0;

    while (*urls) {
        size_t len = strcspn(urls, ",");
        bool is_http = strncmp(urls, "http://", 7) == 0;

        if ((!is_http && strncmp(urls, "https://", 8) != 0) || len < 9 ||
            len > URL_MAX || ++count > ALERTMANAGERS_MAX) {
            return err_field(
                err, RC_INVALID, "alertmanager", "alertmanager_url",
                "alertmanager: not a list of at most %d http or https URLs",
                ALERTMANAGERS_MAX);
        }
        if (is_http && needs_tls && !is_local(urls + 7)) {
            return err_field(err, RC_INVALID, "alertmanager", "tls_required",
                             "alertmanager: http to another machine; use https");
        }
        urls += len + (urls[len] == ',');
    }
    return RC_OK;
}

static enum rc add_target(struct alertmanager *a, const char *url, size_t len)
{
    struct target *t = &a->targets[a->count++];

    while (len > 0 && url[len - 1] == '/') {
        len--;
    }
    snprintf(t->url, sizeof(t->url), "%.*s/api/v2/alerts", (int)len, url);
    t->owner = a;
    t->timer = event_new(a->config.base, -1, 0, on_due, t);
    return t->timer ? RC_OK : RC_NO_MEMORY;
}

static enum rc start(struct alertmanager *a, const char *urls)
{
    enum rc rc = RC_OK;

    a->multi = curl_multi_init();
    a->headers = curl_slist_append(NULL, "Content-Type: application/json");
    a->timeout = event_new(a->config.base, -1, 0, on_timeout, a);
    if (!a->multi || !a->headers || !a->timeout) {
        return RC_NO_MEMORY;
    }
    curl_multi_setopt(a->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(a->multi, CURLMOPT_SOCKETDATA, a);
    curl_multi_setopt(a->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
    curl_multi_setopt(a->multi, CURLMOPT_TIMERDATA, a);
    while (*urls && rc == RC_OK) {
        size_t len = strcspn(urls, ",");

        rc = add_target(a, urls, len);
        urls += len + (urls[len] == ',');
    }
    return rc;
}

enum rc alertmanager_new(const struct alertmanager_config *config,
                         struct alertmanager **ret, struct err *err)
{
    struct alertmanager *a;
    enum rc rc = alertmanager_check_urls(config->urls, false, err);

    if (rc != RC_OK) {
        return rc;
    }
    a = calloc(1, sizeof(*a));
    if (!a || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(a);
        return err_set(err, RC_NO_MEMORY, "alertmanager: no memory");
    }
    a->config = *config;
    a->config.urls = NULL;
    if (start(a, config->urls) != RC_OK) {
        alertmanager_free(a);
        return err_set(err, RC_NO_MEMORY, "alertmanager: no memory");
    }
    shell_set_alarms(config->shell, on_alarm, a);
    *ret = a;
    return RC_OK;
}

void alertmanager_free(struct alertmanager *a)
{
    if (!a) {
        return;
    }
    shell_set_alarms(a->config.shell, NULL, NULL);
    for (unsigned i = 0; i < a->count; i++) {
        struct target *t = &a->targets[i];

        if (t->is_sending) {
            curl_multi_remove_handle(a->multi, t->easy);
        }
        if (t->easy) {
            curl_easy_cleanup(t->easy);
        }
        if (t->timer) {
            event_free(t->timer);
        }
        free(t->body);
    }
    if (a->multi) {
        curl_multi_cleanup(a->multi);
    }
    if (a->timeout) {
        event_free(a->timeout);
    }
    curl_slist_free_all(a->headers);
    free(a);
    curl_global_cleanup();
}

struct alertmanager_stats alertmanager_stats(const struct alertmanager *a)
{
    return a->stats;
}
