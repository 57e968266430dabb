/* What is stored of an audit. */
#include "controller/audit/audit.h"

#include <stdlib.h>
#include <string.h>

#define RECORD_VERSION 1

static void pack_text(struct buf *to, const char *text)
{
    buf_u8(to, (uint8_t)strlen(text));
    buf_text(to, text);
}

static void pack_difference(const struct audit_difference *d, struct buf *to)
{
    buf_u8(to, d->kind);
    buf_u8(to, d->table);
    buf_u24(to, d->vni);
    buf_u8(to, d->key_len);
    buf_u8(to, d->expected_len);
    buf_u8(to, d->found_len);
    buf_add(to, d->key, d->key_len);
    buf_add(to, d->expected, d->expected_len);
    buf_add(to, d->found, d->found_len);
}

void audit_record_pack(const struct audit_record *r, struct buf *to)
{
    const struct audit_findings *f = r->found;

    buf_u8(to, RECORD_VERSION);
    buf_u64(to, r->number);
    pack_text(to, r->node);
    pack_text(to, r->cluster);
    buf_u8(to, r->side);
    buf_u24(to, r->vni);
    pack_text(to, r->who);
    buf_u8(to, r->repairs);
    buf_u8(to, r->result);
    buf_u64(to, r->asked_ms);
    buf_u64(to, r->ended_ms);
    buf_u64(to, r->read_ms);
    buf_u64(to, r->revision);
    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        buf_u64(to, r->observed[t].sum);
        buf_u64(to, r->observed[t].count);
    }
    pack_text(to, r->text);
    for (unsigned k = AUDIT_MISSING; k < AUDIT_KINDS; k++) {
        buf_u64(to, f ? f->count[k] : 0);
    }
    buf_u64(to, f ? f->refused : 0);
    buf_u8(to, f && f->is_cut);
    buf_u8(to, f ? (uint8_t)f->listed : 0);
    for (uint32_t i = 0; f && i < f->listed; i++) {
        pack_difference(&f->at[i], to);
    }
}

static void take_text(struct reader *in, char *to, size_t size)
{
    size_t len = read_u8(in);
    const uint8_t *p = read_bytes(in, len);

    memset(to, 0, size);
    if (!p || len >= size || memchr(p, '\0', len)) {
        in->failed = true;
    } else {
        memcpy(to, p, len);
    }
}

static void take_bytes(struct reader *in, uint8_t *to, size_t len, size_t max)
{
    const uint8_t *p = len <= max ? read_bytes(in, len) : NULL;

    if (p) {
        memcpy(to, p, len);
    } else {
        in->failed = true;
    }
}

static void take_difference(struct reader *in, struct audit_difference *d)
{
    memset(d, 0, sizeof(*d));
    d->kind = read_u8(in);
    d->table = read_u8(in);
    d->vni = read_u24(in);
    d->key_len = read_u8(in);
    d->expected_len = read_u8(in);
    d->found_len = read_u8(in);
    take_bytes(in, d->key, d->key_len, sizeof(d->key));
    take_bytes(in, d->expected, d->expected_len, sizeof(d->expected));
    take_bytes(in, d->found, d->found_len, sizeof(d->found));
    in->failed =
        in->failed || d->kind == 0 || d->kind >= AUDIT_KINDS || d->table >= TABLE_COUNT;
}

static void take_findings(struct reader *in, struct audit_findings *f)
{
    uint8_t is_cut;

    for (unsigned k = AUDIT_MISSING; k < AUDIT_KINDS; k++) {
        f->count[k] = read_u64(in);
    }
    f->refused = read_u64(in);
    is_cut = read_u8(in);
    f->is_cut = is_cut;
    f->listed = read_u8(in);
    in->failed = in->failed || is_cut > 1 || f->listed > AUDIT_LISTED_MAX;
    for (uint32_t i = 0; !in->failed && i < f->listed; i++) {
        take_difference(in, &f->at[i]);
    }
}

enum rc audit_record_unpack(const void *bytes, size_t len, struct audit_record *ret,
                            struct err *err)
{
    struct reader in = reader_of(bytes, len);
    struct audit_findings *f = calloc(1, sizeof(*f));
    struct audit_record r = { .state = AUDIT_DONE, .found = f };
    uint8_t version;
    uint8_t repairs;

    if (!f) {
        return err_set(err, RC_NO_MEMORY, "out of memory");
    }
    version = read_u8(&in);
    r.number = read_u64(&in);
    take_text(&in, r.node, sizeof(r.node));
    take_text(&in, r.cluster, sizeof(r.cluster));
    r.side = read_u8(&in);
    r.vni = read_u24(&in);
    take_text(&in, r.who, sizeof(r.who));
    repairs = read_u8(&in);
    r.repairs = repairs;
    r.result = read_u8(&in);
    r.asked_ms = read_u64(&in);
    r.ended_ms = read_u64(&in);
    r.read_ms = read_u64(&in);
    r.revision = read_u64(&in);
    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        r.observed[t].sum = read_u64(&in);
        r.observed[t].count = read_u64(&in);
    }
    take_text(&in, r.text, sizeof(r.text));
    take_findings(&in, f);
    if (in.failed || reader_left(&in) > 0 || version != RECORD_VERSION || repairs > 1 ||
        r.result == AUDIT_OPEN || r.result > AUDIT_FAILED) {
        free(f);
        return err_set(err, RC_INVALID, "no audit record");
    }
    *ret = r;
    return RC_OK;
}
