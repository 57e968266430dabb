/* Region files: whatever comes, a plan or an error with its line; and what is read is
 * the same after it was printed and read again. */
#include "tests/fuzz/fuzz.h"

#include "controller/cli/apply_plan.h"

static void round_trip(const struct cli_yaml *y)
{
    json_t *json;
    size_t i;

    json_array_foreach(y->documents, i, json)
    {
        struct buf text = BUF_INIT;
        struct cli_yaml again;

        cli_yaml_print(json, &text);
        FUZZ_CLAIM(!buf_failed(&text));
        FUZZ_CLAIM(cli_yaml_read("again", (const char *)text.data, text.len, &again,
                                 NULL) == RC_OK);
        FUZZ_CLAIM(json_equal(json_array_get(again.documents, 0), json));
        cli_yaml_fini(&again);
        buf_fini(&text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cli_yaml y;
    struct apply_plan plan;
    struct err err = { 0 };

    if (cli_yaml_read("f", (const char *)data, size, &y, &err) != RC_OK) {
        FUZZ_CLAIM(err.code != RC_OK && err.msg[0] != '\0');
        return 0;
    }
    round_trip(&y);
    if (apply_plan_make("f", &y, &plan, &err) == RC_OK) {
        apply_plan_fini(&plan);
    } else {
        FUZZ_CLAIM(err.code != RC_OK && strncmp(err.msg, "f:", 2) == 0);
    }
    cli_yaml_fini(&y);
    return 0;
}
