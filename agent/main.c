/* xgw-agent: wiring only. */
#include "agent/device.h"
#include "agent/options.h"
#include "agent/shell.h"
#include "proto/base/log.h"
#include "proto/rpc/program.h"

#include <event2/event.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#define CONTROLLERS_MAX 16
#define KEPT_BYTES      (64 << 20)

struct agent {
    struct options options;
    char text[512]; /* the controllers, cut into words */
    const char *controllers[CONTROLLERS_MAX];
    uint32_t controller_count;
    struct rpc_tls tls;
    struct program program;
    struct shell *shell;
    struct driver *driver;
    struct link *link;
};

static enum rc read_controllers(struct agent *a, struct err *err)
{
    char *rest = a->text;
    char *word;

    memcpy(a->text, a->options.controllers, sizeof(a->text));
    while ((word = strsep(&rest, ",")) != NULL) {
        if (*word == '\0' || a->controller_count == CONTROLLERS_MAX) {
            return err_field(err, RC_INVALID, "controllers", "controllers_list",
                             "controllers: an empty address, or more than %d",
                             CONTROLLERS_MAX);
        }
        a->controllers[a->controller_count++] = word;
    }
    return RC_OK;
}

static enum rc start_link(struct agent *a, struct err *err)
{
    struct link_config config = {
        .loop = a->program.rpc,
        .controllers = a->controllers,
        .controller_count = a->controller_count,
        .tls = a->options.plain_text ? NULL : &a->tls,
        .tls_name = a->options.tls_name[0] ? a->options.tls_name : NULL,
    };

    a->tls.ca_file = a->options.tls_ca;
    a->tls.cert_file = a->options.tls_cert;
    a->tls.key_file = a->options.tls_key;
    if (config.tls) {
        enum rc rc = rpc_tls_check(config.tls, false, err);

        if (rc != RC_OK) {
            return rc;
        }
    }
    return link_new(&config, &shell_link_events, a->shell, &a->link, err);
}

static enum rc start(struct agent *a, struct err *err)
{
    struct session_config config = {
        .device_kind = (uint8_t)(a->options.device_kind + 1),
        .redial_min_ms = a->options.redial_min_ms,
        .redial_max_ms = a->options.redial_max_ms,
        .write_timeout_ms = a->options.write_timeout_ms,
        .reads_alone = a->options.device_kind + 1 != DEVICE_X86,
        .writes_in_flight = a->options.writes_in_flight,
    };
    enum rc rc = read_controllers(a, err);

    snprintf(config.device_id, sizeof(config.device_id), "%s", a->options.device_id);
    config.controller_count = a->controller_count;
    rc = rc == RC_OK ? program_init(&a->program, NULL, NULL, err) : rc;
    rc = rc == RC_OK ? shell_new(a->program.base, &config, &a->shell, err) : rc;
    rc = rc == RC_OK ? start_link(a, err) : rc;
    rc = rc == RC_OK
             ? device_driver_new(a->program.rpc, &a->options, &shell_driver_events,
                                 a->shell, &a->driver, err)
             : rc;
    if (rc == RC_OK) {
        shell_start(a->shell, a->driver, a->link);
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct agent a = { 0 };
    struct err err = { 0 };
    int code = config_start(&options_table, argc, argv, &a.options);

    if (code >= 0) {
        return code;
    }
    log_set_level((enum log_level)a.options.log_level);
    /* What one batch needed and freed, the next one takes: given back to the kernel
     * between them, each of its pages would be cleared again, which was a third of the
     * agent's time in a download. */
    mallopt(M_MMAP_THRESHOLD, KEPT_BYTES / 2);
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    if (start(&a, &err) != RC_OK) {
        log_error("agent does not start", "cause=\"%s\"", err.msg);
        return 1;
    }
    log_info("agent runs", "device=%s controllers=%s at=%s", a.options.device_id,
             a.options.controllers,
             options_have_gateway(&a.options) ? a.options.gateway
                                              : a.options.p4_address);
    program_run(&a.program);
    shell_free(a.shell); /* cancels; the last callbacks come in one more turn */
    event_base_loop(a.program.base, EVLOOP_NONBLOCK);
    rpc_loop_free(a.program.rpc);
    program_fini(&a.program);
    return 0;
}
