/* config_value - one setting's text into its member.  Internal to config. */
#pragma once

#include "proto/base/config.h"

/* `text` is zero-terminated.  Writes the member in `values`, or fails with the key as
 * field and leaves it. */
enum rc config_value_set(const struct config_key *key, const char *text, void *values,
                         struct err *err);

/* "a number from 1 to 64 (threads)", "true or false", … */
void config_value_describe(const struct config_key *key, struct buf *to);

/* 250ms, 3s, 10m: the largest unit that divides it. */
void config_duration_print(uint32_t ms, struct buf *to);
