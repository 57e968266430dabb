/*
 * fwd_device - a node's configuration from the JSON that the reference forwarder writes
 * (`device.json`, tests/reference/README.md).
 */
#pragma once

#include "agent/fwd/fwd_config.h"
#include "proto/model/object.h"

/* Gives the compiled configuration, to be freed with fwd_config_free().  RC_INVALID
 * with the field's name when the file is not as described. */
enum rc fwd_device_load(const char *path, struct fwd_config **ret, struct err *err);

/* The `members` of a load balancer, in the file's order, which is ascending. */
enum rc fwd_device_members(const char *path,
                           struct cluster_member ret[CLUSTER_MEMBERS_MAX],
                           uint32_t *ret_count, struct err *err);
