/*
 * consumer - who steers traffic to clusters by what the controller says, from outside:
 * the vSwitches' controller of a region of steering form `vip`.
 *
 * It is registered by name, so that a move knows for whom it has to wait.  What it has
 * acknowledged is no part of the object: the core keeps that, and is told it anew after
 * its own restart.
 *
 * Values only; any thread.
 */
#pragma once

#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/model/object.h"

#define CONSUMERS_MAX 64

struct consumer {
    char name[REGION_NAME_MAX + 1];
};

/* Name and form: RC_INVALID or RC_RANGE with field and rule. */
enum rc consumer_check(const struct consumer *x, struct err *err);

/* Appends the canonical bytes. */
void consumer_pack(const struct consumer *x, struct buf *to);
/* RC_INVALID for bytes that packing could not have written; `*ret` is then untouched.
 */
enum rc consumer_unpack(const void *bytes, size_t len, struct consumer *ret,
                        struct err *err);
