/*
 * sync_pair - a controller's sync and an agent's session joined by a simulated link,
 * with a memory device behind.
 *
 * Time jumps from event to event; every delay is drawn from a seed.  Each message goes
 * through the wire form, so bytes are counted and the codec is part of it.
 */
#pragma once

#include "agent/driver/driver_memory.h"
#include "agent/session/session.h"
#include "controller/sync/sync.h"

struct pair_msg;

struct pair_queue {
    struct pair_msg *first;
    struct pair_msg **end;
    uint64_t last_due_ms;
    uint64_t messages;
    uint64_t bytes;
};

struct pair {
    uint64_t random; /* state */
    uint64_t now_ms;
    uint32_t delay_max_ms; /* of a message, each way */
    bool is_lazy;          /* the controller sends when it feels like it */

    struct table_set *desired;
    uint64_t revision;
    uint64_t term;
    struct sync *sync;
    bool has_session; /* a HELLO came on this link */

    struct session *session;
    struct memory_device *device;
    struct driver *driver;
    bool is_linked;
    bool must_fail_dial;
    uint64_t dial_due_ms; /* 0 = none */
    struct pair_queue to_agent;
    struct pair_queue to_ctl;
    unsigned refused; /* answers that sync refused */
    unsigned hangups;
    unsigned dials;
    unsigned hellos;
    uint64_t beat_ms;
    struct blob *config;
    char last_log[256];
};

uint64_t pair_random(struct pair *p, uint64_t below);

/* An empty device, an empty desired set, both at revision 1. */
void pair_init(struct pair *p, uint64_t seed);
void pair_fini(struct pair *p);

/* The device holds this, as if it had been written by somebody before. */
void pair_preset(struct pair *p, const struct blob *ops);

/* Applies a batch (null: none) to desired and tells sync.  Takes `ops`. */
void pair_change(struct pair *p, struct blob *ops);

/* Starts the agent (again): a new session and driver, all it knew is gone. */
void pair_start_agent(struct pair *p);
void pair_stop_agent(struct pair *p);
/* The controller forgets the session and comes back as `term` + 1. */
void pair_restart_controller(struct pair *p);
/* The link breaks; what is on it is lost. */
void pair_cut(struct pair *p);

/* One event.  False: nothing is going to happen by itself (but beats). */
bool pair_step(struct pair *p);
/* Until the controller says in sync and nothing is under way; false after 100,000
 * events or when nothing happens any more. */
bool pair_settle(struct pair *p);

bool pair_is_equal(const struct pair *p); /* the device holds exactly desired */

/* Gives to the controller or the agent directly. */
void pair_to_agent(struct pair *p, struct ctl_msg *m); /* takes */
