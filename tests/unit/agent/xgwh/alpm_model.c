#include "tests/unit/agent/xgwh/alpm_model.h"

#include <stdlib.h>
#include <string.h>

#include "tests/bench/gen.h"
#include "tests/unit/unit.h"

/* libcheck notes the place of every check by a system call: too slow for millions. */
#define must(claim)                                                                    \
    do {                                                                               \
        if (!(claim)) {                                                                \
            ck_abort_msg("not so: %s", #claim);                                        \
        }                                                                              \
    } while (0)

/* As many as two bytes can name: what a broken entry says is kept, too. */
enum { PARTS = 65536 };

struct line {
    struct phys_entry *at;
    size_t count, cap;
};

struct model {
    const struct phys_sizes *sizes;
    struct line tcam;
    struct line *part;
};

struct model *model_new(const struct phys_sizes *sizes)
{
    struct model *m = calloc(1, sizeof *m);

    m->sizes = sizes;
    m->part = calloc(PARTS, sizeof *m->part);
    return m;
}

void model_free(struct model *m)
{
    for (uint32_t i = 0; m && i < PARTS; i++) {
        free(m->part[i].at);
    }
    free(m ? m->part : NULL);
    free(m ? m->tcam.at : NULL);
    free(m);
}

static uint32_t number(const uint8_t *at, unsigned bits)
{
    uint32_t v = 0;

    for (unsigned i = 0; i < (bits + 7) / 8; i++) {
        v = v << 8 | at[i];
    }
    return v;
}

static uint32_t key_field(const struct phys_entry *e, unsigned i)
{
    const struct phys_field *f = &phys_table_desc(e->table)->fields[i];

    return number(e->key + f->offset, f->bits);
}

static uint32_t param(const struct phys_entry *e, unsigned i)
{
    const struct phys_field *f = &phys_action_desc(e->action)->params[i];

    return number(e->data + f->offset, f->bits);
}

static bool is_zero(const uint8_t *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (p[i]) {
            return false;
        }
    }
    return true;
}

static void check_form(const struct model *m, const struct phys_write *w)
{
    const struct phys_entry *e = &w->entry;
    const struct phys_table_desc *d = phys_table_desc(e->table);
    bool has_action = false;

    must(e->table == PHYS_ROUTE_TCAM || e->table == PHYS_ROUTE_PART);
    if (w->op == PHYS_DELETE) { /* what is found cannot be of a wrong form */
        must(e->action == PHYS_NO_ACTION && is_zero(e->data, 0, PHYS_DATA_MAX));
        return;
    }
    must(e->priority > 0);
    must(is_zero(e->key, d->key_len, PHYS_KEY_MAX));
    must(is_zero(e->mask, d->key_len, PHYS_KEY_MAX));
    for (unsigned i = 0; i < d->key_len; i++) {
        if (e->key[i] & ~e->mask[i]) {
            ck_abort_msg("a key with bits outside of its mask");
        }
    }
    for (unsigned i = 0; i < d->action_count; i++) {
        has_action |= d->actions[i] == e->action;
    }
    must(has_action);
    must(is_zero(e->data, phys_action_desc(e->action)->data_len, PHYS_DATA_MAX));
    if (e->table == PHYS_ROUTE_PART) {
        must(key_field(e, 0) > 0);
        must(key_field(e, 0) < m->sizes->partitions);
        must(number(e->mask, 16) == (1u << d->fields[0].bits) - 1);
        must(number(e->mask + 2, 24) == 0xffffff);
    }
}

static bool same_key(const struct phys_entry *a, const struct phys_entry *b)
{
    return a->table == b->table && a->half == b->half && a->priority == b->priority &&
           !memcmp(a->key, b->key, sizeof a->key) &&
           !memcmp(a->mask, b->mask, sizeof a->mask);
}

static struct line *line_of(const struct model *m, const struct phys_entry *e)
{
    return e->table == PHYS_ROUTE_TCAM ? (struct line *)&m->tcam
                                       : &m->part[key_field(e, 0)];
}

static struct phys_entry *find(const struct model *m, const struct phys_entry *e)
{
    struct line *l = line_of(m, e);

    for (size_t i = 0; i < l->count; i++) {
        if (same_key(&l->at[i], e)) {
            return &l->at[i];
        }
    }
    return NULL;
}

static void line_add(struct line *l, const struct phys_entry *e)
{
    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 16;
        l->at = realloc(l->at, l->cap * sizeof *l->at);
    }
    l->at[l->count++] = *e;
}

void model_put_raw(struct model *m, const struct phys_entry *e)
{
    if (!find(m, e)) {
        line_add(line_of(m, e), e);
    }
}

void model_write(struct model *m, const struct phys_write *w)
{
    struct line *l = line_of(m, &w->entry);
    struct phys_entry *e = find(m, &w->entry);

    check_form(m, w);
    must((e == NULL) == (w->op == PHYS_INSERT));
    switch (w->op) {
    case PHYS_INSERT:
        must(l->count < (l == &m->tcam ? m->sizes->table[PHYS_ROUTE_TCAM]
                                       : m->sizes->partition_slots));
        line_add(l, &w->entry);
        break;
    case PHYS_MODIFY:
        *e = w->entry;
        break;
    case PHYS_DELETE:
        *e = l->at[--l->count];
        break;
    default:
        ck_abort_msg("no such op");
    }
}

static const struct phys_entry *best(const struct line *l, unsigned skip,
                                     const uint8_t string[19])
{
    const struct phys_entry *found = NULL;

    for (size_t i = 0; i < l->count; i++) {
        const struct phys_entry *e = &l->at[i];
        bool matches = !found || e->priority > found->priority;

        for (unsigned k = 0; matches && k < 19; k++) {
            matches = ((string[k] ^ e->key[skip + k]) & e->mask[skip + k]) == 0;
        }
        found = matches ? e : found;
    }
    return found;
}

void model_lookup(const struct model *m, uint32_t vni, const uint8_t addr[16],
                  struct alpm_result *ret)
{
    uint8_t string[19] = { (uint8_t)(vni >> 16), (uint8_t)(vni >> 8), (uint8_t)vni };
    const struct phys_entry *row;
    const struct phys_entry *slot;

    memcpy(string + 3, addr, 16);
    memset(ret, 0, sizeof *ret);
    row = best(&m->tcam, 0, string);
    if (!row) {
        must(m->part[PHYS_PART_NONE].count == 0);
        return;
    }
    slot = best(&m->part[param(row, 0)], 2, string);
    if (!slot) {
        ret->scope = (uint8_t)param(row, 1);
        ret->vni = param(row, 2);
        ret->idx = param(row, 3);
        return;
    }
    switch (slot->action) {
    case PHYS_LOCAL:
        *ret = (struct alpm_result){ PHYS_SCOPE_LOCAL, vni, 0 };
        break;
    case PHYS_PEER:
        *ret = (struct alpm_result){ PHYS_SCOPE_PEER, param(slot, 0), param(slot, 1) };
        break;
    case PHYS_TUNNEL:
        *ret =
            (struct alpm_result){ PHYS_SCOPE_TUNNEL, param(slot, 0), param(slot, 1) };
        break;
    default:
        *ret = (struct alpm_result){ PHYS_SCOPE_FALLBACK, 0, param(slot, 0) };
        break;
    }
}

/* ---- comparing ---- */

struct compare {
    const struct model *m;
    size_t count;
};

static bool compare_entry(void *ctx, const struct phys_entry *e)
{
    struct compare *c = ctx;
    const struct phys_entry *there = find(c->m, e);

    must(there && there->action == e->action &&
         !memcmp(there->data, e->data, sizeof e->data));
    c->count++;
    return true;
}

void model_check_entries(const struct model *m, const struct alpm *a)
{
    struct compare c = { m, 0 };
    size_t count = m->tcam.count;

    for (uint32_t i = 0; i < PARTS; i++) {
        count += m->part[i].count;
    }
    alpm_entries(a, compare_entry, &c);
    ck_assert_uint_eq(c.count, count);
}

uint32_t model_rows(const struct model *m)
{
    return (uint32_t)m->tcam.count;
}

size_t model_entries(const struct model *m, struct phys_entry **ret)
{
    struct line all = { 0 };

    for (size_t i = 0; i < m->tcam.count; i++) {
        line_add(&all, &m->tcam.at[i]);
    }
    for (uint32_t p = 0; p < PARTS; p++) {
        for (size_t i = 0; i < m->part[p].count; i++) {
            line_add(&all, &m->part[p].at[i]);
        }
    }
    *ret = all.at;
    return all.count;
}

void model_read_back(const struct model *m, struct alpm *a, uint64_t *seed,
                     struct writes *repairs, struct alpm_findings *ret)
{
    struct alpm_cost cost = { 0 };
    struct phys_entry *e;
    size_t count = model_entries(m, &e);

    ck_assert_int_eq(alpm_read_begin(a), RC_OK);
    for (size_t i = count; i > 0; i--) {
        size_t k = (size_t)(gen_random(seed) % i);

        must(alpm_read_entry(a, &e[k]) == RC_OK);
        e[k] = e[i - 1];
    }
    ck_assert_int_eq(alpm_read_end(a, writes_add, repairs, &cost, ret), RC_OK);
    ck_assert_uint_eq(cost.move_writes + cost.cover_writes, repairs->count);
    free(e);
}

/* ---- sequences ---- */

void writes_fini(struct writes *w)
{
    free(w->at);
    *w = (struct writes){ 0 };
}

void writes_add(void *ctx, const struct phys_write *w)
{
    struct writes *to = ctx;

    if (to->count == to->cap) {
        to->cap = to->cap ? 2 * to->cap : 64;
        to->at = realloc(to->at, to->cap * sizeof *to->at);
    }
    to->at[to->count++] = *w;
}

void model_sink(void *ctx, const struct phys_write *w)
{
    model_write(ctx, w);
}
