#include "controller/store/store_memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RANGE_MAX_BYTES (4u << 20)

struct handle;

struct memory_db {
    struct store_kv **kvs; /* sorted by key */
    size_t count;
    size_t cap;
    uint64_t revision;
    uint64_t term;
    struct handle *handles;
    struct store_kv **fresh; /* keys that a transaction adds; none between two */
    size_t fresh_count, fresh_cap;
};

enum item_kind { ITEM_TXN, ITEM_RANGE, ITEM_EVENT };

struct item {
    struct item *next;
    enum item_kind kind;
    struct store_txn *txn;
    struct {
        uint64_t tag;
        struct store_key from;
        struct store_key end;
        uint32_t limit;
    } range;
    struct store_event event; /* owns its kvs */
};

struct handle {
    struct store store;
    struct memory_db *db;
    struct handle *next;
    struct item *head;
    struct item **tail;
    uint32_t queued_txns;
    bool fail_next;
    bool fail_applied;
    enum rc fail_rc;
};

struct memory_db *memory_db_new(void)
{
    return calloc(1, sizeof(struct memory_db));
}

void memory_db_free(struct memory_db *db)
{
    if (!db) {
        return;
    }
    assert(!db->handles);
    for (size_t i = 0; i < db->count; i++) {
        blob_unref(db->kvs[i]->value);
        free(db->kvs[i]);
    }
    free(db->kvs);
    free(db->fresh);
    free(db);
}

/* Index of the first key >= `key` among the first `count`. */
static size_t lower_bound_of(const struct memory_db *db, size_t count,
                             const struct store_key *key)
{
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (store_key_compare(&db->kvs[mid]->key, key) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static size_t lower_bound(const struct memory_db *db, const struct store_key *key)
{
    return lower_bound_of(db, db->count, key);
}

static struct store_kv *find(const struct memory_db *db, const struct store_key *key)
{
    size_t at = lower_bound(db, key);

    if (at < db->count && store_key_compare(&db->kvs[at]->key, key) == 0) {
        return db->kvs[at];
    }
    return NULL;
}

/* A simulator without memory has nothing to simulate. */
static void *must(void *p)
{
    if (!p) {
        abort();
    }
    return p;
}

static void event_add(struct store_event *event, const struct store_kv *kv)
{
    struct store_kv *kvs =
        must(realloc((void *)event->kvs, (event->kv_count + 1) * sizeof(*kvs)));

    kvs[event->kv_count] = *kv;
    blob_ref(kv->value);
    event->kvs = kvs;
    event->kv_count++;
}

static void event_fini(struct store_event *event)
{
    for (uint32_t i = 0; i < event->kv_count; i++) {
        blob_unref(event->kvs[i].value);
    }
    free((void *)event->kvs);
}

/* Puts the new keys, which ascend, in their places: at once, so that a transaction of
 * many pages moves what stands behind them once. */
static void settle(struct memory_db *db)
{
    size_t from = db->count;
    size_t to = db->count + db->fresh_count;

    if (to > db->cap) {
        db->cap = to > 2 * db->cap ? to : 2 * db->cap;
        db->kvs = must(realloc(db->kvs, db->cap * sizeof(struct store_kv *)));
    }
    db->count = to;
    while (db->fresh_count > 0) {
        struct store_kv *last = db->fresh[db->fresh_count - 1];
        size_t at = lower_bound_of(db, from, &last->key);

        to -= from - at;
        memmove(db->kvs + to, db->kvs + at, (from - at) * sizeof(struct store_kv *));
        from = at;
        db->kvs[--to] = last;
        db->fresh_count--;
    }
}

static struct store_kv *add_fresh(struct memory_db *db, const struct store_key *key)
{
    struct store_kv *kv;

    if (db->fresh_count > 0 &&
        store_key_compare(&db->fresh[db->fresh_count - 1]->key, key) >= 0) {
        settle(db);
        kv = find(db, key);
        if (kv) {
            blob_unref(kv->value);
            return kv;
        }
    }
    if (db->fresh_count == db->fresh_cap) {
        db->fresh_cap = db->fresh_cap ? 2 * db->fresh_cap : 64;
        db->fresh = must(realloc(db->fresh, db->fresh_cap * sizeof(*db->fresh)));
    }
    kv = must(calloc(1, sizeof(*kv)));
    kv->key = *key;
    kv->create_revision = db->revision;
    db->fresh[db->fresh_count++] = kv;
    return kv;
}

static void put(struct memory_db *db, const struct store_op *op, struct store_event *ev)
{
    struct store_kv *kv = find(db, &op->key);

    if (kv) {
        blob_unref(kv->value);
    } else {
        kv = add_fresh(db, &op->key);
    }
    kv->value = blob_ref(op->value);
    kv->mod_revision = db->revision;
    event_add(ev, kv);
}

static void erase(struct memory_db *db, size_t from, size_t end, struct store_event *ev)
{
    for (size_t i = from; i < end; i++) {
        blob_unref(db->kvs[i]->value);
        db->kvs[i]->value = NULL;
        db->kvs[i]->mod_revision = db->revision;
        event_add(ev, db->kvs[i]);
        free(db->kvs[i]);
    }
    memmove(db->kvs + from, db->kvs + end,
            (db->count - end) * sizeof(struct store_kv *));
    db->count -= end - from;
}

static bool compares_hold(const struct memory_db *db, const struct store_txn *txn)
{
    for (uint32_t i = 0; i < txn->compare_count; i++) {
        const struct store_compare *c = &txn->compares[i];
        const struct store_kv *kv = find(db, &c->key);
        uint64_t revision = !kv                                  ? 0
                            : c->target == STORE_CREATE_REVISION ? kv->create_revision
                                                                 : kv->mod_revision;

        if (revision != c->revision) {
            return false;
        }
    }
    return true;
}

static void item_push(struct handle *h, struct item *item)
{
    item->next = NULL;
    *h->tail = item;
    h->tail = &item->next;
}

/* Every other handle hears of it in its own time. */
static void broadcast(struct memory_db *db, const struct handle *from,
                      const struct store_event *event)
{
    for (struct handle *h = db->handles; h; h = h->next) {
        struct item *item;

        if (h == from) {
            continue;
        }
        item = must(calloc(1, sizeof(*item)));
        item->kind = ITEM_EVENT;
        item->event.revision = event->revision;
        for (uint32_t i = 0; i < event->kv_count; i++) {
            event_add(&item->event, &event->kvs[i]);
        }
        item_push(h, item);
    }
}

/* Carries `txn` out; fills `event` when it took effect. */
static enum rc apply(struct handle *h, const struct store_txn *txn,
                     struct store_event *event)
{
    struct memory_db *db = h->db;

    if (!compares_hold(db, txn)) {
        return RC_STALE;
    }
    db->revision++;
    event->revision = db->revision;
    event->tag = txn->tag;
    for (uint32_t i = 0; i < txn->op_count; i++) {
        const struct store_op *op = &txn->ops[i];
        size_t at;

        if (op->kind == STORE_PUT) {
            put(db, op, event);
            continue;
        }
        settle(db);
        at = lower_bound(db, &op->key);
        if (op->kind == STORE_DELETE_RANGE) {
            size_t end = lower_bound(db, &op->end);

            erase(db, at, end > at ? end : at, event);
        } else if (find(db, &op->key)) {
            erase(db, at, at + 1, event);
        }
    }
    settle(db);
    broadcast(db, h, event);
    return RC_OK;
}

static void step_txn(struct handle *h, struct store_txn *txn)
{
    struct store_done done = { .tag = txn->tag };
    struct store_event event = { 0 };

    h->queued_txns--;
    if (!h->fail_next || h->fail_applied) {
        done.rc = apply(h, txn, &event);
        done.revision = event.revision;
    }
    if (h->fail_next) {
        h->fail_next = false;
        done.rc = h->fail_rc;
        err_set(&done.err, done.rc, "store: injected %s", rc_name(done.rc));
    } else if (done.rc == RC_STALE) {
        err_set(&done.err, RC_STALE, "store: a compare did not hold");
    }
    if (event.revision > 0) {
        h->store.events->event(h->store.ctx, &event);
    }
    h->store.events->done(h->store.ctx, &done);
    event_fini(&event);
    store_txn_free(txn);
}

static void step_range(struct handle *h, const struct item *item)
{
    struct memory_db *db = h->db;
    struct store_range_reply reply = { .tag = item->range.tag,
                                       .revision = db->revision };
    size_t at = lower_bound(db, &item->range.from);
    size_t end = lower_bound(db, &item->range.end);
    size_t bytes = 0;
    struct store_kv *kvs = must(calloc(end > at ? end - at : 1, sizeof(*kvs)));

    while (at < end && reply.kv_count < item->range.limit && bytes < RANGE_MAX_BYTES) {
        kvs[reply.kv_count] = *db->kvs[at++];
        bytes += kvs[reply.kv_count++].value->len;
    }
    reply.kvs = kvs;
    reply.more = at < end;
    h->store.events->range(h->store.ctx, &reply);
    free(kvs);
}

bool store_memory_step(struct store *s)
{
    struct handle *h = (struct handle *)s;
    struct item *item = h->head;

    if (!item) {
        return false;
    }
    h->head = item->next;
    if (!h->head) {
        h->tail = &h->head;
    }
    switch (item->kind) {
    case ITEM_TXN:
        step_txn(h, item->txn);
        break;
    case ITEM_RANGE:
        step_range(h, item);
        break;
    case ITEM_EVENT:
        h->store.events->event(h->store.ctx, &item->event);
        event_fini(&item->event);
        break;
    }
    free(item);
    return true;
}

bool store_memory_has_work(const struct store *s)
{
    return ((const struct handle *)s)->head != NULL;
}

uint32_t store_memory_queued(const struct store *s)
{
    return ((const struct handle *)s)->queued_txns;
}

void store_memory_fail_next(struct store *s, enum rc rc, bool applied)
{
    struct handle *h = (struct handle *)s;

    h->fail_next = true;
    h->fail_rc = rc;
    h->fail_applied = applied;
}

static void memory_submit(struct store *s, struct store_txn *txn)
{
    struct handle *h = (struct handle *)s;
    struct item *item = must(calloc(1, sizeof(*item)));

    item->kind = ITEM_TXN;
    item->txn = txn;
    h->queued_txns++;
    item_push(h, item);
}

static void memory_range(struct store *s, uint64_t tag, struct store_key from,
                         struct store_key end, uint32_t limit)
{
    struct item *item = must(calloc(1, sizeof(*item)));

    item->kind = ITEM_RANGE;
    item->range.tag = tag;
    item->range.from = from;
    item->range.end = end;
    item->range.limit = limit;
    item_push((struct handle *)s, item);
}

void store_memory_crash(struct store *s, uint32_t applied)
{
    struct handle *h = (struct handle *)s;
    struct item *next;

    for (struct item *item = h->head; item; item = next) {
        next = item->next;
        if (item->kind == ITEM_TXN) {
            struct store_event event = { 0 };

            if (applied > 0) {
                applied--;
                apply(h, item->txn, &event);
            }
            event_fini(&event);
            store_txn_free(item->txn);
        } else if (item->kind == ITEM_EVENT) {
            event_fini(&item->event);
        }
        free(item);
    }
    for (struct handle **at = &h->db->handles; *at; at = &(*at)->next) {
        if (*at == h) {
            *at = h->next;
            break;
        }
    }
    free(h);
}

static void memory_close(struct store *s)
{
    store_memory_crash(s, UINT32_MAX);
}

static const struct store_class memory_class = {
    .name = "memory",
    .submit = memory_submit,
    .range = memory_range,
    .close = memory_close,
};

struct store *store_memory_open(struct memory_db *db, const struct store_events *events,
                                void *ctx)
{
    struct handle *h = calloc(1, sizeof(*h));

    if (!h) {
        return NULL;
    }
    h->store.cls = &memory_class;
    h->store.events = events;
    h->store.ctx = ctx;
    h->store.term = ++db->term;
    h->db = db;
    h->tail = &h->head;
    h->next = db->handles;
    db->handles = h;
    return &h->store;
}
