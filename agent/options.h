/* options - the settings of xgw-agent: one table (proto/base/config.h). */
#pragma once

#include "proto/base/config.h"

struct options {
    char device_id[64];
    char controllers[512];
    uint32_t device_kind; /* enum device_kind, less 1 */
    char gateway[128];
    char p4_address[128];
    char p4_devices[64];
    char p4_info[256];
    char p4_image[256];
    char p4_tls_ca[256];
    char p4_tls_cert[256];
    char p4_tls_key[256];
    char p4_tls_name[128];
    bool p4_replace_program;
    uint32_t p4_keepalive_ms;
    uint32_t p4_window;
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

/* The device is an xgw-gateway that speaks our own protocol; else P4Runtime. */
bool options_have_gateway(const struct options *o);
