/*
 * tap - a kernel interface beside a port, for what the gateway does not speak itself:
 * BGP, BFD, ICMP to its own addresses.
 *
 * Frames that fwd called local go in, what the kernel (gobgpd, bfdd) sends comes out
 * and leaves by the port.  Addresses and routes on it are the operator's.  Control
 * thread.
 */
#pragma once

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct event_base;
struct tap;

typedef void tap_frame_fn(void *arg, unsigned port, const uint8_t *frame, size_t len);

/* Makes interface `name` (at most 15 characters) with `mac`.  `on_frame` gets what the
 * kernel sends; `port` is handed through. */
enum rc tap_new(struct event_base *base, const char *name, const uint8_t mac[6],
                unsigned port, tap_frame_fn *on_frame, void *arg, struct tap **ret,
                struct err *err);
void tap_free(struct tap *t); /* null is fine; the interface goes with it */

/* To the kernel.  Frames that it does not take are lost, as on any link. */
void tap_send(struct tap *t, const uint8_t *frame, size_t len);
