/* An object that is taken packs to the bytes it came from. */
#include "controller/health/alarms.h"
#include "proto/model/consumer.h"
#include "proto/model/festival.h"
#include "proto/model/object.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct region region;
    static struct cluster cluster;
    static struct node node;
    static struct device_config device;
    static struct policy policy;
    struct level_settings levels;
    struct consumer consumer;
    struct festival festival;
    struct alarm_ack ack;
    struct buf packed = BUF_INIT;
    struct err err = { 0 };

    if (region_unpack(data, size, &region, &err) == RC_OK) {
        region_pack(&region, &packed);
    } else if (cluster_unpack(data, size, &cluster, &err) == RC_OK) {
        cluster_pack(&cluster, &packed);
    } else if (node_unpack(data, size, &node, &err) == RC_OK) {
        node_pack(&node, &packed);
    } else if (device_config_unpack(data, size, &device, &err) == RC_OK) {
        device_config_pack(&device, &packed);
    } else if (policy_unpack(data, size, &policy, &err) == RC_OK) {
        policy_pack(&policy, &packed);
    } else if (level_settings_unpack(data, size, &levels, &err) == RC_OK) {
        level_settings_pack(&levels, &packed);
    } else if (consumer_unpack(data, size, &consumer, &err) == RC_OK) {
        consumer_pack(&consumer, &packed);
    } else if (festival_unpack(data, size, &festival, &err) == RC_OK) {
        festival_pack(&festival, &packed);
    } else if (alarm_ack_unpack(data, size, &ack, &err) == RC_OK) {
        alarm_ack_pack(&ack, &packed);
    } else {
        FUZZ_CLAIM(err.code != RC_OK && err.msg[0] && err.rule[0]);
        return 0;
    }
    FUZZ_CLAIM(packed.len == size && memcmp(packed.data, data, size) == 0);
    buf_fini(&packed);
    return 0;
}
