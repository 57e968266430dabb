/*
 * traffic - how much each VNI sends, as the nodes of XGW-H count it: every node is
 * asked for its counters twice, some seconds apart.
 *
 * Nodes tell what they count in pieces (COUNTERS of agent_msg.h), each at its own pace.
 * One that has no session, that says no, or that has not told all in time is named with
 * the reason, and nothing that it told counts.  What XGW-H hands to XGW-x86 was counted
 * when it arrived, so XGW-x86 is not asked.  Inside the core.
 */
#pragma once

#include "controller/core/core.h"
#include "controller/core/map.h"

#define TRAFFIC_SECONDS_MAX 30
#define TRAFFIC_READ_MS     5000 /* a node that has not told all by then is left out */
#define TRAFFIC_WHY_MAX     79

enum traffic_state { TRAFFIC_NONE, TRAFFIC_FIRST, TRAFFIC_PAUSE, TRAFFIC_SECOND };

struct traffic_node {
    char name[DEVICE_ID_MAX + 1];
    uint64_t session;
    uint64_t ask_id;
    uint32_t from_vni; /* asked for */
    bool is_done;      /* with this read */
    bool is_lost;
    char why[TRAFFIC_WHY_MAX + 1]; /* … it is lost */
    uint64_t began_ms;             /* when the first piece of this read came */
    uint64_t span_ms;              /* between the first pieces of both */
    uint64_t rest_bytes;           /* as of the first read */
    uint64_t rest_bps;
};

struct traffic {
    enum traffic_state state;
    uint64_t at_ms; /* the end of this state at the latest */
    uint32_t seconds;
    uint64_t last_ask;
    struct traffic_node *nodes; /* of XGW-H clusters, by name */
    uint32_t node_count;
    struct map first; /* node and VNI → a: bytes, b: cell */
    struct map bps;   /* node and VNI → a: bits a second */
};

/* Key of both maps. */
static inline uint64_t traffic_key(uint32_t node, uint32_t vni)
{
    return (uint64_t)(node + 1) << 24 | vni;
}
static inline uint32_t traffic_node_of(uint64_t key)
{
    return (uint32_t)(key >> 24) - 1;
}
static inline uint32_t traffic_vni_of(uint64_t key)
{
    return (uint32_t)(key & VNI_MAX);
}

struct session;

void traffic_begin(struct core *c, uint32_t seconds);
bool traffic_is_measured(const struct core *c); /* nothing is under way */
void traffic_answer(struct core *c, const struct session *s,
                    const struct agent_counters *a);
/* Its session ended, or said HELLO again. */
void traffic_forget_session(struct core *c, uint64_t session);
void traffic_tick(struct core *c);
uint64_t traffic_wake(const struct core *c);
void traffic_extend(struct core *c, uint64_t late_ms);
void traffic_fini(struct core *c);
