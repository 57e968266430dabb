/*
 * shell - the agent's one loop: feeds the session and carries out what it wants, on the
 * link to the controller and on the driver of the device.
 *
 * It also logs what the session has to say.  The loop's thread.
 */
#pragma once

#include "agent/driver/driver.h"
#include "agent/link.h"
#include "agent/session/session.h"

struct event_base;
struct shell;

/* Makes the session and its wake-up; nothing happens before shell_start().  `base` must
 * outlive the shell; `config` is copied.  Gives `*ret`; RC_NO_MEMORY only. */
enum rc shell_new(struct event_base *base, const struct session_config *config,
                  struct shell **ret, struct err *err);

/* What to give the driver and the link when they are made. */
extern const struct driver_events shell_driver_events;
extern const struct link_events shell_link_events;

/* Takes both and begins. */
void shell_start(struct shell *s, struct driver *driver, struct link *link);

/* Closes driver and link.  The device goes on as it is.  Null is fine. */
void shell_free(struct shell *s);
