#include "agent/options.h"

#include "proto/base/log.h"

static enum rc check(const void *values, struct err *err)
{
    const struct options *o = values;

    if (!o->plain_text && (!o->tls_ca[0] || !o->tls_cert[0] || !o->tls_key[0])) {
        return err_field(err, RC_INVALID, "tls-ca", "tls_required",
                         "tls-ca, tls-cert and tls-key are needed (or plain-text, for "
                         "tests on one machine)");
    }
    if (o->redial_min_ms > o->redial_max_ms) {
        return err_field(err, RC_RANGE, "redial-min", "redial_order",
                         "redial-min is above redial-max");
    }
    return RC_OK;
}

static const struct config_key keys[] = {
    { CONFIG_TEXT(struct options, device_id), .name = "device-id", .def = NULL,
      .what = "Name of the node that this device is; its certificate's common name." },
    { CONFIG_TEXT(struct options, controllers), .name = "controllers",
      .def = "127.0.0.1:7443",
      .what = "Addresses of the controllers, HOST:PORT separated by commas." },
    { CONFIG_PATH(struct options, gateway), .name = "gateway",
      .def = "unix:/run/xgw/gateway.sock",
      .what = "Control socket of the xgw-gateway beside this agent." },
    { CONFIG_PATH(struct options, tls_ca), .name = "tls-ca", .def = "",
      .what = "PEM file of the authority that signed the controllers' certificates." },
    { CONFIG_PATH(struct options, tls_cert), .name = "tls-cert", .def = "",
      .what = "PEM file of our certificate; replaced files serve new connections." },
    { CONFIG_PATH(struct options, tls_key), .name = "tls-key", .def = "",
      .what = "PEM file of its key." },
    { CONFIG_TEXT(struct options, tls_name), .name = "tls-name", .def = "",
      .what = "Name that the controllers' certificates carry; empty: the address." },
    { CONFIG_BOOL(struct options, plain_text), .name = "plain-text", .def = "false",
      .what = "No TLS towards the controllers: for tests on one machine only." },
    { CONFIG_DURATION(struct options, redial_min_ms), .name = "redial-min", .min = 10,
      .max = 60000, .def = "100ms",
      .what = "First pause after a lost session; it doubles from there." },
    { CONFIG_DURATION(struct options, redial_max_ms), .name = "redial-max", .min = 10,
      .max = 600000, .def = "5s", .what = "Longest pause between dials." },
    { CONFIG_DURATION(struct options, write_timeout_ms), .name = "write-timeout",
      .min = 100, .max = 600000, .def = "30s",
      .what = "A write that the device does not answer for so long is unknown." },
    { CONFIG_U32(struct options, writes_in_flight), .name = "writes-in-flight",
      .min = 1, .max = 64, .def = "16", .unit = "batches",
      .what = "Batches on their way to the device at once." },
    { CONFIG_ENUM(struct options, log_level), .name = "log-level",
      .choices = log_level_names, .def = "info", .reloadable = true,
      .what = "Least level that is logged." },
};

const struct config_table options_table = {
    .program = "xgw-agent",
    .summary = "Keeps one device's tables equal to what the controller wants.",
    .keys = keys,
    .count = sizeof(keys) / sizeof(keys[0]),
    .values_size = sizeof(struct options),
    .check = check,
};
