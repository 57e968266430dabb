#include "proto/model/consumer.h"

#include "proto/model/name.h"

#include <string.h>

#define PACK_KIND    'S'
#define PACK_VERSION 1

enum rc consumer_check(const struct consumer *x, struct err *err)
{
    return name_check(x->name, REGION_NAME_MAX, "name", err);
}

void consumer_pack(const struct consumer *x, struct buf *to)
{
    buf_u8(to, PACK_KIND);
    buf_u8(to, PACK_VERSION);
    buf_u8(to, (uint8_t)strlen(x->name));
    buf_text(to, x->name);
}

enum rc consumer_unpack(const void *bytes, size_t len, struct consumer *ret,
                        struct err *err)
{
    struct reader r = reader_of(bytes, len);
    struct consumer x = { 0 };
    bool is_ours = read_u8(&r) == PACK_KIND;
    const uint8_t *name;
    size_t name_len;

    is_ours = read_u8(&r) == PACK_VERSION && is_ours;
    name_len = read_u8(&r);
    name = read_bytes(&r, name_len);
    if (!is_ours || !name || name_len > REGION_NAME_MAX || memchr(name, 0, name_len) ||
        r.failed || reader_left(&r) != 0) {
        return err_field(err, RC_INVALID, "", "packed_form",
                         "consumer: not a packed one");
    }
    memcpy(x.name, name, name_len);
    if (consumer_check(&x, err) != RC_OK) {
        return err_wrap(err, RC_INVALID, "consumer");
    }
    *ret = x;
    return RC_OK;
}
