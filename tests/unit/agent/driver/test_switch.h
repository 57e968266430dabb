/*
 * test_switch - a P4Runtime server with dumb tables, and faults on demand.
 *
 * Behaves by the specification: arbitration for each device, per-update errors, the
 * checks in their order, wildcard reads in several messages.  It forwards nothing.  The
 * process that tests runs it on its own event loop.
 */
#pragma once

#include "agent/driver/p4rt_switch.h"
#include "agent/p4rt/p4rt_codec.h"
#include "proto/base/buf.h"
#include "proto/rpc/rpc_server.h"

#define TEST_SWITCH_DEVICES 2

struct test_switch_faults {
    uint32_t capacity[PHYS_TABLES]; /* of each device; 0 = no bound */
    uint32_t refuse_code;           /* of every insert into refuse_table */
    uint8_t refuse_table;
    uint32_t lose_answers; /* so many writes are done and never answered */
    uint32_t lose_writes;  /* so many are not done and never answered */
    bool no_details;       /* a failed write says nothing of its updates */
    bool no_verify;        /* VERIFY is UNIMPLEMENTED … */
    bool no_reconcile;     /* … and RECONCILE_AND_COMMIT */
    bool config_is_error;  /* no program: FAILED_PRECONDITION instead of none */
    bool refuses_program;  /* INVALID_ARGUMENT */
    bool reorders;         /* does the updates of a request backwards */
};

struct test_switch_counts {
    uint64_t writes, updates, failed_updates, reads;
    uint64_t pushes[6]; /* SetForwardingPipelineConfig, by action */
    uint64_t denied;    /* writes of one that is not primary */
    uint32_t most_updates, most_writes_at_once;
};

struct test_switch {
    struct test_switch_faults faults;
    struct test_switch_counts counts;
    struct test_switch_impl *impl;
};

/* Listens at `address` ("unix:…"), with no program. */
struct test_switch *test_switch_new(struct event_base *base, const char *address);
void test_switch_free(struct test_switch *s);

/* As a process that dies and comes back: connections break, program and tables are
 * gone.
 */
void test_switch_restart(struct test_switch *s);
/* Connections break; all else stays. */
void test_switch_disconnect(struct test_switch *s);
/* Tables are gone, program and connections stay. */
void test_switch_clear(struct test_switch *s);
/* Puts a program on a device behind everybody's back. */
void test_switch_load(struct test_switch *s, unsigned device, const void *p4info,
                      size_t len);
const struct buf *test_switch_program(const struct test_switch *s, unsigned device);

/* What a device holds; entries in no order. */
size_t test_switch_count(const struct test_switch *s, unsigned device,
                         enum phys_table table);
const struct phys_entry *test_switch_find(const struct test_switch *s, unsigned device,
                                          const struct phys_entry *key);
const struct phys_entry *test_switch_any(const struct test_switch *s, unsigned device,
                                         enum phys_table table);

/* Behind everybody's back; false: there is none, or there is one. */
bool test_switch_insert(struct test_switch *s, unsigned device,
                        const struct phys_entry *e);
bool test_switch_delete(struct test_switch *s, unsigned device,
                        const struct phys_entry *e);

/* The last value of a meter's cell; false: never written. */
bool test_switch_meter(const struct test_switch *s, unsigned device, uint32_t id,
                       uint64_t index, struct phys_meter_config *ret);
/* Behind everybody's back. */
void test_switch_open_meter(struct test_switch *s, unsigned device, uint32_t id,
                            uint64_t index);
void test_switch_set_counter(struct test_switch *s, unsigned device, uint32_t id,
                             uint64_t index, uint64_t packets, uint64_t bytes);

/* The election id's high half of the primary; 0: there is none. */
uint64_t test_switch_primary(const struct test_switch *s, unsigned device);

/* To every primary of the device; and what came from one. */
void test_switch_packet_in(struct test_switch *s, unsigned device,
                           const struct p4rt_packet *p);
/* The bytes of the last one; `*ret` says the rest. */
const struct buf *test_switch_packet_out(const struct test_switch *s,
                                         struct p4rt_packet *ret);
