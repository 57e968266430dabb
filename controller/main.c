/* xgw-controller: wiring only. */
#include "controller/alertmanager.h"
#include "controller/api/auth.h"
#include "controller/api/grpc_api.h"
#include "controller/api/rest.h"
#include "controller/api/sessions.h"
#include "controller/history_files.h"
#include "controller/options.h"
#include "controller/shell.h"
#include "proto/base/log.h"
#include "proto/rpc/program.h"
#include "proto/rpc/rpc_health.h"

#include <malloc.h>
#include <stdio.h>

struct controller {
    struct options options;
    struct program program;
    int argc;
    char **argv;
    struct rpc_server *server;
    struct rpc_health *health;
    struct auth *auth;
    struct shell *shell;
    struct history_files *history;
    struct alertmanager *alertmanager;
    struct sessions *sessions;
    struct grpc_api *grpc_api;
    struct rest *rest;
    int exit_code;
};

static void on_failed(void *arg, const struct err *why)
{
    struct controller *c = arg;

    log_error("controller cannot go on", "cause=\"%s\"", why->msg);
    c->exit_code = 1;
    program_stop(&c->program);
}

static void on_ready(void *arg)
{
    struct controller *c = arg;

    rpc_health_set(c->health, "", true);
    log_info("controller serves", "rest=%s grpc=%s store=%s term=%llu",
             c->options.rest_listen, c->options.grpc_listen, c->options.store,
             (unsigned long long)shell_term(c->shell));
}

/* SIGHUP: what may change while we run, is read again (options.c says which). */
static void on_reload(void *arg)
{
    struct controller *c = arg;
    struct options options;
    enum config_action action;
    struct buf changes = BUF_INIT;
    struct err err = { 0 };

    if (config_load(&options_table, c->argc, c->argv, &options, &action, &err) ==
            RC_OK &&
        config_check_reload(&options_table, &c->options, &options, &changes, &err) ==
            RC_OK) {
        c->options = options;
        log_set_level((enum log_level)options.log_level);
        log_info("settings read again", "changes=\"%s\"",
                 changes.len ? buf_cstr(&changes) : "none");
    } else {
        log_warn("settings stay as they are", "cause=\"%s\"", err.msg);
    }
    buf_fini(&changes);
}

static enum rc start_shell(struct controller *c, struct err *err)
{
    struct shell_config config = {
        .base = c->program.base,
        .store_path = c->options.store,
        .vni_quarantine_ms = c->options.vni_quarantine_ms,
        .suggest_watch_ms = c->options.suggest_watch_ms,
        .suggest_mature_ms = c->options.suggest_mature_ms,
        .audit_interval_ms = c->options.audit_interval_ms,
        .audit_repairs = c->options.audit_policy != 0,
        .session_timeout_ms = c->options.session_timeout_ms,
    };
    enum rc rc = auth_load(c->options.tokens, &c->auth, err);

    return rc == RC_OK ? shell_new(&config, on_ready, on_failed, c, &c->shell, err)
                       : rc;
}

static enum rc start_history(struct controller *c, struct err *err)
{
    char beside[sizeof(c->options.store) + 16];
    struct history_files_config config = {
        .base = c->program.base,
        .shell = c->shell,
        .dir = c->options.history[0] ? c->options.history : beside,
        .max_bytes = (size_t)c->options.history_mib << 20,
    };

    snprintf(beside, sizeof(beside), "%s.history", c->options.store);
    return history_files_new(&config, &c->history, err);
}

static enum rc start_alertmanager(struct controller *c, struct err *err)
{
    struct alertmanager_config config = {
        .base = c->program.base,
        .shell = c->shell,
        .urls = c->options.alertmanager,
        .ca_file = c->options.alertmanager_ca,
        .resend_ms = c->options.alert_resend_ms,
    };

    return config.urls[0] ? alertmanager_new(&config, &c->alertmanager, err) : RC_OK;
}

static enum rc start_grpc(struct controller *c, struct err *err)
{
    /* Agents show certificates, operators tokens: both on one port. */
    struct rpc_tls tls = {
        .ca_file = c->options.tls_ca,
        .cert_file = c->options.tls_cert,
        .key_file = c->options.tls_key,
        .client_cert = RPC_CLIENT_CERT_REQUEST,
    };
    /* A session's queue holds a whole window of batches (agent_msg.h). */
    struct rpc_server_options options = {
        .max_queue_bytes = SESSION_WINDOW * (BATCH_MAX_BYTES + 64),
    };
    enum rc rc = rpc_server_new(c->program.rpc, &options, &c->server, err);

    rc = rc == RC_OK ? rpc_health_new(c->server, &c->health, err) : rc;
    rc = rc == RC_OK ? sessions_new(c->server, c->shell, c->options.plain_text,
                                    &c->sessions, err)
                     : rc;
    rc = rc == RC_OK ? grpc_api_new(c->server, c->shell, c->auth, &c->grpc_api, err)
                     : rc;
    rc = rc == RC_OK ? rpc_server_listen(c->server, c->options.grpc_listen,
                                         c->options.plain_text ? NULL : &tls, NULL, err)
                     : rc;
    return rc == RC_OK ? rpc_server_start(c->server, err) : rc;
}

static enum rc start_rest(struct controller *c, struct err *err)
{
    struct rest_config config = {
        .base = c->program.base,
        .listen = c->options.rest_listen,
        .cert_file = c->options.plain_text ? NULL : c->options.tls_cert,
        .key_file = c->options.plain_text ? NULL : c->options.tls_key,
        .shell = c->shell,
        .sessions = c->sessions,
        .auth = c->auth,
        .alertmanager = c->alertmanager,
    };

    return rest_new(&config, &c->rest, err);
}

static enum rc start(struct controller *c, struct err *err)
{
    enum rc rc = program_init(&c->program, on_reload, c, err);

    rc = rc == RC_OK ? start_shell(c, err) : rc;
    rc = rc == RC_OK ? start_history(c, err) : rc;
    rc = rc == RC_OK ? start_alertmanager(c, err) : rc;
    rc = rc == RC_OK ? start_grpc(c, err) : rc;
    return rc == RC_OK ? start_rest(c, err) : rc;
}

static void stop(struct controller *c)
{
    rest_free(c->rest);
    rpc_loop_free(c->program.rpc); /* stops the server; the last on_closed come here */
    grpc_api_free(c->grpc_api);
    sessions_free(c->sessions);
    rpc_health_free(c->health);
    alertmanager_free(c->alertmanager);
    history_files_free(c->history);
    shell_free(c->shell);
    auth_free(c->auth);
    program_fini(&c->program);
}

int main(int argc, char **argv)
{
    struct controller c = { 0 };
    struct err err = { 0 };
    int code = config_start(&options_table, argc, argv, &c.options);

    if (code >= 0) {
        return code;
    }
    log_set_level((enum log_level)c.options.log_level);
    /* Else glibc keeps what is freed in small pieces until a large one is asked for,
     * and puts millions of them together at once: up to 100 ms in a step of the core.
     */
    mallopt(M_MXFAST, 0);
    c.argc = argc;
    c.argv = argv;
    if (start(&c, &err) == RC_OK) {
        program_run(&c.program);
    } else {
        log_error("controller does not start", "cause=\"%s\"", err.msg);
        c.exit_code = 1;
    }
    stop(&c);
    return c.exit_code;
}
