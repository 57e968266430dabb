/* First line: the header.  What is taken from the others, JSON says as well. */
#include "proto/model/entry_text.h"
#include "tests/fuzz/fuzz.h"

static void read_line(const struct entry_csv *csv, const char *line, size_t len)
{
    struct buf printed = BUF_INIT;
    struct entry e;
    enum entry_op op;
    struct err err = { 0 };

    if (entry_parse_csv(csv, line, len, &op, &e, &err) != RC_OK) {
        FUZZ_CLAIM(err.code != RC_OK && err.msg[0] && err.rule[0]);
        return;
    }
    entry_print_json(&e, op, &printed);
    FUZZ_CLAIM(entry_parse_json((char *)printed.data, printed.len, &op, &e, &err) ==
               RC_OK);
    buf_fini(&printed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;
    const char *end = p + size;
    struct entry_csv csv;
    bool has_header = false;

    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline : end;

        if (has_header) {
            read_line(&csv, p, (size_t)(stop - p));
        } else if (entry_csv_header(&csv, p, (size_t)(stop - p), NULL) != RC_OK) {
            return 0;
        }
        has_header = true;
        p = newline ? newline + 1 : end;
    }
    return 0;
}
