#include "agent/p4rt/p4rt_codec.h"

#include <assert.h>
#include <string.h>

#include "proto/rpc/wire.h"

/* A message's length stands before it, so messages are written from their end: a room
 * is filled downwards, and what was written last is what comes first. */
struct room {
    uint8_t *p;
    uint8_t bytes[P4RT_UPDATE_MAX];
};

static inline void room_init(struct room *m)
{
    m->p = m->bytes + sizeof(m->bytes);
}

static inline const uint8_t *end_of(const struct room *m)
{
    return m->bytes + sizeof(m->bytes);
}

static inline void put_varint(struct room *m, uint64_t v)
{
    uint8_t bytes[WIRE_VARINT_MAX];
    size_t len;

    if (v < 0x80) {
        *--m->p = (uint8_t)v;
        return;
    }
    len = wire_varint(bytes, v);
    m->p -= len;
    memcpy(m->p, bytes, len);
}

/* Field numbers up to 15 make tags of one byte, and all of ours are. */
#define TAG(number, type) ((uint8_t)((number) << 3 | (type)))

static inline void put_number(struct room *m, unsigned number, uint64_t v)
{
    if (v != 0) {
        put_varint(m, v);
        *--m->p = TAG(number, WIRE_VARINT);
    }
}

/* Makes a field of what stands from `m->p` to `end`. */
static inline void put_head(struct room *m, unsigned number, const uint8_t *end)
{
    put_varint(m, (uint64_t)(end - m->p));
    *--m->p = TAG(number, WIRE_BYTES);
}

/* The canonical bytestring of a number of `len` bytes. */
static inline void put_value(struct room *m, unsigned number, const uint8_t *bytes,
                             size_t len)
{
    while (len > 1 && *bytes == 0) {
        bytes++;
        len--;
    }
    m->p -= len;
    memcpy(m->p, bytes, len);
    *--m->p = (uint8_t)len;
    *--m->p = TAG(number, WIRE_BYTES);
}

static inline bool is_zero(const uint8_t *bytes, size_t len)
{
    uint8_t any = 0;

    for (size_t i = 0; i < len; i++) {
        any |= bytes[i];
    }
    return any == 0;
}

/* TableEntry.match. */
static inline void put_match(struct room *m, const struct phys_field *f,
                             const struct phys_entry *e)
{
    size_t len = (f->bits + 7u) / 8u;
    const uint8_t *end = m->p;

    if (f->match == PHYS_EXACT) {
        put_value(m, 1, e->key + f->offset, len);
        put_head(m, 2, end); /* exact */
    } else if (is_zero(e->mask + f->offset, len)) {
        return;
    } else {
        put_value(m, 2, e->mask + f->offset, len);
        put_value(m, 1, e->key + f->offset, len);
        put_head(m, 3, end); /* ternary */
    }
    put_number(m, 1, f->id);
    put_head(m, 2, end);
}

/* TableEntry.action. */
static inline void put_action(struct room *m, const struct phys_entry *e)
{
    const struct phys_action_desc *d = phys_action_desc((enum phys_action)e->action);
    const uint8_t *end = m->p;

    for (unsigned i = d->param_count; i-- > 0;) {
        const struct phys_field *f = &d->params[i];
        const uint8_t *param_end = m->p;

        put_value(m, 3, e->data + f->offset, (f->bits + 7u) / 8u);
        put_number(m, 2, f->id);
        put_head(m, 4, param_end);
    }
    put_number(m, 1, d->id);
    put_head(m, 1, end); /* TableAction.action */
    put_head(m, 3, end);
}

enum parts { KEY_ONLY, WITH_ACTION };

/* An Entity with a table_entry. */
static inline void put_entry(struct room *m, const struct phys_entry *e,
                             enum parts parts)
{
    const struct phys_table_desc *d = phys_table_desc((enum phys_table)e->table);
    const uint8_t *end = m->p;

    put_number(m, 4, e->priority);
    if (parts == WITH_ACTION && e->action != PHYS_NO_ACTION) {
        put_action(m, e);
    }
    for (unsigned i = d->field_count; i-- > 0;) {
        put_match(m, &d->fields[i], e);
    }
    put_number(m, 1, d->id);
    put_head(m, 2, end);
}

/* MeterEntry.index, CounterEntry.index: there even when it is 0. */
static void put_index(struct room *m, bool has_index, uint64_t index)
{
    const uint8_t *end = m->p;

    if (has_index) {
        put_number(m, 1, index);
        put_head(m, 2, end);
    }
}

/* An Entity with a meter_entry or a counter_entry. */
static void put_cell(struct room *m, const struct p4rt_entity *c)
{
    const uint8_t *end = m->p;

    if (c->kind == P4RT_METER && c->has_config) {
        put_number(m, 4, c->config.pburst);
        put_number(m, 3, c->config.pir);
        put_number(m, 2, c->config.cburst);
        put_number(m, 1, c->config.cir);
        put_head(m, 3, end);
    } else if (c->kind == P4RT_COUNTER) {
        put_number(m, 2, c->packets);
        put_number(m, 1, c->bytes);
        put_head(m, 3, end);
    }
    put_index(m, c->has_index, c->index);
    put_number(m, 1, c->id);
    put_head(m, c->kind == P4RT_METER ? 5 : 7, end);
}

static void add_room(struct buf *to, const struct room *m)
{
    assert(m->p >= m->bytes);
    buf_add(to, m->p, (size_t)(end_of(m) - m->p));
}

void p4rt_write_begin(struct buf *to, const struct p4rt_write_head *head)
{
    struct room m;

    room_init(&m);
    put_number(&m, 5, head->atomicity);
    {
        const uint8_t *end = m.p;

        put_number(&m, 2, head->election_low);
        put_number(&m, 1, head->election_high);
        put_head(&m, 3, end);
    }
    put_number(&m, 1, head->device_id);
    add_room(to, &m);
}

/* Makes WriteRequest.updates of the entity in `m`. */
static inline void add_update(struct buf *to, struct room *m, enum phys_op op)
{
    put_head(m, 2, end_of(m));
    put_number(m, 1, op);
    put_head(m, 4, end_of(m));
    add_room(to, m);
}

void p4rt_write_entry(struct buf *to, enum phys_op op, const struct phys_entry *entry)
{
    struct room m;

    room_init(&m);
    put_entry(&m, entry, op == PHYS_DELETE ? KEY_ONLY : WITH_ACTION);
    add_update(to, &m, op);
}

void p4rt_write_cell(struct buf *to, const struct p4rt_entity *cell)
{
    struct room m;

    room_init(&m);
    put_cell(&m, cell);
    add_update(to, &m, PHYS_MODIFY);
}

void p4rt_read_begin(struct buf *to, uint64_t device_id)
{
    struct room m;

    room_init(&m);
    put_number(&m, 1, device_id);
    add_room(to, &m);
}

void p4rt_read_add(struct buf *to, const struct p4rt_query *q)
{
    struct room m;

    room_init(&m);
    if (q->kind == P4RT_TABLE && q->has_key) {
        put_entry(&m, &q->entry, KEY_ONLY);
    } else if (q->kind == P4RT_TABLE) {
        put_number(&m, 8, q->is_default);
        put_number(&m, 1, q->id);
        put_head(&m, 2, end_of(&m));
    } else {
        put_index(&m, q->has_index, q->index);
        put_number(&m, 1, q->id);
        put_head(&m, q->kind == P4RT_METER ? 5 : 7, end_of(&m));
    }
    put_head(&m, 2, end_of(&m));
    add_room(to, &m);
}

void p4rt_response_entry(struct buf *to, const struct phys_entry *entry)
{
    struct room m;

    room_init(&m);
    put_entry(&m, entry, WITH_ACTION);
    put_head(&m, 1, end_of(&m));
    add_room(to, &m);
}

void p4rt_response_cell(struct buf *to, const struct p4rt_entity *cell)
{
    struct room m;

    room_init(&m);
    put_cell(&m, cell);
    put_head(&m, 1, end_of(&m));
    add_room(to, &m);
}
