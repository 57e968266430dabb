/* Connections: TLS, how many there are, how long one may take, what is said of what is
 * no request.
 *
 * evhttp has timeouts between two reads only: a client that sends a byte a minute would
 * keep a connection for days.  So each connection has a deadline until which the next
 * complete request must be there, or the answer be taken.  evhttp tells nobody when it
 * frees a connection that never made a request; so we hold a reference to its
 * bufferevent and look whether evhttp still has its callbacks on it.
 *
 * What evhttp refuses by itself it answers with a page of HTML, and libevent 2.1 has no
 * hook for that.  So we see what is added to a connection's output while no request of
 * ours is open, and put problem details in its place before the loop writes any of it.
 * The connection is then closed, but only after what the client still sends was read
 * and thrown away: closing on unread bytes resets it, and the client would lose the
 * answer (RFC 9112, 9.6). */
#include "controller/api/rest_internal.h"

#include "proto/base/log.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SWEEP_MS   1000
#define REQUEST_MS 60000  /* for a whole request, and between two */
#define ANSWER_MS  300000 /* for an answer to be taken */
#define LINGER_MS  5000   /* for a client to see that it is refused; as nginx' */

enum phase {
    READING, /* a request, or waiting for one */
    ASKED,   /* what is written is our answer */
    PAGE,    /* evhttp has written one of its own */
    TOLD,    /* ours stands in its place */
    LINGERING
};

struct rest_conn {
    struct rest_conn *next;
    struct rest *rest;
    struct bufferevent *bev; /* a reference of our own */
    struct event *soon;      /* runs on_soon() before anything is written */
    struct evbuffer_cb_entry *on_input;
    struct evbuffer_cb_entry *on_output;
    uint64_t deadline_ms; /* UINT64_MAX: an answer is being made */
    enum phase phase;
    bool is_begun;   /* a request's first byte was seen */
    bool is_no_http; /* and begins none */
    bool is_refused; /* one too many: closed at the next sweep */
};

/* ---- TLS ---- */

static enum rc load_context(const struct rest_config *config, SSL_CTX **ret,
                            struct err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    const char *why;

    ERR_clear_error();
    if (ctx && SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) &&
        SSL_CTX_use_certificate_chain_file(ctx, config->cert_file) == 1 &&
        SSL_CTX_use_PrivateKey_file(ctx, config->key_file, SSL_FILETYPE_PEM) == 1 &&
        SSL_CTX_check_private_key(ctx) == 1) {
        SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
        *ret = ctx;
        return RC_OK;
    }
    why = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    SSL_CTX_free(ctx);
    return err_field(err, RC_INVALID, "tls-cert", "certificate", "rest: %s, %s: %s",
                     config->cert_file, config->key_file, why ? why : "cannot be used");
}

static void stamp_of(const struct rest_config *config, struct timespec ret[2])
{
    const char *const files[2] = { config->cert_file, config->key_file };

    for (int i = 0; i < 2; i++) {
        struct stat st = { 0 };

        stat(files[i], &st);
        ret[i] = st.st_ctim;
    }
}

/* Replaced files serve new connections; broken ones leave the old pair in use. */
static void reload_context(struct rest *rest)
{
    struct timespec stamp[2];
    struct err err = { 0 };
    SSL_CTX *ctx;

    stamp_of(&rest->config, stamp);
    if (stamp[0].tv_sec == rest->tls_stamp[0].tv_sec &&
        stamp[0].tv_nsec == rest->tls_stamp[0].tv_nsec &&
        stamp[1].tv_sec == rest->tls_stamp[1].tv_sec &&
        stamp[1].tv_nsec == rest->tls_stamp[1].tv_nsec) {
        return;
    }
    rest->tls_stamp[0] = stamp[0];
    rest->tls_stamp[1] = stamp[1];
    if (load_context(&rest->config, &ctx, &err) != RC_OK) {
        log_warn("rest keeps its certificate", "cause=\"%s\"", err.msg);
        return;
    }
    SSL_CTX_free(rest->tls);
    rest->tls = ctx;
    log_info("rest has a new certificate", "file=%s", rest->config.cert_file);
}

static struct bufferevent *new_bufferevent(struct rest *rest, struct event_base *base)
{
    struct bufferevent *bev;
    SSL *ssl;

    if (!rest->tls) {
        return bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    }
    reload_context(rest);
    ssl = SSL_new(rest->tls);
    if (!ssl) {
        return NULL;
    }
    bev = bufferevent_openssl_socket_new(base, -1, ssl, BUFFEREVENT_SSL_ACCEPTING,
                                         BEV_OPT_CLOSE_ON_FREE);
    if (bev) {
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    }
    return bev;
}

/* ---- connections ---- */

static void drop(struct rest *rest, struct rest_conn **at)
{
    struct rest_conn *c = *at;

    *at = c->next;
    rest->conn_count--;
    if (c->on_input) {
        evbuffer_remove_cb_entry(bufferevent_get_input(c->bev), c->on_input);
    }
    if (c->on_output) {
        evbuffer_remove_cb_entry(bufferevent_get_output(c->bev), c->on_output);
    }
    if (c->soon) {
        event_free(c->soon);
    }
    bufferevent_decref(c->bev);
    free(c);
}

static void drop_this(struct rest_conn *c)
{
    struct rest_conn **at = &c->rest->conns;

    while (*at != c) {
        at = &(*at)->next;
    }
    drop(c->rest, at);
}

static bool is_let_go(const struct rest_conn *c)
{
    bufferevent_event_cb on_event = NULL;

    bufferevent_getcb(c->bev, NULL, NULL, &on_event, NULL);
    return !on_event;
}

/* ---- what is no request ---- */

static void throw_away(struct bufferevent *bev, void *arg)
{
    struct evbuffer *in = bufferevent_get_input(bev);

    (void)arg;
    evbuffer_drain(in, evbuffer_get_length(in));
}

static void on_lingering_end(struct bufferevent *bev, short what, void *arg)
{
    (void)bev;
    (void)what;
    drop_this(arg);
}

static void linger(struct rest_conn *c)
{
    c->phase = LINGERING;
    c->deadline_ms = shell_now_ms() + LINGER_MS;
    throw_away(c->bev, NULL);
    bufferevent_setcb(c->bev, throw_away, NULL, on_lingering_end, c);
    bufferevent_enable(c->bev, EV_READ);
}

/* Puts our words in the place of evhttp's page. */
static void retell(struct rest_conn *c)
{
    struct evbuffer *out = bufferevent_get_output(c->bev);
    int status;

    evbuffer_unfreeze(out, 1); /* a socket's freezes it again; a TLS one never did */
    status = rest_page_status(out);
    c->phase = READING;
    if (status != 100) { /* "go on": the body is to come */
        c->phase = TOLD;
        c->rest->errors_total += status >= 500;
        evbuffer_drain(out, evbuffer_get_length(out));
        rest_page_write(out, status);
    }
}

/* evhttp would wait for the line's end, and a client that speaks something else (TLS,
 * as a rule) for an answer: it gets a line that it refuses at once. */
static void end_line(struct rest_conn *c)
{
    c->is_no_http = false;
    throw_away(c->bev, NULL);
    evbuffer_prepend(bufferevent_get_input(c->bev), "?\n", 2);
    bufferevent_trigger(c->bev, EV_READ, 0);
}

static void on_soon(evutil_socket_t fd, short what, void *arg)
{
    struct rest_conn *c = arg;

    (void)fd;
    (void)what;
    if (c->phase == TOLD && is_let_go(c)) {
        linger(c);
    } else if (c->phase == PAGE && !is_let_go(c)) {
        retell(c);
    } else if (c->phase == READING && c->is_no_http && !is_let_go(c)) {
        end_line(c);
    }
}

static void on_output(struct evbuffer *out, const struct evbuffer_cb_info *info,
                      void *arg)
{
    struct rest_conn *c = arg;

    if (c->phase == READING && info->n_added > 0) {
        c->phase = PAGE;
        event_active(c->soon, EV_WRITE, 0);
    } else if (c->phase == TOLD && evbuffer_get_length(out) == 0) {
        event_active(c->soon, EV_WRITE, 0); /* evhttp lets go of it next */
    }
}

/* A method is a token (RFC 9110, 5.6.2); empty lines may come before it. */
static bool may_begin_request(char byte)
{
    return byte == '\r' || byte == '\n' || (byte && strchr("!#$%&'*+-.^_`|~", byte)) ||
           (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= 'a' && byte <= 'z');
}

static void on_input(struct evbuffer *in, const struct evbuffer_cb_info *info,
                     void *arg)
{
    struct rest_conn *c = arg;
    char first;

    if (c->phase != READING || c->is_begun || info->n_added == 0 ||
        evbuffer_copyout(in, &first, 1) != 1) {
        return;
    }
    c->is_begun = true;
    if (!may_begin_request(first)) {
        c->is_no_http = true;
        event_active(c->soon, EV_READ, 0);
    }
}

/* ---- a connection's life ---- */

static bool watch(struct rest_conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    struct evbuffer *out = bufferevent_get_output(c->bev);

    c->soon = event_new(c->rest->config.base, -1, 0, on_soon, c);
    c->on_input = evbuffer_add_cb(in, on_input, c);
    c->on_output = evbuffer_add_cb(out, on_output, c);
    return c->soon && c->on_input && c->on_output;
}

static struct bufferevent *on_connection(struct event_base *base, void *arg)
{
    struct rest *rest = arg;
    struct bufferevent *bev = new_bufferevent(rest, base);
    struct rest_conn *c = bev ? calloc(1, sizeof(*c)) : NULL;

    if (!c) {
        if (bev) {
            bufferevent_free(bev);
        }
        /* evhttp makes a plain one of its own: rest_conn_asked() refuses it. */
        return NULL;
    }
    /* No more is read ahead than one request can have. */
    bufferevent_setwatermark(bev, EV_READ, 0, REST_BODY_MAX + 2 * REST_HEADERS_MAX);
    bufferevent_incref(bev);
    c->rest = rest;
    c->bev = bev;
    c->is_refused = rest->conn_count >= REST_CONNECTIONS_MAX;
    c->deadline_ms = c->is_refused ? 0 : shell_now_ms() + REQUEST_MS;
    c->next = rest->conns;
    rest->conns = c;
    rest->conn_count++;
    if (!watch(c)) {
        drop_this(c);
        bufferevent_free(bev);
        return NULL;
    }
    return bev;
}

static struct rest_conn **find(struct rest *rest, struct evhttp_connection *connection)
{
    struct bufferevent *bev = evhttp_connection_get_bufferevent(connection);
    struct rest_conn **at = &rest->conns;

    while (*at && (*at)->bev != bev) {
        at = &(*at)->next;
    }
    return at;
}

bool rest_conn_asked(struct rest *rest, struct evhttp_connection *connection)
{
    struct rest_conn *c = *find(rest, connection);

    if (!c || c->is_refused) {
        return false;
    }
    c->deadline_ms = UINT64_MAX;
    c->phase = ASKED;
    return true;
}

static void on_complete(struct evhttp_request *http, void *arg)
{
    struct evhttp_connection *connection = evhttp_request_get_connection(http);
    struct rest_conn *c = connection ? *find(arg, connection) : NULL;

    if (c) {
        c->deadline_ms = shell_now_ms() + REQUEST_MS;
        c->phase = READING;
        c->is_begun = evbuffer_get_length(bufferevent_get_input(c->bev)) > 0;
    }
}

void rest_conn_answered(struct rest *rest, struct evhttp_request *http)
{
    struct evhttp_connection *connection = evhttp_request_get_connection(http);
    struct rest_conn *c = connection ? *find(rest, connection) : NULL;

    if (c) {
        c->deadline_ms = shell_now_ms() + ANSWER_MS;
        evhttp_request_set_on_complete_cb(http, on_complete, rest);
    }
}

void rest_conn_closed(struct rest *rest, struct evhttp_connection *connection)
{
    struct rest_conn **at = find(rest, connection);

    if (*at && (*at)->phase == TOLD) {
        event_active((*at)->soon, EV_WRITE, 0);
    } else if (*at) {
        drop(rest, at);
    }
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
    struct rest *rest = arg;
    uint64_t now = shell_now_ms();
    struct rest_conn **at = &rest->conns;

    (void)fd;
    (void)what;
    while (*at) {
        struct rest_conn *c = *at;

        if (is_let_go(c) && c->phase == TOLD) {
            linger(c); /* over TLS on_soon() can come too early for it */
        } else if (is_let_go(c)) {
            drop(rest, at);
            continue;
        }
        at = &c->next;
        if (c->deadline_ms <= now) {
            /* From the loop, not from within this walk; evhttp closes it, or we. */
            bufferevent_trigger_event(c->bev, BEV_EVENT_READING | BEV_EVENT_TIMEOUT,
                                      BEV_TRIG_DEFER_CALLBACKS);
        }
    }
}

enum rc rest_conns_start(struct rest *rest, struct err *err)
{
    struct timeval every = { SWEEP_MS / 1000, (SWEEP_MS % 1000) * 1000L };
    const char *cert = rest->config.cert_file;
    SSL_CTX *ctx = NULL;

    if (cert && cert[0]) {
        stamp_of(&rest->config, rest->tls_stamp);
        if (load_context(&rest->config, &ctx, err) != RC_OK) {
            return err->code;
        }
        rest->tls = ctx;
    }
    rest->sweep = event_new(rest->config.base, -1, EV_PERSIST, on_sweep, rest);
    if (!rest->sweep || event_add(rest->sweep, &every) != 0) {
        return err_set(err, RC_NO_MEMORY, "rest: no memory");
    }
    evhttp_set_bevcb(rest->http, on_connection, rest);
    return RC_OK;
}

void rest_conns_stop(struct rest *rest)
{
    while (rest->conns) {
        drop(rest, &rest->conns);
    }
    if (rest->sweep) {
        event_free(rest->sweep);
    }
    SSL_CTX_free(rest->tls);
}
