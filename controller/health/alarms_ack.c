/* Acknowledgements: which there are, what each is of, when it is spent. */
#include "controller/health/alarms_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACK_KIND    'k'
#define PACK_VERSION 1

/* ---- as bytes ---- */

static void pack_text(const char *text, struct buf *to)
{
    buf_u8(to, (uint8_t)strlen(text));
    buf_text(to, text);
}

void alarm_ack_pack(const struct alarm_ack *ack, struct buf *to)
{
    buf_u8(to, PACK_KIND);
    buf_u8(to, PACK_VERSION);
    pack_text(ack->name, to);
    buf_u8(to, ack->kind);
    buf_u8(to, ack->severity);
    pack_text(ack->subject, to);
    pack_text(ack->who, to);
    buf_u64(to, ack->acked_s);
}

static bool read_text(struct reader *r, char *to, size_t max)
{
    size_t len = read_u8(r);
    const uint8_t *bytes = read_bytes(r, len);

    if (!bytes || len > max || memchr(bytes, '\0', len)) {
        return false;
    }
    memcpy(to, bytes, len);
    return true;
}

static bool read_fields(struct reader *r, struct alarm_ack *ack)
{
    if (!read_text(r, ack->name, ALARM_ACK_NAME_MAX)) {
        return false;
    }
    ack->kind = read_u8(r);
    ack->severity = read_u8(r);
    if (!read_text(r, ack->subject, ALARM_SUBJECT_MAX) ||
        !read_text(r, ack->who, ALARM_WHO_MAX)) {
        return false;
    }
    ack->acked_s = read_u64(r);
    return !r->failed && reader_left(r) == 0 && ack->name[0] && ack->subject[0] &&
           ack->kind > 0 && ack->kind < ALARM_KINDS && ack->severity >= ALARM_WARNING &&
           ack->severity <= ALARM_CRITICAL && ack->acked_s > 0;
}

enum rc alarm_ack_unpack(const void *bytes, size_t len, struct alarm_ack *ret,
                         struct err *err)
{
    struct reader r = reader_of(bytes, len);
    struct alarm_ack ack = { 0 };
    bool is_ours = read_u8(&r) == PACK_KIND;

    if (read_u8(&r) != PACK_VERSION || !is_ours || !read_fields(&r, &ack)) {
        return err_field(err, RC_INVALID, "", "packed_form",
                         "acknowledgement: not a packed one");
    }
    *ret = ack;
    return RC_OK;
}

/* ---- what each is of ---- */

static struct alarm *find_alarm(const struct alarms *a, uint64_t id)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->at[i].id == id) {
            return &a->at[i];
        }
    }
    return NULL;
}

static struct held_ack *find_held(const struct alarms *a, const char *name)
{
    for (uint32_t i = 0; i < a->ack_count; i++) {
        if (strcmp(a->acks[i].ack.name, name) == 0) {
            return &a->acks[i];
        }
    }
    return NULL;
}

static bool covers(const struct alarm_ack *ack, const struct alarm *x)
{
    return x->cleared_s == 0 && ack->kind == x->kind && ack->severity >= x->severity &&
           strcmp(ack->subject, x->subject) == 0;
}

static void take(struct held_ack *held, struct alarm *x)
{
    held->alarm = x->id;
    x->acked_s = held->ack.acked_s;
    snprintf(x->acked_by, sizeof(x->acked_by), "%s", held->ack.who);
}

void alarms_find_ack(struct alarms *a, struct alarm *x)
{
    for (uint32_t i = 0; i < a->ack_count; i++) {
        if (a->acks[i].alarm == 0 && a->acks[i].until_s > x->first_s &&
            covers(&a->acks[i].ack, x)) {
            take(&a->acks[i], x);
            return;
        }
    }
}

enum rc alarms_make_ack(const struct alarms *a, uint64_t now_s, uint64_t id,
                        const char *who, struct alarm_ack *ret, struct err *err)
{
    const struct alarm *x = find_alarm(a, id);
    struct alarm_ack ack = { .acked_s = now_s };

    if (!x) {
        return err_field(err, RC_NOT_FOUND, "id", "alarm_known", "no alarm %" PRIu64,
                         id);
    }
    if (x->cleared_s) {
        return err_field(err, RC_CONFLICT, "id", "alarm_cleared",
                         "alarm %" PRIu64 " is cleared", id);
    }
    for (uint32_t i = 0; i < a->ack_count && x->acked_s; i++) {
        if (a->acks[i].alarm == id) {
            *ret = a->acks[i].ack;
            return RC_OK;
        }
    }
    if (a->ack_count >= ALARMS_MAX) {
        return err_field(err, RC_FULL, "id", "list_length",
                         "there are %d acknowledgements already", ALARMS_MAX);
    }
    snprintf(ack.name, sizeof(ack.name), "%" PRIu64, id);
    ack.kind = x->kind;
    ack.severity = x->severity;
    memcpy(ack.subject, x->subject, sizeof(ack.subject));
    snprintf(ack.who, sizeof(ack.who), "%s", who);
    *ret = ack;
    return RC_OK;
}

enum rc alarms_ack(struct alarms *a, uint64_t now_s, const struct alarm_ack *ack)
{
    struct held_ack *held = find_held(a, ack->name);

    if (!held) {
        held = realloc(a->acks, (a->ack_count + 1) * sizeof(*held));
        if (!held) {
            return RC_NO_MEMORY;
        }
        a->acks = held;
        held = &a->acks[a->ack_count++];
    }
    *held = (struct held_ack){ .ack = *ack, .until_s = now_s + ALARM_ACK_WAIT_S };
    for (uint32_t i = 0; i < a->count && held->alarm == 0; i++) {
        if (covers(ack, &a->at[i])) {
            take(held, &a->at[i]);
        }
    }
    return RC_OK;
}

/* ---- when it is spent ---- */

static bool is_spent(const struct alarms *a, uint64_t now_s,
                     const struct held_ack *held)
{
    const struct alarm *x = find_alarm(a, held->alarm);

    return held->alarm ? !x || x->cleared_s || !x->acked_s : held->until_s <= now_s;
}

bool alarms_ack_is_spent(const struct alarms *a, uint64_t now_s, const char *name)
{
    const struct held_ack *held = find_held(a, name);

    return held && is_spent(a, now_s, held);
}

const char *alarms_next_spent_ack(const struct alarms *a, uint64_t now_s)
{
    for (uint32_t i = 0; i < a->ack_count; i++) {
        if (is_spent(a, now_s, &a->acks[i])) {
            return a->acks[i].ack.name;
        }
    }
    return NULL;
}

void alarms_drop_ack(struct alarms *a, const char *name)
{
    struct held_ack *held = find_held(a, name);

    if (held) {
        *held = a->acks[--a->ack_count];
    }
}
