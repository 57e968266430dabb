/*
 * checkpoint: pages written in the background, journal records dropped behind them.
 *
 * A round takes everything that changed since the last one, writes what each (VNI,
 * table) held when the round began, and then drops the records up to there.  The
 * snapshot costs nothing: rows are immutable, and the first change during the round
 * leaves the rows it replaced in `dirty`.
 *
 * A crash may leave any mixture of old and new pages.  That is no harm, and no page
 * needs a number of its own:
 *
 *   - All records after the previous round are still there, for they go with the
 *     round's last transaction.  Records are puts and deletes of whole rows, and of all
 *     rows of a tenant, so a key that any of them names ends as the last one says,
 *     whatever the pages held.
 *   - A key that none of them names is the same in old and new pages, and at each
 *     moment at least one page holds it: pages of one (VNI, table) are put from the
 *     last to the first, and stale ones deleted only then.  For let a key's new page T
 *     be unwritten.  Written ones begin behind T's first key, so none of them has taken
 *     the place of the key's old page B: if B begins behind T's first key, B's first
 * key is no first key of a new page up to the key (T is the last such).
 *
 * So pages may overlap after a crash; loading merges them (load.c).
 */
#include "controller/core/core_internal.h"

#include "proto/base/log.h"

#define TXN_OPS     112          /* of STORE_TXN_OPS */
#define TXN_BYTES   (768u << 10) /* etcd takes 1.5 MiB a request */
#define TXNS_FLYING 4
#define AUDIT_KEEP  100000u
#define RETRY_MS    1000

static struct rows *slot_rows(const struct map_slot *slot)
{
    return slot->p;
}

void checkpoint_note(struct core *c, uint32_t vni, uint8_t table, struct rows *before)
{
    struct map_slot *slot = map_find(&c->checkpoint.dirty, row_set_key(vni, table));

    if (!slot) {
        slot = core_need(map_add(&c->checkpoint.dirty, row_set_key(vni, table)));
        slot->p = rows_ref(before);
    }
}

void checkpoint_note_unaligned(struct core *c, uint32_t vni, uint8_t table)
{
    struct map_slot *slot =
        core_need(map_add(&c->checkpoint.dirty, row_set_key(vni, table)));

    slot->b |= DIRTY_UNALIGNED;
}

void checkpoint_journal(struct core *c, size_t bytes)
{
    struct checkpoint *k = &c->checkpoint;

    if (k->journal_bytes == 0) {
        k->first_ms = c->now_ms;
    }
    /* A record costs something even when it is empty. */
    k->journal_bytes += bytes + 64;
    k->last_ms = c->now_ms;
}

static uint64_t due_ms(const struct core *c)
{
    const struct checkpoint *k = &c->checkpoint;
    uint64_t due;

    if (k->journal_bytes == 0) {
        return UINT64_MAX;
    }
    due = k->first_ms + c->config.checkpoint_age_ms;
    if (k->last_ms + c->config.checkpoint_idle_ms < due) {
        due = k->last_ms + c->config.checkpoint_idle_ms;
    }
    if (k->journal_bytes >= c->config.checkpoint_bytes) {
        due = 0;
    }
    return due > k->retry_ms ? due : k->retry_ms;
}

uint64_t checkpoint_wake(const struct core *c)
{
    if (c->phase != PHASE_SERVING || c->checkpoint.is_running) {
        return UINT64_MAX;
    }
    return due_ms(c);
}

bool checkpoint_has_work(const struct core *c)
{
    const struct checkpoint *k = &c->checkpoint;

    if (c->phase != PHASE_SERVING) {
        return false;
    }
    if (!k->is_running) {
        return due_ms(c) <= c->now_ms;
    }
    if (k->is_ending) {
        return true;
    }
    if (k->is_closing || k->has_failed) {
        return false;
    }
    return k->is_walked ? k->flying == 0 : k->flying < TXNS_FLYING;
}

/* ---- one (VNI, table) ---- */

static void job_end(struct checkpoint *k)
{
    rows_unref(k->job.base);
    rows_unref(k->job.target);
    memset(&k->job, 0, sizeof(k->job));
}

/* What (VNI, table) held when the round began. */
static struct rows *target_rows(const struct core *c, uint64_t key)
{
    struct map_slot *later = map_find(&c->checkpoint.dirty, key);

    return later ? slot_rows(later)
                 : committed_rows(c, (uint32_t)(key >> 8), (enum table_id)(key & 255));
}

static void job_start(struct core *c, struct map_slot *slot)
{
    struct checkpoint *k = &c->checkpoint;

    slot->b |= DIRTY_DONE;
    k->job.key = slot->key;
    k->job.base = rows_ref(slot_rows(slot));
    k->job.target = rows_ref(target_rows(c, slot->key));
    k->job.is_unaligned = slot->b & DIRTY_UNALIGNED;
    k->job.puts_left = rows_page_count(k->job.target);
    k->job.deletes_done = 0;
}

static struct row first_row(const struct rows_page *page, enum table_id table)
{
    struct row row = { 0 };

    core_must(row_scan(table, page->data, page->bytes, true, &row) > 0);
    return row;
}

/* The page of `rows` that begins with `key`; null data when there is none. */
static struct rows_page page_find(const struct rows *rows, enum table_id table,
                                  const struct row *key)
{
    uint32_t low = 0;
    uint32_t high = rows_page_count(rows);

    while (low < high) {
        uint32_t mid = (low + high) / 2;
        struct rows_page page = rows_page_at(rows, mid);
        struct row first = first_row(&page, table);
        int order = row_compare(&first, key);

        if (order == 0) {
            return page;
        }
        if (order < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return (struct rows_page){ 0 };
}

struct writing {
    struct store_txn *txn;
    size_t bytes;
};

static bool is_full(const struct writing *w)
{
    return w->txn->op_count >= TXN_OPS || w->bytes >= TXN_BYTES;
}

/* Pages from the last to the first; false: the transaction is full or out of memory. */
static bool write_puts(struct checkpoint *k, struct writing *w)
{
    const uint32_t vni = (uint32_t)(k->job.key >> 8);
    const enum table_id table = (enum table_id)(k->job.key & 255);

    while (k->job.puts_left > 0) {
        struct rows_page page = rows_page_at(k->job.target, k->job.puts_left - 1);
        struct row first = first_row(&page, table);
        struct rows_page stored = { 0 };
        struct blob *value;
        enum rc rc;

        if (!k->job.is_unaligned) {
            stored = page_find(k->job.base, table, &first);
        }
        if (stored.data && stored.identity == page.identity) {
            k->job.puts_left--;
            continue;
        }
        if (is_full(w)) {
            return false;
        }
        value = blob_copy(page.data, page.bytes);
        rc = value ? store_txn_put(
                         w->txn,
                         record_key_page(vni, (uint8_t)table, first.key, first.key_len),
                         value)
                   : RC_NO_MEMORY;
        blob_unref(value);
        if (rc) {
            k->has_failed = true;
            return false;
        }
        w->bytes += page.bytes;
        k->job.puts_left--;
    }
    return true;
}

/* Stored pages that the new set does not begin anywhere. */
static bool write_deletes(struct checkpoint *k, struct writing *w)
{
    const uint32_t vni = (uint32_t)(k->job.key >> 8);
    const enum table_id table = (enum table_id)(k->job.key & 255);
    const uint32_t count = rows_page_count(k->job.base);

    for (; k->job.deletes_done < count; k->job.deletes_done++) {
        struct rows_page page = rows_page_at(k->job.base, k->job.deletes_done);
        struct row first = first_row(&page, table);

        if (page_find(k->job.target, table, &first).data) {
            continue;
        }
        if (is_full(w)) {
            return false;
        }
        if (store_txn_delete(w->txn, record_key_page(vni, (uint8_t)table, first.key,
                                                     first.key_len))) {
            k->has_failed = true;
            return false;
        }
    }
    return true;
}

/* The same when it is not known which pages are stored: everything between the first
 * keys of the new ones. */
static bool write_gaps(struct checkpoint *k, struct writing *w)
{
    const uint32_t vni = (uint32_t)(k->job.key >> 8);
    const enum table_id table = (enum table_id)(k->job.key & 255);
    const uint32_t count = rows_page_count(k->job.target);

    for (; k->job.deletes_done <= count; k->job.deletes_done++) {
        uint32_t i = k->job.deletes_done;
        struct store_key from = record_key_page(vni, (uint8_t)table, NULL, 0);
        struct store_key end = record_key_pages_end(vni, (uint8_t)table);

        if (i > 0) {
            struct rows_page page = rows_page_at(k->job.target, i - 1);
            struct row first = first_row(&page, table);

            from = record_key_page(vni, (uint8_t)table, first.key, first.key_len);
            from = store_key_after(&from);
        }
        if (i < count) {
            struct rows_page page = rows_page_at(k->job.target, i);
            struct row first = first_row(&page, table);

            end = record_key_page(vni, (uint8_t)table, first.key, first.key_len);
        }
        if (store_key_compare(&from, &end) >= 0) {
            continue;
        }
        if (is_full(w)) {
            return false;
        }
        if (store_txn_delete_range(w->txn, from, end)) {
            k->has_failed = true;
            return false;
        }
    }
    return true;
}

/* ---- the round ---- */

/* The next (VNI, table) of the round: those that the tip has in VNI order, because a
 * store likes to be written in order; then the others.  Null and `*ret_more`: look
 * again in the next slice. */
static struct map_slot *next_slot(struct core *c, bool *ret_more)
{
    const uint32_t mask = INTENT_TABLES;
    struct checkpoint *k = &c->checkpoint;
    struct map_slot *slot;

    *ret_more = true;
    while (k->next_vni && c->units > 0) {
        units_spend(&c->units, 4);
        for (unsigned table = 0; table < TABLE_COUNT; table++) {
            slot = map_find(&k->round, row_set_key(k->next_vni, (uint8_t)table));
            if (slot && !(slot->b & DIRTY_DONE)) {
                return slot;
            }
        }
        k->next_vni =
            k->next_vni < VNI_MAX ? table_set_next(c->tip, k->next_vni + 1, mask) : 0;
    }
    while (!k->next_vni && c->units > 0) {
        slot = map_each(&k->round, &k->at_slot);
        units_spend(&c->units, 1);
        if (!slot || !(slot->b & DIRTY_DONE)) {
            *ret_more = slot != NULL;
            return slot;
        }
    }
    return NULL;
}

static void begin_round(struct core *c)
{
    struct checkpoint *k = &c->checkpoint;
    const uint32_t mask = INTENT_TABLES;

    k->round = k->dirty;
    k->dirty = (struct map){ 0 };
    k->is_running = true;
    k->is_walked = false;
    k->is_closing = false;
    k->has_failed = false;
    k->cut = c->committed_seq;
    k->round_bytes = k->journal_bytes;
    k->first_ms = c->now_ms;
    k->next_vni = table_set_next(c->tip, VNI_MIN, mask);
    k->at_slot = 0;
}

/* The round is over; what it kept is let go in slices. */
static void end_round(struct core *c)
{
    struct checkpoint *k = &c->checkpoint;

    job_end(k);
    k->is_ending = true;
    k->at_slot = 0;
    if (k->has_failed) {
        effect_log(c, LOG_WARN, "checkpoint failed", "retry_ms=%d", RETRY_MS);
    } else {
        k->journal_bytes -= k->round_bytes;
    }
}

/* After a failure back to what was dirty; what was written so far is not known to be
 * stored. */
static void keep_dirty(struct checkpoint *k, const struct map_slot *slot)
{
    struct map_slot *later = core_need(map_add(&k->dirty, slot->key));

    rows_unref(slot_rows(later));
    later->a = slot->a;
    later->b |= slot->b & DIRTY_DONE ? DIRTY_UNALIGNED : slot->b;
}

static void end_slice(struct core *c)
{
    struct checkpoint *k = &c->checkpoint;
    struct map_slot *slot;

    while (c->units > 0) {
        slot = map_each(&k->round, &k->at_slot);
        if (!slot) {
            map_fini(&k->round);
            k->is_running = false;
            k->is_ending = false;
            k->retry_ms = k->has_failed ? c->now_ms + RETRY_MS : k->retry_ms;
            return;
        }
        if (k->has_failed) {
            keep_dirty(k, slot);
        } else {
            rows_unref(slot_rows(slot));
        }
        slot->p = NULL;
        units_spend(&c->units, 8);
    }
}

/* The last transaction: the pages hold everything up to the cut. */
static enum rc close_round(struct core *c, struct store_txn *txn)
{
    struct checkpoint *k = &c->checkpoint;
    struct blob *cut = record_pack_u64(k->cut);
    enum rc rc =
        cut ? store_txn_put(txn, record_key_meta("folded"), cut) : RC_NO_MEMORY;

    blob_unref(cut);
    rc = rc ? rc
            : store_txn_delete_range(txn, record_key_seq('j', 0),
                                     record_key_seq('j', k->cut + 1));
    if (!rc && k->cut > AUDIT_KEEP) {
        rc = store_txn_delete_range(txn, record_key_seq('a', 0),
                                    record_key_seq('a', k->cut - AUDIT_KEEP));
    }
    return rc;
}

static void submit(struct core *c, struct writing *w)
{
    c->checkpoint.flying++;
    txn_submit(c, w->txn);
}

static bool write_job(struct checkpoint *k, struct writing *w)
{
    return write_puts(k, w) &&
           (k->job.is_unaligned ? write_gaps(k, w) : write_deletes(k, w));
}

bool checkpoint_work(struct core *c)
{
    struct checkpoint *k = &c->checkpoint;
    struct writing w = { 0 };
    bool more = true;

    /* What is noted of a commit must be what it is seen to be. */
    if (!checkpoint_has_work(c) || (c->job.kind == JOB_COMMIT && !c->job.is_visible)) {
        return false;
    }
    if (k->is_ending) {
        end_slice(c);
        return true;
    }
    if (!k->is_running) {
        begin_round(c);
    }
    w.txn = txn_new(c, tag_new(c, TAG_CHECKPOINT));
    k->has_failed = !w.txn;
    while (!k->has_failed && more) {
        if (k->job.key == 0) {
            struct map_slot *slot = next_slot(c, &more);

            if (!slot) {
                break;
            }
            job_start(c, slot);
        }
        if (!write_job(k, &w)) {
            break;
        }
        job_end(k);
    }
    k->is_walked = !more;
    if (k->is_walked && !k->has_failed && w.txn->op_count == 0 && k->flying == 0) {
        k->is_closing = true;
        k->has_failed = close_round(c, w.txn) != RC_OK;
    }
    if (w.txn && w.txn->op_count > 0 && !k->has_failed) {
        submit(c, &w);
    } else {
        store_txn_free(w.txn);
    }
    if (k->has_failed && k->flying == 0) {
        end_round(c);
    }
    return true;
}

void checkpoint_done(struct core *c, const struct store_done *done)
{
    struct checkpoint *k = &c->checkpoint;

    if (done->rc == RC_STALE) {
        core_depose(c, "another controller has taken over");
    }
    k->flying--;
    k->has_failed = k->has_failed || done->rc != RC_OK;
    if (k->flying > 0) {
        return;
    }
    if (k->has_failed || k->is_closing) {
        end_round(c);
    }
}

void checkpoint_fini(struct core *c)
{
    struct checkpoint *k = &c->checkpoint;
    struct map_slot *slot;
    uint32_t at = 0;

    job_end(k);
    while ((slot = map_each(&k->round, &at))) {
        rows_unref(slot_rows(slot));
    }
    for (at = 0; (slot = map_each(&k->dirty, &at));) {
        rows_unref(slot_rows(slot));
    }
    map_fini(&k->round);
    map_fini(&k->dirty);
}
