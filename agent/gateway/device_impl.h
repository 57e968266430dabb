/*
 * device_impl - what the files of device share: device.c (writing, configuring),
 * device_read.c (read-back), device_tamper.c (for tests).  Nobody else includes it.
 */
#pragma once

#include "agent/gateway/device.h"

/* Null: no memory. */
struct exception *refusals_add(struct refusals *r);

/* ---- device_tamper.c ---- */

/* Puts back what is kept of the deletes in `changes`. */
enum rc tamper_after_write(struct device *d, const struct change_list *changes,
                           struct err *err);
