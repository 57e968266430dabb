/*
 * health - the region's health: what nodes say and do, turned into levels, history and
 * alarms.
 *
 * The core owns one and tells it everything with the time; it answers with events and
 * can be looked into.  What it decides alone is the sale flag of a cluster; what is to
 * be done about a node that is critical the core hands on (HEALTH_CRITICAL).
 *
 * A cluster's levels are made once a second of its nodes': its tables are as full as
 * those of the fullest node (all hold the same), its load is that of the active side
 * together.
 *
 * Pure.  One owner, one thread.
 */
#pragma once

#include "controller/health/alarms.h"
#include "controller/health/history.h"
#include "controller/health/tops.h"
#include "proto/model/telemetry.h"

#define HEALTH_STATE_S 5 /* not well for so long: an agent that restarts is not */
#define HEALTH_OUT_OF_SYNC_S                                                           \
    300 /* guess: a full download of 2 M entries takes 10 s                            \
         */
#define HEALTH_LOSS_WINDOW_S 60
#define HEALTH_LOSS_LEAST    10  /* packets: fewer are chance, whatever their share */
#define HEALTH_STALE_S       120 /* a level that nobody measured for so long goes */
#define HEALTH_TOP_STALE_S   30  /* three intervals of the gateways */
#define HEALTH_REGION        "region"

struct health;

struct health *health_new(void); /* null: no memory */
void health_free(struct health *h);

/* Takes `history`, in the place of what there was; null: none is kept. */
void health_set_history(struct health *h, struct history *history);
void health_set_levels(struct health *h, const struct level_settings *s);
/* Marks that are in force in the place of lower ones, for all kinds; null: none. */
void health_raise_marks(struct health *h, const struct level_marks *marks);

/* ---- what is said and seen ---- */

/* There is such a node; again when anything of it changed. */
void health_node(struct health *h, const char *node, const char *cluster,
                 unsigned cluster_kind, bool is_active);
void health_node_gone(struct health *h, uint64_t now_s, const char *node);
void health_telemetry(struct health *h, uint64_t now_s, const char *node,
                      const struct telemetry *t);

enum health_state { HEALTH_WELL, HEALTH_SILENT, HEALTH_DOWN };
void health_node_state(struct health *h, uint64_t now_s, const char *node,
                       enum health_state state, const char *cause);
void health_node_refused(struct health *h, uint64_t now_s, const char *node,
                         uint32_t exceptions);
void health_node_sync(struct health *h, uint64_t now_s, const char *node, bool in_sync);
/* How full a cluster's tables are by the capacity model: a level "model.NAME" of it. */
void health_model(struct health *h, uint64_t now_s, const char *cluster,
                  unsigned cluster_kind, const char *name, uint64_t used,
                  uint64_t capacity);
/* Most nodes are out of sight at once, or no more. */
void health_blind(struct health *h, uint64_t now_s, bool is_blind, uint32_t lost,
                  uint32_t known);
/* An audit found rows of a node that differ from what it should hold … */
void health_audit(struct health *h, uint64_t now_s, const char *node, uint64_t total,
                  uint64_t missing, uint64_t extra, uint64_t different, uint64_t number,
                  bool is_repaired);
/* … or none. */
void health_audit_clean(struct health *h, uint64_t now_s, const char *node);
/* What a live trace found wrong at a node; null: nothing is, any more. */
void health_trace(struct health *h, uint64_t now_s, const char *node, const char *what);
/* Two nodes of a cluster were observed with different tables; null `other`: no more. */
void health_contradiction(struct health *h, uint64_t now_s, const char *cluster,
                          const char *node, const char *other);
struct outlook;
/* What a planned festival's load would come to; fits: nothing is wrong. */
void health_festival(struct health *h, uint64_t now_s, const char *festival,
                     uint32_t critical_bp, const struct outlook *o);
/* A consumer of steering is awaited by a move for so long; an alarm from
 * CONSUMER_LATE_S on. */
#define CONSUMER_LATE_S 60 /* guess: many times what a change of steering takes */
void health_consumer(struct health *h, uint64_t now_s, const char *consumer,
                     uint32_t awaited_s);
/* Once a second at most; at the latest when health_next_s() says. */
void health_tick(struct health *h, uint64_t now_s);
uint64_t health_next_s(const struct health *h, uint64_t now_s); /* UINT64_MAX: never */

/* ---- what comes of it ---- */

enum health_event_kind {
    HEALTH_LEVEL,    /* a level crossed a mark */
    HEALTH_CRITICAL, /* by load, of one node: it should go */
    HEALTH_ALARM     /* to be told */
};

struct health_event {
    enum health_event_kind kind;
    char subject[SUBJECT_MAX + 1]; /* LEVEL */
    char node[NODE_NAME_MAX + 1];  /* CRITICAL */
    struct level_change change;    /* LEVEL, CRITICAL */
    enum alarm_news news;          /* ALARM */
    struct alarm alarm;
};

/* Takes the next one; false: none. */
bool health_next_event(struct health *h, uint64_t now_s, struct health_event *ret);

/* ---- looking ---- */

const struct levels *health_levels(const struct health *h);
struct alarms *health_alarms(struct health *h);
const struct alarms *health_alarms_of(const struct health *h);
struct history *health_history(const struct health *h); /* null: none */
/* Marks that are in force for a kind of cluster. */
struct level_marks health_marks(const struct health *h, unsigned cluster_kind);
/* The fullest level of the cluster among those that are at `water` or above, of tables
 * that devices report or of all; null: none. */
const struct level *health_cluster_at(const struct health *h, const char *cluster,
                                      enum water water, bool of_tables);
/* The heaviest flows or tenants of a node, of a cluster's nodes, or (both null) of all
 * nodes.  RC_NO_MEMORY. */
enum rc health_top(const struct health *h, uint64_t now_s, const char *cluster,
                   const char *node, enum top_kind kind, uint32_t room,
                   struct top_sum *ret);
/* False at `sale` and above: the cluster takes no new tenants. */
bool health_is_on_sale(const struct health *h, const char *cluster);
