#include "agent/driver/driver_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/driver/memory_probe.h"
#include "proto/model/object.h"

#define READ_BATCH_BYTES (128u << 10)

enum call_kind { CALL_WRITE, CALL_CONFIGURE, CALL_READ, CALL_TOTALS, CALL_PROBE };

/* A call on its way: waits for `work_at`, then for `answer_at`. */
struct call {
    struct call *next;
    enum call_kind kind;
    struct driver_write write; /* also id, term; as `ops` CONFIGURE's and PROBE's */
    uint64_t work_at;
    uint64_t answer_at;
    bool is_done;
    enum rc rc;
    struct exception *exceptions;
    uint32_t exception_count;
    uint32_t vni; /* READ; 0: all */
};

struct driver_memory {
    struct driver base;
    struct memory_device *device; /* null once another driver took it */
    bool is_open;
    bool is_told_up; /* the last word to the session was `up` */
    bool must_tell_down;
    bool must_tell_up;
};

struct memory_device {
    struct memory_device_config config;
    struct table_set *tables;
    struct device_state state;
    struct device_config *device_config; /* null: none yet */
    struct memory_device_counts counts;
    struct device_totals totals; /* as set; without lists */
    uint64_t now_ms;
    bool is_alive;
    bool is_stalled;
    bool keeps_next_delete;
    bool loses_next, halves_next; /* batch */
    bool spoils_probes;
    enum rc fail_next;
    struct driver_memory *driver;
    struct driver_memory *ousted; /* a former writer that is to be told */
    struct call *calls;
    struct call **calls_end;
    memory_device_observer *observer;
    void *observer_ctx;
    memory_device_refuser *refuser;
    void *refuser_ctx;
};

/* ---- the device ---- */

struct memory_device *memory_device_new(const struct memory_device_config *config)
{
    struct memory_device *d = calloc(1, sizeof(*d));

    if (!d) {
        return NULL;
    }
    d->config = *config;
    d->tables = table_set_new();
    if (!d->tables) {
        free(d);
        return NULL;
    }
    d->state.boot_id = config->boot_id;
    d->is_alive = true;
    d->calls_end = &d->calls;
    return d;
}

static void call_free(struct call *c)
{
    blob_unref(c->write.ops);
    free(c->exceptions);
    free(c);
}

static void drop_calls(struct memory_device *d)
{
    while (d->calls) {
        struct call *c = d->calls;

        d->calls = c->next;
        call_free(c);
    }
    d->calls_end = &d->calls;
}

void memory_device_free(struct memory_device *d)
{
    if (d) {
        drop_calls(d);
        table_set_free(d->tables);
        free(d->device_config);
        free(d);
    }
}

const struct table_set *memory_device_tables(const struct memory_device *d)
{
    return d->tables;
}

struct device_state memory_device_state(const struct memory_device *d)
{
    return d->state;
}

struct memory_device_counts memory_device_counts(const struct memory_device *d)
{
    return d->counts;
}

enum rc memory_device_preset(struct memory_device *d, const struct blob *ops)
{
    return table_set_apply(d->tables, ops->data, ops->len, NULL, NULL, NULL);
}

enum rc memory_device_preset_rows(struct memory_device *d, uint32_t vni,
                                  enum table_id table, struct rows *rows)
{
    enum rc rc = table_set_put(d->tables, vni, table, rows_ref(rows));

    if (rc != RC_OK) {
        rows_unref(rows);
    }
    return rc;
}

void memory_device_observe(struct memory_device *d, memory_device_observer *f,
                           void *ctx)
{
    d->observer = f;
    d->observer_ctx = ctx;
}

/* ---- carrying out ---- */

static enum rc add_exception(struct call *c, uint8_t reason, enum table_id table,
                             uint32_t vni, const struct row *row)
{
    struct exception *more =
        realloc(c->exceptions, (c->exception_count + 1) * sizeof(*more));

    if (!more) {
        return RC_NO_MEMORY;
    }
    c->exceptions = more;
    more += c->exception_count++;
    memset(more, 0, sizeof(*more));
    more->reason = reason;
    more->table = (uint8_t)table;
    more->vni = vni;
    more->key_len = row->key_len;
    memcpy(more->key, row->key, row->key_len);
    return RC_OK;
}

/* Why the device does not take this row; 0 when it does. */
static uint8_t row_refusal(const struct memory_device *d, const struct batch_run *run,
                           const struct row *row, uint64_t used)
{
    enum table_id table = (enum table_id)run->table;
    uint64_t capacity = d->config.capacity[table];
    struct row old;

    if (run->op != BATCH_PUT) {
        return 0;
    }
    if (d->refuser && d->refuser(d->refuser_ctx, table, run->vni, row)) {
        return EXCEPTION_REFUSED;
    }
    if (capacity > 0 && used >= capacity &&
        !rows_find(table_set_rows(d->tables, run->vni, table), table, row->key,
                   row->key_len, &old)) {
        return EXCEPTION_FULL;
    }
    return 0;
}

/* One row through table_set_apply(), so that capacity is counted row by row. */
static enum rc write_row(struct memory_device *d, const struct batch_run *run,
                         const struct row *row, struct change_list *changes)
{
    struct batch_writer w;
    enum rc rc = RC_NO_MEMORY;
    struct blob *one;

    batch_writer_init(&w);
    batch_add_row(&w, (enum batch_op)run->op, (enum table_id)run->table, run->vni, row);
    one = batch_writer_finish(&w);
    if (one) {
        rc = table_set_apply(d->tables, one->data, one->len, changes, NULL, NULL);
    }
    blob_unref(one);
    batch_writer_fini(&w);
    return rc;
}

/* So many of the batch's `count` rows are done. */
static uint32_t rows_done(struct memory_device *d, uint32_t count)
{
    uint32_t done = d->loses_next ? 0 : d->halves_next ? count / 2 : count;

    d->loses_next = d->halves_next = false;
    return done;
}

static enum rc write_rows(struct memory_device *d, struct call *c, uint32_t count,
                          struct change_list *changes)
{
    struct batch_reader r = batch_reader_of(c->write.ops->data, c->write.ops->len);
    struct batch_run run;
    uint32_t left = rows_done(d, count);
    enum rc rc = RC_OK;

    while (rc == RC_OK && batch_next(&r, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct row row;

        while (rc == RC_OK && left > 0 && run_next(&it, &row)) {
            uint64_t used = table_set_count(d->tables, (enum table_id)run.table);
            uint8_t reason = row_refusal(d, &run, &row, used);

            left--;
            if (run.op == BATCH_DELETE && d->keeps_next_delete) {
                d->keeps_next_delete = false;
            } else if (reason) {
                rc = add_exception(c, reason, (enum table_id)run.table, run.vni, &row);
            } else {
                rc = write_row(d, &run, &row, changes);
            }
        }
    }
    return rc;
}

/* Whether any row of the batch may be refused: then it goes row by row. */
static bool must_go_by_row(const struct memory_device *d, const uint64_t puts[])
{
    if (d->refuser || d->keeps_next_delete || d->loses_next || d->halves_next) {
        return true;
    }
    for (int t = 0; t < TABLE_COUNT; t++) {
        if (d->config.capacity[t] > 0 &&
            table_set_count(d->tables, (enum table_id)t) + puts[t] >
                d->config.capacity[t]) {
            return true;
        }
    }
    return false;
}

static enum rc write_ops(struct memory_device *d, struct call *c,
                         struct change_list *ret_changes)
{
    struct change_list changes = { 0 };
    uint64_t puts[TABLE_COUNT] = { 0 };
    uint64_t deletes = 0;
    uint32_t count;
    uint32_t bad_index;
    struct batch_reader r;
    struct batch_run run;
    enum rc rc = batch_check(c->write.ops->data, c->write.ops->len, false, &count,
                             &bad_index, NULL);

    if (rc != RC_OK || count == 0) {
        return rc;
    }
    r = batch_reader_of(c->write.ops->data, c->write.ops->len);
    while (batch_next(&r, &run)) {
        if (run.op == BATCH_PUT) {
            puts[run.table] += run.count;
        } else {
            deletes += run.count;
        }
    }
    rc = must_go_by_row(d, puts)
             ? write_rows(d, c, count, &changes)
             : table_set_apply(d->tables, c->write.ops->data, c->write.ops->len,
                               &changes, NULL, NULL);
    if (rc != RC_OK) {
        table_set_undo(d->tables, &changes);
        c->exception_count = 0;
    } else {
        d->counts.writes++;
        d->counts.deletes += deletes;
        for (int t = 0; t < TABLE_COUNT; t++) {
            d->counts.puts += puts[t];
        }
        d->counts.exceptions += c->exception_count;
    }
    *ret_changes = changes;
    return rc;
}

static enum rc configure(struct memory_device *d, const struct blob *config)
{
    struct device_config *c = NULL;
    enum rc rc = RC_OK;

    d->state.config_digest =
        config ? device_config_bytes_digest(config->data, config->len) : 0;
    if (config) {
        c = calloc(1, sizeof(*c));
        rc =
            c ? device_config_unpack(config->data, config->len, c, NULL) : RC_NO_MEMORY;
    }
    if (rc != RC_OK) {
        free(c);
        c = NULL; /* it takes whatever it is told, as tests want it, and forwards not */
    }
    free(d->device_config);
    d->device_config = c;
    return RC_OK;
}

static enum rc carry_out(struct memory_device *d, struct call *c)
{
    struct change_list changes = { 0 };
    enum rc rc = d->fail_next;

    if (c->kind == CALL_READ || c->kind == CALL_TOTALS || c->kind == CALL_PROBE) {
        return RC_OK;
    }
    if (c->write.term < d->state.term) {
        return RC_STALE;
    }
    if (rc != RC_OK) {
        d->fail_next = RC_OK;
        return rc;
    }
    d->state.term = c->write.term;
    if (c->kind == CALL_CONFIGURE) {
        return configure(d, c->write.ops);
    }
    if (c->write.ops) {
        rc = write_ops(d, c, &changes);
    }
    if (rc == RC_OK) {
        if (c->write.revision != 0) {
            d->state.applied = c->write.revision;
        }
        d->state.ready |= c->write.ready;
        if (d->observer) {
            d->observer(d->observer_ctx, &c->write, &changes);
        }
    }
    change_list_fini(&changes);
    return rc;
}

/* ---- answering ---- */

/* The rows as a data plane would stream them: (VNI, table, key) order. */
static void answer_read(struct memory_device *d, const struct call *c,
                        struct driver *to)
{
    uint32_t first = c->vni ? c->vni : VNI_MIN;
    enum rc rc = RC_OK;
    struct batch_writer w;

    d->counts.reads++;
    batch_writer_init(&w);
    for (uint32_t vni = table_set_next(d->tables, first, ~0u);
         rc == RC_OK && vni != 0 && (!c->vni || vni == c->vni);
         vni = vni == VNI_MAX ? 0 : table_set_next(d->tables, vni + 1, ~0u)) {
        for (int t = 0; t < TABLE_COUNT; t++) {
            struct rows *rows = table_set_rows(d->tables, vni, (enum table_id)t);

            for (uint32_t i = 0; i < rows_page_count(rows); i++) {
                struct rows_page page = rows_page_at(rows, i);

                batch_add_rows(&w, BATCH_PUT, (enum table_id)t, vni, NULL, page.data,
                               page.bytes, page.count);
            }
        }
        if (batch_writer_bytes(&w) >= READ_BATCH_BYTES) {
            struct blob *b = batch_writer_finish(&w);

            rc = b ? RC_OK : RC_NO_MEMORY;
            if (b) {
                to->events->rows(to->ctx, c->write.id, b->data, b->len);
            }
            blob_unref(b);
        }
    }
    if (rc == RC_OK && batch_writer_bytes(&w) > 0) {
        struct blob *b = batch_writer_finish(&w);

        rc = b ? RC_OK : RC_NO_MEMORY;
        if (b) {
            to->events->rows(to->ctx, c->write.id, b->data, b->len);
        }
        blob_unref(b);
    }
    batch_writer_fini(&w);
    to->events->read_end(to->ctx, c->write.id, rc, NULL);
}

static void answer_totals(struct memory_device *d, struct driver *to)
{
    struct device_reading readings[TABLE_COUNT];
    char names[TABLE_COUNT][READING_RESOURCE_MAX + 1];
    struct device_totals totals = d->totals;

    for (int t = 0; t < TABLE_COUNT; t++) {
        snprintf(names[t], sizeof(names[t]), "table.%s", table_name((enum table_id)t));
        readings[t] =
            (struct device_reading){ "",
                                     names[t],
                                     READING_TABLE,
                                     false,
                                     table_set_count(d->tables, (enum table_id)t),
                                     d->config.capacity[t] };
    }
    totals.readings = readings;
    totals.reading_count = TABLE_COUNT;
    to->events->totals(to->ctx, &totals);
}

static void answer_probe(const struct memory_device *d, const struct call *c,
                         struct driver *to)
{
    const struct memory_probe_view view = { d->tables, d->device_config,
                                            d->state.ready };
    struct probe_result result;
    struct device_probe probe = { c->write.id, &result };

    memory_probe(&view, c->write.ops, &result);
    if (d->spoils_probes && result.frame) {
        memory_probe_spoil(&result);
    }
    to->events->probe(to->ctx, &probe);
    blob_unref(result.frame);
}

static void answer(struct memory_device *d, struct call *c, struct driver *to)
{
    struct driver_done done = { .id = c->write.id,
                                .rc = c->rc,
                                .exceptions = c->exceptions,
                                .exception_count = c->exception_count };

    switch (c->kind) {
    case CALL_WRITE:
    case CALL_CONFIGURE:
        if (c->rc != RC_OK) {
            err_set(&done.err, c->rc, "the device answered %s", rc_name(c->rc));
        }
        to->events->done(to->ctx, &done);
        break;
    case CALL_READ:
        answer_read(d, c, to);
        break;
    case CALL_TOTALS:
        answer_totals(d, to);
        break;
    case CALL_PROBE:
        answer_probe(d, c, to);
        break;
    }
}

static void tell_ousted(struct memory_device *d)
{
    struct driver_memory *m = d->ousted;
    struct err cause = { 0 };

    if (m) {
        d->ousted = NULL;
        err_set(&cause, RC_STALE, "another writer took the device");
        m->base.events->down(m->base.ctx, &cause);
    }
}

/* `down` and `up` are never told from inside the call that caused them. */
static void tell_state(struct memory_device *d)
{
    struct driver_memory *m = d->driver;
    struct err cause = { 0 };

    if (m && m->must_tell_down) {
        m->must_tell_down = false;
        m->is_told_up = false;
        err_set(&cause, RC_UNREACHABLE, "the device is gone");
        m->base.events->down(m->base.ctx, &cause);
    }
    m = d->driver;
    if (m && m->must_tell_up && d->is_alive) {
        struct device_state state = d->state;

        m->must_tell_up = false;
        m->is_told_up = true;
        m->base.events->up(m->base.ctx, &state);
    }
}

void memory_device_step(struct memory_device *d, uint64_t now_ms)
{
    d->now_ms = now_ms;
    tell_ousted(d);
    tell_state(d);
    if (d->is_stalled) {
        return;
    }
    for (struct call *c = d->calls; c && c->work_at <= now_ms; c = c->next) {
        if (!c->is_done) {
            c->is_done = true;
            c->rc = carry_out(d, c);
        }
    }
    while (d->calls && d->calls->is_done && d->calls->answer_at <= now_ms) {
        struct call *c = d->calls;

        d->calls = c->next;
        if (!d->calls) {
            d->calls_end = &d->calls;
        }
        if (d->driver && d->driver->is_told_up) {
            answer(d, c, &d->driver->base);
        }
        call_free(c);
    }
}

uint64_t memory_device_next_wake(const struct memory_device *d)
{
    const struct driver_memory *m = d->driver;

    if (d->ousted || (m && (m->must_tell_down || (m->must_tell_up && d->is_alive)))) {
        return d->now_ms;
    }
    if (!d->calls || d->is_stalled) {
        return UINT64_MAX;
    }
    for (const struct call *c = d->calls; c; c = c->next) {
        if (!c->is_done) {
            return c->work_at < d->calls->answer_at ? c->work_at : d->calls->answer_at;
        }
    }
    return d->calls->answer_at;
}

/* ---- the driver ---- */

static struct driver_memory *memory_of(struct driver *d)
{
    return (struct driver_memory *)d; /* `base` is its first member */
}

static void memory_open(struct driver *base)
{
    struct driver_memory *m = memory_of(base);
    struct memory_device *d = m->device;

    if (!d) {
        return;
    }
    if (d->driver && d->driver != m) {
        d->driver->device = NULL;
        d->ousted = d->driver;
        drop_calls(d);
    }
    d->driver = m;
    m->is_open = true;
    m->must_tell_up = true;
}

/* Out of memory is a call that is never answered: the session's timeout sees to it. */
static void enqueue(struct driver *base, enum call_kind kind,
                    const struct driver_write *w, uint32_t vni)
{
    struct memory_device *d = memory_of(base)->device;
    struct call *c;

    if (!d || d->driver != memory_of(base) || !d->is_alive ||
        memory_of(base)->must_tell_down) {
        return; /* lost, like a write to a broken socket; `down` is on its way */
    }
    c = calloc(1, sizeof(*c));
    if (!c) {
        return;
    }
    c->kind = kind;
    c->vni = vni;
    if (w) {
        c->write = *w;
        blob_ref(w->ops);
    }
    c->work_at = d->now_ms + d->config.work_ms;
    c->answer_at = c->work_at + d->config.answer_ms;
    *d->calls_end = c;
    d->calls_end = &c->next;
}

static void memory_write(struct driver *base, const struct driver_write *w)
{
    enqueue(base, CALL_WRITE, w, 0);
}

static void memory_configure(struct driver *base, uint64_t id, uint64_t term,
                             struct blob *config)
{
    struct driver_write w = { .id = id, .term = term, .ops = config };

    enqueue(base, CALL_CONFIGURE, &w, 0);
}

static void memory_read(struct driver *base, uint64_t read_id, uint32_t vni)
{
    struct driver_write w = { .id = read_id };

    enqueue(base, CALL_READ, &w, vni);
}

static void memory_poll_totals(struct driver *base)
{
    enqueue(base, CALL_TOTALS, NULL, 0);
}

static void memory_take_probe(struct driver *base, uint64_t id, struct blob *frame)
{
    struct driver_write w = { .id = id, .ops = frame };

    enqueue(base, CALL_PROBE, &w, 0);
}

static void memory_close(struct driver *base)
{
    struct driver_memory *m = memory_of(base);

    if (m->device && m->device->driver == m) {
        drop_calls(m->device);
        m->device->driver = NULL;
    } else if (m->device && m->device->ousted == m) {
        m->device->ousted = NULL;
    }
    free(m);
}

static const struct driver_class driver_memory_class = {
    .name = "memory",
    .open = memory_open,
    .write = memory_write,
    .configure = memory_configure,
    .read = memory_read,
    .poll_totals = memory_poll_totals,
    .probe = memory_take_probe,
    .close = memory_close,
};

struct driver *driver_memory_new(struct memory_device *d,
                                 const struct driver_events *events, void *ctx)
{
    struct driver_memory *m = calloc(1, sizeof(*m));

    if (!m) {
        return NULL;
    }
    m->base.cls = &driver_memory_class;
    m->base.events = events;
    m->base.ctx = ctx;
    m->device = d;
    return &m->base;
}

/* ---- faults ---- */

void memory_device_set_delay(struct memory_device *d, uint32_t work_ms,
                             uint32_t answer_ms)
{
    d->config.work_ms = work_ms;
    d->config.answer_ms = answer_ms;
}

void memory_device_set_totals(struct memory_device *d,
                              const struct device_totals *totals)
{
    d->totals = *totals;
    d->totals.drop_list = NULL;
    d->totals.drop_count = 0;
}

void memory_device_fail_next(struct memory_device *d, enum rc rc)
{
    d->fail_next = rc;
}

void memory_device_stall(struct memory_device *d, bool is_stalled)
{
    d->is_stalled = is_stalled;
}

void memory_device_refuse(struct memory_device *d, memory_device_refuser *f, void *ctx)
{
    d->refuser = f;
    d->refuser_ctx = ctx;
}

static void break_connection(struct memory_device *d)
{
    drop_calls(d);
    if (d->driver) {
        d->driver->must_tell_down = d->driver->is_told_up;
        d->driver->must_tell_up = d->driver->is_open;
    }
}

void memory_device_crash(struct memory_device *d)
{
    struct table_set *empty = table_set_new();

    if (!empty || !d->is_alive) {
        table_set_free(empty);
        return;
    }
    break_connection(d);
    table_set_free(d->tables);
    d->tables = empty;
    d->is_alive = false;
    d->is_stalled = false;
    memory_device_forget_corruption(d);
    free(d->device_config);
    d->device_config = NULL;
    d->state = (struct device_state){ .boot_id = d->state.boot_id };
}

void memory_device_start(struct memory_device *d)
{
    if (!d->is_alive) {
        d->is_alive = true;
        d->state.boot_id++;
    }
}

void memory_device_disconnect(struct memory_device *d)
{
    break_connection(d);
}

/* The row number `pick` of some VNI and table, both chosen by `pick` too. */
static bool pick_row(const struct memory_device *d, uint64_t pick, enum table_id *table,
                     uint32_t *vni, struct row *row)
{
    static const enum table_id tables[] = { TABLE_VM_NC, TABLE_VXLAN_ROUTE, TABLE_VNI };
    uint32_t from = (uint32_t)(pick % VNI_MAX) + 1;

    for (unsigned i = 0; i < 3; i++) {
        enum table_id t = tables[(pick / 7 + i) % 3];
        struct rows_iter it;
        struct rows *rows;
        uint32_t skip;

        *vni = table_set_next(d->tables, from, 1u << t);
        if (*vni == 0) {
            *vni = table_set_next(d->tables, VNI_MIN, 1u << t);
        }
        if (*vni == 0) {
            continue;
        }
        *table = t;
        rows = table_set_rows(d->tables, *vni, t);
        skip = (uint32_t)(pick / 31 % rows_count(rows));
        it = rows_begin(rows, t);
        while (rows_next(&it, row)) {
            if (skip-- == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Turns the row into another that is just as well formed. */
static bool spoil(enum memory_corruption kind, enum table_id table, struct row *row,
                  uint8_t *key, uint8_t *value)
{
    memcpy(key, row->key, row->key_len);
    memcpy(value, row->value, row->value_len);
    if (kind == CORRUPT_DUPLICATE) {
        if (table == TABLE_VNI) {
            return false; /* the VNI is its whole key */
        }
        if (table == TABLE_VXLAN_ROUTE) {
            memset(key + 1, 0, row->key_len - 1);
            key[1] = 0xc6; /* 198.0.0.0/8 or c600::/8 */
            key[row->key_len - 1] = 8;
        } else {
            key[2] ^= 0x80; /* keeps it a unicast address */
        }
    } else if (table == TABLE_VNI) {
        value[0] ^= VNI_INTERNET;
    } else if (table == TABLE_VM_NC) {
        value[row->value[0] == IP_V4 ? 4 : 16] ^= 1;
    } else {
        value[0] = row->value[0] == SCOPE_LOCAL ? SCOPE_INTERNET : SCOPE_LOCAL;
        row->value_len = 1;
    }
    row->key = key;
    row->value = value;
    return true;
}

bool memory_device_corrupt(struct memory_device *d, enum memory_corruption kind,
                           uint64_t pick)
{
    uint8_t key[ENTRY_KEY_MAX];
    uint8_t value[ENTRY_VALUE_MAX];
    struct batch_run run = { .op = BATCH_PUT };
    enum table_id table;
    struct row row;

    if (kind == CORRUPT_KEEP || kind == CORRUPT_LOSE || kind == CORRUPT_HALVE) {
        d->keeps_next_delete |= kind == CORRUPT_KEEP;
        d->loses_next |= kind == CORRUPT_LOSE;
        d->halves_next |= kind == CORRUPT_HALVE;
        return true;
    }
    if (!pick_row(d, pick, &table, &run.vni, &row)) {
        return false;
    }
    run.table = (uint8_t)table;
    if (kind == CORRUPT_DROP) {
        run.op = BATCH_DELETE;
        memcpy(key, row.key, row.key_len);
        row.key = key;
        row.value = NULL;
        row.value_len = 0;
    } else if (!spoil(kind, table, &row, key, value)) {
        return false;
    }
    return write_row(d, &run, &row, NULL) == RC_OK;
}

void memory_device_spoil_probes(struct memory_device *d, bool is_spoilt)
{
    d->spoils_probes = is_spoilt;
}

void memory_device_forget_corruption(struct memory_device *d)
{
    d->keeps_next_delete = false;
    d->loses_next = d->halves_next = false;
}
