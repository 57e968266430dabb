#include "controller/probe/probes_record.h"

#include <string.h>

#define RECORD_VERSION 1

const char *probes_state_name(unsigned state)
{
    static const char *const names[] = { "unknown", "waiting", "picking", "sending",
                                         "done" };

    return state <= PROBES_DONE ? names[state] : names[0];
}

const char *probes_result_name(unsigned result)
{
    static const char *const names[] = { "open", "passed", "failed", "cannot_say" };

    return result <= PROBES_CANNOT_SAY ? names[result] : "unknown";
}

const char *probes_verdict_name(unsigned verdict)
{
    static const char *const names[] = { "none", "agreed", "differed", "unsaid" };

    return verdict <= VERDICT_UNSAID ? names[verdict] : "unknown";
}

static void pack_text(struct buf *to, const char *text)
{
    buf_u16(to, (uint16_t)strlen(text));
    buf_text(to, text);
}

static void pack_cell(const struct probes_cell *c, struct buf *to)
{
    buf_u8(to, c->reach);
    if (c->reach == MATRIX_COVERED) {
        buf_u8(to, c->verdict);
        buf_u16(to, c->number);
        pack_text(to, c->want);
    }
}

void probes_record_pack(const struct probes_record *r, struct buf *to)
{
    buf_u8(to, RECORD_VERSION);
    buf_u64(to, r->number);
    pack_text(to, r->node);
    pack_text(to, r->cluster);
    buf_u24(to, r->vni);
    pack_text(to, r->who);
    buf_u8(to, r->result);
    buf_u64(to, r->asked_ms);
    buf_u64(to, r->ended_ms);
    buf_u32(to, r->probes);
    buf_u32(to, r->agreed);
    buf_u32(to, r->differed);
    buf_u32(to, r->unsaid);
    pack_text(to, r->why);
    buf_u8(to, (uint8_t)r->listed);
    for (uint32_t i = 0; i < r->listed; i++) {
        pack_text(to, r->differs[i]);
    }
    buf_u16(to, r->cell_count);
    for (uint16_t i = 0; i < r->cell_count; i++) {
        pack_cell(&r->cells[i], to);
    }
}

static void take_text(struct reader *in, char *to, size_t size)
{
    size_t len = read_u16(in);
    const uint8_t *p = read_bytes(in, len);

    memset(to, 0, size);
    if (!p || len >= size || memchr(p, '\0', len)) {
        in->failed = true;
    } else {
        memcpy(to, p, len);
    }
}

static void take_cell(struct reader *in, struct probes_cell *c)
{
    c->reach = read_u8(in);
    in->failed = in->failed || c->reach >= MATRIX_REACHES;
    if (c->reach == MATRIX_COVERED) {
        c->verdict = read_u8(in);
        c->number = read_u16(in);
        take_text(in, c->want, sizeof(c->want));
        in->failed = in->failed || c->verdict > VERDICT_UNSAID;
    }
}

enum rc probes_record_unpack(const void *bytes, size_t len, struct probes_record *ret,
                             struct err *err)
{
    struct reader in = reader_of(bytes, len);
    struct probes_record *r = ret;
    uint8_t version = read_u8(&in);

    memset(r, 0, sizeof(*r));
    r->state = PROBES_DONE;
    r->number = read_u64(&in);
    take_text(&in, r->node, sizeof(r->node));
    take_text(&in, r->cluster, sizeof(r->cluster));
    r->vni = read_u24(&in);
    take_text(&in, r->who, sizeof(r->who));
    r->result = read_u8(&in);
    r->asked_ms = read_u64(&in);
    r->ended_ms = read_u64(&in);
    r->probes = read_u32(&in);
    r->agreed = read_u32(&in);
    r->differed = read_u32(&in);
    r->unsaid = read_u32(&in);
    take_text(&in, r->why, sizeof(r->why));
    r->listed = read_u8(&in);
    in.failed = in.failed || r->listed > PROBES_LISTED_MAX;
    for (uint32_t i = 0; !in.failed && i < r->listed; i++) {
        take_text(&in, r->differs[i], sizeof(r->differs[i]));
    }
    r->cell_count = read_u16(&in);
    in.failed = in.failed || r->cell_count > MATRIX_CELLS_MAX;
    for (uint16_t i = 0; !in.failed && i < r->cell_count; i++) {
        take_cell(&in, &r->cells[i]);
    }
    if (in.failed || reader_left(&in) > 0 || version != RECORD_VERSION ||
        r->result == PROBES_OPEN || r->result > PROBES_CANNOT_SAY) {
        return err_set(err, RC_INVALID, "no record of probes");
    }
    return RC_OK;
}
