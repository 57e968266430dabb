/* REST bodies, by the first byte: region, cluster, node, a tenant or route, a batch.
 * What is taken is sound and comes back the same from its own answer. */
#include "controller/api/rest_internal.h"
#include "proto/model/batch.h"
#include "proto/model/object.h"
#include "tests/fuzz/fuzz.h"

static void refused(const struct err *err)
{
    FUZZ_CLAIM(err->code != RC_OK && err->msg[0] && err->rule[0]);
    json_decref(rest_problem_of(err, 400));
}

static void region(json_t *json)
{
    static struct region first;
    static struct region second;
    struct err err = { 0 };
    json_t *answer;

    if (rest_region_parse(json, &first, &err) != RC_OK) {
        refused(&err);
        return;
    }
    answer = rest_region_json(&first);
    FUZZ_CLAIM(rest_region_parse(answer, &second, &err) == RC_OK);
    FUZZ_CLAIM(memcmp(&first, &second, sizeof(first)) == 0);
    json_decref(answer);
}

static void cluster(json_t *json)
{
    struct cluster first;
    struct cluster second;
    struct err err = { 0 };
    json_t *answer;

    if (rest_cluster_parse(json, "name", &first, &err) != RC_OK) {
        refused(&err);
        return;
    }
    answer = rest_cluster_json(&first);
    FUZZ_CLAIM(rest_cluster_parse(answer, "name", &second, &err) == RC_OK);
    FUZZ_CLAIM(memcmp(&first, &second, sizeof(first)) == 0);
    json_decref(answer);
}

static void node(json_t *json)
{
    static struct node first;
    static struct node second;
    struct err err = { 0 };
    json_t *answer;

    if (rest_node_parse(json, "name", &first, &err) != RC_OK) {
        refused(&err);
        return;
    }
    answer = rest_node_json(&first);
    FUZZ_CLAIM(rest_node_parse(answer, "name", &second, &err) == RC_OK);
    FUZZ_CLAIM(memcmp(&first, &second, sizeof(first)) == 0);
    json_decref(answer);
}

static void entry(json_t *json)
{
    struct entry e;
    struct err err = { 0 };
    enum entry_op op;

    if (rest_entry_parse(json_incref(json), &op, &e, &err) != RC_OK) {
        refused(&err);
        return;
    }
    FUZZ_CLAIM(op == ENTRY_DELETE || entry_check(&e, &err) == RC_OK);
}

static void batch(const char *text, size_t len)
{
    struct blob *ops = NULL;
    struct err err = { 0 };
    uint64_t line = 0;
    uint32_t count;
    uint32_t index;

    if (rest_batch_read(text, len, &ops, &line, &err) != RC_OK) {
        refused(&err);
        FUZZ_CLAIM(!ops);
        return;
    }
    FUZZ_CLAIM(batch_check(ops->data, ops->len, false, &count, &index, &err) == RC_OK);
    blob_unref(ops);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const objects[])(json_t *) = { region, cluster, node, entry };
    const char *text = (const char *)data + 1;
    json_error_t where;
    json_t *json;

    if (size == 0) {
        return 0;
    }
    if (data[0] % 5 == 4) {
        batch(text, size - 1);
        return 0;
    }
    json = json_loadb(text, size - 1, JSON_REJECT_DUPLICATES, &where);
    if (json_is_object(json)) {
        objects[data[0] % 5](json);
    }
    json_decref(json);
    return 0;
}
