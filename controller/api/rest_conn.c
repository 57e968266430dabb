/* Connections: TLS, how many there are, how long one may take.
 *
 * evhttp has timeouts between two reads only: a client that sends a byte a minute would
 * keep a connection for days.  So each connection has a deadline until which the next
 * complete request must be there, or the answer be taken.  evhttp tells nobody when it
 * frees a connection that never made a request; so we hold a reference to its
 * bufferevent and look whether evhttp still has its callbacks on it. */
#include "controller/api/rest_internal.h"

#include "proto/base/log.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/stat.h>

#define SWEEP_MS   1000
#define REQUEST_MS 60000  /* for a whole request, and between two */
#define ANSWER_MS  300000 /* for an answer to be taken */

struct rest_conn {
    struct rest_conn *next;
    struct bufferevent *bev; /* a reference of our own */
    uint64_t deadline_ms;    /* UINT64_MAX: an answer is being made */
    bool is_refused;         /* one too many: closed at the next sweep */
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

static struct bufferevent *on_connection(struct event_base *base, void *arg)
{
    struct rest *rest = arg;
    struct bufferevent *bev = new_bufferevent(rest, base);
    struct rest_conn *c = bev ? calloc(1, sizeof(*c)) : NULL;

    if (!c) {
        if (bev) {
            bufferevent_free(bev);
        }
        /* evhttp makes a plain one of its own: rest_conn_is_ours() refuses it. */
        return NULL;
    }
    /* No more is read ahead than one request can have. */
    bufferevent_setwatermark(bev, EV_READ, 0, REST_BODY_MAX + 2 * REST_HEADERS_MAX);
    bufferevent_incref(bev);
    c->bev = bev;
    c->is_refused = rest->conn_count >= REST_CONNECTIONS_MAX;
    c->deadline_ms = c->is_refused ? 0 : shell_now_ms() + REQUEST_MS;
    c->next = rest->conns;
    rest->conns = c;
    rest->conn_count++;
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

static void drop(struct rest *rest, struct rest_conn **at)
{
    struct rest_conn *c = *at;

    *at = c->next;
    rest->conn_count--;
    bufferevent_decref(c->bev);
    free(c);
}

bool rest_conn_asked(struct rest *rest, struct evhttp_connection *connection)
{
    struct rest_conn *c = *find(rest, connection);

    if (!c || c->is_refused) {
        return false;
    }
    c->deadline_ms = UINT64_MAX;
    return true;
}

static void on_complete(struct evhttp_request *http, void *arg)
{
    struct evhttp_connection *connection = evhttp_request_get_connection(http);
    struct rest_conn *c = connection ? *find(arg, connection) : NULL;

    if (c) {
        c->deadline_ms = shell_now_ms() + REQUEST_MS;
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

    if (*at) {
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
        bufferevent_event_cb on_event = NULL;

        bufferevent_getcb(c->bev, NULL, NULL, &on_event, NULL);
        if (!on_event) {
            drop(rest, at); /* evhttp has let go of it */
            continue;
        }
        at = &c->next;
        if (c->deadline_ms <= now) {
            /* From the loop, not from within this walk; evhttp closes it. */
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
