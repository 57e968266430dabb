/* session_telemetry: from what the device counts to what the controller is told.
 *
 * The device is asked once a second.  Counters become rates, and rates and gauges are
 * gathered until a message is due: least, mean and greatest of each.  A counter that
 * went back, or another boot id, starts over: what was before cannot be compared.
 */
#include "agent/session/session_impl.h"

#include <stdlib.h>
#include <string.h>

/* One reading as it was last asked for, and what was gathered of it. */
struct gathered {
    struct device_reading last; /* its texts are below */
    char part[READING_PART_MAX + 1];
    char resource[READING_RESOURCE_MAX + 1];
    uint64_t min, max;
    unsigned __int128 sum;
    uint32_t count; /* 0: nothing since the last message */
};

struct session_gather {
    uint64_t boot_id;
    uint64_t asked_ms; /* when the device last answered; 0: not yet */
    uint64_t from_ms;  /* what is gathered begins then */
    uint64_t last_received;
    uint64_t received; /* gathered */
    uint32_t count;
    uint32_t drop_count;
    struct gathered at[READINGS_MAX];
    struct drop_count drops[DROP_REASONS_MAX];
    uint64_t last_drops[DROP_REASONS_MAX];
    struct top_report top; /* the last one, not sent yet */
};

static bool is_same_reading(const struct gathered *g, const struct device_reading *r)
{
    return strcmp(g->resource, r->resource) == 0 && strcmp(g->part, r->part) == 0;
}

/* The place of a reading; they come in the same order as a rule. */
static struct gathered *find(struct session_gather *t, uint32_t hint,
                             const struct device_reading *r)
{
    for (uint32_t n = 0; n < t->count; n++) {
        struct gathered *g = &t->at[(hint + n) % t->count];

        if (is_same_reading(g, r)) {
            return g;
        }
    }
    return NULL;
}

static struct gathered *add(struct session_gather *t, const struct device_reading *r)
{
    struct gathered *g;

    if (t->count == READINGS_MAX || strlen(r->part) > READING_PART_MAX ||
        strlen(r->resource) > READING_RESOURCE_MAX) {
        return NULL;
    }
    g = &t->at[t->count++];
    memset(g, 0, sizeof(*g));
    strcpy(g->part, r->part);
    strcpy(g->resource, r->resource);
    return g;
}

static void gather(struct gathered *g, uint64_t value)
{
    if (g->count == 0 || value < g->min) {
        g->min = value;
    }
    if (g->count == 0 || value > g->max) {
        g->max = value;
    }
    g->sum = g->count ? g->sum + value : value;
    g->count++;
}

/* A counter's rate in a second; false: there is nothing to compare with. */
static bool rate_of(const struct gathered *g, const struct device_reading *r,
                    uint64_t span_ms, uint64_t *ret)
{
    if (!g->last.is_counter || span_ms == 0 || r->value < g->last.value) {
        return false;
    }
    *ret = (uint64_t)((unsigned __int128)(r->value - g->last.value) * 1000 / span_ms);
    return true;
}

static void take_reading(struct session_gather *t, uint32_t hint,
                         const struct device_reading *r, uint64_t span_ms)
{
    struct gathered *g = find(t, hint, r);
    uint64_t value = r->value;

    g = g ? g : add(t, r);
    if (!g) {
        return;
    }
    if (!r->is_counter || rate_of(g, r, span_ms, &value)) {
        /* Answers come a little sooner or later: no rate is above what there is. */
        value =
            r->is_counter && r->capacity && value > r->capacity ? r->capacity : value;
        gather(g, value);
    }
    g->last = *r;
}

static void take_drops(struct session_gather *t, const struct device_totals *totals,
                       bool is_first)
{
    for (uint32_t i = 0; i < totals->drop_count; i++) {
        const struct device_drop *d = &totals->drop_list[i];
        uint32_t at = 0;

        while (at < t->drop_count && strcmp(t->drops[at].reason, d->reason) != 0) {
            at++;
        }
        if (at == DROP_REASONS_MAX || strlen(d->reason) > DROP_REASON_MAX) {
            continue;
        }
        if (at == t->drop_count) {
            memset(&t->drops[at], 0, sizeof(t->drops[at]));
            strcpy(t->drops[at].reason, d->reason);
            t->last_drops[at] = is_first ? d->packets : 0;
            t->drop_count++;
        }
        if (d->packets > t->last_drops[at]) {
            t->drops[at].packets += d->packets - t->last_drops[at];
        }
        t->last_drops[at] = d->packets;
    }
}

static void take_totals(struct session *s, struct session_gather *t,
                        const struct device_totals *totals)
{
    bool is_first = t->asked_ms == 0;
    uint64_t span_ms = is_first ? 0 : s->now_ms - t->asked_ms;

    for (uint32_t i = 0; i < totals->reading_count; i++) {
        take_reading(t, i, &totals->readings[i], span_ms);
    }
    take_drops(t, totals, is_first);
    if (totals->top) {
        t->top = *totals->top;
    }
    if (is_first) {
        t->from_ms = s->now_ms;
    } else if (totals->rx_packets > t->last_received) {
        t->received += totals->rx_packets - t->last_received;
    }
    t->last_received = totals->rx_packets;
    t->asked_ms = s->now_ms;
}

/* Moves what was gathered into a message. */
static struct telemetry *make_message(struct session *s, struct session_gather *t)
{
    struct telemetry *m = calloc(1, sizeof(*m));

    if (!m) {
        s->is_out_of_memory = true;
        return NULL;
    }
    m->boot_id = s->device.boot_id;
    m->span_ms = (uint32_t)(s->now_ms - t->from_ms);
    m->received = t->received;
    for (uint32_t i = 0; i < t->count; i++) {
        struct gathered *g = &t->at[i];
        struct telemetry_reading *r = &m->readings[m->reading_count];

        if (g->count == 0) {
            continue;
        }
        memcpy(r->part, g->part, sizeof(r->part));
        memcpy(r->resource, g->resource, sizeof(r->resource));
        r->kind = g->last.kind;
        r->capacity = g->last.capacity;
        r->min = g->min;
        r->mean = (uint64_t)(g->sum / g->count);
        r->max = g->max;
        g->count = 0;
        m->reading_count++;
    }
    for (uint32_t i = 0; i < t->drop_count; i++) {
        if (t->drops[i].packets > 0) {
            m->drops[m->drop_count++] = t->drops[i];
            t->drops[i].packets = 0;
        }
    }
    m->top = t->top;
    t->top.interval_ms = 0;
    t->received = 0;
    t->from_ms = s->now_ms;
    return m;
}

static void send(struct session *s, struct session_gather *t)
{
    struct telemetry *m = make_message(s, t);
    struct session_out *out = m ? session_out_add(s, SESSION_SEND) : NULL;

    if (!out) {
        free(m);
        return;
    }
    out->send.kind = AGENT_TELEMETRY;
    out->send.telemetry = m;
}

void telemetry_take(struct session *s, const struct device_totals *totals)
{
    struct session_gather *t = s->gather;

    s->totals = *totals;
    s->totals.readings = NULL; /* borrowed: gone with this step */
    s->totals.reading_count = 0;
    s->totals.drop_list = NULL;
    s->totals.drop_count = 0;
    s->totals.top = NULL;
    if (!t) {
        t = s->gather = calloc(1, sizeof(*t));
    }
    if (!t || s->telemetry_ms == 0 || !s->is_device_up) {
        return;
    }
    if (t->boot_id != s->device.boot_id || totals->rx_packets < t->last_received) {
        memset(t, 0, sizeof(*t));
        t->boot_id = s->device.boot_id;
    }
    take_totals(s, t, totals);
    /* Half a turn early is on time: answers come a little sooner or later. */
    if (s->link == LINK_UP && s->is_assigned && t->from_ms < s->now_ms &&
        t->from_ms + s->telemetry_ms <= s->now_ms + TELEMETRY_POLL_MS / 2) {
        send(s, t);
    }
}

static bool is_polling(const struct session *s)
{
    return s->link == LINK_UP && s->is_assigned && s->is_device_up &&
           s->telemetry_ms != 0;
}

void telemetry_poll(struct session *s)
{
    if (is_polling(s) && s->next_poll_ms <= s->now_ms) {
        s->next_poll_ms = s->now_ms + TELEMETRY_POLL_MS;
        session_out_add(s, SESSION_POLL_TOTALS);
    }
}

uint64_t telemetry_next_wake(const struct session *s)
{
    return is_polling(s) ? s->next_poll_ms : UINT64_MAX;
}
