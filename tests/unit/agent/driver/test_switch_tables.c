#include "tests/unit/agent/driver/test_switch_impl.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static struct node **bucket_of(const struct test_device *d, const struct phys_entry *e)
{
    uint64_t h = XXH3_64bits(e->key, sizeof(e->key)) ^ e->table;

    return (struct node **)&d->buckets[h % BUCKETS];
}

static bool is_same_key(const struct phys_entry *a, const struct phys_entry *b)
{
    return a->table == b->table && a->priority == b->priority &&
           memcmp(a->key, b->key, sizeof(a->key)) == 0 &&
           memcmp(a->mask, b->mask, sizeof(a->mask)) == 0;
}

static struct node **find(const struct test_device *d, const struct phys_entry *e)
{
    struct node **at = bucket_of(d, e);

    while (*at && !is_same_key(&(*at)->entry, e)) {
        at = &(*at)->next;
    }
    return at;
}

static enum rpc_code insert(struct test_switch *s, struct test_device *d,
                            const struct phys_entry *e)
{
    struct node **at = find(d, e);
    uint32_t capacity = s->faults.capacity[e->table];

    if (s->faults.refuse_code && e->table == s->faults.refuse_table) {
        return (enum rpc_code)s->faults.refuse_code;
    }
    if (*at) {
        return RPC_ALREADY_EXISTS;
    }
    if (capacity && d->counts[e->table] >= capacity) {
        return RPC_RESOURCE_EXHAUSTED;
    }
    *at = calloc(1, sizeof(**at));
    (*at)->entry = *e;
    d->counts[e->table]++;
    return RPC_OK;
}

static struct cell *cell_of(struct test_device *d, bool is_meter, uint32_t id,
                            uint64_t index, bool adds)
{
    uint64_t h = (id * UINT64_C(0x9e3779b97f4a7c15)) ^ index * 2 ^ is_meter;

    for (unsigned i = 0; i < CELLS; i++) {
        struct cell *c = &d->cells[(h + i) % CELLS];

        if (c->id == 0 && adds) {
            *c = (struct cell){ .is_meter = is_meter, .id = id, .index = index };
            return c;
        }
        if (c->id == 0) {
            return NULL;
        }
        if (c->is_meter == is_meter && c->id == id && c->index == index) {
            return c;
        }
    }
    return NULL;
}

static enum rpc_code update_table(struct test_switch *s, struct test_device *d,
                                  enum phys_op op, const struct phys_entry *e)
{
    struct node **at;
    struct node *gone;

    if (op == PHYS_INSERT) {
        return insert(s, d, e);
    }
    at = find(d, e);
    if (!*at) {
        return RPC_NOT_FOUND;
    }
    if (op == PHYS_MODIFY) {
        (*at)->entry = *e;
        return RPC_OK;
    }
    gone = *at;
    *at = gone->next;
    d->counts[e->table]--; /* `e` may be the entry itself */
    free(gone);
    return RPC_OK;
}

enum rpc_code test_device_update(struct test_switch *s, struct test_device *d,
                                 enum phys_op op, const struct p4rt_entity *e)
{
    struct cell *c;

    if (e->kind == P4RT_TABLE) {
        return update_table(s, d, op, &e->entry);
    }
    c = cell_of(d, e->kind == P4RT_METER, e->id, e->index, true);
    if (!c) {
        return RPC_RESOURCE_EXHAUSTED;
    }
    c->config = e->config;
    return RPC_OK;
}

void test_device_clear(struct test_device *d)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        struct node *n = d->buckets[i];

        while (n) {
            struct node *next = n->next;

            free(n);
            n = next;
        }
        d->buckets[i] = NULL;
    }
    memset(d->counts, 0, sizeof(d->counts));
    memset(d->cells, 0, sizeof(d->cells));
}

void test_device_each(const struct test_device *d, unsigned table,
                      void (*f)(void *arg, const struct phys_entry *e), void *arg)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (const struct node *n = d->buckets[i]; n; n = n->next) {
            if (table == PHYS_TABLES || n->entry.table == table) {
                f(arg, &n->entry);
            }
        }
    }
}

size_t test_switch_count(const struct test_switch *s, unsigned device,
                         enum phys_table table)
{
    return s->impl->devices[device].counts[table];
}

const struct phys_entry *test_switch_find(const struct test_switch *s, unsigned device,
                                          const struct phys_entry *key)
{
    struct node **at = find(&s->impl->devices[device], key);

    return *at ? &(*at)->entry : NULL;
}

static void keep(void *arg, const struct phys_entry *e)
{
    *(const struct phys_entry **)arg = e;
}

const struct phys_entry *test_switch_any(const struct test_switch *s, unsigned device,
                                         enum phys_table table)
{
    const struct phys_entry *e = NULL;

    test_device_each(&s->impl->devices[device], table, keep, &e);
    return e;
}

bool test_switch_insert(struct test_switch *s, unsigned device,
                        const struct phys_entry *e)
{
    return insert(s, &s->impl->devices[device], e) == RPC_OK;
}

bool test_switch_delete(struct test_switch *s, unsigned device,
                        const struct phys_entry *e)
{
    return update_table(s, &s->impl->devices[device], PHYS_DELETE, e) == RPC_OK;
}

bool test_switch_meter(const struct test_switch *s, unsigned device, uint32_t id,
                       uint64_t index, struct phys_meter_config *ret)
{
    struct cell *c = cell_of(&s->impl->devices[device], true, id, index, false);

    if (c) {
        *ret = c->config;
    }
    return c != NULL;
}

void test_switch_open_meter(struct test_switch *s, unsigned device, uint32_t id,
                            uint64_t index)
{
    struct cell *c = cell_of(&s->impl->devices[device], true, id, index, true);

    if (c) {
        c->config = (struct phys_meter_config){ 0 };
    }
}

void test_switch_set_counter(struct test_switch *s, unsigned device, uint32_t id,
                             uint64_t index, uint64_t packets, uint64_t bytes)
{
    struct cell *c = cell_of(&s->impl->devices[device], false, id, index, true);

    if (c) {
        c->packets = packets;
        c->bytes = bytes;
    }
}
