#include "controller/core/traffic.h"

#include "controller/core/core_internal.h"

#include <stdarg.h>
#include <stdio.h>

static void lose(struct traffic_node *n, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void lose(struct traffic_node *n, const char *fmt, ...)
{
    va_list args;

    n->is_lost = true;
    n->is_done = true;
    va_start(args, fmt);
    vsnprintf(n->why, sizeof(n->why), fmt, args);
    va_end(args);
}

static void ask(struct core *c, struct traffic_node *n, uint32_t from_vni)
{
    struct core_effect *e = effect_add(c, CORE_SEND);

    n->ask_id = ++c->traffic.last_ask;
    n->from_vni = from_vni;
    e->send.session = n->session;
    e->send.msg.kind = CTL_COUNTERS;
    e->send.msg.counters = (struct ctl_counters){ n->ask_id, from_vni };
}

/* ---- from one state to the next ---- */

static void begin_read(struct core *c, enum traffic_state state)
{
    struct traffic *t = &c->traffic;

    t->state = state;
    t->at_ms = c->now_ms + TRAFFIC_READ_MS;
    for (uint32_t i = 0; i < t->node_count; i++) {
        struct traffic_node *n = &t->nodes[i];

        if (!n->is_lost) {
            n->is_done = false;
            ask(c, n, VNI_MIN);
        }
    }
}

static bool is_read(const struct traffic *t)
{
    bool is = true;

    for (uint32_t i = 0; is && i < t->node_count; i++) {
        is = t->nodes[i].is_done;
    }
    return is;
}

static bool has_any(const struct traffic *t)
{
    bool has = false;

    for (uint32_t i = 0; !has && i < t->node_count; i++) {
        has = !t->nodes[i].is_lost;
    }
    return has;
}

static void go_on(struct core *c)
{
    struct traffic *t = &c->traffic;

    if (t->state == TRAFFIC_FIRST && is_read(t)) {
        t->state = has_any(t) ? TRAFFIC_PAUSE : TRAFFIC_NONE;
        t->at_ms = c->now_ms + t->seconds * UINT64_C(1000);
    } else if (t->state == TRAFFIC_PAUSE && t->at_ms <= c->now_ms) {
        begin_read(c, TRAFFIC_SECOND);
    }
    if (t->state == TRAFFIC_SECOND && is_read(t)) {
        t->state = TRAFFIC_NONE;
        map_fini(&t->first);
    }
}

static void add_node(struct core *c, const struct device *d)
{
    struct traffic *t = &c->traffic;
    struct traffic_node *n = &t->nodes[t->node_count++];
    const struct session *s = d->session;

    memcpy(n->name, d->name, sizeof(n->name));
    if (!s || !s->group) {
        lose(n, "it has no session");
        return;
    }
    n->session = s->id;
}

void traffic_begin(struct core *c, uint32_t seconds)
{
    struct traffic *t = &c->traffic;
    uint64_t last_ask = t->last_ask;

    traffic_fini(c);
    t->last_ask = last_ask;
    t->seconds = seconds;
    t->nodes = core_need(calloc(c->device_count + 1, sizeof(*t->nodes)));
    for (uint32_t i = 0; i < c->device_count; i++) {
        const struct node *node = objects_node(&c->objects, c->devices[i]->name);
        const struct group *g = node ? group_find(c, node->cluster) : NULL;

        if (g && g->kind == GROUP_H) {
            add_node(c, c->devices[i]);
        }
    }
    begin_read(c, TRAFFIC_FIRST);
    go_on(c);
}

bool traffic_is_measured(const struct core *c)
{
    return c->traffic.state == TRAFFIC_NONE;
}

/* ---- answers ---- */

/* What came since the first read; false: it does not compare. */
static bool rate_of(const struct traffic_node *n, uint64_t first, uint64_t second,
                    uint64_t *ret_bps)
{
    if (second < first || n->span_ms == 0) {
        return false;
    }
    *ret_bps = (uint64_t)((double)(second - first) * 8000 / (double)n->span_ms);
    return true;
}

static void take_item(struct core *c, uint32_t node, const struct vni_counter *item)
{
    struct traffic *t = &c->traffic;
    uint64_t key = traffic_key(node, item->vni);
    struct map_slot *slot;
    uint64_t bps;

    if (t->state == TRAFFIC_FIRST) {
        slot = core_need(map_add(&t->first, key));
        slot->a = item->bytes;
        slot->b = item->cell;
        return;
    }
    slot = map_find(&t->first, key);
    if (slot && slot->b == item->cell &&
        rate_of(&t->nodes[node], slot->a, item->bytes, &bps)) {
        slot = core_need(map_add(&t->bps, key));
        slot->a = bps;
    }
}

static void take_piece(struct core *c, uint32_t node, const struct agent_counters *a)
{
    struct traffic *t = &c->traffic;
    struct traffic_node *n = &t->nodes[node];

    if (n->from_vni == VNI_MIN) {
        n->span_ms = c->now_ms - n->began_ms;
        n->began_ms = c->now_ms;
    }
    for (uint32_t i = 0; i < a->item_count; i++) {
        take_item(c, node, &a->items[i]);
    }
    if (a->next_vni != 0) {
        ask(c, n, a->next_vni);
        return;
    }
    n->is_done = true;
    if (t->state == TRAFFIC_FIRST) {
        n->rest_bytes = a->rest_bytes;
    } else {
        rate_of(n, n->rest_bytes, a->rest_bytes, &n->rest_bps);
    }
}

void traffic_answer(struct core *c, const struct session *s,
                    const struct agent_counters *a)
{
    struct traffic *t = &c->traffic;

    for (uint32_t i = 0; t->state != TRAFFIC_NONE && i < t->node_count; i++) {
        struct traffic_node *n = &t->nodes[i];

        if (n->is_done || n->session != s->id || n->ask_id != a->ask_id) {
            continue;
        }
        if (a->rc == RC_NOT_FOUND) {
            lose(n, "it counts no VNIs");
        } else if (a->rc != RC_OK) {
            lose(n, "it answered %s", rc_name(a->rc));
        } else if (a->next_vni != 0 && a->next_vni <= n->from_vni) {
            lose(n, "it does not come to an end");
        } else {
            take_piece(c, i, a);
        }
    }
    go_on(c);
}

void traffic_forget_session(struct core *c, uint64_t session)
{
    struct traffic *t = &c->traffic;

    for (uint32_t i = 0; t->state != TRAFFIC_NONE && i < t->node_count; i++) {
        if (!t->nodes[i].is_lost && t->nodes[i].session == session) {
            lose(&t->nodes[i], "its session was lost meanwhile");
        }
    }
    go_on(c);
}

/* ---- time ---- */

void traffic_tick(struct core *c)
{
    struct traffic *t = &c->traffic;

    if (t->state == TRAFFIC_NONE || t->at_ms > c->now_ms) {
        return;
    }
    for (uint32_t i = 0; t->state != TRAFFIC_PAUSE && i < t->node_count; i++) {
        if (!t->nodes[i].is_done) {
            lose(&t->nodes[i], "it did not answer in %d s", TRAFFIC_READ_MS / 1000);
        }
    }
    go_on(c);
}

uint64_t traffic_wake(const struct core *c)
{
    return c->traffic.state != TRAFFIC_NONE ? c->traffic.at_ms : UINT64_MAX;
}

void traffic_extend(struct core *c, uint64_t late_ms)
{
    if (c->traffic.state != TRAFFIC_NONE && c->traffic.state != TRAFFIC_PAUSE) {
        c->traffic.at_ms += late_ms;
    }
}

void traffic_fini(struct core *c)
{
    struct traffic *t = &c->traffic;

    free(t->nodes);
    map_fini(&t->first);
    map_fini(&t->bps);
    *t = (struct traffic){ 0 };
}
