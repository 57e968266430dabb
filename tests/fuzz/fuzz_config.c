/* A file that is taken prints to values that read back the same. */
#include "proto/base/config.h"
#include "tests/fuzz/fuzz.h"

struct settings {
    bool flag;
    uint32_t number;
    uint32_t delay_ms;
    uint32_t choice;
    char text[32];
    char path[64];
};

static const char *const choices[] = { "one", "two", "three", NULL };

static const struct config_key keys[] = {
    { CONFIG_BOOL(struct settings, flag), .name = "flag", .def = "false", .what = "." },
    { CONFIG_U32(struct settings, number), .name = "number", .min = 1,
      .max = UINT32_MAX, .def = "1", .what = "." },
    { CONFIG_DURATION(struct settings, delay_ms), .name = "delay", .max = UINT32_MAX,
      .def = "0ms", .what = "." },
    { CONFIG_ENUM(struct settings, choice), .name = "choice", .choices = choices,
      .def = "two", .what = "." },
    { CONFIG_TEXT(struct settings, text), .name = "text", .def = "x", .what = "." },
    { CONFIG_PATH(struct settings, path), .name = "path", .def = "", .what = "." },
};

static const struct config_table table =
    CONFIG_TABLE("fuzz", "A table.", struct settings, keys);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct settings s;
    struct settings again;
    struct buf printed = BUF_INIT;
    struct err err = { 0 };

    if (config_parse(&table, "f", (const char *)data, size, &s, &err) != RC_OK) {
        FUZZ_CLAIM(err.code != RC_OK && err.msg[0] && err.rule[0]);
        return 0;
    }
    config_print_values(&table, &s, &printed);
    FUZZ_CLAIM(config_parse(&table, "g", (const char *)printed.data, printed.len,
                            &again, &err) == RC_OK);
    FUZZ_CLAIM(memcmp(&s, &again, sizeof(s)) == 0);
    buf_fini(&printed);
    return 0;
}
