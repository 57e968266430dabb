/*
 * alarms - what is wrong, once each.
 *
 * An alarm is raised by its kind and subject, updated while its condition stands, and
 * cleared when the condition was gone for ALARM_CLEAR_S: one that flaps stays one.
 * While an alarm that silences others stands (a dead node), those of its parts are
 * *folded*: kept, not told.  What is told to the outside, by alarms_next_note(), is
 * bounded: ALARM_NOTE_BURST at once and one every ALARM_NOTE_EVERY_S, the gravest
 * first; one note says that others wait.  Nothing waits in a queue: whether an alarm
 * is still to be told is worked out from what it is and what was said of it.
 *
 * An acknowledgement is made here as a value that the caller stores before it counts,
 * and gives back after a restart: alarms come again then with other ids, and those of
 * the same kind and subject, no graver than what was acknowledged, are acknowledged.
 *
 * Pure; time is seconds since 1970, told by the caller.  One owner, one thread.
 */
#pragma once

#include "controller/health/waterlevel.h"
#include "proto/base/buf.h"

#define ALARMS_MAX         2000 /* held; what is beyond is counted */
#define ALARM_CLEAR_S      60
#define ALARM_KEEP_S       3600 /* a cleared one is shown for so long */
#define ALARM_NOTE_BURST   20
#define ALARM_NOTE_EVERY_S 2
#define ALARM_SUBJECT_MAX  (SUBJECT_MAX + 1 + RESOURCE_MAX)
#define ALARM_TEXT_MAX     239
#define ALARM_WHO_MAX      63
#define ALARM_ACK_NAME_MAX 20 /* digits of an id */
#define ALARM_ACK_WAIT_S                                                               \
    900 /* guess: three times what the slowest alarm takes to come again (out_of_sync) \
         */

enum alarm_kind {
    ALARM_BLIND = 1,    /* most nodes are out of sight: perhaps it is us */
    ALARM_NODE_SILENT,  /* a node's session is silent or gone */
    ALARM_NODE_DOWN,    /* its data plane is gone or not ready */
    ALARM_REFUSED,      /* entries that a node does not hold though it should */
    ALARM_OUT_OF_SYNC,  /* a node lacks what it should hold, for long */
    ALARM_LEVEL,        /* a water level */
    ALARM_LOSS,         /* packets are lost */
    ALARM_FESTIVAL,     /* a festival's load does not fit */
    ALARM_AUDIT,        /* a node holds something else than it should */
    ALARM_NODES_DIFFER, /* two nodes of a cluster hold different tables */
    ALARM_STORM,        /* alarms wait to be told */
    ALARM_STEERING,     /* a consumer of steering is awaited for long */
    ALARM_TRACE,        /* a node makes other packets of some than it should */
    ALARM_KINDS
};
const char *alarm_kind_name(unsigned kind); /* "node_silent" */

enum alarm_severity { ALARM_WARNING = 1, ALARM_CRITICAL = 2 };
const char *alarm_severity_name(unsigned severity); /* "warning", "critical" */

struct alarm_report {
    enum alarm_kind kind;
    enum alarm_severity severity;
    const char *subject; /* "node/a", "cluster/b/table.route", "region" */
    double value;        /* in the unit that `text` names; 0 both: none */
    double threshold;
    const char *text; /* one sentence */
};

struct alarm {
    uint64_t id; /* grows; not used again after a restart */
    uint8_t kind;
    uint8_t severity;
    char subject[ALARM_SUBJECT_MAX + 1];
    char text[ALARM_TEXT_MAX + 1];
    double value, threshold;
    uint64_t first_s;
    uint64_t last_s;    /* last reported */
    uint64_t cleared_s; /* 0: it stands */
    uint32_t count;     /* times that the condition came, within this alarm */
    uint32_t folded;    /* alarms that stand and are folded into this one */
    uint64_t parent;    /* id of the one it is folded into; 0: none */
    uint64_t acked_s;   /* 0: not acknowledged */
    char acked_by[ALARM_WHO_MAX + 1];
    /* what was said of it */
    bool is_told;
    uint8_t told_severity;
    bool is_clear_told;
    uint64_t gone_s; /* the condition is gone since; 0: it stands */
};

struct alarm_ack {
    char name[ALARM_ACK_NAME_MAX + 1]; /* the alarm's id when it was acknowledged */
    uint8_t kind;
    uint8_t severity; /* that was acknowledged */
    char subject[ALARM_SUBJECT_MAX + 1];
    char who[ALARM_WHO_MAX + 1];
    uint64_t acked_s;
};
void alarm_ack_pack(const struct alarm_ack *ack, struct buf *to);
enum rc alarm_ack_unpack(const void *bytes, size_t len, struct alarm_ack *ret,
                         struct err *err);

struct alarms;

struct alarms *alarms_new(void); /* null: no memory */
void alarms_free(struct alarms *a);

/* The condition stands (again, still, with another value). */
void alarms_raise(struct alarms *a, uint64_t now_s, const struct alarm_report *r);
/* The condition is gone.  Of what is no alarm: nothing. */
void alarms_clear(struct alarms *a, uint64_t now_s, enum alarm_kind kind,
                  const char *subject);
/* The subject and its parts are no more: their alarms are cleared at once. */
void alarms_forget(struct alarms *a, uint64_t now_s, const char *subject);
/* What an acknowledgement of the alarm by `who` is, to be stored; the one that counts
 * already, if there is.  RC_NOT_FOUND; RC_CONFLICT: it is cleared; RC_FULL. */
enum rc alarms_make_ack(const struct alarms *a, uint64_t now_s, uint64_t id,
                        const char *who, struct alarm_ack *ret, struct err *err);
/* It is stored: it counts until the alarm is cleared or becomes graver.  An alarm that
 * does not stand is waited for, ALARM_ACK_WAIT_S.  RC_NO_MEMORY. */
enum rc alarms_ack(struct alarms *a, uint64_t now_s, const struct alarm_ack *ack);
/* Nothing is acknowledged by it any more: to be deleted. */
bool alarms_ack_is_spent(const struct alarms *a, uint64_t now_s, const char *name);
const char *alarms_next_spent_ack(const struct alarms *a, uint64_t now_s); /* or null */
/* It is deleted. */
void alarms_drop_ack(struct alarms *a, const char *name);
void alarms_tick(struct alarms *a, uint64_t now_s);
/* When alarms_tick() has to be called next; UINT64_MAX: no matter. */
uint64_t alarms_next_s(const struct alarms *a, uint64_t now_s);

enum alarm_news { ALARM_RAISED, ALARM_GRAVER, ALARM_CLEARED };
/* What is to be told next; false: nothing, or not yet. */
bool alarms_next_note(struct alarms *a, uint64_t now_s, enum alarm_news *ret_news,
                      struct alarm *ret);

/* In the order of their ids; null behind the last. */
const struct alarm *alarms_at(const struct alarms *a, uint32_t index);
const struct alarm *alarms_find(const struct alarms *a, enum alarm_kind kind,
                                const char *subject); /* that stands; or null */

struct alarms_stats {
    uint32_t standing[ALARM_CRITICAL + 1]; /* by severity, folded ones left out */
    uint32_t folded;
    uint64_t raised;   /* since the start */
    uint64_t notes;    /* told since the start */
    uint64_t overflow; /* not held, for there were ALARMS_MAX */
    uint32_t waiting;  /* to be told */
};
struct alarms_stats alarms_stats(const struct alarms *a);
