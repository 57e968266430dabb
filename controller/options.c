#include "controller/options.h"

#include "controller/alertmanager.h"
#include "proto/base/log.h"

#include <arpa/inet.h>
#include <string.h>

/* Whether other machines cannot reach it.  A name could be looked up to anything, so
 * only "localhost" counts, which RFC 6761 (section 6.3) keeps for this. */
static bool is_loopback(const char *listen)
{
    const char *colon = strrchr(listen, ':');
    size_t len = colon ? (size_t)(colon - listen) : 0;
    struct in_addr v4;
    char host[128];

    if (len == 0 || len >= sizeof(host)) {
        return false;
    }
    memcpy(host, listen, len);
    host[len] = '\0';
    if (inet_pton(AF_INET, host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    return strcmp(host, "[::1]") == 0 || strcmp(host, "localhost") == 0;
}

static enum rc check(const void *values, struct err *err)
{
    const struct options *o = values;
    bool stays_here = is_loopback(o->rest_listen) && is_loopback(o->grpc_listen);

    if (o->plain_text && !stays_here) {
        return err_field(err, RC_INVALID, "plain-text", "tls_required",
                         "plain-text is for loopback addresses only");
    }
    if (!o->plain_text && (!o->tls_ca[0] || !o->tls_cert[0] || !o->tls_key[0])) {
        return err_field(err, RC_INVALID, "tls-ca", "tls_required",
                         "tls-ca, tls-cert and tls-key are needed (or plain-text, on "
                         "loopback addresses)");
    }
    if (!o->tokens[0] && !stays_here) {
        return err_field(err, RC_INVALID, "tokens", "tokens_required",
                         "a token file is needed unless both listen on loopback");
    }
    return alertmanager_check_urls(o->alertmanager, !o->plain_text, err);
}

static const char *const audit_policies[] = { "report", "repair", NULL };

static const struct config_key keys[] = {
    { CONFIG_PATH(struct options, store), .name = "store",
      .def = "/var/lib/xgw/region.db", .what = "SQLite file of the region's state." },
    { CONFIG_TEXT(struct options, rest_listen), .name = "rest-listen",
      .def = "127.0.0.1:7080",
      .what = "Address of the REST API, metrics and health: HOST:PORT." },
    { CONFIG_TEXT(struct options, grpc_listen), .name = "grpc-listen",
      .def = "127.0.0.1:7443",
      .what = "Address that agents dial, and of the gRPC API: HOST:PORT." },
    { CONFIG_PATH(struct options, tls_ca), .name = "tls-ca", .def = "",
      .what = "PEM file of the authority that signs agents' certificates." },
    { CONFIG_PATH(struct options, tls_cert), .name = "tls-cert", .def = "",
      .what = "PEM file of our certificate; replaced files serve new connections." },
    { CONFIG_PATH(struct options, tls_key), .name = "tls-key", .def = "",
      .what = "PEM file of its key." },
    { CONFIG_BOOL(struct options, plain_text), .name = "plain-text", .def = "false",
      .what = "No TLS, device ids are believed: for tests on one machine only." },
    { CONFIG_PATH(struct options, tokens), .name = "tokens", .def = "",
      .what = "File of bearer tokens, TOKEN ROLE NAME a line; empty: everybody on "
              "loopback is admin." },
    { CONFIG_PATH(struct options, history), .name = "history", .def = "",
      .what = "Folder of the history's files; empty: beside the store, its name with "
              "\".history\" behind it." },
    { CONFIG_U32(struct options, history_mib), .name = "history-size", .min = 1,
      .max = 65536, .def = "256", .unit = "MiB",
      .what = "Most memory for the history, and half of what its files may take; what "
              "is oldest gives way." },
    { CONFIG_TEXT(struct options, alertmanager), .name = "alertmanager", .def = "",
      .what = "Alertmanagers that are told of alarms, URL,URL…; empty: none." },
    { CONFIG_PATH(struct options, alertmanager_ca), .name = "alertmanager-ca",
      .def = "",
      .what = "PEM file of the authority that signed their certificates; empty: the "
              "system's." },
    { CONFIG_DURATION(struct options, alert_resend_ms), .name = "alert-resend",
      .min = 1000, .max = 3600000, .def = "60s",
      .what = "How often they are told again; an alarm that is not told again ends "
              "there after four times that." },
    { CONFIG_DURATION(struct options, vni_quarantine_ms), .name = "vni-quarantine",
      .min = 0, .max = 86400000, .def = "0ms",
      .what = "A freed VNI is not used again before." },
    { CONFIG_DURATION(struct options, suggest_watch_ms), .name = "suggest-watch",
      .min = 1000, .max = 86400000, .def = "1h",
      .what = "`policy suggest` speaks of a service's update rate after so long a "
              "look." },
    { CONFIG_DURATION(struct options, suggest_mature_ms), .name = "suggest-mature",
      .min = 0, .max = 2592000000, .def = "168h",
      .what = "`policy suggest` calls a service new until it is so old." },
    { CONFIG_DURATION(struct options, audit_interval_ms), .name = "audit-interval",
      .min = 0, .max = 604800000, .def = "10m",
      .what =
          "How often each node's tables are read back and held against what it is to "
          "hold; longer where reading takes long; 0: only when asked for." },
    { CONFIG_ENUM(struct options, audit_policy), .name = "audit-policy",
      .choices = audit_policies, .def = "repair",
      .what =
          "What a scheduled audit does about rows that differ: repair them, or only "
          "report them." },
    { CONFIG_DURATION(struct options, session_timeout_ms), .name = "session-timeout",
      .min = 1000, .max = 600000, .def = "30s",
      .what = "An agent that does not answer for so long loses its session." },
    { CONFIG_ENUM(struct options, log_level), .name = "log-level",
      .choices = log_level_names, .def = "info", .reloadable = true,
      .what = "Least level that is logged." },
};

const struct config_table options_table = {
    .program = "xgw-controller",
    .summary = "Holds one region's desired state and keeps its gateways to it.",
    .keys = keys,
    .count = sizeof(keys) / sizeof(keys[0]),
    .values_size = sizeof(struct options),
    .check = check,
};
