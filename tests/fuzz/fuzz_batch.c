/* A batch that is taken is canonical: its rows unpack and pack to the same bytes. */
#include "proto/model/batch.h"
#include "tests/fuzz/fuzz.h"

static void check_row(const struct batch_run *run, const struct row *row)
{
    struct buf packed = BUF_INIT;
    struct entry e;

    FUZZ_CLAIM(entry_unpack(run->table, run->vni, row, &e, NULL) == RC_OK);
    entry_pack_key(&e, &packed);
    FUZZ_CLAIM(packed.len == row->key_len);
    if (row->value) {
        entry_pack_value(&e, &packed);
        FUZZ_CLAIM(packed.len == (size_t)row->key_len + row->value_len);
        FUZZ_CLAIM(memcmp(packed.data + row->key_len, row->value, row->value_len) == 0);
    }
    FUZZ_CLAIM(packed.len == 0 || memcmp(packed.data, row->key, row->key_len) == 0);
    (void)row_digest(run->table, run->vni, row);
    buf_fini(&packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct batch_reader r = batch_reader_of(data, size);
    struct batch_run run;
    struct err err = { 0 };
    uint32_t count = 0;
    uint32_t index = 0;
    uint32_t seen = 0;

    if (batch_check(data, size, true, &count, &index, &err) != RC_OK) {
        FUZZ_CLAIM(err.code == RC_INVALID && err.msg[0] && err.rule[0]);
        return 0;
    }
    while (batch_next(&r, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct row row;

        while (run_next(&it, &row)) {
            check_row(&run, &row);
            seen++;
        }
        FUZZ_CLAIM(!it.failed);
    }
    FUZZ_CLAIM(!r.failed && seen == count);
    return 0;
}
