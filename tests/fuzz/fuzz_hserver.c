/* What controllers may send to the software switch's P4Runtime server: kind (1 byte),
 * length (2 bytes) and a message, again and again.  A refused request says why; a write
 * that fails in part has an error for each update; what is read back is what is
 * counted, and each entry of it is found by its key. */
#include "agent/gateway/hserver.h"
#include "proto/rpc/rpc_status.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/agent/p4rt/p4info_make.h"

#include "proto/rpc/wire.h"

static const struct phys_sizes small = {
    .table = { 4, 4, 8, 4, 8, 32, 4, 8, 8, 131072, 512, 1024, 2048 },
    .partitions = 8,
    .partition_slots = 4,
    .meters = 16,
    .fallback_buckets = 4096,
    .hash_load = 900,
};

static void add_field(struct buf *to, uint32_t number, const struct buf *content)
{
    uint8_t head[2 * WIRE_VARINT_MAX];

    buf_add(to, head, wire_head(head, number, content->len));
    buf_add(to, content->data, content->len);
}

/* RECONCILE_AND_COMMIT by election id 1, of the right program. */
static void push(struct hserver *s, uint8_t device)
{
    struct buf info = BUF_INIT;
    struct buf config = BUF_INIT;
    struct buf request = BUF_INIT;
    const uint8_t head[] = { 1 << 3, device, 3 << 3 | 2, 2, 2 << 3, 1, 4 << 3, 5 };
    struct hanswer a;

    p4info_make(&info, NULL, 0);
    add_field(&config, 1, &info);
    buf_add(&request, head, sizeof(head));
    add_field(&request, 5, &config);
    hserver_set_pipeline(s, request.data, request.len, &a);
    FUZZ_CLAIM(a.code == RPC_OK);
    hanswer_fini(&a);
    buf_fini(&info);
    buf_fini(&config);
    buf_fini(&request);
}

static void check_answer(const struct hanswer *a)
{
    FUZZ_CLAIM((a->code == RPC_OK) == (a->message[0] == '\0'));
    FUZZ_CLAIM(a->code != RPC_OK || a->details.len == 0);
}

static void do_write(struct hserver *s, const uint8_t *data, size_t len)
{
    struct p4rt_write_head head;
    struct p4rt_cursor updates;
    struct p4rt_failure first;
    struct hanswer a;
    uint8_t *codes;

    hserver_write(s, data, len, &a);
    check_answer(&a);
    if (a.details.len > 0) {
        FUZZ_CLAIM(p4rt_write_open(data, len, &head, &updates, NULL) == RC_OK);
        codes = malloc(head.update_count + 1u);
        FUZZ_CLAIM(codes && p4rt_errors_decode(a.details.data, a.details.len, codes,
                                               head.update_count, &first) == RC_OK);
        FUZZ_CLAIM(first.index < head.update_count);
        free(codes);
    }
    hanswer_fini(&a);
    s->config_changed = false;
    (void)hswitch_reclaim(s->tables);
}

static void do_read(struct hserver *s, const uint8_t *data, size_t len)
{
    struct blob *request = blob_copy(data, len);
    struct buf response = BUF_INIT;
    struct hread r;
    struct hanswer a;
    unsigned turns = 0;

    FUZZ_CLAIM(request);
    hread_start(s, request, &r, &a);
    blob_unref(request);
    if (a.code == RPC_OK) {
        /* A request of many queries is answered at length: some of it is enough. */
        while (turns++ < 64 && hread_turn(s, &r, &response, &a)) {
            buf_reset(&response);
        }
        hread_fini(&r);
    }
    check_answer(&a);
    hanswer_fini(&a);
    buf_fini(&response);
}

static void do_pipeline(struct hserver *s, const uint8_t *data, size_t len, bool sets)
{
    struct buf response = BUF_INIT;
    struct hanswer a;

    if (sets) {
        hserver_set_pipeline(s, data, len, &a);
    } else {
        hserver_get_pipeline(s, data, len, &response, &a);
    }
    check_answer(&a);
    hanswer_fini(&a);
    buf_fini(&response);
    s->config_changed = false;
    (void)hswitch_reclaim(s->tables);
}

static void check_tables(const struct hserver *s, unsigned half)
{
    for (unsigned t = 0; t < PHYS_TABLES; t++) {
        struct hcursor c = { .at = 0 };
        uint32_t budget = UINT32_MAX;
        uint32_t count = 0;
        struct phys_entry e;
        struct phys_entry found;
        bool is_sound;

        while (hswitch_next(s->tables, half, (enum phys_table)t, &c, &budget, &e,
                            &is_sound)) {
            count++;
            FUZZ_CLAIM(is_sound);
            FUZZ_CLAIM(hswitch_find(s->tables, half, &e, &found, NULL));
            FUZZ_CLAIM(memcmp(e.data, found.data, sizeof(e.data)) == 0 &&
                       e.action == found.action);
        }
        FUZZ_CLAIM(count == hswitch_count(s->tables, half, (enum phys_table)t));
        FUZZ_CLAIM(count <= hswitch_limit(s->tables, (enum phys_table)t));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hswitch_options o = { .sizes = &small, .workers = 1, .port_count = 2 };
    struct arbiter_stream stream[HSWITCH_HALVES] = { 0 };
    struct hserver s;
    struct hswitch *tables;
    struct err err;
    bool changed;

    FUZZ_CLAIM(hswitch_new(&o, &tables, &err) == RC_OK);
    hserver_init(&s, tables);
    for (unsigned i = 0; i < HSWITCH_HALVES; i++) {
        FUZZ_CLAIM(arbiter_join(&s.device[i].arbiter, &stream[i],
                                (struct election){ true, 0, 1 },
                                &changed) == ARBITER_OK);
    }
    push(&s, 1);
    while (size >= 3) {
        size_t len = (size_t)data[1] << 8 | data[2];
        const uint8_t *message = data + 3;

        len = len < size - 3 ? len : size - 3;
        switch (data[0] & 3) {
        case 0:
            do_write(&s, message, len);
            break;
        case 1:
            do_read(&s, message, len);
            break;
        default:
            do_pipeline(&s, message, len, data[0] & 1);
        }
        data += 3 + len;
        size -= 3 + len;
    }
    for (unsigned i = 0; i < HSWITCH_HALVES; i++) {
        check_tables(&s, i);
    }
    hserver_fini(&s);
    hswitch_free(tables);
    return 0;
}
