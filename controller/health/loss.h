/*
 * loss - which dropped packets are lost ones.
 *
 * A packet is lost that a gateway should have carried and did not.  What a tenant's own
 * rules and rates hold back is none, and neither is what no gateway could deliver: a
 * destination that its VPC does not have, a frame of the VM's that no rule takes, a
 * time to live that ran out.  Everything else counts, unknown reasons, too: a filter of
 * ours that refuses what it should not would otherwise be seen by users alone.
 */
#pragma once

#include <stdbool.h>

/* `reason` as the data plane names it (agent/fwd/drop_reason.h). */
bool loss_counts(const char *reason);
