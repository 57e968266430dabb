/*
 * live - a trace that asks the nodes which it names.
 *
 *   COMMAND_TRACE ─▶ core_trace() ─▶ a probe to each node on the way ─▶ verdicts ─▶
 * reply
 *
 * The packet that is traced goes, as a probe (controller/probe), through the real
 * pipeline of every node that may get it: those of the active side of each cluster on
 * the way, each addressed as it would be by who sends to it.  What comes out is held
 * against what must come of it by the rows of the node's group.
 *
 * A node that differs does so thrice, while its rows stay what they are.  A node that
 * can say nothing now (no session, a red meter, a next hop that is not resolved) is not
 * wrong, and asked again while there is time: all is over in LIVE_MS.
 *
 * A node that differs is an alarm of the node, until a live trace to the same
 * destination finds that it agrees, or leads elsewhere.
 */
#pragma once

#include "controller/core/core.h"
#include "controller/probe/probe.h"

#define LIVE_MS                                                                        \
    5000 /* an agent gives a probe 2 s at most (agent/driver): two of them */
#define LIVES_MAX 16 /* under way; more are refused, RC_FULL */

enum live_verdict { LIVE_SAYS_NOTHING, LIVE_AGREES, LIVE_DIFFERS, LIVE_VERDICTS };
const char *live_verdict_name(unsigned verdict); /* "says_nothing", "agrees", … */

/* Of one node on the way. */
struct live_answer {
    uint32_t hop; /* that it should bring about: one with `is_verdict` */
    char node[NODE_NAME_MAX + 1];
    enum live_verdict verdict;
    char expected[PROBE_TEXT_MAX + 1]; /* "": it has no address for such a packet */
    char found[PROBE_TEXT_MAX + 1];    /* or why there is nothing */
};

struct live_trace {
    uint64_t revision; /* of the region, when it was looked up */
    uint32_t hop_count;
    struct trace_hop hops[TRACE_HOPS_MAX];
    uint32_t answer_count;
    struct live_answer *answers; /* in the order of hops, then of nodes' names */
    uint32_t count[LIVE_VERDICTS];
};

/* All together: DIFFERS if one does, else AGREES if one does. */
enum live_verdict live_trace_verdict(const struct live_trace *t);
void live_trace_free(struct live_trace *t);
