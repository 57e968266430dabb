/* Table entries: key, action and what else a TableEntry may carry. */
#include "agent/p4rt/p4rt_decode.h"

#include <string.h>

/* ---- values ---- */

/* The number `bytes` into the whole bytes that hold `bits`; `to` is all zero. */
static inline enum rc take_value(const uint8_t *bytes, size_t len,
                                 const struct phys_field *f, uint8_t *to,
                                 struct err *err)
{
    size_t size = (f->bits + 7u) / 8u;
    unsigned top = f->bits % 8u;

    if (len == 0) {
        return err_field(err, RC_RANGE, f->name, "bytestring", "%s: no bytes", f->name);
    }
    while (len > 1 && *bytes == 0) {
        bytes++;
        len--;
    }
    if (len > size || (len == size && top != 0 && bytes[0] >> top != 0)) {
        return err_field(err, RC_RANGE, f->name, "bytestring", "%s: more than %u bits",
                         f->name, f->bits);
    }
    memcpy(to + size - len, bytes, len);
    return RC_OK;
}

/* ---- the key ---- */

struct value_mask {
    struct p4rt_piece value, mask;
};

/* The inside of Exact or Ternary. */
static inline enum rc take_pair(const struct wire_field *outer, struct value_mask *ret,
                                struct err *err)
{
    struct reader r = reader_of_field(outer);
    struct wire_field f;

    *ret = (struct value_mask){ 0 };
    while (reader_left(&r) > 0) {
        NEXT_OR_FAIL(&r, &f, "match");
        if (is_bytes(&f, 1)) {
            ret->value = (struct p4rt_piece){ f.bytes, f.len };
        } else if (is_bytes(&f, 2)) {
            ret->mask = (struct p4rt_piece){ f.bytes, f.len };
        }
    }
    return RC_OK;
}

static enum rc take_ternary(const struct phys_field *f, const struct value_mask *pair,
                            struct phys_entry *e, struct err *err)
{
    size_t size = (f->bits + 7u) / 8u;
    uint8_t *key = e->key + f->offset;
    uint8_t *mask = e->mask + f->offset;
    uint8_t any = 0;
    enum rc rc = take_value(pair->value.bytes, pair->value.len, f, key, err);

    if (rc == RC_OK) {
        rc = take_value(pair->mask.bytes, pair->mask.len, f, mask, err);
    }
    for (size_t i = 0; rc == RC_OK && i < size; i++) {
        any |= mask[i];
        if (key[i] & ~mask[i]) {
            rc = err_field(err, RC_INVALID, f->name, "masked_bits",
                           "%s: has bits outside of its mask", f->name);
        }
    }
    if (rc == RC_OK && any == 0) {
        rc = err_field(err, RC_INVALID, f->name, "dont_care",
                       "%s: a field that matches all is left out", f->name);
    }
    return rc;
}

/* One FieldMatch; `seen` has a bit for each field that was there. */
static inline enum rc take_match(const struct wire_field *outer,
                                 const struct phys_table_desc *d, struct phys_entry *e,
                                 unsigned *seen, struct err *err)
{
    struct reader r = reader_of_field(outer);
    struct wire_field f;
    struct wire_field kind = { 0 };
    const struct phys_field *field;
    struct value_mask pair;
    uint64_t id = 0;
    enum rc rc;

    while (reader_left(&r) > 0) {
        NEXT_OR_FAIL(&r, &f, "match");
        if (is_number(&f, 1)) {
            id = f.value;
        } else if (f.type == WIRE_BYTES) {
            kind = f;
        }
    }
    if (id == 0 || id > d->field_count) {
        return err_field(err, RC_INVALID, "match.field_id", "field_unknown",
                         "table %s: no field %llu", d->name, (unsigned long long)id);
    }
    field = &d->fields[id - 1];
    if (*seen & 1u << id) {
        return err_field(err, RC_INVALID, field->name, "field_twice", "%s: twice",
                         field->name);
    }
    *seen |= 1u << id;
    if (kind.number != (field->match == PHYS_EXACT ? 2 : 3)) {
        return err_field(err, RC_INVALID, field->name, "match_type",
                         "%s: is matched %s", field->name,
                         field->match == PHYS_EXACT ? "exactly" : "with a mask");
    }
    rc = take_pair(&kind, &pair, err);
    if (rc != RC_OK || field->match == PHYS_TERNARY) {
        return rc != RC_OK ? rc : take_ternary(field, &pair, e, err);
    }
    return take_value(pair.value.bytes, pair.value.len, field, e->key + field->offset,
                      err);
}

/* ---- the action ---- */

static inline enum rc take_param(const struct wire_field *outer,
                                 const struct phys_action_desc *d, struct phys_entry *e,
                                 unsigned *seen, struct err *err)
{
    struct reader r = reader_of_field(outer);
    struct p4rt_piece value = { 0 };
    struct wire_field f;
    uint64_t id = 0;

    while (reader_left(&r) > 0) {
        NEXT_OR_FAIL(&r, &f, "action.params");
        if (is_number(&f, 2)) {
            id = f.value;
        } else if (is_bytes(&f, 3)) {
            value = (struct p4rt_piece){ f.bytes, f.len };
        }
    }
    if (id == 0 || id > d->param_count || *seen & 1u << id) {
        return err_field(err, RC_INVALID, "action.params", "param_unknown",
                         "action %s: parameter %llu is unknown or there twice", d->name,
                         (unsigned long long)id);
    }
    *seen |= 1u << id;
    return take_value(value.bytes, value.len, &d->params[id - 1],
                      e->data + d->params[id - 1].offset, err);
}

static bool may_carry(const struct phys_table_desc *d, int action)
{
    for (unsigned i = 0; i < d->action_count; i++) {
        if (d->actions[i] == action) {
            return true;
        }
    }
    return false;
}

/* The inside of Action: its id first, wherever it stands, then the parameters. */
static enum rc take_params(const struct wire_field *outer,
                           const struct phys_table_desc *table, struct phys_entry *e,
                           struct err *err)
{
    const struct phys_action_desc *d;
    struct reader r = reader_of_field(outer);
    struct wire_field f;
    unsigned seen = 0;
    uint64_t id = 0;
    enum rc rc = RC_OK;
    int action;

    while (reader_left(&r) > 0 && id == 0) {
        NEXT_OR_FAIL(&r, &f, "action");
        id = is_number(&f, 1) ? f.value : 0;
    }
    action = id <= UINT32_MAX ? phys_action_of_id((uint32_t)id) : -1;
    if (action < 0 || !may_carry(table, action)) {
        return err_field(err, RC_INVALID, "action.action_id", "action_unknown",
                         "table %s: no action 0x%08llx", table->name,
                         (unsigned long long)id);
    }
    d = phys_action_desc((enum phys_action)action);
    e->action = (uint8_t)action;
    r = reader_of_field(outer);
    while (reader_left(&r) > 0 && rc == RC_OK) {
        NEXT_OR_FAIL(&r, &f, "action");
        if (is_bytes(&f, 4)) {
            rc = take_param(&f, d, e, &seen, err);
        }
    }
    if (rc == RC_OK && seen != (2u << d->param_count) - 2) {
        rc = err_field(err, RC_INVALID, "action.params", "param_missing",
                       "action %s: has %u parameters", d->name, d->param_count);
    }
    return rc;
}

static enum rc take_action(const struct wire_field *outer,
                           const struct phys_table_desc *table, struct phys_entry *e,
                           struct err *err)
{
    struct reader r = reader_of_field(outer);
    struct wire_field f = { 0 };

    while (reader_left(&r) > 0) {
        NEXT_OR_FAIL(&r, &f, "action");
    }
    if (!is_bytes(&f, 1)) {
        return err_field(err, RC_INVALID, "action", "action_type",
                         "table %s: takes actions, not members of a profile",
                         table->name);
    }
    return take_params(&f, table, e, err);
}

/* ---- TableEntry ---- */

/* What take_fields() found; the key and the priority are in the entry. */
struct table_fields {
    struct wire_field action;
    bool has_action, is_default;
    unsigned seen; /* a bit for each field id of the match */
    uint64_t priority;
    const char *alien; /* a field that XGW-H's tables have nothing for */
};

static const char *alien_name(uint32_t number)
{
    switch (number) {
    case 5:
        return "controller_metadata";
    case 6:
        return "meter_config";
    case 7:
        return "counter_data";
    case 9:
        return "idle_timeout_ns";
    case 10:
        return "time_since_last_hit";
    case 11:
        return "metadata";
    case 12:
        return "meter_counter_data";
    default:
        return NULL;
    }
}

static enum rc table_of(struct reader r, struct phys_entry *e, uint32_t *ret_id,
                        struct err *err)
{
    struct wire_field f;
    uint64_t id = 0;
    int table;

    while (reader_left(&r) > 0 && id == 0) {
        NEXT_OR_FAIL(&r, &f, "table_entry");
        id = is_number(&f, 1) ? f.value : 0;
    }
    table = id <= UINT32_MAX ? phys_table_of_id((uint32_t)id) : -1;
    *ret_id = (uint32_t)id;
    if (id != 0 && table < 0) {
        return err_field(err, RC_INVALID, "table_id", "table_unknown",
                         "no table 0x%08llx", (unsigned long long)id);
    }
    e->table = id == 0 ? PHYS_TABLES : (uint8_t)table;
    return RC_OK;
}

static inline enum rc take_fields(struct reader r, const struct phys_table_desc *d,
                                  struct phys_entry *e, struct table_fields *ret,
                                  struct err *err)
{
    struct wire_field f;

    while (reader_left(&r) > 0) {
        NEXT_OR_FAIL(&r, &f, "table_entry");
        if (is_bytes(&f, 2)) {
            enum rc rc = take_match(&f, d, e, &ret->seen, err);

            if (rc != RC_OK) {
                return rc;
            }
        } else if (is_bytes(&f, 3)) {
            ret->action = f;
            ret->has_action = true;
        } else if (is_number(&f, 4)) {
            ret->priority = f.value;
        } else if (is_number(&f, 8)) {
            ret->is_default = f.value != 0;
        } else if (alien_name(f.number)) {
            ret->alien = alien_name(f.number);
        }
    }
    return RC_OK;
}

/* The fields that every key has, as bits like `seen`. */
static inline unsigned exact_fields(const struct phys_table_desc *d)
{
    unsigned bits = 0;

    for (unsigned i = 0; i < d->field_count; i++) {
        bits |= d->fields[i].match == PHYS_EXACT ? 2u << i : 0;
    }
    return bits;
}

static enum rc field_missing(const struct phys_table_desc *d, unsigned missing,
                             struct err *err)
{
    const char *name = d->fields[__builtin_ctz(missing) - 1].name;

    return err_field(err, RC_INVALID, name, "field_missing", "table %s: %s is missing",
                     d->name, name);
}

/* Held against the place. */
static inline enum rc check_entry(const struct phys_table_desc *d,
                                  const struct table_fields *t, enum place place,
                                  struct err *err)
{
    unsigned missing = exact_fields(d) & ~t->seen;

    if (t->is_default) {
        if (t->seen != 0 || t->priority != 0) {
            return err_field(err, RC_INVALID, "match", "default_match",
                             "table %s: a default has no key", d->name);
        }
        return RC_OK;
    }
    if (missing != 0) {
        return field_missing(d, missing, err);
    }
    if (t->priority > INT32_MAX || d->has_priority != (t->priority != 0)) {
        return err_field(err, RC_INVALID, "priority", "priority",
                         d->has_priority ? "table %s: needs a priority above 0"
                                         : "table %s: has no priorities",
                         d->name);
    }
    if (t->alien && place == IN_WRITE) {
        return err_field(err, RC_INVALID, t->alien, "unsupported",
                         "table %s: entries have no %s", d->name, t->alien);
    }
    return RC_OK;
}

enum rc p4rt_take_entry(const struct wire_field *outer, enum place place,
                        struct p4rt_entity *ret, struct err *err)
{
    struct phys_entry *e = &ret->entry;
    struct reader r = reader_of_field(outer);
    struct table_fields t = { 0 };
    const struct phys_table_desc *d;
    enum rc rc = table_of(r, e, &ret->id, err);

    if (rc == RC_OK && e->table == PHYS_TABLES) {
        rc = err_field(err, RC_INVALID, "table_id", "table_missing", "no table named");
    }
    if (rc != RC_OK) {
        return rc;
    }
    d = phys_table_desc((enum phys_table)e->table);
    rc = take_fields(r, d, e, &t, err);
    if (rc == RC_OK) {
        rc = check_entry(d, &t, place, err);
    }
    if (rc == RC_OK && t.has_action && (place == IN_WRITE || place == IN_RESPONSE) &&
        !t.is_default) {
        rc = take_action(&t.action, d, e, err);
    }
    e->priority = (uint32_t)t.priority;
    ret->is_default = t.is_default;
    if (!t.is_default) {
        phys_mask_exact((enum phys_table)e->table, e->mask);
    }
    return rc;
}

enum rc p4rt_take_table_query(const struct wire_field *outer, struct p4rt_query *q,
                              struct err *err)
{
    struct reader r = reader_of_field(outer);
    struct table_fields t = { 0 };
    const struct phys_table_desc *d;
    enum rc rc = table_of(r, &q->entry, &q->id, err);

    if (rc != RC_OK || q->id == 0) {
        return rc;
    }
    d = phys_table_desc((enum phys_table)q->entry.table);
    rc = take_fields(r, d, &q->entry, &t, err);
    /* Where no field is exact, an entry may have none: its priority tells it from all.
     */
    q->has_key = t.seen != 0 || (t.priority != 0 && exact_fields(d) == 0);
    q->is_default = t.is_default;
    q->entry.priority = (uint32_t)t.priority;
    if (rc == RC_OK && (q->has_key || q->is_default)) {
        rc = check_entry(d, &t, IN_READ, err);
    } else if (rc == RC_OK && (t.has_action || t.priority != 0)) {
        rc = err_field(err, RC_INVALID, "table_entry", "unsupported",
                       "reads are not filtered by action or priority");
    }
    if (q->has_key) {
        phys_mask_exact((enum phys_table)q->entry.table, q->entry.mask);
    }
    return rc;
}
