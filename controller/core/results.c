/* results: what is remembered of finished commands: request ids and their results,
 * resume tokens of imports, and VNIs that were freed a moment ago. */
#include "controller/core/core_internal.h"

#define EXPIRE_PER_TXN 8 /* deletes that ride along with one transaction */

void results_fini(struct results *r)
{
    while (r->oldest) {
        struct request *next = r->oldest->next;

        free(r->oldest);
        r->oldest = next;
    }
    while (r->first_freed) {
        struct freed *next = r->first_freed->next;

        free(r->first_freed);
        r->first_freed = next;
    }
    map_fini(&r->requests);
    map_fini(&r->freed);
    free(r->imports);
    *r = (struct results){ 0 };
}

const struct request *results_request(const struct results *r, const char *id)
{
    struct map_slot *slot = map_find(&r->requests, text_hash(id));
    const struct request *q = slot ? slot->p : NULL;

    while (q && strcmp(q->id, id) != 0) {
        q = q->same;
    }
    return q;
}

static void add_request(struct core *c, const char *id, uint64_t revision,
                        const struct rows_change *counts, uint64_t expires_ms)
{
    struct results *r = &c->results;
    struct request *q = core_need(calloc(1, sizeof(*q)));
    struct map_slot *slot = core_need(map_add(&r->requests, text_hash(id)));

    q->revision = revision;
    q->counts = *counts;
    q->expires_ms = expires_ms;
    memcpy(q->id, id, strnlen(id, sizeof(q->id) - 1));
    q->same = slot->p;
    slot->p = q;
    if (r->newest) {
        r->newest->next = q;
    } else {
        r->oldest = q;
    }
    r->newest = q;
}

static void forget_oldest(struct results *r)
{
    struct request *q = r->oldest;
    struct map_slot *slot = map_find(&r->requests, text_hash(q->id));
    struct request *at = slot->p;

    if (at == q && !q->same) {
        map_remove(&r->requests, slot);
    } else if (at == q) {
        slot->p = q->same;
    } else {
        while (at->same != q) {
            at = at->same;
        }
        at->same = q->same;
    }
    r->oldest = q->next;
    if (!r->oldest) {
        r->newest = NULL;
    }
    free(q);
}

static struct import *find_import(const struct results *r, const uint8_t digest[16])
{
    for (uint32_t i = 0; i < r->import_count; i++) {
        if (memcmp(r->imports[i].digest, digest, 16) == 0) {
            return &r->imports[i];
        }
    }
    return NULL;
}

uint64_t results_import(const struct results *r, const uint8_t digest[16])
{
    const struct import *i = find_import(r, digest);

    return i ? i->next_line : 0;
}

static void set_import(struct core *c, const uint8_t digest[16], uint64_t next_line)
{
    struct results *r = &c->results;
    struct import *i = find_import(r, digest);

    if (!i) {
        if (!r->imports) {
            r->imports = core_need(calloc(IMPORTS_MAX, sizeof(*r->imports)));
        }
        if (r->import_count < IMPORTS_MAX) {
            i = &r->imports[r->import_count++];
        } else {
            /* The longest unused one goes. */
            i = &r->imports[0];
            for (uint32_t k = 1; k < IMPORTS_MAX; k++) {
                if (r->imports[k].used < i->used) {
                    i = &r->imports[k];
                }
            }
        }
        memcpy(i->digest, digest, 16);
    }
    i->next_line = next_line;
    i->used = ++r->import_used;
}

bool command_is_import(const struct command *cmd)
{
    static const uint8_t none[16];

    return cmd->kind == COMMAND_ENTRIES &&
           memcmp(cmd->entries.import_digest, none, 16) != 0;
}

static uint64_t freed_end(const struct core *c, uint64_t age_ms)
{
    uint64_t keep = c->config.vni_quarantine_ms;

    return age_ms < keep ? c->now_ms + (keep - age_ms) : 0;
}

/* Takes `f`, whose VNIs are set. */
static void add_freed(struct results *r, struct freed *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        struct map_slot *slot = core_need(map_add(&r->freed, f->vnis[i]));

        slot->a = f->ends_ms;
        slot->b = f->seq;
    }
    if (r->last_freed) {
        r->last_freed->next = f;
    } else {
        r->first_freed = f;
    }
    r->last_freed = f;
}

static struct freed *freed_new(uint32_t most)
{
    struct freed *f = NULL;

    return core_need(calloc(1, sizeof(*f) + most * sizeof(f->vnis[0])));
}

/* The oldest, if it is over. */
static enum rc expire_freed(struct core *c, struct store_txn *txn)
{
    struct results *r = &c->results;
    struct freed *f = r->first_freed;

    if (!f || f->ends_ms > c->now_ms ||
        store_txn_delete(txn, record_key_seq('f', f->seq))) {
        return f && f->ends_ms <= c->now_ms ? RC_NO_MEMORY : RC_OK;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        struct map_slot *slot = map_find(&r->freed, f->vnis[i]);

        if (slot && slot->b == f->seq) {
            map_remove(&r->freed, slot);
        }
    }
    r->first_freed = f->next;
    r->last_freed = f->next ? r->last_freed : NULL;
    units_spend(&c->units, f->count);
    free(f);
    return RC_OK;
}

enum rc results_expire(struct core *c, struct store_txn *txn)
{
    struct results *r = &c->results;
    enum rc rc = RC_OK;

    for (unsigned n = 0;
         n < EXPIRE_PER_TXN && !rc && r->oldest && r->oldest->expires_ms <= c->now_ms;
         n++) {
        rc = store_txn_delete(txn, record_key_result(r->oldest->id));
        if (!rc) {
            forget_oldest(r);
        }
    }
    return rc ? rc : expire_freed(c, txn);
}

static uint64_t age_of(const struct core *c, uint64_t unix_ms)
{
    return c->unix_ms > unix_ms ? c->unix_ms - unix_ms : 0;
}

static enum rc load_request(struct core *c, const struct store_kv *kv)
{
    struct result res;
    char id[64] = "";
    uint64_t keep = c->config.request_keep_ms;
    uint64_t age;

    if (record_unpack_result(kv->value->data, kv->value->len, &res) ||
        kv->key.len - 3u >= sizeof(id)) {
        return RC_INVALID;
    }
    memcpy(id, kv->key.bytes + 3, kv->key.len - 3u);
    age = age_of(c, res.unix_ms);
    add_request(c, id, kv->mod_revision, &res.counts,
                c->now_ms + (age < keep ? keep - age : 0));
    return RC_OK;
}

static enum rc load_freed(struct core *c, const struct store_kv *kv)
{
    struct reader r = reader_of(kv->value->data, kv->value->len);
    uint64_t end = freed_end(c, age_of(c, read_u64(&r)));
    struct freed *f = freed_new((uint32_t)reader_left(&r) / 3 + 1);

    f->ends_ms = end;
    while (reader_left(&r) > 0 && !r.failed) {
        uint32_t vni = read_u24(&r);

        f->vnis[f->count] = vni;
        f->count += vni != 0;
    }
    if (r.failed || !record_seq(&kv->key, &f->seq)) {
        free(f);
        return RC_INVALID;
    }
    add_freed(&c->results, f);
    return RC_OK;
}

enum rc results_load(struct core *c, const struct store_kv *kv, struct err *err)
{
    struct reader r = reader_of(kv->value->data, kv->value->len);
    uint64_t next_line;
    enum rc rc = RC_INVALID;

    switch (record_kind(&kv->key)) {
    case 'r':
        rc = load_request(c, kv);
        break;
    case 'f':
        rc = load_freed(c, kv);
        break;
    default:
        next_line = read_u64(&r);
        if (!r.failed && kv->key.len == 3 + 16) {
            set_import(c, kv->key.bytes + 3, next_line);
            rc = RC_OK;
        }
    }
    return rc ? err_set(err, RC_INVALID, "stored result '%.*s' is damaged", kv->key.len,
                        (const char *)kv->key.bytes)
              : RC_OK;
}

static void note_freed(struct core *c, uint64_t seq, const struct change_list *l)
{
    struct freed *f = freed_new(l->count);

    f->seq = seq;
    f->ends_ms = freed_end(c, 0);
    for (uint32_t i = 0; i < l->count; i++) {
        if (l->at[i].table == TABLE_TENANT && !l->at[i].after) {
            f->vnis[f->count++] = l->at[i].vni;
        }
    }
    if (f->count > 0) {
        add_freed(&c->results, f);
    } else {
        free(f);
    }
}

void results_commit(struct core *c, const struct command *cmd, uint64_t revision,
                    uint64_t seq, const struct rows_change *counts,
                    const struct change_list *l)
{
    if (cmd->request_id[0]) {
        add_request(c, cmd->request_id, revision, counts,
                    c->now_ms + c->config.request_keep_ms);
    }
    if (command_is_import(cmd)) {
        set_import(c, cmd->entries.import_digest, cmd->entries.import_next_line);
    }
    if (c->config.vni_quarantine_ms) {
        note_freed(c, seq, l);
    }
}
