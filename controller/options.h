/* options - the settings of xgw-controller: one table (proto/base/config.h). */
#pragma once

#include "proto/base/config.h"

struct options {
    char store[256];
    char rest_listen[128];
    char grpc_listen[128];
    char tls_ca[256];
    char tls_cert[256];
    char tls_key[256];
    bool plain_text;
    char tokens[256];
    char history[256];
    uint32_t history_mib;
    char alertmanager[1024];
    char alertmanager_ca[256];
    uint32_t alert_resend_ms;
    uint32_t vni_quarantine_ms;
    uint32_t suggest_watch_ms;
    uint32_t suggest_mature_ms;
    uint32_t audit_interval_ms;
    uint32_t audit_policy; /* 0 report, 1 repair */
    uint32_t session_timeout_ms;
    uint32_t log_level;
};

extern const struct config_table options_table;
