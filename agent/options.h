/* options - the settings of xgw-agent: one table (proto/base/config.h). */
#pragma once

#include "proto/base/config.h"

struct options {
    char device_id[64];
    char controllers[512];
    char gateway[128];
    char tls_ca[256];
    char tls_cert[256];
    char tls_key[256];
    char tls_name[128];
    bool plain_text;
    uint32_t redial_min_ms;
    uint32_t redial_max_ms;
    uint32_t write_timeout_ms;
    uint32_t writes_in_flight;
    uint32_t log_level;
};

extern const struct config_table options_table;
