/* alarms_impl - shared by alarms.c (their life) and alarms_ack.c. */
#pragma once

#include "controller/health/alarms.h"

struct held_ack {
    struct alarm_ack ack;
    uint64_t alarm;   /* id of the one that stands; 0: it is waited for */
    uint64_t until_s; /* so long */
};

struct alarms {
    struct alarm *at; /* by id */
    uint32_t count;
    uint64_t last_id;
    uint64_t raised;
    uint64_t notes;
    uint64_t overflow;
    /* The bucket of notes: it is full at `full_s` and holds NOTE_BURST then. */
    uint64_t full_s;
    struct held_ack *acks; /* in no order */
    uint32_t ack_count;
};

/* An alarm is new: perhaps it was acknowledged before a restart. */
void alarms_find_ack(struct alarms *a, struct alarm *x);
