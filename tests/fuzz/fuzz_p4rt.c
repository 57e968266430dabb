/* P4Runtime's messages, as a server and a client take them.  The first byte chooses:
 * what is read packs again to bytes that are read as the same. */
#include "agent/p4rt/p4rt_codec.h"
#include "agent/p4rt/p4rt_info.h"
#include "tests/fuzz/fuzz.h"

static void same_entity(const struct p4rt_entity *a, const struct p4rt_entity *b)
{
    FUZZ_CLAIM(a->kind == b->kind);
    if (a->kind == P4RT_TABLE) {
        FUZZ_CLAIM(a->entry.table == b->entry.table &&
                   a->entry.action == b->entry.action &&
                   a->entry.priority == b->entry.priority);
        FUZZ_CLAIM(memcmp(a->entry.key, b->entry.key, sizeof(a->entry.key)) == 0);
        FUZZ_CLAIM(memcmp(a->entry.mask, b->entry.mask, sizeof(a->entry.mask)) == 0);
        FUZZ_CLAIM(memcmp(a->entry.data, b->entry.data, sizeof(a->entry.data)) == 0);
    } else {
        FUZZ_CLAIM(a->id == b->id && a->has_index == b->has_index &&
                   a->index == b->index && a->has_config == b->has_config &&
                   memcmp(&a->config, &b->config, sizeof(a->config)) == 0 &&
                   a->packets == b->packets && a->bytes == b->bytes);
    }
}

/* No field has a bit that it has no room for, and none outside of its mask. */
static void check_entry(const struct phys_entry *e)
{
    const struct phys_table_desc *d = phys_table_desc((enum phys_table)e->table);

    for (unsigned i = 0; i < d->field_count; i++) {
        const struct phys_field *f = &d->fields[i];

        FUZZ_CLAIM(f->bits % 8 == 0 || e->key[f->offset] >> f->bits % 8 == 0);
    }
    for (unsigned i = 0; i < PHYS_KEY_MAX; i++) {
        FUZZ_CLAIM((e->key[i] & ~e->mask[i]) == 0);
        FUZZ_CLAIM(i < d->key_len || e->mask[i] == 0);
    }
}

static void fuzz_write(const uint8_t *data, size_t size)
{
    struct p4rt_write_head head;
    struct p4rt_cursor c;
    struct p4rt_piece piece;
    struct err err = { 0 };
    uint32_t count = 0;

    if (p4rt_write_open(data, size, &head, &c, &err) != RC_OK) {
        FUZZ_CLAIM(err.field[0] && err.rule[0] && err.msg[0]);
        return;
    }
    while (p4rt_next(&c, &piece)) {
        struct p4rt_entity got;
        struct p4rt_entity again;
        struct buf b = BUF_INIT;
        enum phys_op op;

        count++;
        if (p4rt_update_decode(piece, &op, &got, &err) != RC_OK) {
            FUZZ_CLAIM(err.field[0] && err.rule[0] && err.msg[0]);
            continue;
        }
        if (got.kind == P4RT_TABLE) {
            check_entry(&got.entry);
            p4rt_write_entry(&b, op, &got.entry);
        } else {
            p4rt_write_cell(&b, &got);
        }
        {
            struct p4rt_write_head head2;
            struct p4rt_cursor c2;
            struct p4rt_piece piece2;
            enum phys_op op2;

            FUZZ_CLAIM(p4rt_write_open(b.data, b.len, &head2, &c2, NULL) == RC_OK);
            FUZZ_CLAIM(p4rt_next(&c2, &piece2));
            FUZZ_CLAIM(p4rt_update_decode(piece2, &op2, &again, NULL) == RC_OK);
            FUZZ_CLAIM(op == op2);
            same_entity(&got, &again);
        }
        buf_fini(&b);
    }
    FUZZ_CLAIM(count == head.update_count);
}

static void fuzz_response(const uint8_t *data, size_t size)
{
    struct p4rt_cursor c;
    struct p4rt_piece piece;
    struct p4rt_entity got;

    if (p4rt_response_open(data, size, &c, NULL) != RC_OK) {
        return;
    }
    while (p4rt_next(&c, &piece)) {
        if (p4rt_entity_decode(piece, &got, NULL) == RC_OK && got.kind == P4RT_TABLE &&
            !got.is_default) {
            struct p4rt_entity again;
            struct buf b = BUF_INIT;
            struct p4rt_cursor c2;

            check_entry(&got.entry);
            p4rt_response_entry(&b, &got.entry);
            FUZZ_CLAIM(p4rt_response_open(b.data, b.len, &c2, NULL) == RC_OK);
            FUZZ_CLAIM(p4rt_next(&c2, &piece));
            FUZZ_CLAIM(p4rt_entity_decode(piece, &again, NULL) == RC_OK);
            same_entity(&got, &again);
            buf_fini(&b);
        }
    }
}

static void fuzz_read(const uint8_t *data, size_t size)
{
    struct p4rt_cursor c;
    struct p4rt_piece piece;
    struct p4rt_query q;
    uint64_t device;

    if (p4rt_read_open(data, size, &device, &c, NULL) != RC_OK) {
        return;
    }
    while (p4rt_next(&c, &piece)) {
        if (p4rt_query_decode(piece, &q, NULL) == RC_OK && q.has_key) {
            check_entry(&q.entry);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t codes[8];
    struct p4rt_failure first;
    struct p4rt_info info;
    struct err err = { 0 };

    if (size == 0) {
        return 0;
    }
    switch (data[0] % 5) {
    case 0:
        fuzz_write(data + 1, size - 1);
        break;
    case 1:
        fuzz_response(data + 1, size - 1);
        break;
    case 2:
        fuzz_read(data + 1, size - 1);
        break;
    case 3:
        if (p4rt_errors_decode(data + 1, size - 1, codes, 3, &first) == RC_OK) {
            FUZZ_CLAIM(first.index == 3 || codes[first.index] == first.code);
        }
        break;
    default:
        FUZZ_CLAIM(p4rt_info_read(data + 1, size - 1, NULL, &info, &err) == RC_OK ||
                   (err.field[0] && err.rule[0] && err.msg[0]));
        break;
    }
    return 0;
}
