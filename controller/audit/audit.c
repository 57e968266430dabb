#include "controller/audit/audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct audit {
    struct audit_record record;
    uint64_t session;        /* that the question under way went out on */
    uint64_t asked_ms;       /* when it went out … */
    uint64_t asked_revision; /* … and what the group's revision was */
    uint64_t deadline_ms;    /* for its answer; or when to go on */
    uint64_t ask_id;
    uint32_t tries;
    uint32_t again_vni; /* what the second look reads; 0: all */
    bool is_second;     /* it was repaired: this look says whether it helped */
    struct audit_walk *walk;
    struct audit_findings *left; /* of the second look */
};

const char *audit_state_name(unsigned state)
{
    static const char *const names[] = { "unknown",   "waiting",   "reading",
                                         "comparing", "repairing", "done" };

    return state <= AUDIT_DONE ? names[state] : names[0];
}

const char *audit_result_name(unsigned result)
{
    static const char *const names[] = { "open", "clean", "repaired", "differs",
                                         "failed" };

    return result <= AUDIT_FAILED ? names[result] : "unknown";
}

void audit_record_fini(struct audit_record *r)
{
    free(r->found);
    r->found = NULL;
}

struct audit *audit_new(const struct audit_record *record)
{
    struct audit *a = calloc(1, sizeof(*a));

    if (!a) {
        return NULL;
    }
    a->record = *record;
    a->record.state = AUDIT_WAITING;
    a->record.result = AUDIT_OPEN;
    a->again_vni = record->vni;
    a->record.found = calloc(1, sizeof(*a->record.found));
    a->left = calloc(1, sizeof(*a->left));
    if (!a->record.found || !a->left) {
        audit_free(a);
        return NULL;
    }
    return a;
}

void audit_free(struct audit *a)
{
    if (a) {
        audit_walk_free(a->walk);
        audit_record_fini(&a->record);
        free(a->left);
        free(a);
    }
}

const struct audit_record *audit_record_of(const struct audit *a)
{
    return &a->record;
}

uint64_t audit_wake(const struct audit *a)
{
    return a->deadline_ms ? a->deadline_ms : UINT64_MAX;
}

static struct audit_findings *findings(struct audit *a)
{
    return a->is_second ? a->left : a->record.found;
}

static void end(struct audit *a, enum audit_result result, const char *text)
{
    a->record.state = AUDIT_DONE;
    a->record.result = (uint8_t)result;
    a->deadline_ms = 0;
    snprintf(a->record.text, sizeof(a->record.text), "%s", text);
    audit_walk_free(a->walk);
    a->walk = NULL;
}

void audit_fail(struct audit *a, const char *why)
{
    end(a, AUDIT_FAILED, why);
}

/* Back to the begin of this look. */
static void wait_again(struct audit *a, uint64_t now_ms, const char *why)
{
    audit_walk_free(a->walk);
    a->walk = NULL;
    a->record.state = AUDIT_WAITING;
    a->deadline_ms = now_ms + AUDIT_AGAIN_MS;
    memset(findings(a), 0, sizeof(*a->left));
    if (++a->tries >= AUDIT_TRIES) {
        audit_fail(a, why);
    }
}

void audit_lost(struct audit *a)
{
    if (a->record.state == AUDIT_READING || a->record.state == AUDIT_COMPARING) {
        audit_walk_free(a->walk);
        a->walk = NULL;
        a->record.state = AUDIT_WAITING;
        a->deadline_ms = 0;
        memset(findings(a), 0, sizeof(*a->left));
    }
}

/* ---- reading ---- */

static enum audit_action begin_read(struct audit *a, const struct audit_facts *f,
                                    uint64_t now_ms, struct ctl_msg *ret)
{
    if (!f->session || !f->is_settled || (a->deadline_ms && a->deadline_ms > now_ms)) {
        return AUDIT_STAYS;
    }
    a->record.state = AUDIT_READING;
    a->record.revision = f->revision;
    a->session = f->session;
    a->asked_ms = now_ms;
    a->asked_revision = f->revision;
    a->deadline_ms = now_ms + AUDIT_READ_MS;
    a->ask_id =
        AUDIT_QUERY_ID | a->record.number << 8 | (a->tries & 0x7f) << 1 | a->is_second;
    memset(ret, 0, sizeof(*ret));
    ret->kind = CTL_AUDIT;
    ret->audit = (struct ctl_audit){ .audit_id = a->ask_id, .vni = a->again_vni };
    return AUDIT_SENDS;
}

void audit_answer(struct audit *a, const struct audit_facts *f, uint64_t now_ms,
                  const struct agent_audit *m)
{
    struct audit_record *r = &a->record;
    bool is_same; /* as when it was read: nothing has changed since */

    if (r->state != AUDIT_READING || m->audit_id != a->ask_id || !f->desired) {
        return;
    }
    if (m->rc != RC_OK) {
        wait_again(a, now_ms,
                   m->rc == RC_TIMEOUT ? "its device is not read back in time"
                                       : "its device cannot be read back");
        return;
    }
    if (!a->is_second) {
        r->read_ms = now_ms - a->asked_ms;
    }
    is_same = f->is_level && f->revision == a->asked_revision;
    if (a->again_vni == r->vni) {
        memcpy(r->observed, m->found, sizeof(r->observed));
        r->revision = r->revision == f->revision ? f->revision : 0;
    } else {
        r->revision = 0; /* what was observed is of before the repair */
    }
    a->walk = audit_walk_new(f->desired, a->again_vni, is_same ? m->found : NULL,
                             f->is_known, f->ctx, findings(a));
    r->state = AUDIT_COMPARING;
    a->deadline_ms = now_ms + AUDIT_ANSWER_MS;
    if (!a->walk) {
        audit_fail(a, "no memory");
    }
}

/* ---- comparing ---- */

void audit_take_digests(struct audit *a, uint64_t now_ms, const struct agent_digests *m)
{
    if (a->record.state == AUDIT_COMPARING) {
        a->deadline_ms = now_ms + AUDIT_ANSWER_MS;
        if (audit_walk_digests(a->walk, m) != RC_OK) {
            wait_again(a, now_ms, "its digests are no answer");
        }
    }
}

void audit_take_rows(struct audit *a, uint64_t now_ms, const struct agent_rows *m)
{
    if (a->record.state == AUDIT_COMPARING) {
        a->deadline_ms = now_ms + AUDIT_ANSWER_MS;
        if (audit_walk_rows(a->walk, m) != RC_OK) {
            wait_again(a, now_ms, "its rows are no answer");
        }
    }
}

/* The VNI that all that differs is of; 0: several, or not all is named. */
static uint32_t only_vni(const struct audit_findings *f)
{
    uint32_t vni =
        f->listed > 0 && f->listed == audit_findings_total(f) ? f->at[0].vni : 0;

    for (uint32_t i = 0; i < f->listed; i++) {
        vni = f->at[i].vni == vni ? vni : 0;
    }
    return vni;
}

static enum audit_action compared(struct audit *a)
{
    bool differs = audit_findings_total(findings(a)) > 0;

    audit_walk_free(a->walk);
    a->walk = NULL;
    if (differs && a->record.repairs && !a->is_second) {
        a->record.state = AUDIT_REPAIRING;
        a->deadline_ms = 0;
        a->is_second = true;
        a->tries = 0;
        a->again_vni = a->record.vni ? a->record.vni : only_vni(a->record.found);
        return AUDIT_REPAIR;
    }
    end(a, !differs ? a->is_second ? AUDIT_REPAIRED : AUDIT_CLEAN : AUDIT_DIFFERS,
        differs && a->is_second ? "it still differs after its repair" : "");
    return AUDIT_ENDS;
}

static enum audit_action compare(struct audit *a, const struct audit_facts *f,
                                 struct ctl_msg *ret)
{
    if (f->session != a->session) {
        audit_lost(a);
        return AUDIT_STAYS;
    }
    if (audit_walk_is_over(a->walk)) {
        return compared(a);
    }
    return f->is_level && audit_walk_next(a->walk, ret) ? AUDIT_SENDS : AUDIT_STAYS;
}

/* ---- all together ---- */

enum audit_action audit_next(struct audit *a, const struct audit_facts *f,
                             uint64_t now_ms, struct ctl_msg *ret_msg)
{
    switch (a->record.state) {
    case AUDIT_WAITING:
        return begin_read(a, f, now_ms, ret_msg);
    case AUDIT_REPAIRING:
        if (!f->session || f->is_settled) {
            a->record.state = AUDIT_WAITING; /* for a session, or at once */
            a->deadline_ms = 0;
            return begin_read(a, f, now_ms, ret_msg);
        }
        return AUDIT_STAYS;
    case AUDIT_READING:
    case AUDIT_COMPARING:
        if (f->session != a->session) {
            audit_lost(a);
            return AUDIT_STAYS;
        }
        if (a->deadline_ms <= now_ms) {
            wait_again(a, now_ms, "it does not answer");
            return a->record.state == AUDIT_DONE ? AUDIT_ENDS : AUDIT_STAYS;
        }
        return a->record.state == AUDIT_READING ? AUDIT_STAYS : compare(a, f, ret_msg);
    default:
        return AUDIT_ENDS;
    }
}
