/*
 * fake_device - a device and its agent in the plainest form, for tests of the core: it
 * does what it is told and says so.
 */
#pragma once

#include "tests/unit/controller/core/rig.h"

struct device {
    struct rig *rig;
    char id[64];
    uint8_t kind; /* enum device_kind */
    uint64_t session;
    uint64_t boot_id;
    uint64_t applied;
    uint64_t hello_id;
    bool ready;
    bool is_mute;             /* takes everything, answers nothing */
    uint32_t exceptions;      /* that each ACK lists … */
    uint32_t standing;        /* … so many of them as old ones … */
    uint32_t more_exceptions; /* … and that it only counts */
    uint8_t exception_from;   /* the VMs are 10.x.0.0 and on */
    enum rc audit_rc;         /* what an AUDIT is answered with */
    uint8_t loses_table;      /* a read-back finds nothing of it; 0: none */
    uint32_t forgets_vni;     /* loses its VM-NC rows when all is read back; 0: none */
    bool turns_liar;          /* lies once all was read back */
    bool lies;                /* its probes come out with another VNI */
    enum rc probe_rc;         /* what a PROBE is answered with */
    uint32_t audits;
    uint32_t probes;
    uint32_t assigns;
    enum rc counters_rc;             /* what COUNTERS is answered with … */
    struct vni_counter counters[16]; /* … else these, by VNI, … */
    uint32_t counter_count;
    uint32_t counter_piece; /* … so many at a time; 0: all */
    uint64_t rest_bytes;
    bool keeps_counters; /* answers no COUNTERS */
    uint32_t counter_asks;
    struct ctl_assign assign; /* the last; config by reference */
    struct table_set *tables;
};

void device_init(struct device *d, struct rig *r, const char *id);
void device_fini(struct device *d);

void device_dial(struct device *d);
void device_hang_up(struct device *d);
void device_say(struct device *d, const struct agent_msg *msg);
struct agent_msg device_hello_of(struct device *d); /* of what it holds now */
void device_hello(struct device *d);

/* Runs core, store and these devices until all is quiet. */
void devices_settle(struct device *at, unsigned count);
