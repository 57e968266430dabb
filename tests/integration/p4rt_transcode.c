/* For test_p4rt_codec.py: reads "KIND LENGTH\n" and as many bytes of a message, and
 * writes the message again as our codec packs what it read: "LENGTH\n" and the bytes;
 * or
 * "! RULE\n" when it was refused.  KIND is write, response, read, errors or info. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/p4rt/p4rt_codec.h"
#include "agent/p4rt/p4rt_info.h"

static enum rc do_write(const uint8_t *bytes, size_t len, struct buf *to,
                        struct err *err)
{
    struct p4rt_write_head head;
    struct p4rt_cursor c;
    struct p4rt_piece piece;
    struct p4rt_entity e;
    enum phys_op op;
    enum rc rc = p4rt_write_open(bytes, len, &head, &c, err);

    if (rc == RC_OK) {
        p4rt_write_begin(to, &head);
    }
    while (rc == RC_OK && p4rt_next(&c, &piece)) {
        rc = p4rt_update_decode(piece, &op, &e, err);
        if (rc == RC_OK && e.kind == P4RT_TABLE) {
            p4rt_write_entry(to, op, &e.entry);
        } else if (rc == RC_OK) {
            p4rt_write_cell(to, &e);
        }
    }
    return rc;
}

static enum rc do_response(const uint8_t *bytes, size_t len, struct buf *to,
                           struct err *err)
{
    struct p4rt_cursor c;
    struct p4rt_piece piece;
    struct p4rt_entity e;
    enum rc rc = p4rt_response_open(bytes, len, &c, err);

    while (rc == RC_OK && p4rt_next(&c, &piece)) {
        rc = p4rt_entity_decode(piece, &e, err);
        if (rc == RC_OK && e.kind == P4RT_TABLE) {
            p4rt_response_entry(to, &e.entry);
        } else if (rc == RC_OK) {
            p4rt_response_cell(to, &e);
        }
    }
    return rc;
}

static enum rc do_read(const uint8_t *bytes, size_t len, struct buf *to,
                       struct err *err)
{
    struct p4rt_cursor c;
    struct p4rt_piece piece;
    struct p4rt_query q;
    uint64_t device;
    enum rc rc = p4rt_read_open(bytes, len, &device, &c, err);

    if (rc == RC_OK) {
        p4rt_read_begin(to, device);
    }
    while (rc == RC_OK && p4rt_next(&c, &piece)) {
        rc = p4rt_query_decode(piece, &q, err);
        if (rc == RC_OK) {
            p4rt_read_add(to, &q);
        }
    }
    return rc;
}

/* The number of errors is in the first byte. */
static enum rc do_errors(const uint8_t *bytes, size_t len, struct buf *to,
                         struct err *err)
{
    uint8_t codes[256];
    struct p4rt_failure first;
    enum rc rc = p4rt_errors_decode(bytes + 1, len - 1, codes, bytes[0], &first);

    if (rc != RC_OK) {
        return err_field(err, rc, "errors", "errors", "refused");
    }
    p4rt_errors_begin(to, RPC_UNKNOWN, "some failed");
    for (unsigned i = 0; i < bytes[0]; i++) {
        p4rt_errors_add(to, (enum rpc_code)codes[i],
                        i == first.index ? first.message : NULL);
    }
    return RC_OK;
}

static enum rc do_info(const uint8_t *bytes, size_t len, struct buf *to,
                       struct err *err)
{
    struct p4rt_info info;
    enum rc rc = p4rt_info_read(bytes, len, phys_sizes_tofino(), &info, err);

    if (rc == RC_OK) {
        buf_text(to, info.program);
    }
    return rc;
}

static const struct {
    const char *name;
    enum rc (*run)(const uint8_t *bytes, size_t len, struct buf *to, struct err *err);
} kinds[] = {
    { "write", do_write },   { "response", do_response }, { "read", do_read },
    { "errors", do_errors }, { "info", do_info },
};

int main(void)
{
    struct buf b = BUF_INIT;
    char kind[16];
    size_t len;

    while (scanf("%15s %zu", kind, &len) == 2 && getchar() == '\n') {
        uint8_t *bytes = malloc(len + 1);
        struct err err = { 0 };
        enum rc rc = RC_BUG;

        if (!bytes || fread(bytes, 1, len, stdin) != len) {
            return 1;
        }
        buf_reset(&b);
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
            if (strcmp(kinds[i].name, kind) == 0) {
                rc = kinds[i].run(bytes, len, &b, &err);
            }
        }
        free(bytes);
        if (rc != RC_OK) {
            printf("! %s\n", err.rule);
        } else {
            printf("%zu\n", b.len);
            fwrite(b.data, 1, b.len, stdout);
        }
        fflush(stdout);
    }
    buf_fini(&b);
    return 0;
}
