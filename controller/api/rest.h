/*
 * rest - /v1 over HTTP (proto/api/openapi.yaml), /healthz, /readyz, /metrics and
 * /openapi.json, on libevent's evhttp.
 *
 * A handler turns a request into a command or a read of the core and the outcome into
 * JSON; errors are problem details (RFC 9457) with a stable code, the field and the
 * rule.  The loop's thread.
 */
#pragma once

#include "controller/alertmanager.h"
#include "controller/api/auth.h"
#include "controller/api/sessions.h"
#include "controller/shell.h"

struct event_base;
struct rest;

struct rest_config {
    struct event_base *base;
    const char *listen;    /* "HOST:PORT" */
    const char *cert_file; /* null or "": plain HTTP */
    const char *key_file;
    struct shell *shell;
    const struct sessions *sessions;
    const struct auth *auth;
    const struct alertmanager *alertmanager; /* null: none is told */
};

/* Listens at once: /healthz answers while the region is still being loaded.  Borrows
 * all of `config`. */
enum rc rest_new(const struct rest_config *config, struct rest **ret, struct err *err);
/* Ends open requests. */
void rest_free(struct rest *r);
