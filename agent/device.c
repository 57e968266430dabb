#include "agent/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/driver/driver_gateway.h"
#include "agent/driver/driver_p4runtime.h"
#include "proto/model/object.h"

#define FILE_MAX (512u << 20) /* bytes; images of chips have tens of millions */

static enum rc read_file(const char *path, struct blob **ret, struct err *err)
{
    FILE *f = fopen(path, "rb");
    long size = -1;
    struct blob *b = NULL;

    if (f && fseek(f, 0, SEEK_END) == 0) {
        size = ftell(f);
        rewind(f);
    }
    if (size >= 0 && size <= (long)FILE_MAX) {
        b = blob_new((size_t)size);
    }
    if (b && fread(b->data, 1, (size_t)size, f) != (size_t)size) {
        blob_unref(b);
        b = NULL;
    }
    if (!b) {
        err_set(err, RC_NOT_FOUND, "%s: cannot be read: %s", path,
                size > (long)FILE_MAX ? "too big" : strerror(errno));
    }
    if (f) {
        fclose(f);
    }
    *ret = b;
    return b ? RC_OK : RC_NOT_FOUND;
}

/* "1,2" or "1". */
static enum rc read_ids(const char *text, struct p4rt_switch_options *to,
                        struct err *err)
{
    const char *p = text;
    char *end;

    do {
        errno = 0;
        to->device_id[to->device_count] = strtoull(p, &end, 10);
        if (*p < '0' || *p > '9' || errno != 0 ||
            to->device_id[to->device_count] == 0 || (*end != ',' && *end != '\0')) {
            break;
        }
        to->device_count++;
        p = end + 1;
    } while (*end == ',' && to->device_count < P4RT_DEVICES_MAX);
    if (to->device_count == 0 || *end != '\0') {
        return err_field(err, RC_INVALID, "p4-devices", "device_ids",
                         "p4-devices '%s': not one or two numbers above 0", text);
    }
    return RC_OK;
}

static enum rc new_p4runtime(struct rpc_loop *loop, const struct options *o,
                             const struct driver_events *events, void *ctx,
                             struct driver **ret, struct err *err)
{
    struct rpc_tls tls = { .ca_file = o->p4_tls_ca,
                           .cert_file = o->p4_tls_cert[0] ? o->p4_tls_cert : NULL,
                           .key_file = o->p4_tls_key[0] ? o->p4_tls_key : NULL };
    struct driver_p4runtime_options p4 = { .window = o->p4_window };
    enum rc rc;

    p4.sw.address = o->p4_address;
    p4.sw.tls = o->p4_tls_ca[0] ? &tls : NULL;
    p4.sw.tls_name = o->p4_tls_name[0] ? o->p4_tls_name : NULL;
    p4.sw.keepalive_ms = o->p4_keepalive_ms;
    p4.sw.replaces_other_program = o->p4_replace_program;
    p4.sw.cannot_reconcile = o->device_kind + 1 == DEVICE_BMV2;
    rc = read_ids(o->p4_devices, &p4.sw, err);
    rc = rc == RC_OK ? read_file(o->p4_info, &p4.sw.p4info, err) : rc;
    if (rc == RC_OK && o->p4_image[0]) {
        rc = read_file(o->p4_image, &p4.sw.device_config, err);
    }
    rc = rc == RC_OK ? driver_p4runtime_new(loop, &p4, events, ctx, ret, err) : rc;
    blob_unref(p4.sw.p4info);
    blob_unref(p4.sw.device_config);
    return rc;
}

enum rc device_driver_new(struct rpc_loop *loop, const struct options *o,
                          const struct driver_events *events, void *ctx,
                          struct driver **ret, struct err *err)
{
    return options_have_gateway(o)
               ? driver_gateway_new(loop, o->gateway, events, ctx, ret, err)
               : new_p4runtime(loop, o, events, ctx, ret, err);
}
