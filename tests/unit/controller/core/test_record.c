/* What is written beside the state itself: the audit log, as its reader finds it. */
#include "controller/core/record.h"
#include "tests/unit/controller/core/rig.h"

struct log {
    struct audit lines[16];
    uint64_t revisions[16];
    uint32_t count;
};

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

static void keep(void *ctx, const struct store_range_reply *reply)
{
    struct log *log = ctx;

    ck_assert_int_eq(reply->rc, RC_OK);
    ck_assert_uint_le(reply->kv_count, ARRAY_LEN(log->lines));
    for (uint32_t i = 0; i < reply->kv_count; i++) {
        const struct store_kv *kv = &reply->kvs[i];

        ck_assert_int_eq(record_kind(&kv->key), 'a');
        ck_assert_int_eq(record_unpack_audit(kv->value->data, kv->value->len,
                                             &log->lines[log->count]),
                         RC_OK);
        log->revisions[log->count++] = kv->mod_revision;
    }
}

/* The audit log as it lies in the store, oldest line first. */
static void read_log(struct rig *r, struct log *log)
{
    static const struct store_events events = { ignore_event, ignore_done, keep };
    struct store *s = store_memory_open(r->db, &events, log);

    log->count = 0;
    store_range(s, 1, store_key_of("/a/", 3), store_key_after_prefix("/a/", 3), 100);
    while (store_memory_step(s)) {
    }
    store_close(s);
}

START_TEST(each_change_leaves_who_what_and_when_and_a_refusal_leaves_nothing)
{
    struct rig *r = rig_new();
    struct command cmd = { .kind = COMMAND_ENTRIES, .who = "ann", .request_id = "r-7" };
    static struct log log;
    uint64_t revision;

    rig_cluster(r, "c1", "172.16.255.1");
    cmd.entries.ops = rig_batch("{\"table\":\"tenant\",\"vni\":9,\"cluster\":\"c1\"}\n"
                                "{\"table\":\"vm_nc\",\"vni\":9,\"vm\":\"10.0.0.1\","
                                "\"nc\":\"172.16.1.1\"}\n");
    r->now_ms += 1234;
    revision = rig_command(r, &cmd)->revision;
    blob_unref(cmd.entries.ops);
    RIG_REFUSES(r, "{\"table\":\"tenant\",\"vni\":10,\"cluster\":\"c9\"}\n", RC_INVALID,
                "unknown_cluster");

    read_log(r, &log);
    ck_assert_uint_eq(log.count, 2);
    ck_assert_str_eq(log.lines[0].what, "put cluster");
    ck_assert_str_eq(log.lines[0].name, "c1");
    ck_assert_str_eq(log.lines[0].who, "test");
    ck_assert_str_eq(log.lines[1].what, "entries");
    ck_assert_str_eq(log.lines[1].name, "");
    ck_assert_str_eq(log.lines[1].who, "ann");
    ck_assert_str_eq(log.lines[1].request_id, "r-7");
    ck_assert_uint_eq(log.lines[1].counts.added, 2);
    ck_assert_uint_eq(log.lines[1].counts.deleted, 0);
    ck_assert_uint_eq(log.lines[1].unix_ms, 1700000000000 + r->now_ms);
    ck_assert_uint_eq(log.revisions[1], revision);
    rig_free(r);
}
END_TEST

START_TEST(a_cut_or_longer_audit_record_is_refused)
{
    struct audit a = { .what = "entries", .who = "ann" };
    struct blob *b = record_pack_audit(&a);
    struct audit back = { .unix_ms = 5 };
    uint8_t bytes[256] = { 0 };

    ck_assert_uint_lt(b->len, sizeof(bytes));
    memcpy(bytes, b->data, b->len);
    for (uint32_t len = 0; len < b->len; len++) {
        ck_assert_int_eq(record_unpack_audit(bytes, len, &back), RC_INVALID);
    }
    ck_assert_int_eq(record_unpack_audit(bytes, b->len + 1, &back), RC_INVALID);
    ck_assert_uint_eq(back.unix_ms, 5); /* untouched */
    ck_assert_int_eq(record_unpack_audit(bytes, b->len, &back), RC_OK);
    blob_unref(b);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("record");

    tcase_add_test(tc,
                   each_change_leaves_who_what_and_when_and_a_refusal_leaves_nothing);
    tcase_add_test(tc, a_cut_or_longer_audit_record_is_refused);
    return unit_run("record", tc);
}
