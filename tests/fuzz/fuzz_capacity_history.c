/* Histories of clusters: whatever comes, each cluster's line or an error with its rule.
 */
#include "tests/fuzz/fuzz.h"

#include "controller/cli/capacity_history.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *f = size > 0 ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    json_t *clusters = NULL;
    struct err err = { 0 };
    json_t *cluster;
    size_t i;

    if (!f) {
        return 0;
    }
    if (capacity_history_read(f, 80, &clusters, &err) != RC_OK) {
        FUZZ_CLAIM(err.code != RC_OK && err.msg[0] != '\0' && err.rule[0] != '\0');
    } else {
        FUZZ_CLAIM(json_array_size(clusters) > 0);
        json_array_foreach(clusters, i, cluster)
        {
            FUZZ_CLAIM(json_string_length(json_object_get(cluster, "cluster")) > 0);
            FUZZ_CLAIM(json_number_value(json_object_get(cluster, "capacity")) > 0);
            FUZZ_CLAIM(json_integer_value(json_object_get(cluster, "points")) >= 2);
        }
        json_decref(clusters);
    }
    fclose(f);
    return 0;
}
