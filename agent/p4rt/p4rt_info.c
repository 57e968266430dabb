#include "agent/p4rt/p4rt_info.h"

#include <stdio.h>
#include <string.h>

#include "agent/p4rt/p4rt_wire.h"

/* Field numbers: proto/api/p4info.proto.  Match types: EXACT 2, TERNARY 4. */
enum { MATCH_EXACT = 2, MATCH_TERNARY = 4 };
enum { SCOPE_DEFAULT_ONLY = 2 };

static enum rc broken(struct err *err)
{
    return err_field(err, RC_INVALID, "p4info", "protobuf", "no P4Info: malformed");
}

#define DIFFERS(err, field, ...)                                                       \
    err_field((err), RC_CONFLICT, (field), "p4info", __VA_ARGS__)

/* Names are borrowed from the message. */
struct text {
    const char *at;
    size_t len;
};

/* The last part of a name: "vni" of "IngressA.vni". */
static struct text last_part(const struct wire_field *f)
{
    struct text t = { (const char *)f->bytes, f->len };

    for (size_t i = 0; i < f->len; i++) {
        if (f->bytes[i] == '.') {
            t.at = (const char *)f->bytes + i + 1;
            t.len = f->len - i - 1;
        }
    }
    return t;
}

static bool text_is(struct text t, const char *name)
{
    return t.len == strlen(name) && memcmp(t.at, name, t.len) == 0;
}

/* For messages. */
struct shown {
    char text[48];
};

static struct shown show(struct text t)
{
    struct shown s;

    snprintf(s.text, sizeof(s.text), "%.*s", (int)(t.len < 47 ? t.len : 47),
             t.len > 0 ? t.at : "");
    return s;
}

/* What tables, actions, fields and so on have in common.  `value[n]` is the number in
 * varint field n, 0 if absent. */
struct thing {
    uint64_t value[16];
    struct text name;
};

/* Numbers of up to 15, and the name in bytes field `name_number`. */
static bool thing_read(const uint8_t *bytes, size_t len, uint32_t name_number,
                       struct thing *ret)
{
    struct reader r = reader_of(bytes, len);
    struct wire_field f;

    while (reader_left(&r) > 0) {
        if (!field_next(&r, &f)) {
            return false;
        }
        if (f.type == WIRE_VARINT && f.number < 16) {
            ret->value[f.number] = f.value;
        } else if (f.type == WIRE_BYTES && f.number == name_number) {
            ret->name = last_part(&f);
        }
    }
    return true;
}

/* Something with a Preamble in field 1: its id and name, and the numbers beside it. The
 * preamble's id becomes value[1]. */
static bool object_read(const struct wire_field *outer, struct thing *ret)
{
    struct reader r = reader_of_field(outer);
    struct thing preamble = { 0 };
    struct wire_field f;

    *ret = (struct thing){ 0 };
    while (reader_left(&r) > 0) {
        if (!field_next(&r, &f)) {
            return false;
        }
        if (f.number == 1 && f.type == WIRE_BYTES) {
            if (!thing_read(f.bytes, f.len, 2, &preamble)) {
                return false;
            }
        } else if (f.type == WIRE_VARINT && f.number < 16) {
            ret->value[f.number] = f.value;
        }
    }
    ret->value[1] = preamble.value[1];
    ret->name = preamble.name;
    return true;
}

/* What the walk has seen. */
struct walk {
    const struct phys_sizes *sizes;
    struct p4rt_info info;
    bool table[PHYS_TABLES];
    bool action[PHYS_ACTIONS];
};

/* ---- tables ---- */

static enum rc check_field(const struct phys_table_desc *d, const struct wire_field *f,
                           unsigned *seen, struct err *err)
{
    const struct phys_field *want;
    struct thing got = { 0 };

    if (!thing_read(f->bytes, f->len, 2, &got)) {
        return broken(err);
    }
    if (got.value[1] == 0 || got.value[1] > d->field_count) {
        return DIFFERS(err, d->name, "table %s: has a field %s with id %llu", d->name,
                       show(got.name).text, (unsigned long long)got.value[1]);
    }
    want = &d->fields[got.value[1] - 1];
    *seen |= 1u << got.value[1];
    if (!text_is(got.name, want->name)) {
        return DIFFERS(err, d->name, "table %s: field %u is called %s, not %s", d->name,
                       want->id, show(got.name).text, want->name);
    }
    if (got.value[4] > want->bits || got.value[4] < want->least_bits) {
        return DIFFERS(err, d->name, "table %s: field %s has %llu bits, not %u",
                       d->name, want->name, (unsigned long long)got.value[4],
                       want->bits);
    }
    if (got.value[5] != (want->match == PHYS_EXACT ? MATCH_EXACT : MATCH_TERNARY)) {
        return DIFFERS(err, d->name, "table %s: field %s is not matched %s", d->name,
                       want->name, want->match == PHYS_EXACT ? "exactly" : "ternary");
    }
    return RC_OK;
}

static enum rc check_ref(const struct phys_table_desc *d, const struct wire_field *f,
                         unsigned *seen, struct err *err)
{
    struct thing got = { 0 };

    if (!thing_read(f->bytes, f->len, 0, &got)) {
        return broken(err);
    }
    for (unsigned i = 0; i < d->action_count; i++) {
        if (phys_action_desc((enum phys_action)d->actions[i])->id == got.value[1] &&
            got.value[3] != SCOPE_DEFAULT_ONLY) {
            *seen |= 1u << i;
            return RC_OK;
        }
    }
    /* Not one that entries carry: a default is the program's affair. */
    if (got.value[3] == SCOPE_DEFAULT_ONLY ||
        got.value[1] == phys_action_desc(PHYS_NO_ACTION)->id) {
        return RC_OK;
    }
    return DIFFERS(err, d->name, "table %s: has an action 0x%08llx", d->name,
                   (unsigned long long)got.value[1]);
}

static enum rc check_complete(const struct phys_table_desc *d, unsigned fields,
                              unsigned actions, struct err *err)
{
    for (unsigned i = 0; i < d->field_count; i++) {
        if (!(fields & 2u << i)) {
            return DIFFERS(err, d->name, "table %s: field %s is missing", d->name,
                           d->fields[i].name);
        }
    }
    for (unsigned i = 0; i < d->action_count; i++) {
        if (!(actions & 1u << i)) {
            return DIFFERS(err, d->name, "table %s: action %s is missing", d->name,
                           phys_action_desc((enum phys_action)d->actions[i])->name);
        }
    }
    return RC_OK;
}

static enum rc check_table(const struct phys_table_desc *d,
                           const struct wire_field *outer, struct err *err)
{
    struct reader r = reader_of_field(outer);
    struct wire_field f;
    unsigned fields = 0;
    unsigned actions = 0;
    enum rc rc = RC_OK;

    while (reader_left(&r) > 0 && rc == RC_OK) {
        if (!field_next(&r, &f)) {
            return broken(err);
        }
        if (f.number == 2 && f.type == WIRE_BYTES) {
            rc = check_field(d, &f, &fields, err);
        } else if (f.number == 3 && f.type == WIRE_BYTES) {
            rc = check_ref(d, &f, &actions, err);
        } else if ((f.number == 6 && f.value != 0) || f.number == 7) {
            rc = DIFFERS(err, d->name,
                         "table %s: has an action profile or a direct "
                         "meter or counter",
                         d->name);
        }
    }
    return rc == RC_OK ? check_complete(d, fields, actions, err) : rc;
}

static enum rc take_table(struct walk *w, const struct wire_field *f, struct err *err)
{
    const struct phys_table_desc *d;
    struct thing got;
    int table;

    if (!object_read(f, &got)) {
        return broken(err);
    }
    table = got.value[1] <= UINT32_MAX ? phys_table_of_id((uint32_t)got.value[1]) : -1;
    if (table < 0) {
        if (got.value[10]) { /* const: nobody writes to it */
            return RC_OK;
        }
        return DIFFERS(err, got.name.len > 0 ? show(got.name).text : "tables",
                       "table %s (0x%08llx): XGW-H has none", show(got.name).text,
                       (unsigned long long)got.value[1]);
    }
    d = phys_table_desc((enum phys_table)table);
    if (!text_is(got.name, d->name) || w->table[table]) {
        return DIFFERS(err, d->name,
                       "table 0x%08x is called %s, not %s, or there twice", d->id,
                       show(got.name).text, d->name);
    }
    w->table[table] = true;
    w->info.table_size[table] = got.value[8];
    if (w->sizes && got.value[8] < w->sizes->table[table]) {
        return DIFFERS(err, d->name, "table %s: has %llu rows, less than %u", d->name,
                       (unsigned long long)got.value[8], w->sizes->table[table]);
    }
    return check_table(d, f, err);
}

/* ---- actions ---- */

static enum rc check_param(const struct phys_action_desc *d, const struct wire_field *f,
                           unsigned *seen, struct err *err)
{
    const struct phys_field *want;
    struct thing got = { 0 };

    if (!thing_read(f->bytes, f->len, 2, &got)) {
        return broken(err);
    }
    if (got.value[1] == 0 || got.value[1] > d->param_count) {
        return DIFFERS(err, d->name, "action %s: has a parameter %s with id %llu",
                       d->name, show(got.name).text, (unsigned long long)got.value[1]);
    }
    want = &d->params[got.value[1] - 1];
    *seen |= 1u << got.value[1];
    if (!text_is(got.name, want->name) || got.value[4] != want->bits) {
        return DIFFERS(err, d->name,
                       "action %s: parameter %u is %s with %llu bits, not "
                       "%s with %u",
                       d->name, want->id, show(got.name).text,
                       (unsigned long long)got.value[4], want->name, want->bits);
    }
    return RC_OK;
}

static enum rc take_action(struct walk *w, const struct wire_field *outer,
                           struct err *err)
{
    const struct phys_action_desc *d;
    struct reader r = reader_of_field(outer);
    struct wire_field f;
    struct thing got;
    unsigned seen = 0;
    int action;
    enum rc rc = RC_OK;

    if (!object_read(outer, &got)) {
        return broken(err);
    }
    action =
        got.value[1] <= UINT32_MAX ? phys_action_of_id((uint32_t)got.value[1]) : -1;
    if (action < 0) {
        return RC_OK; /* no table's entries may carry it: check_ref() */
    }
    d = phys_action_desc((enum phys_action)action);
    if (!text_is(got.name, d->name)) {
        return DIFFERS(err, d->name, "action 0x%08x is called %s, not %s", d->id,
                       show(got.name).text, d->name);
    }
    w->action[action] = true;
    while (reader_left(&r) > 0 && rc == RC_OK) {
        if (!field_next(&r, &f)) {
            return broken(err);
        }
        if (f.number == 2 && f.type == WIRE_BYTES) {
            rc = check_param(d, &f, &seen, err);
        }
    }
    if (rc == RC_OK && seen != (2u << d->param_count) - 2) {
        rc = DIFFERS(err, d->name, "action %s: a parameter is missing", d->name);
    }
    return rc;
}

/* ---- meters, counters, packets ---- */

static enum rc take_meter(struct walk *w, const struct wire_field *f, struct err *err)
{
    struct thing got;

    if (!object_read(f, &got)) {
        return broken(err);
    }
    for (unsigned i = 0; i < PHYS_METERS; i++) {
        if (text_is(got.name, phys_meter_name((enum phys_meter)i))) {
            w->info.meter_id[i] = (uint32_t)got.value[1];
            w->info.meter_size[i] = got.value[3];
        }
    }
    return RC_OK;
}

static enum rc take_counter(struct walk *w, const struct wire_field *f, struct err *err)
{
    struct thing got;

    if (!object_read(f, &got)) {
        return broken(err);
    }
    for (unsigned i = 0; i < PHYS_COUNTERS; i++) {
        const char *name = phys_counter_name((enum phys_counter)i);
        uint32_t *ids = w->info.counter_id[i];
        unsigned part = 0;

        if (!text_is(got.name, name)) {
            continue;
        }
        while (part < P4RT_COUNTER_PARTS && ids[part] != 0) {
            part++;
        }
        if (part == P4RT_COUNTER_PARTS) {
            return DIFFERS(err, name, "counter %s is there more than %d times", name,
                           P4RT_COUNTER_PARTS);
        }
        if (part == 0 || got.value[3] < w->info.counter_size[i]) {
            w->info.counter_size[i] = got.value[3];
        }
        ids[part] = (uint32_t)got.value[1];
    }
    return RC_OK;
}

/* ControllerPacketMetadata: of a packet's fields the one called port. */
static enum rc take_packet(struct walk *w, const struct wire_field *outer,
                           struct err *err)
{
    struct reader r = reader_of_field(outer);
    struct wire_field f;
    struct thing got;
    uint32_t port = 0;
    uint32_t probe = 0;
    uint32_t reason = 0;

    if (!object_read(outer, &got)) {
        return broken(err);
    }
    while (reader_left(&r) > 0) {
        struct thing field = { 0 };

        if (!field_next(&r, &f)) {
            return broken(err);
        }
        if (f.number != 2 || f.type != WIRE_BYTES) {
            continue;
        }
        if (!thing_read(f.bytes, f.len, 2, &field)) {
            return broken(err);
        }
        if (text_is(field.name, "ingress_port") || text_is(field.name, "egress_port")) {
            port = (uint32_t)field.value[1];
        } else if (text_is(field.name, "probe")) {
            probe = (uint32_t)field.value[1];
        } else if (text_is(field.name, "reason")) {
            reason = (uint32_t)field.value[1];
        }
    }
    if (text_is(got.name, "packet_in")) {
        w->info.packet_in_port = port;
        w->info.packet_in_probe = probe;
        w->info.packet_in_reason = reason;
    } else if (text_is(got.name, "packet_out")) {
        w->info.packet_out_port = port;
        w->info.packet_out_probe = probe;
    }
    return RC_OK;
}

/* ---- all of it ---- */

static enum rc take_program(struct walk *w, const struct wire_field *f, struct err *err)
{
    struct thing got = { 0 };

    if (!thing_read(f->bytes, f->len, 1, &got)) {
        return broken(err);
    }
    snprintf(w->info.program, sizeof(w->info.program), "%s", show(got.name).text);
    return RC_OK;
}

static enum rc take_part(struct walk *w, const struct wire_field *f, struct err *err)
{
    switch (f->type == WIRE_BYTES ? f->number : 0) {
    case 1:
        return take_program(w, f, err);
    case 2:
        return take_table(w, f, err);
    case 3:
        return take_action(w, f, err);
    case 5:
        return take_counter(w, f, err);
    case 7:
        return take_meter(w, f, err);
    case 9:
        return take_packet(w, f, err);
    default:
        return RC_OK;
    }
}

static enum rc check_all_there(const struct walk *w, struct err *err)
{
    for (unsigned i = 0; i < PHYS_TABLES; i++) {
        const char *name = phys_table_desc((enum phys_table)i)->name;

        if (!w->table[i]) {
            return DIFFERS(err, name, "table %s is missing", name);
        }
    }
    for (unsigned i = PHYS_NO_ACTION + 1; i < PHYS_ACTIONS; i++) {
        const char *name = phys_action_desc((enum phys_action)i)->name;

        if (!w->action[i]) {
            return DIFFERS(err, name, "action %s is missing", name);
        }
    }
    for (unsigned i = 0; i < PHYS_METERS; i++) {
        const char *name = phys_meter_name((enum phys_meter)i);

        if (w->info.meter_id[i] == 0) {
            return DIFFERS(err, name, "meter %s is missing", name);
        }
    }
    for (unsigned i = 0; i < PHYS_COUNTERS; i++) {
        const char *name = phys_counter_name((enum phys_counter)i);

        if (w->info.counter_id[i][0] == 0) {
            return DIFFERS(err, name, "counter %s is missing", name);
        }
    }
    return RC_OK;
}

enum rc p4rt_info_read(const void *bytes, size_t len, const struct phys_sizes *sizes,
                       struct p4rt_info *ret, struct err *err)
{
    struct walk w = { .sizes = sizes };
    struct reader r = reader_of(bytes, len);
    struct wire_field f;
    enum rc rc = RC_OK;

    while (reader_left(&r) > 0 && rc == RC_OK) {
        if (!field_next(&r, &f)) {
            return broken(err);
        }
        rc = take_part(&w, &f, err);
    }
    rc = rc == RC_OK ? check_all_there(&w, err) : rc;
    if (rc == RC_OK) {
        *ret = w.info;
    }
    return rc;
}

int p4rt_info_counter(const struct p4rt_info *info, uint32_t id)
{
    for (int i = 0; i < PHYS_COUNTERS; i++) {
        for (unsigned part = 0; part < P4RT_COUNTER_PARTS; part++) {
            if (id != 0 && info->counter_id[i][part] == id) {
                return i;
            }
        }
    }
    return -1;
}
