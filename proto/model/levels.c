#include "proto/model/levels.h"

#include <stdio.h>
#include <string.h>

#define PACK_KIND    'l'
#define PACK_VERSION 1
#define PPB          1000000000u

void level_settings_default(struct level_settings *s)
{
    const struct level_marks marks = { 7000, 8000, 9000, 1000 };

    memset(s, 0, sizeof(*s));
    s->of[CLUSTER_X86] = (struct level_kind){ marks, 10000 };
    s->of[CLUSTER_XGW_H] = (struct level_kind){ marks, 1 };
    s->of[CLUSTER_LB] = s->of[CLUSTER_X86]; /* software as well */
}

enum rc level_marks_check(const struct level_marks *m, const char *prefix,
                          struct err *err)
{
    const char *field = NULL;
    char name[64];

    if (m->sale_bp == 0) {
        field = "sale";
    } else if (m->safe_bp <= m->sale_bp) {
        field = "safe";
    } else if (m->critical_bp <= m->safe_bp || m->critical_bp > LEVEL_FULL_BP) {
        field = "critical";
    } else if (m->clear_bp == 0 || m->clear_bp >= m->sale_bp) {
        field = "clear";
    }
    if (!field) {
        return RC_OK;
    }
    snprintf(name, sizeof(name), "%s%s", prefix, field);
    return err_field(err, RC_RANGE, name, "level_order",
                     "%s: levels must be 0 < sale < safe < critical <= 100 %%, and "
                     "clear above 0 and below sale",
                     name);
}

enum rc level_settings_check(const struct level_settings *s, struct err *err)
{
    for (unsigned kind = 1; kind < LEVEL_KINDS; kind++) {
        char prefix[32];
        enum rc rc;

        snprintf(prefix, sizeof(prefix), "%s.", cluster_kind_name(kind));
        rc = level_marks_check(&s->of[kind].marks, prefix, err);
        if (rc != RC_OK) {
            return rc;
        }
        if (s->of[kind].drop_ppb == 0 || s->of[kind].drop_ppb > PPB) {
            snprintf(prefix, sizeof(prefix), "%s.drop_rate", cluster_kind_name(kind));
            return err_field(err, RC_RANGE, prefix, "level_drop_rate",
                             "%s: must be 1e-9 to 1", prefix);
        }
    }
    return RC_OK;
}

void level_marks_pack(const struct level_marks *m, struct buf *to)
{
    buf_u16(to, m->sale_bp);
    buf_u16(to, m->safe_bp);
    buf_u16(to, m->critical_bp);
    buf_u16(to, m->clear_bp);
}

struct level_marks level_marks_read(struct reader *r)
{
    struct level_marks m;

    m.sale_bp = read_u16(r);
    m.safe_bp = read_u16(r);
    m.critical_bp = read_u16(r);
    m.clear_bp = read_u16(r);
    return m;
}

void level_settings_pack(const struct level_settings *s, struct buf *to)
{
    buf_u8(to, PACK_KIND);
    buf_u8(to, PACK_VERSION);
    buf_u8(to, LEVEL_KINDS - 1);
    for (unsigned kind = 1; kind < LEVEL_KINDS; kind++) {
        level_marks_pack(&s->of[kind].marks, to);
        buf_u32(to, s->of[kind].drop_ppb);
    }
}

enum rc level_settings_unpack(const void *bytes, size_t len, struct level_settings *ret,
                              struct err *err)
{
    struct reader r = reader_of(bytes, len);
    struct level_settings s = { 0 };
    bool is_ours = read_u8(&r) == PACK_KIND;
    bool is_known = read_u8(&r) == PACK_VERSION;

    if (!is_ours || !is_known || read_u8(&r) != LEVEL_KINDS - 1) {
        return err_field(err, RC_INVALID, "", "packed_form",
                         "levels: not packed level settings");
    }
    for (unsigned kind = 1; kind < LEVEL_KINDS; kind++) {
        s.of[kind].marks = level_marks_read(&r);
        s.of[kind].drop_ppb = read_u32(&r);
    }
    if (r.failed || reader_left(&r) > 0) {
        return err_field(err, RC_INVALID, "", "packed_form", "levels: wrong length");
    }
    if (level_settings_check(&s, err) != RC_OK) {
        return err_wrap(err, RC_INVALID, "levels");
    }
    *ret = s;
    return RC_OK;
}
