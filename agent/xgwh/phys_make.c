#include "agent/xgwh/phys_make.h"

#include <string.h>

static unsigned bytes_of(const struct phys_field *f)
{
    return (f->bits + 7u) / 8u;
}

static const struct phys_field *key_field(const struct phys_entry *e, unsigned index)
{
    return &phys_table_desc((enum phys_table)e->table)->fields[index];
}

static const struct phys_field *param_field(const struct phys_entry *e, unsigned index)
{
    return &phys_action_desc((enum phys_action)e->action)->params[index];
}

static void store(uint8_t *at, unsigned bytes, uint64_t value)
{
    while (bytes-- > 0) {
        at[bytes] = (uint8_t)value;
        value >>= 8;
    }
}

static uint64_t load(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

/* Ones in the bits of the field, which are the last of its bytes. */
static void fill_mask(uint8_t *mask, const struct phys_field *f)
{
    unsigned bytes = bytes_of(f);

    memset(mask + f->offset, 0xff, bytes);
    if (f->bits % 8 != 0) {
        mask[f->offset] = (uint8_t)(0xff >> (8 - f->bits % 8));
    }
}

struct phys_entry phys_make(enum phys_table table, uint8_t half, uint32_t priority)
{
    struct phys_entry e = { .table = (uint8_t)table,
                            .half = half,
                            .priority = priority };

    phys_mask_exact(table, e.mask);
    return e;
}

void phys_set_key(struct phys_entry *e, unsigned index, uint64_t value)
{
    const struct phys_field *f = key_field(e, index);

    store(e->key + f->offset, bytes_of(f), value);
    fill_mask(e->mask, f);
}

void phys_set_key_bytes(struct phys_entry *e, unsigned index, const uint8_t *bytes)
{
    const struct phys_field *f = key_field(e, index);

    memcpy(e->key + f->offset, bytes, bytes_of(f));
    fill_mask(e->mask, f);
}

void phys_set_ternary(struct phys_entry *e, unsigned index, const uint8_t *bytes,
                      const uint8_t *mask)
{
    const struct phys_field *f = key_field(e, index);

    for (unsigned i = 0; i < bytes_of(f); i++) {
        e->key[f->offset + i] = bytes[i] & mask[i];
        e->mask[f->offset + i] = mask[i];
    }
}

void phys_set_prefix(struct phys_entry *e, unsigned index, const uint8_t *bytes,
                     unsigned len)
{
    uint8_t mask[16] = { 0 };

    memset(mask, 0xff, len / 8);
    if (len % 8 != 0) {
        mask[len / 8] = (uint8_t)(0xff << (8 - len % 8));
    }
    phys_set_ternary(e, index, bytes, mask);
}

uint64_t phys_key(const struct phys_entry *e, unsigned index)
{
    const struct phys_field *f = key_field(e, index);

    return load(e->key + f->offset, bytes_of(f));
}

const uint8_t *phys_key_bytes(const struct phys_entry *e, unsigned index)
{
    return e->key + key_field(e, index)->offset;
}

void phys_set_action(struct phys_entry *e, enum phys_action action)
{
    e->action = (uint8_t)action;
    memset(e->data, 0, sizeof(e->data));
}

void phys_set_param(struct phys_entry *e, unsigned index, uint64_t value)
{
    const struct phys_field *f = param_field(e, index);

    store(e->data + f->offset, bytes_of(f), value);
}

void phys_set_param_bytes(struct phys_entry *e, unsigned index, const uint8_t *bytes)
{
    const struct phys_field *f = param_field(e, index);

    memcpy(e->data + f->offset, bytes, bytes_of(f));
}

uint64_t phys_param(const struct phys_entry *e, unsigned index)
{
    const struct phys_field *f = param_field(e, index);

    return load(e->data + f->offset, bytes_of(f));
}

const uint8_t *phys_param_bytes(const struct phys_entry *e, unsigned index)
{
    return e->data + param_field(e, index)->offset;
}

/* ---- what a switch answered ---- */

static bool is_zero(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (p[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Whether the bits above the field's in its first byte are zero. */
static bool is_narrow(const uint8_t *bytes, const struct phys_field *f)
{
    return f->bits % 8 == 0 || bytes[f->offset] >> f->bits % 8 == 0;
}

static bool has_action(const struct phys_table_desc *d, uint8_t action)
{
    for (unsigned i = 0; i < d->action_count; i++) {
        if (d->actions[i] == action) {
            return true;
        }
    }
    return false;
}

bool phys_normalize(struct phys_entry *e)
{
    const struct phys_table_desc *t;
    const struct phys_action_desc *a;
    bool is_good = e->table < PHYS_TABLES;

    if (!is_good) {
        return false;
    }
    t = phys_table_desc((enum phys_table)e->table);
    is_good = has_action(t, e->action) && t->has_priority == (e->priority > 0) &&
              is_zero(e->key + t->key_len, sizeof(e->key) - t->key_len) &&
              is_zero(e->mask + t->key_len, sizeof(e->mask) - t->key_len);
    phys_mask_exact((enum phys_table)e->table, e->mask);
    for (unsigned i = 0; is_good && i < t->field_count; i++) {
        is_good = is_narrow(e->key, &t->fields[i]) && is_narrow(e->mask, &t->fields[i]);
    }
    for (unsigned i = 0; is_good && i < t->key_len; i++) {
        is_good = (e->key[i] & ~e->mask[i]) == 0;
    }
    if (!is_good) {
        return false;
    }
    a = phys_action_desc((enum phys_action)e->action);
    for (unsigned i = 0; is_good && i < a->param_count; i++) {
        is_good = is_narrow(e->data, &a->params[i]);
    }
    return is_good && is_zero(e->data + a->data_len, sizeof(e->data) - a->data_len);
}

int phys_compare(const struct phys_entry *a, const struct phys_entry *b)
{
    int order = (a->table > b->table) - (a->table < b->table);

    if (order == 0) {
        order = memcmp(a->key, b->key, sizeof(a->key));
    }
    if (order == 0) {
        order = memcmp(a->mask, b->mask, sizeof(a->mask));
    }
    if (order == 0) {
        order = (a->priority > b->priority) - (a->priority < b->priority);
    }
    return order;
}

bool phys_same_action(const struct phys_entry *a, const struct phys_entry *b)
{
    return a->action == b->action && memcmp(a->data, b->data, sizeof(a->data)) == 0;
}

/* Of one nibble: 16 words, so that there is no table to set up and none to share. */
uint32_t phys_crc32(const uint8_t *bytes, unsigned len)
{
    static const uint32_t nibble[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    uint32_t crc = ~UINT32_C(0);

    for (unsigned i = 0; i < len; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return ~crc;
}
