#include "agent/options.h"

#include <string.h>

#include "proto/base/log.h"
#include "proto/model/object.h"

/* In the order of enum device_kind, which begins at 1. */
static const char *const device_kinds[] = {
    "x86", "soft-h", "tofino", "bmv2", "lb", NULL,
};

bool options_have_gateway(const struct options *o)
{
    return o->device_kind + 1 == DEVICE_X86 || o->device_kind + 1 == DEVICE_LB;
}

static enum rc check_switch(const struct options *o, struct err *err)
{
    bool is_unix = strncmp(o->p4_address, "unix:", 5) == 0;

    if (!o->p4_info[0]) {
        return err_field(err, RC_INVALID, "p4info", "p4info_needed",
                         "p4info is needed: the file that was compiled with the "
                         "switch's program");
    }
    if (!o->plain_text && !is_unix && !o->p4_tls_ca[0]) {
        return err_field(
            err, RC_INVALID, "p4-tls-ca", "tls_required",
            "p4-tls-ca is needed for a switch that is not at a Unix socket "
            "(or plain-text, for tests on one machine)");
    }
    return RC_OK;
}

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
    return options_have_gateway(o) ? RC_OK : check_switch(o, err);
}

static const struct config_key keys[] = {
    { CONFIG_TEXT(struct options, device_id), .name = "device-id", .def = NULL,
      .what = "Name of the node that this device is; its certificate's common name." },
    { CONFIG_TEXT(struct options, controllers), .name = "controllers",
      .def = "127.0.0.1:7443",
      .what = "Addresses of the controllers, HOST:PORT separated by commas." },
    { CONFIG_ENUM(struct options, device_kind), .name = "device-kind",
      .choices = device_kinds, .def = "x86",
      .what = "What the device is; all but x86 and lb are driven over P4Runtime." },
    { CONFIG_PATH(struct options, gateway), .name = "gateway",
      .def = "unix:/run/xgw/gateway.sock",
      .what = "Control socket of the xgw-gateway beside this agent." },
    { CONFIG_TEXT(struct options, p4_address), .name = "p4runtime",
      .def = "unix:/run/xgw/gateway.sock",
      .what = "Where the switch serves P4Runtime: HOST:PORT or unix:PATH." },
    { CONFIG_TEXT(struct options, p4_devices), .name = "p4-devices", .def = "1,2",
      .what = "Its device ids, one for each half: pipes 0 and 1, then 2 and 3; one id: "
              "the switch has no halves." },
    { CONFIG_PATH(struct options, p4_info), .name = "p4info", .def = "",
      .what = "Binary p4info of the program that has to run on it." },
    { CONFIG_PATH(struct options, p4_image), .name = "p4-image", .def = "",
      .what = "What the target loads for it; empty: nothing, as with xgw-gateway." },
    { CONFIG_BOOL(struct options, p4_replace_program), .name = "p4-replace-program",
      .def = "false",
      .what =
          "Put ours in the place of another program, which empties the switch; else "
          "that is an error." },
    { CONFIG_DURATION(struct options, p4_keepalive_ms), .name = "p4-keepalive",
      .min = 1000, .max = 3600000, .def = "310s",
      .what = "How long a quiet switch is left unasked; gRPC servers hang up on those "
              "who ask more often than every 5 minutes, unless told otherwise." },
    { CONFIG_U32(struct options, p4_window), .name = "p4-window", .min = 1, .max = 64,
      .def = "4", .unit = "requests",
      .what = "Write requests under way to each half at once." },
    { CONFIG_PATH(struct options, p4_tls_ca), .name = "p4-tls-ca", .def = "",
      .what = "PEM file of the authority that signed the switch's certificate." },
    { CONFIG_PATH(struct options, p4_tls_cert), .name = "p4-tls-cert", .def = "",
      .what = "PEM file of our certificate towards the switch; empty: none is shown." },
    { CONFIG_PATH(struct options, p4_tls_key), .name = "p4-tls-key", .def = "",
      .what = "PEM file of its key." },
    { CONFIG_TEXT(struct options, p4_tls_name), .name = "p4-tls-name", .def = "",
      .what = "Name that the switch's certificate carries; empty: the address." },
    { CONFIG_PATH(struct options, tls_ca), .name = "tls-ca", .def = "",
      .what = "PEM file of the authority that signed the controllers' certificates." },
    { CONFIG_PATH(struct options, tls_cert), .name = "tls-cert", .def = "",
      .what = "PEM file of our certificate; replaced files serve new connections." },
    { CONFIG_PATH(struct options, tls_key), .name = "tls-key", .def = "",
      .what = "PEM file of its key." },
    { CONFIG_TEXT(struct options, tls_name), .name = "tls-name", .def = "",
      .what = "Name that the controllers' certificates carry; empty: the address." },
    { CONFIG_BOOL(struct options, plain_text), .name = "plain-text", .def = "false",
      .what = "No TLS towards controllers and switch: for tests on one machine only." },
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
