/* A line that is taken prints to a line that reads back the same, and packs likewise.
 */
#include "proto/model/entry_text.h"
#include "tests/fuzz/fuzz.h"

static void pack(const struct entry *e, struct buf *to, struct row *row)
{
    size_t key_len;

    buf_reset(to);
    entry_pack_key(e, to);
    key_len = to->len;
    entry_pack_value(e, to);
    *row = (struct row){ .key = to->data,
                         .key_len = (uint8_t)key_len,
                         .value = to->data + key_len,
                         .value_len = (uint8_t)(to->len - key_len) };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf first = BUF_INIT;
    struct buf second = BUF_INIT;
    struct entry e;
    struct entry again;
    enum entry_op op;
    enum entry_op op_again;
    struct err err = { 0 };
    struct row row;

    if (entry_parse_json((const char *)data, size, &op, &e, &err) != RC_OK) {
        FUZZ_CLAIM(err.code != RC_OK && err.msg[0] && err.rule[0]);
        return 0;
    }
    entry_print_json(&e, op, &first);
    FUZZ_CLAIM(entry_parse_json((char *)first.data, first.len, &op_again, &again,
                                &err) == RC_OK);
    FUZZ_CLAIM(op == op_again);
    entry_print_json(&again, op, &second);
    FUZZ_CLAIM(first.len == second.len &&
               memcmp(first.data, second.data, first.len) == 0);
    if (op == ENTRY_PUT) {
        pack(&e, &first, &row);
        FUZZ_CLAIM(entry_unpack(e.table, e.vni, &row, &again, &err) == RC_OK);
        pack(&again, &second, &row);
        FUZZ_CLAIM(first.len == second.len &&
                   memcmp(first.data, second.data, first.len) == 0);
    }
    buf_fini(&first);
    buf_fini(&second);
    return 0;
}
