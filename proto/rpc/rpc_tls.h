/*
 * rpc_tls - which PEM files a server or a channel uses.
 *
 * Files are watched: replaced ones (write new, rename over) serve new handshakes within
 * `refresh_s`, without a restart; connections that are up stay up.  TLS 1.2 or newer.
 */
#pragma once

#include <stdbool.h>

#include "proto/base/err.h"

enum rpc_client_cert {
    RPC_CLIENT_CERT_REQUIRE = 0, /* verified against ca_file, else no handshake */
    RPC_CLIENT_CERT_NONE,        /* not asked for: callers show tokens */
    RPC_CLIENT_CERT_REQUEST,     /* verified if shown */
};

struct rpc_tls {
    const char *ca_file;   /* whom we trust; required but for RPC_CLIENT_CERT_NONE */
    const char *cert_file; /* our chain; a server needs it, a client may have none */
    const char *key_file;  /* belongs to cert_file */
    enum rpc_client_cert client_cert; /* servers only */
    unsigned refresh_s;               /* 0 means 1: how often files are looked at */
};

/* Reads the files once and says what is wrong with them: missing, not PEM, key and
 * certificate that do not belong together, an expired certificate.  Names the field
 * ("tls.ca_file", …).  rpc_server_listen() and rpc_channel_new() call it. */
enum rc rpc_tls_check(const struct rpc_tls *tls, bool is_server, struct err *err);
