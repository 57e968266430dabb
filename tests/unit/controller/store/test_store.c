/* One suite for every back end: what store.h promises. */
#include "tests/unit/unit.h"

#include "controller/store/store_memory.h"
#include "controller/store/store_sqlite.h"

#include <event2/event.h>
#include <string.h>
#include <unistd.h>

/* What the store said, in order. */
struct seen {
    uint32_t event_count;
    uint64_t event_revision;
    uint64_t event_tag;
    struct store_key event_keys[64];
    bool event_deleted[64];
    uint32_t event_kv_count;
    uint32_t done_count;
    struct store_done done;
    bool event_was_before_done;
    uint32_t range_count;
    enum rc range_rc;
    uint64_t range_revision;
    char range_text[4096]; /* "key=value@create/mod " … */
    bool range_more;
};

struct bench {
    const char *name;
    struct memory_db *memory;
    char dir[64];
    char path[96];
    struct event_base *base;
    struct store *store;
    struct seen seen;
};

static void on_event(void *ctx, const struct store_event *event)
{
    struct seen *seen = &((struct bench *)ctx)->seen;

    seen->event_count++;
    ck_assert_uint_gt(event->revision, seen->event_revision);
    seen->event_revision = event->revision;
    seen->event_tag = event->tag;
    seen->event_kv_count = event->kv_count;
    for (uint32_t i = 0; i < event->kv_count && i < 64; i++) {
        seen->event_keys[i] = event->kvs[i].key;
        seen->event_deleted[i] = event->kvs[i].value == NULL;
    }
}

static void on_done(void *ctx, const struct store_done *done)
{
    struct seen *seen = &((struct bench *)ctx)->seen;

    seen->done_count++;
    seen->done = *done;
    seen->event_was_before_done = seen->event_tag == done->tag;
}

static void on_range(void *ctx, const struct store_range_reply *reply)
{
    struct seen *seen = &((struct bench *)ctx)->seen;
    size_t used = strlen(seen->range_text);

    seen->range_count++;
    seen->range_rc = reply->rc;
    seen->range_revision = reply->revision;
    seen->range_more = reply->more;
    for (uint32_t i = 0; i < reply->kv_count; i++) {
        const struct store_kv *kv = &reply->kvs[i];

        used += (size_t)snprintf(seen->range_text + used,
                                 sizeof(seen->range_text) - used, "%.*s=%.*s@%d/%d ",
                                 kv->key.len, (const char *)kv->key.bytes,
                                 (int)kv->value->len, (const char *)kv->value->data,
                                 (int)kv->create_revision, (int)kv->mod_revision);
    }
}

static const struct store_events events = { on_event, on_done, on_range };

static void bench_open(struct bench *b)
{
    struct err err = { 0 };

    memset(&b->seen, 0, sizeof(b->seen));
    if (b->memory) {
        b->store = store_memory_open(b->memory, &events, b);
        return;
    }
    ck_assert_int_eq(store_sqlite_open(b->path, b->base, &events, b, &b->store, &err),
                     RC_OK);
}

static void bench_init(struct bench *b, int which)
{
    memset(b, 0, sizeof(*b));
    if (which == 0) {
        b->name = "memory";
        b->memory = memory_db_new();
    } else {
        b->name = "sqlite";
        snprintf(b->dir, sizeof(b->dir), "/tmp/xgw-store-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(b->dir));
        snprintf(b->path, sizeof(b->path), "%s/store.db", b->dir);
        b->base = event_base_new();
    }
    bench_open(b);
}

static void bench_fini(struct bench *b)
{
    char command[128];

    store_close(b->store);
    memory_db_free(b->memory);
    if (b->base) {
        event_base_free(b->base);
        snprintf(command, sizeof(command), "rm -r %s", b->dir);
        ck_assert_int_eq(system(command), 0);
    }
}

/* Runs until `counter` reached `want`. */
static void run_until(struct bench *b, const uint32_t *counter, uint32_t want)
{
    while (*counter < want) {
        if (b->memory) {
            ck_assert(store_memory_step(b->store));
        } else {
            ck_assert_int_eq(event_base_loop(b->base, EVLOOP_ONCE), 0);
        }
    }
}

static struct store_key key(const char *text)
{
    return store_key_of(text, strlen(text));
}

static void add_put(struct store_txn *txn, const char *name, const char *value)
{
    struct blob *blob = blob_copy(value, strlen(value));

    ck_assert_int_eq(store_txn_put(txn, key(name), blob), RC_OK);
    blob_unref(blob);
}

static enum rc submit(struct bench *b, struct store_txn *txn)
{
    uint32_t before = b->seen.done_count;

    store_submit(b->store, txn);
    ck_assert_uint_eq(b->seen.done_count, before); /* never from inside the call */
    run_until(b, &b->seen.done_count, before + 1);
    return b->seen.done.rc;
}

static enum rc put(struct bench *b, uint64_t tag, const char *name, const char *value)
{
    struct store_txn *txn = store_txn_new(tag);

    add_put(txn, name, value);
    return submit(b, txn);
}

static const char *range(struct bench *b, const char *from, const char *end,
                         uint32_t limit)
{
    uint32_t before = b->seen.range_count;

    b->seen.range_text[0] = '\0';
    store_range(b->store, 7, key(from), key(end), limit);
    run_until(b, &b->seen.range_count, before + 1);
    ck_assert_int_eq(b->seen.range_rc, RC_OK);
    return b->seen.range_text;
}

START_TEST(a_put_answers_with_its_revision_after_its_event)
{
    struct bench b;

    bench_init(&b, _i);
    ck_assert_int_eq(put(&b, 11, "/a", "one"), RC_OK);
    ck_assert_uint_eq(b.seen.done.tag, 11);
    ck_assert_uint_eq(b.seen.done.revision, 1);
    ck_assert(b.seen.event_was_before_done);
    ck_assert_uint_eq(b.seen.event_revision, 1);
    ck_assert_uint_eq(b.seen.event_kv_count, 1);
    ck_assert_int_eq(put(&b, 12, "/a", "two"), RC_OK);
    ck_assert_int_eq(put(&b, 13, "/b", "three"), RC_OK);
    ck_assert_str_eq(range(&b, "/", "0", 10), "/a=two@1/2 /b=three@3/3 ");
    ck_assert_uint_eq(b.seen.range_revision, 3);
    bench_fini(&b);
}
END_TEST

START_TEST(a_transaction_is_all_or_nothing_under_its_compares)
{
    struct bench b;
    struct store_txn *txn;

    bench_init(&b, _i);
    put(&b, 1, "/a", "one");
    txn = store_txn_new(2);
    store_txn_compare(txn, STORE_MOD_REVISION, key("/a"), 1);
    store_txn_compare(txn, STORE_CREATE_REVISION, key("/none"), 0);
    add_put(txn, "/b", "x");
    store_txn_delete(txn, key("/a"));
    ck_assert_int_eq(submit(&b, txn), RC_OK);
    ck_assert_str_eq(range(&b, "/", "0", 10), "/b=x@2/2 ");

    txn = store_txn_new(3);
    store_txn_compare(txn, STORE_CREATE_REVISION, key("/b"), 1);
    add_put(txn, "/b", "y");
    ck_assert_int_eq(submit(&b, txn), RC_STALE);
    ck_assert(b.seen.done.err.msg[0] != '\0');
    ck_assert_str_eq(range(&b, "/", "0", 10), "/b=x@2/2 ");
    ck_assert_uint_eq(b.seen.event_count, 2); /* a refused one makes no event */
    ck_assert_int_eq(put(&b, 4, "/b", "z"), RC_OK);
    ck_assert_uint_eq(b.seen.done.revision, 3); /* and takes no revision */
    bench_fini(&b);
}
END_TEST

START_TEST(a_key_that_was_deleted_is_created_anew)
{
    struct bench b;
    struct store_txn *txn;

    bench_init(&b, _i);
    put(&b, 1, "/a", "one");
    txn = store_txn_new(2);
    store_txn_delete(txn, key("/a"));
    store_txn_delete(txn, key("/never"));
    ck_assert_int_eq(submit(&b, txn), RC_OK);
    ck_assert_uint_eq(b.seen.event_kv_count, 1);
    ck_assert(b.seen.event_deleted[0]);
    put(&b, 3, "/a", "two");
    ck_assert_str_eq(range(&b, "/", "0", 10), "/a=two@3/3 ");
    bench_fini(&b);
}
END_TEST

START_TEST(steps_of_a_transaction_see_those_before_them)
{
    struct bench b;
    struct store_txn *txn = store_txn_new(1);

    bench_init(&b, _i);
    add_put(txn, "/m", "0");
    ck_assert_int_eq(submit(&b, txn), RC_OK);
    txn = store_txn_new(2);
    add_put(txn, "/n", "1"); /* behind all, before all, and again */
    add_put(txn, "/a", "2");
    add_put(txn, "/n", "3");
    store_txn_delete(txn, key("/a"));
    add_put(txn, "/c", "4");
    add_put(txn, "/b", "5");
    add_put(txn, "/x", "6");
    store_txn_delete_range(txn, key("/b"), key("/c"));
    ck_assert_int_eq(submit(&b, txn), RC_OK);
    ck_assert_str_eq(range(&b, "/", "0", 10), "/c=4@2/2 /m=0@1/1 /n=3@2/2 /x=6@2/2 ");
    bench_fini(&b);
}
END_TEST

START_TEST(a_range_delete_reports_each_key_in_order)
{
    struct bench b;
    struct store_txn *txn = store_txn_new(1);

    bench_init(&b, _i);
    add_put(txn, "/j/3", "c");
    add_put(txn, "/j/1", "a");
    add_put(txn, "/j/2", "b");
    add_put(txn, "/k", "k");
    ck_assert_int_eq(submit(&b, txn), RC_OK);
    txn = store_txn_new(2);
    store_txn_delete_range(txn, key("/j/"), key("/j/3"));
    ck_assert_int_eq(submit(&b, txn), RC_OK);
    ck_assert_uint_eq(b.seen.event_kv_count, 2);
    ck_assert_int_eq(memcmp(b.seen.event_keys[0].bytes, "/j/1", 4), 0);
    ck_assert_int_eq(memcmp(b.seen.event_keys[1].bytes, "/j/2", 4), 0);
    ck_assert_str_eq(range(&b, "/", "0", 10), "/j/3=c@1/1 /k=k@1/1 ");
    bench_fini(&b);
}
END_TEST

START_TEST(ranges_are_paged_and_end_before_their_end)
{
    struct bench b;

    bench_init(&b, _i);
    for (int i = 0; i < 5; i++) {
        char name[8];

        snprintf(name, sizeof(name), "/p/%d", i);
        put(&b, (uint64_t)i + 1, name, "v");
    }
    ck_assert_str_eq(range(&b, "/p/", "/p/3", 2), "/p/0=v@1/1 /p/1=v@2/2 ");
    ck_assert(b.seen.range_more);
    ck_assert_str_eq(range(&b, "/p/2", "/p/3", 2), "/p/2=v@3/3 ");
    ck_assert(!b.seen.range_more);
    ck_assert_str_eq(range(&b, "/q", "/r", 2), "");
    bench_fini(&b);
}
END_TEST

START_TEST(what_was_answered_is_there_after_reopening_with_a_higher_term)
{
    struct bench b;
    uint64_t term;

    bench_init(&b, _i);
    term = b.store->term;
    ck_assert_uint_gt(term, 0);
    put(&b, 1, "/a", "one");
    store_close(b.store);
    bench_open(&b);
    ck_assert_uint_gt(b.store->term, term);
    ck_assert_str_eq(range(&b, "/", "0", 10), "/a=one@1/1 ");
    put(&b, 1, "/b", "two");
    ck_assert_uint_eq(b.seen.done.revision, 2);
    bench_fini(&b);
}
END_TEST

START_TEST(submissions_take_effect_in_order_and_each_has_its_outcome)
{
    struct bench b;

    bench_init(&b, _i);
    for (uint64_t tag = 1; tag <= 30; tag++) {
        struct store_txn *txn = store_txn_new(tag);
        char value[8];

        /* Every third insists that the key were not there: from the second on, no. */
        if (tag % 3 == 0) {
            store_txn_compare(txn, STORE_CREATE_REVISION, key("/n"), 0);
        }
        snprintf(value, sizeof(value), "%d", (int)tag);
        add_put(txn, "/n", value);
        store_submit(b.store, txn);
    }
    run_until(&b, &b.seen.done_count, 30);
    ck_assert_uint_eq(b.seen.event_count, 20);
    ck_assert_uint_eq(b.seen.event_revision, 20);
    ck_assert_str_eq(range(&b, "/", "0", 10), "/n=29@1/20 ");
    bench_fini(&b);
}
END_TEST

START_TEST(large_values_and_binary_keys_come_back_whole)
{
    struct bench b;
    struct store_txn *txn = store_txn_new(1);
    struct blob *big = blob_new(STORE_VALUE_MAX);
    uint8_t name[STORE_KEY_MAX];

    bench_init(&b, _i);
    memset(name, 0xff, sizeof(name));
    name[0] = 0;
    memset(big->data, 'x', big->len);
    ck_assert_int_eq(store_txn_put(txn, store_key_of(name, sizeof(name)), big), RC_OK);
    blob_unref(big);
    ck_assert_int_eq(submit(&b, txn), RC_OK);
    ck_assert_uint_eq(b.seen.event_keys[0].len, STORE_KEY_MAX);
    bench_fini(&b);
}
END_TEST

START_TEST(the_key_behind_a_prefix_ends_its_range)
{
    struct store_key end = store_key_after_prefix("/p/\x01\xff", 5);

    ck_assert_uint_eq(end.len, 4);
    ck_assert_int_eq(memcmp(end.bytes, "/p/\x02", 4), 0);
    end = store_key_after_prefix("/j/", 3);
    ck_assert_int_eq(memcmp(end.bytes, "/j0", 3), 0);
}
END_TEST

/* ---- SQLite alone ---- */

START_TEST(a_second_process_is_refused)
{
    struct bench b;
    struct store *second = NULL;
    struct err err = { 0 };

    bench_init(&b, 1);
    ck_assert_int_eq(store_sqlite_open(b.path, b.base, &events, &b, &second, &err),
                     RC_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.msg, "another process"));
    ck_assert_ptr_null(second);
    bench_fini(&b);
}
END_TEST

START_TEST(files_of_others_are_refused_and_left_alone)
{
    struct bench b;
    struct store *other = NULL;
    struct err err = { 0 };
    char path[128];
    FILE *f;
    char text[5] = { 0 };

    bench_init(&b, 1);
    snprintf(path, sizeof(path), "%s/other", b.dir);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < 1000; i++) {
        fputs("text", f);
    }
    fclose(f);
    ck_assert_int_eq(store_sqlite_open(path, b.base, &events, &b, &other, &err),
                     RC_INVALID);
    f = fopen(path, "r");
    ck_assert_uint_eq(fread(text, 1, 4, f), 4);
    fclose(f);
    ck_assert_str_eq(text, "text");
    bench_fini(&b);
}
END_TEST

/* As a disk leaves it that lost what was written: a region that begins anew there would
 * sweep its devices' tables. */
START_TEST(a_file_that_lost_its_content_is_refused)
{
    struct bench b;
    struct store *other = NULL;
    struct err err = { 0 };
    char path[128];
    FILE *f;

    bench_init(&b, 1);
    snprintf(path, sizeof(path), "%s/emptied", b.dir);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fclose(f);
    ck_assert_int_eq(store_sqlite_open(path, b.base, &events, &b, &other, &err),
                     RC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "holds nothing"));
    bench_fini(&b);
}
END_TEST

START_TEST(a_start_that_was_killed_while_it_made_the_file_is_repeated)
{
    struct bench b;
    struct store *other = NULL;
    struct err err = { 0 };
    char path[128];
    char fresh[136];
    FILE *f;

    bench_init(&b, 1);
    snprintf(path, sizeof(path), "%s/again", b.dir);
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    f = fopen(fresh, "w"); /* half of a page */
    ck_assert_ptr_nonnull(f);
    fputs("SQLite format 3", f);
    fclose(f);
    ck_assert_int_eq(store_sqlite_open(path, b.base, &events, &b, &other, &err), RC_OK);
    ck_assert_int_ne(access(fresh, F_OK), 0);
    store_close(other);
    bench_fini(&b);
}
END_TEST

START_TEST(a_full_disk_fails_the_transaction_and_the_store_lives_on)
{
    struct bench b;
    struct store_txn *txn;
    struct blob *big = blob_new(STORE_VALUE_MAX);
    enum rc rc = RC_OK;
    uint32_t fitted = 0;
    uint32_t count = 0;

    bench_init(&b, 1);
    memset(big->data, 1, big->len);
    store_close(b.store);
    ck_assert_int_eq(system("mkdir -p /tmp/xgw-full"), 0);
    if (system("mount -t tmpfs -o size=6m tmpfs /tmp/xgw-full 2>/dev/null") != 0) {
        printf("skipped: cannot mount a small tmpfs\n");
        bench_open(&b);
        blob_unref(big);
        bench_fini(&b);
        return;
    }
    snprintf(b.path, sizeof(b.path), "/tmp/xgw-full/store.db");
    bench_open(&b);
    while (rc == RC_OK && fitted < 20u) {
        char name[16];

        txn = store_txn_new(1);
        snprintf(name, sizeof(name), "/big/%u", fitted);
        store_txn_put(txn, key(name), big);
        rc = submit(&b, txn);
        fitted += rc == RC_OK;
    }
    ck_assert_uint_lt(fitted, 20);
    ck_assert_int_eq(rc, RC_FULL);
    store_close(b.store);
    bench_open(&b);
    for (int i = 0; i < 20; i++) {
        char name[16];
        char end[16];
        uint32_t before = b.seen.range_count;

        snprintf(name, sizeof(name), "/big/%d", i);
        snprintf(end, sizeof(end), "/big/%d!", i);
        b.seen.range_text[0] = '\0';
        store_range(b.store, 7, key(name), key(end), 1);
        run_until(&b, &b.seen.range_count, before + 1);
        count += b.seen.range_text[0] != '\0';
    }
    ck_assert_uint_eq(count, fitted);
    blob_unref(big);
    bench_fini(&b);
    ck_assert_int_eq(system("umount /tmp/xgw-full && rmdir /tmp/xgw-full"), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("store");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, a_put_answers_with_its_revision_after_its_event, 0, 2);
    tcase_add_loop_test(tc, a_transaction_is_all_or_nothing_under_its_compares, 0, 2);
    tcase_add_loop_test(tc, a_key_that_was_deleted_is_created_anew, 0, 2);
    tcase_add_loop_test(tc, steps_of_a_transaction_see_those_before_them, 0, 2);
    tcase_add_loop_test(tc, a_range_delete_reports_each_key_in_order, 0, 2);
    tcase_add_loop_test(tc, ranges_are_paged_and_end_before_their_end, 0, 2);
    tcase_add_loop_test(
        tc, what_was_answered_is_there_after_reopening_with_a_higher_term, 0, 2);
    tcase_add_loop_test(tc, submissions_take_effect_in_order_and_each_has_its_outcome,
                        0, 2);
    tcase_add_loop_test(tc, large_values_and_binary_keys_come_back_whole, 0, 2);
    tcase_add_test(tc, the_key_behind_a_prefix_ends_its_range);
    tcase_add_test(tc, a_second_process_is_refused);
    tcase_add_test(tc, files_of_others_are_refused_and_left_alone);
    tcase_add_test(tc, a_file_that_lost_its_content_is_refused);
    tcase_add_test(tc, a_start_that_was_killed_while_it_made_the_file_is_repeated);
    tcase_add_test(tc, a_full_disk_fails_the_transaction_and_the_store_lives_on);
    return unit_run("store", tc);
}
