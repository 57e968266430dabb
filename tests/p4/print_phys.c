/* Prints the contract of agent/xgwh/phys.h as JSON, for test_contract.py. */
#include <stdio.h>

#include "agent/fwd/drop_reason.h"
#include "agent/xgwh/phys.h"

static void print_fields(const struct phys_field *fields, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        printf("%s{\"id\":%u,\"name\":\"%s\",\"bits\":%u,\"ternary\":%u}", i ? "," : "",
               fields[i].id, fields[i].name, fields[i].bits,
               fields[i].match == PHYS_TERNARY);
    }
}

static void print_table(enum phys_table table)
{
    const struct phys_table_desc *t = phys_table_desc(table);

    printf("%s{\"id\":%u,\"name\":\"%s\",\"size\":%u,\"fields\":[", table ? "," : "",
           t->id, t->name, phys_sizes_tofino()->table[table]);
    print_fields(t->fields, t->field_count);
    printf("],\"actions\":[");
    for (unsigned i = 0; i < t->action_count; i++) {
        printf("%s%u", i ? "," : "", phys_action_desc(t->actions[i])->id);
    }
    printf("]}");
}

static void print_action(enum phys_action action)
{
    const struct phys_action_desc *a = phys_action_desc(action);

    printf("%s{\"id\":%u,\"name\":\"%s\",\"params\":[", action ? "," : "", a->id,
           a->name);
    print_fields(a->params, a->param_count);
    printf("]}");
}

int main(void)
{
    const struct phys_sizes *sizes = phys_sizes_tofino();

    printf("{\"tables\":[");
    for (unsigned i = 0; i < PHYS_TABLES; i++) {
        print_table(i);
    }
    printf("],\"actions\":[");
    for (unsigned i = 0; i < PHYS_ACTIONS; i++) {
        print_action(i);
    }
    printf("],\"meters\":{");
    for (unsigned i = 0; i < PHYS_METERS; i++) {
        printf("%s\"%s\":%u", i ? "," : "", phys_meter_name(i),
               i == PHYS_METER_VNI        ? sizes->meters
               : i == PHYS_METER_FB_CLASS ? 2
                                          : sizes->fallback_buckets);
    }
    printf("},\"counters\":{");
    for (unsigned i = 0; i < PHYS_COUNTERS; i++) {
        printf("%s\"%s\":%u", i ? "," : "", phys_counter_name(i),
               i == PHYS_COUNTER_DROP  ? 256
               : i == PHYS_COUNTER_VNI ? sizes->meters
                                       : PHYS_PORTS);
    }
    printf("},\"partition_slots\":%u,", sizes->partition_slots);
    printf("\"partitions\":%u,\"drop_reasons\":{", sizes->partitions);
    for (unsigned i = 1; i < DROP_COUNT; i++) {
        printf("%s\"%s\":%u", i > 1 ? "," : "", drop_reason_name(i), i);
    }
    printf("},\"scopes\":{\"MISS\":%d,\"LOCAL\":%d,\"PEER\":%d,\"TUNNEL\":%d,",
           PHYS_SCOPE_MISS, PHYS_SCOPE_LOCAL, PHYS_SCOPE_PEER, PHYS_SCOPE_TUNNEL);
    printf("\"FALLBACK\":%d},\"classes\":{\"MISS\":%d,\"SERVICE\":%d},",
           PHYS_SCOPE_FALLBACK, PHYS_CLASS_MISS, PHYS_CLASS_SERVICE);
    printf("\"half_by_dst\":%d,\"nc6_first\":%u,\"nc_bits\":%u}\n", PHYS_HALF_BY_DST,
           PHYS_NC6_FIRST, PHYS_NC_BITS);
    return 0;
}
