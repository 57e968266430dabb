/* A controller that dies at any moment: what comes back is a history of whole batches,
 * with every acknowledged one in it. */
#include "tests/unit/controller/core/rig.h"

#define VNIS    24
#define BATCHES 400

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % below;
}

/* Every batch that was queued since the start, in order; the first `count` are the
 * region's history. */
struct history {
    struct blob *batch[BATCHES];
    uint64_t token[BATCHES];
    struct digest digest[BATCHES + 1][TABLE_COUNT]; /* after so many batches */
    uint32_t count;
};

static void take_digest(struct history *h, const struct table_set *s)
{
    const struct tree_node root = { 0 };

    for (int t = 0; t < TABLE_COUNT; t++) {
        h->digest[h->count][t] = table_set_digest(s, (enum table_id)t, root);
    }
}

/* A deleted tenant takes all its rows along. */
static void model_apply(struct table_set *s, const struct blob *b)
{
    struct batch_reader reader = batch_reader_of(b->data, b->len);
    struct batch_run run;

    ck_assert(!table_set_apply(s, b->data, b->len, NULL, NULL, NULL));
    while (batch_next(&reader, &run)) {
        if (run.op == BATCH_DELETE && run.table == TABLE_TENANT) {
            ck_assert(!table_set_put(s, run.vni, TABLE_VXLAN_ROUTE, NULL));
            ck_assert(!table_set_put(s, run.vni, TABLE_VM_NC, NULL));
        }
    }
}

static struct table_set *model_of(const struct history *h, uint32_t count)
{
    struct table_set *s = table_set_new();

    for (uint32_t i = 0; i < count; i++) {
        model_apply(s, h->batch[i]);
    }
    return s;
}

static void add_random(struct batch_writer *w, uint32_t vni, uint32_t i)
{
    struct entry e = { .table = draw(2) ? TABLE_VXLAN_ROUTE : TABLE_VM_NC, .vni = vni };
    enum entry_op op = draw(3) ? ENTRY_PUT : ENTRY_DELETE;

    if (e.table == TABLE_VXLAN_ROUTE) {
        e.route.dst = (struct prefix){ ip_v4(0x0a000000 + (i << 8)), 24 };
        e.route.action.scope = draw(2) ? SCOPE_LOCAL : SCOPE_INTERNET;
    } else {
        e.vm_nc.vm = ip_v4(0x0a000000 + i);
        e.vm_nc.nc = ip_v4(0xac100001 + draw(4));
    }
    batch_add_entry(w, op, &e);
}

/* Tenants come and go; VNI 1 is large enough for many pages. */
static struct blob *random_batch(const struct table_set *model)
{
    struct batch_writer w;
    struct blob *ops;
    uint32_t vni = draw(4) ? 1 + draw(VNIS) : 1;
    bool lives = table_set_rows(model, vni, TABLE_TENANT) != NULL;
    uint32_t first = draw(3000);
    uint32_t count = vni == 1 ? 1 + draw(700) : 1 + draw(8);

    batch_writer_init(&w);
    if (lives && draw(vni == 1 ? 40 : 12) == 0) {
        struct entry e = { .table = TABLE_TENANT, .vni = vni };

        batch_add_entry(&w, ENTRY_DELETE, &e);
        count = 0;
    } else if (!lives || draw(10) == 0) {
        struct entry e = { .table = TABLE_TENANT, .vni = vni };

        rig_copy(e.tenant.cluster, vni % 2 ? "c1" : "c2");
        e.tenant.flags = draw(2) ? VNI_INTERNET : 0;
        batch_add_entry(&w, ENTRY_PUT, &e);
    }
    for (uint32_t i = 0; i < count; i++) {
        add_random(&w, vni, first + i * (1 + draw(1)));
    }
    ops = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return ops;
}

static bool digests_match(const struct core *c, const struct digest want[TABLE_COUNT])
{
    for (int t = 0; t < TABLE_COUNT; t++) {
        struct digest have = core_digest(c, (enum table_id)t);

        if (have.sum != want[t].sum || have.count != want[t].count) {
            return false;
        }
    }
    return true;
}

static uint32_t acknowledged(const struct rig *r, const struct history *h,
                             uint32_t from)
{
    uint32_t count = from;

    while (count < h->count && rig_reply(r, h->token[count])) {
        ck_assert_msg(!rig_reply(r, h->token[count])->err.code, "%s",
                      rig_reply(r, h->token[count])->err.msg);
        count++;
    }
    return count;
}

/* Which history came back; fails the test when none does. */
static void recover(struct rig *r, struct history *h, uint32_t acked, int test)
{
    uint32_t k = h->count;

    while (!digests_match(r->core, h->digest[k])) {
        ck_assert_msg(k > acked, "seed %d: no history of %u to %u batches came back",
                      test, acked, h->count);
        k--;
    }
    while (h->count > k) {
        blob_unref(h->batch[--h->count]);
    }
    rig_check_desired(r);
}

static void queue_one(struct rig *r, struct history *h, struct table_set *model)
{
    struct command cmd = { .kind = COMMAND_ENTRIES,
                           .token = ++r->next_token,
                           .confirm = true };
    struct core_in in = { .kind = CORE_COMMAND, .command = &cmd };

    cmd.entries.ops = random_batch(model);
    h->batch[h->count] = cmd.entries.ops;
    h->token[h->count] = cmd.token;
    model_apply(model, cmd.entries.ops);
    h->count++;
    take_digest(h, model);
    rig_input(r, &in);
}

START_TEST(after_a_crash_whole_batches_stand_and_no_acknowledged_one_is_lost)
{
    static struct history h;
    struct core_config config;
    struct table_set *model = table_set_new();
    uint32_t acked = 0;
    struct rig *r;

    seed = 0x9e3779b97f4a7c15u * (uint64_t)(_i + 1);
    h.count = 0;
    core_config_default(&config);
    config.checkpoint_bytes = 3000; /* a round is under way nearly always */
    config.max_in_flight = 1 + (uint32_t)_i % 8;
    r = rig_new_with(&config);
    rig_cluster(r, "c1", "172.16.255.1");
    rig_cluster(r, "c2", "172.16.255.2");
    take_digest(&h, model);
    while (h.count < BATCHES) {
        if (draw(3) == 0) {
            queue_one(r, &h, model);
        }
        for (uint32_t steps = draw(6); steps > 0 && rig_step(r); steps--) {
        }
        acked = acknowledged(r, &h, acked);
        if (draw(60) == 0) {
            rig_crash(r, draw(store_memory_queued(r->store) + 1));
            r->reply_count = 0;
            rig_open(r);
            while (!core_is_ready(r->core)) {
                ck_assert(rig_step(r));
            }
            recover(r, &h, acked, _i);
            acked = h.count;
            table_set_free(model);
            model = model_of(&h, h.count);
        }
    }
    rig_run(r);
    ck_assert_uint_eq(acknowledged(r, &h, acked), h.count);
    rig_restart(r);
    ck_assert(digests_match(r->core, h.digest[h.count]));
    recover(r, &h, h.count, _i);
    table_set_free(model);
    while (h.count > 0) {
        blob_unref(h.batch[--h.count]);
    }
    rig_free(r);
}
END_TEST

/* ---- a store that fails ---- */

/* What was acknowledged, in the order of the answers, is what there is. */
static void check_acknowledged(const struct rig *r, const struct history *h, int test)
{
    struct table_set *s = table_set_new();
    struct history now = { .count = 0 };

    for (uint32_t i = 0; i < h->count; i++) {
        const struct core_reply *reply = rig_reply(r, h->token[i]);

        ck_assert_ptr_nonnull(reply);
        if (reply->err.code == RC_OK) {
            model_apply(s, h->batch[i]);
        }
    }
    take_digest(&now, s);
    ck_assert_msg(digests_match(r->core, now.digest[0]), "seed %d", test);
    table_set_free(s);
}

START_TEST(a_store_that_fails_at_random_leaves_what_was_acknowledged)
{
    static const struct {
        enum rc rc;
        bool applied;
    } faults[] = { { RC_FULL, false },
                   { RC_UNREACHABLE, false },
                   { RC_TIMEOUT, false },
                   { RC_TIMEOUT, true } };
    static struct history h;
    struct core_config config;
    struct table_set *model = table_set_new();
    uint32_t refused = 0;
    struct rig *r;

    seed = 0x9e3779b97f4a7c15u * (uint64_t)(_i + 1000);
    h.count = 0;
    core_config_default(&config);
    config.checkpoint_bytes = 3000;
    config.max_in_flight = 1 + (uint32_t)_i % 16;
    r = rig_new_with(&config);
    rig_cluster(r, "c1", "172.16.255.1");
    rig_cluster(r, "c2", "172.16.255.2");
    take_digest(&h, model);
    while (h.count < BATCHES) {
        if (draw(2) == 0) {
            queue_one(r, &h, model);
        }
        if (draw(15) == 0) {
            uint32_t f = draw(ARRAY_LEN(faults));

            store_memory_fail_next(r->store, faults[f].rc, faults[f].applied);
        }
        for (uint32_t steps = draw(6); steps > 0 && rig_step(r); steps--) {
        }
    }
    for (int i = 0; i < 5; i++) {
        rig_pass(r, 1000); /* what is asked after is asked again */
    }
    check_acknowledged(r, &h, _i);
    rig_check_desired(r);
    for (uint32_t i = 0; i < h.count; i++) {
        refused += rig_reply(r, h.token[i])->err.code != RC_OK;
    }
    ck_assert_uint_gt(refused, 5);
    rig_restart(r);
    check_acknowledged(r, &h, _i);
    rig_check_desired(r);
    table_set_free(model);
    while (h.count > 0) {
        blob_unref(h.batch[--h.count]);
    }
    rig_free(r);
}
END_TEST

static void ignore_event(void *ctx, const struct store_event *event)
{
    (void)ctx;
    (void)event;
}

static void ignore_done(void *ctx, const struct store_done *done)
{
    (void)ctx;
    (void)done;
}

static void count_keys(void *ctx, const struct store_range_reply *reply)
{
    *(uint32_t *)ctx = reply->kv_count;
}

static const struct store_events quiet = { ignore_event, ignore_done, count_keys };

static uint32_t journal_records(struct memory_db *db)
{
    uint32_t count = UINT32_MAX;
    struct store *s = store_memory_open(db, &quiet, &count);

    store_range(s, 1, store_key_of("/j/", 3), store_key_of("/j0", 3), 1000);
    while (store_memory_step(s)) {
    }
    store_close(s);
    return count;
}

START_TEST(a_round_folds_the_journal_and_the_pages_alone_bring_everything_back)
{
    struct core_config config;
    struct table_set *model = table_set_new();
    static struct history h;
    struct rig *r;

    seed = 77;
    h.count = 0;
    core_config_default(&config);
    r = rig_new_with(&config);
    rig_cluster(r, "c1", "172.16.255.1");
    rig_cluster(r, "c2", "172.16.255.2");
    take_digest(&h, model);
    for (int i = 0; i < 300; i++) {
        queue_one(r, &h, model);
        rig_run(r);
    }
    ck_assert_uint_gt(journal_records(r->db), 250);
    rig_pass(r, 5001); /* idle long enough for a round */
    ck_assert_uint_eq(journal_records(r->db), 0);
    ck_assert_uint_eq(core_next_wake(r->core), UINT64_MAX);
    rig_restart(r);
    ck_assert(digests_match(r->core, h.digest[h.count]));
    rig_check_desired(r);
    /* The number goes on: a record must never take the place of an older one. */
    queue_one(r, &h, model);
    rig_run(r);
    rig_restart(r);
    ck_assert(digests_match(r->core, h.digest[h.count]));
    table_set_free(model);
    while (h.count > 0) {
        blob_unref(h.batch[--h.count]);
    }
    rig_free(r);
}
END_TEST

START_TEST(a_round_that_fails_is_tried_again_and_loses_nothing)
{
    static struct history h;
    struct core_config config;
    struct table_set *model = table_set_new();
    struct rig *r;

    seed = 99;
    h.count = 0;
    core_config_default(&config);
    r = rig_new_with(&config);
    rig_cluster(r, "c1", "172.16.255.1");
    rig_cluster(r, "c2", "172.16.255.2");
    take_digest(&h, model);
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < 20; i++) {
            queue_one(r, &h, model);
            rig_run(r);
        }
        store_memory_fail_next(r->store, RC_FULL, false);
        rig_pass(r, 5001);
        queue_one(r, &h, model);
        rig_run(r);
        rig_pass(r, 5001);
        rig_pass(r, 5001);
        ck_assert_uint_eq(core_next_wake(r->core), UINT64_MAX);
        rig_restart(r);
        ck_assert(digests_match(r->core, h.digest[h.count]));
    }
    ck_assert_ptr_nonnull(strstr(r->logs, "checkpoint failed"));
    table_set_free(model);
    while (h.count > 0) {
        blob_unref(h.batch[--h.count]);
    }
    rig_free(r);
}
END_TEST

/* 10,000 VMs of VNI 5: so many pages that a round takes several transactions. */
static struct blob *many_vms(uint32_t first)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = 5 };
    struct batch_writer w;
    struct blob *ops;

    batch_writer_init(&w);
    e.vm_nc.nc = ip_v4(0xac100101);
    for (uint32_t i = 0; i < 10000; i++) {
        e.vm_nc.vm = ip_v4(0x0a000000 + first + i);
        batch_add_entry(&w, ENTRY_PUT, &e);
    }
    ops = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return ops;
}

/* The round has deleted the tenant's own page and not yet all of its VMs' pages. */
START_TEST(a_round_cut_short_behind_a_deleted_tenant_leaves_none_of_its_rows)
{
    struct core_config config;
    unsigned crashes = 0;

    core_config_default(&config);
    for (uint32_t applied = 1; applied < 4; applied++) {
        struct rig *r = rig_new_with(&config);

        rig_cluster(r, "c1", "172.16.255.1");
        rig_must(r, "{\"table\":\"tenant\",\"vni\":5,\"cluster\":\"c1\"}\n");
        for (uint32_t i = 0; i < 10; i++) {
            uint64_t token = rig_queue(r, many_vms(i * 10000));

            rig_run(r);
            ck_assert(!rig_reply(r, token)->err.code);
        }
        rig_pass(r, 5001); /* folded */
        ck_assert_uint_eq(journal_records(r->db), 0);
        ck_assert(!rig_entries_confirmed(
                       r, "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":5}\n")
                       ->err.code);
        r->now_ms += 5001;
        for (unsigned i = 0; i < 400 && core_next_wake(r->core) != UINT64_MAX; i++) {
            struct core_in in = { .kind = core_has_work(r->core) ? CORE_CONTINUE
                                                                 : CORE_TICK };

            rig_input(r, &in); /* the core alone: its transactions queue up */
        }
        crashes += journal_records(r->db) > 0;
        rig_crash(r, applied);
        rig_open(r);
        rig_run(r);
        ck_assert_msg(core_is_ready(r->core), "%u applied: %s", applied,
                      core_failure(r->core) ? core_failure(r->core)->msg : "?");
        ck_assert_uint_eq(core_count(r->core, TABLE_VM_NC), 0);
        rig_pass(r, 600001);
        rig_restart(r);
        ck_assert_uint_eq(core_count(r->core, TABLE_VM_NC), 0);
        rig_free(r);
    }
    ck_assert_uint_gt(crashes, 0);
}
END_TEST

/* ---- damage ---- */

static void damage(struct memory_db *db, const char *key, size_t key_len,
                   const char *value, size_t len)
{
    struct store *s = store_memory_open(db, &quiet, NULL);
    struct store_txn *txn = store_txn_new(1);
    struct blob *b = blob_copy(value, len);

    ck_assert(!store_txn_put(txn, store_key_of(key, key_len), b));
    blob_unref(b);
    store_submit(s, txn);
    while (store_memory_step(s)) {
    }
    store_close(s);
}

static const struct {
    const char *key;
    size_t key_len;
    const char *value;
    size_t len;
} damages[] = {
    { "/e/\0\0\144\2\4\12\0\0\0\30", 13, "\4\12\0\0\0\30\11", 7 }, /* scope 9 */
    { "/e/\0\0\144\2\4\12\0\0\0\30", 13, "\4\12\0\0\0\30", 6 },    /* cut */
    { "/e/\0\0\144\2\4\12\0\0\0\31", 13, "\4\12\0\0\0\30\1", 7 },  /* another key */
    { "/e/\0\0\144\7", 7, "\1", 1 },                               /* no table 7 */
    { "/e/\0\0\144\2\4\12\0\0\0\30", 13, "\4\12\0\0\0\30\1", 7 },  /* no tenant */
    { "/j/\0\0\0\0\0\0\0\77", 11, "\1\2\0\0\144\0\0\0\1", 9 },
    { "/o/cluster/c1", 13, "C\1", 2 },
    { "/m/term", 7, "\0", 1 },
};

START_TEST(damaged_data_refuses_the_start_and_says_what_is_damaged)
{
    struct rig *r = rig_new();
    uint64_t token;

    rig_cluster(r, "c1", "172.16.255.1");
    rig_run(r);
    rig_crash(r, 0);
    damage(r->db, damages[_i].key, damages[_i].key_len, damages[_i].value,
           damages[_i].len);
    rig_open(r);
    rig_run(r);
    ck_assert(!core_is_ready(r->core));
    ck_assert_ptr_nonnull(core_failure(r->core));
    ck_assert_uint_gt(strlen(core_failure(r->core)->msg), 10);
    token =
        rig_queue(r, rig_batch("{\"table\":\"tenant\",\"vni\":9,\"cluster\":\"c1\"}"));
    ck_assert_int_eq(rig_reply(r, token)->err.code, RC_UNREACHABLE);
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("crash");

    tcase_add_loop_test(
        tc, after_a_crash_whole_batches_stand_and_no_acknowledged_one_is_lost, 0, 24);
    tcase_add_loop_test(tc, a_store_that_fails_at_random_leaves_what_was_acknowledged,
                        0, 24);
    tcase_add_test(tc,
                   a_round_folds_the_journal_and_the_pages_alone_bring_everything_back);
    tcase_add_test(tc,
                   a_round_cut_short_behind_a_deleted_tenant_leaves_none_of_its_rows);
    tcase_add_test(tc, a_round_that_fails_is_tried_again_and_loses_nothing);
    tcase_add_loop_test(tc, damaged_data_refuses_the_start_and_says_what_is_damaged, 0,
                        ARRAY_LEN(damages));
    tcase_set_timeout(tc, 120);
    return unit_run("crash", tc);
}
