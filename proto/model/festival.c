#include "proto/model/festival.h"

#include <string.h>

#include "proto/model/name.h"

#define PACK_KIND    'f'
#define PACK_VERSION 1

void festival_default(struct festival *f)
{
    memset(f, 0, sizeof(*f));
    f->growth_percent = 100;
    f->marks = (struct level_marks){ 8000, 9000, 9800, 1000 };
}

static enum rc check_tenants(const struct festival *f, struct err *err)
{
    if (f->tenant_count > FESTIVAL_TENANTS_MAX) {
        return err_field(err, RC_RANGE, "tenants", "list_length",
                         "tenants: more than %d", FESTIVAL_TENANTS_MAX);
    }
    for (unsigned i = 0; i < f->tenant_count; i++) {
        if (f->tenants[i] < VNI_MIN || f->tenants[i] > VNI_MAX) {
            return err_field(err, RC_RANGE, "tenants", "vni_range",
                             "tenants: %u is not 1 to 16777215", f->tenants[i]);
        }
        if (i > 0 && f->tenants[i] <= f->tenants[i - 1]) {
            return err_field(err, RC_INVALID, "tenants", "ascending",
                             "tenants: not ascending, or one twice");
        }
    }
    return RC_OK;
}

enum rc festival_check(const struct festival *f, struct err *err)
{
    enum rc rc = name_check(f->name, REGION_NAME_MAX, "name", err);

    if (rc != RC_OK) {
        return rc;
    }
    if (f->starts_s == 0 || f->ends_s <= f->starts_s ||
        f->ends_s - f->starts_s > FESTIVAL_LONGEST_S) {
        return err_field(err, RC_RANGE, "ends", "festival_window",
                         "ends: not after the start, or more than 90 days after it");
    }
    if (f->growth_percent < 1 || f->growth_percent > FESTIVAL_GROWTH_MAX) {
        return err_field(err, RC_RANGE, "growth_percent", "number_range",
                         "growth_percent: not from 1 to %d", FESTIVAL_GROWTH_MAX);
    }
    rc = level_marks_check(&f->marks, "levels.", err);
    return rc ? rc : check_tenants(f, err);
}

void festival_pack(const struct festival *f, struct buf *to)
{
    buf_u8(to, PACK_KIND);
    buf_u8(to, PACK_VERSION);
    buf_u8(to, (uint8_t)strlen(f->name));
    buf_text(to, f->name);
    buf_u64(to, f->starts_s);
    buf_u64(to, f->ends_s);
    buf_u16(to, f->growth_percent);
    level_marks_pack(&f->marks, to);
    buf_u8(to, f->is_over);
    buf_u8(to, f->tenant_count);
    for (unsigned i = 0; i < f->tenant_count; i++) {
        buf_u24(to, f->tenants[i]);
    }
}

static bool read_fields(struct reader *r, struct festival *f)
{
    size_t len = read_u8(r);
    const uint8_t *name = read_bytes(r, len);

    if (!name || len > REGION_NAME_MAX || memchr(name, '\0', len)) {
        return false;
    }
    memcpy(f->name, name, len);
    f->starts_s = read_u64(r);
    f->ends_s = read_u64(r);
    f->growth_percent = read_u16(r);
    f->marks = level_marks_read(r);
    len = read_u8(r);
    f->is_over = len == 1;
    f->tenant_count = read_u8(r);
    if (len > 1 || f->tenant_count > FESTIVAL_TENANTS_MAX) {
        return false;
    }
    for (unsigned i = 0; i < f->tenant_count; i++) {
        f->tenants[i] = read_u24(r);
    }
    return !r->failed && reader_left(r) == 0;
}

enum rc festival_unpack(const void *bytes, size_t len, struct festival *ret,
                        struct err *err)
{
    struct reader r = reader_of(bytes, len);
    struct festival f = { 0 };
    bool is_ours = read_u8(&r) == PACK_KIND;

    if (read_u8(&r) != PACK_VERSION || !is_ours || !read_fields(&r, &f)) {
        return err_field(err, RC_INVALID, "", "packed_form",
                         "festival: not a packed one");
    }
    if (festival_check(&f, err) != RC_OK) {
        return err_wrap(err, RC_INVALID, "festival");
    }
    *ret = f;
    return RC_OK;
}
