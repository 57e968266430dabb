/* test_switch_impl - what the files of test_switch share. */
#pragma once

#include <sys/queue.h>

#include "tests/unit/agent/driver/test_switch.h"

struct cell {
    uint32_t id;
    uint64_t index;
    struct phys_meter_config config;
    uint64_t packets, bytes;
    bool is_meter;
};

/* A client's stream. */
struct peer {
    LIST_ENTRY(peer) next;
    struct test_switch *sw;
    struct rpc_call *call;
    unsigned device;
    bool is_in; /* it sent its election id */
    uint64_t high, low;
};

#define BUCKETS 4096
#define CELLS   32768

struct node {
    struct node *next;
    struct phys_entry entry;
};

struct test_device {
    struct buf program; /* p4info; empty: none */
    uint64_t cookie;
    struct node *buckets[BUCKETS];
    size_t counts[PHYS_TABLES];
    struct cell cells[CELLS]; /* by hash; id 0: free */
    uint64_t high, low;       /* highest election id that ever came */
};

struct test_switch_impl {
    struct event_base *base;
    struct rpc_loop *loop;
    struct rpc_server *server;
    char address[128];
    struct test_device devices[TEST_SWITCH_DEVICES];
    LIST_HEAD(, peer) peers;
    unsigned writes_at_once;
    struct buf packet;
    uint16_t packet_port;
    bool packet_is_probe;
};

int test_device_of(uint64_t id); /* -1: none */

/* test_switch_tables.c */
enum rpc_code test_device_update(struct test_switch *s, struct test_device *d,
                                 enum phys_op op, const struct p4rt_entity *e);
void test_device_clear(struct test_device *d);
/* Calls `f` for each entry of a table, or of all (PHYS_TABLES). */
void test_device_each(const struct test_device *d, unsigned table,
                      void (*f)(void *arg, const struct phys_entry *e), void *arg);

/* test_switch_stream.c */
extern const struct rpc_call_ops test_switch_stream_ops;
bool test_switch_is_primary(const struct test_switch *s, unsigned device, uint64_t high,
                            uint64_t low);
