/*
 * devices: nodes, and what is known of each.
 *
 *   joining ──ready──▶ online ──silent, session lost──▶ suspect ──back──▶ online
 *                        └──new boot id, not ready──▶ offline ──ready──▶ online
 *
 * Suspect is an alarm and changes nothing for packets: withdrawal needs a second
 * signal, for the node forwards with the tables it has.
 */
#include "controller/core/core_internal.h"

#include "proto/base/log.h"

static const char *state_name(enum node_state state)
{
    static const char *const names[] = { "joining", "online", "suspect", "offline" };

    return names[state];
}

static const char *device_name(const void *element)
{
    return (*(struct device *const *)element)->name;
}

static uint32_t device_search(const struct core *c, const char *name, bool *ret_found)
{
    return names_search(c->devices, c->device_count, sizeof(*c->devices), device_name,
                        name, ret_found);
}

struct device *device_find(const struct core *c, const char *name)
{
    bool found;
    uint32_t at = device_search(c, name, &found);

    return found ? c->devices[at] : NULL;
}

bool device_may_forward(const struct device *d)
{
    return d->state == NODE_ONLINE || d->state == NODE_SUSPECT ||
           (d->state == NODE_JOINING && d->is_member);
}

bool device_has_applied(const struct device *d, uint64_t revision)
{
    struct sync_status status;

    if (!d->session || !d->session->sync) {
        return false;
    }
    status = sync_status(d->session->sync);
    return !status.is_walking && status.applied >= revision;
}

void device_put(struct core *c, const struct node *node)
{
    struct group *group = group_find(c, node->cluster);
    bool found;
    uint32_t at = device_search(c, node->name, &found);
    struct device *d;

    if (!found) {
        d = core_need(calloc(1, sizeof(*d)));
        memcpy(d->name, node->name, strnlen(node->name, sizeof(d->name) - 1));
        d->state = NODE_JOINING;
        c->devices =
            core_need(realloc(c->devices, (c->device_count + 1) * sizeof(void *)));
        memmove(&c->devices[at + 1], &c->devices[at],
                (c->device_count - at) * sizeof(void *));
        c->devices[at] = d;
        c->device_count++;
    }
    d = c->devices[at];
    d->is_member = d->is_member && d->group == group; /* else its tables are others' */
    d->group = group;
}

void device_clear_exceptions(struct device *d)
{
    free(d->exceptions);
    free(d->exception_from);
    free(d->exception_to);
    d->exceptions = NULL;
    d->exception_from = NULL;
    d->exception_to = NULL;
    d->exception_listed = 0;
    d->exception_count = 0;
}

static void device_free(struct device *d)
{
    device_clear_exceptions(d);
    free(d);
}

/* Losing most nodes at once is more likely our own trouble: one alarm for all. */
static void suspect_oneself(struct core *c)
{
    uint32_t lost = 0;
    uint32_t known = 0;

    for (uint32_t i = 0; i < c->device_count; i++) {
        lost += c->devices[i]->state == NODE_SUSPECT;
        known +=
            c->devices[i]->state == NODE_SUSPECT || c->devices[i]->state == NODE_ONLINE;
    }
    if (!c->suspects_itself && known > 1 && 2 * lost > known) {
        c->suspects_itself = true;
        effect_log(c, LOG_ERROR, "controller suspects itself",
                   "nodes_lost=%u nodes=%u next=\"no route changes\"", lost, known);
    } else if (c->suspects_itself && 2 * lost <= known) {
        c->suspects_itself = false;
        effect_log(c, LOG_INFO, "controller sees its nodes again",
                   "nodes_lost=%u nodes=%u", lost, known);
    } else {
        return;
    }
    watch_blind(c, lost, known);
}

void device_set_state(struct core *c, struct device *d, enum node_state state,
                      const char *cause)
{
    int level = state == NODE_ONLINE || state == NODE_JOINING ? LOG_INFO : LOG_WARN;
    enum node_state from = d->state;

    if (from == state) {
        return;
    }
    d->state = state;
    steering_note_devices(c);
    suspect_oneself(c);
    watch_state(c, d, cause);
    if (c->suspects_itself && state == NODE_SUSPECT) {
        return; /* folded into that alarm */
    }
    effect_log(c, level, "node state", "node=%s from=%s to=%s cause=\"%s\"", d->name,
               state_name(from), state_name(state), cause);
}

void device_remove(struct core *c, const char *name)
{
    bool found;
    uint32_t at = device_search(c, name, &found);
    struct device *d = found ? c->devices[at] : NULL;

    if (!d) {
        return;
    }
    if (d->session) {
        session_end(c, d->session, RC_NOT_FOUND, "its node was deleted");
    }
    watch_node_gone(c, name);
    audits_node_gone(c, name);
    probes_node_gone(c, name);
    device_free(d);
    c->device_count--;
    memmove(&c->devices[at], &c->devices[at + 1],
            (c->device_count - at) * sizeof(void *));
}

void devices_fini(struct core *c)
{
    while (c->sessions) {
        sessions_drop(c);
    }
    for (uint32_t i = 0; i < c->device_count; i++) {
        device_free(c->devices[i]);
    }
    free(c->devices);
    c->devices = NULL;
    c->device_count = 0;
}

static uint32_t find_exception(const struct device *d, const struct exception *e)
{
    uint32_t i = 0;

    while (i < d->exception_listed &&
           (d->exceptions[i].vni != e->vni || d->exceptions[i].table != e->table ||
            d->exceptions[i].key_len != e->key_len ||
            memcmp(d->exceptions[i].key, e->key, e->key_len) != 0)) {
        i++;
    }
    return i;
}

bool device_has_exception(const struct device *d, enum table_id table, uint32_t vni,
                          const struct row *key)
{
    struct exception e = { .table = (uint8_t)table,
                           .vni = vni,
                           .key_len = key->key_len };

    memcpy(e.key, key->key, key->key_len);
    return find_exception(d, &e) < d->exception_listed;
}

/* Takes `at` out: of a full list the oldest goes, waits ask for the newest. */
static void drop_exception(struct device *d, uint32_t at)
{
    uint32_t behind = d->exception_listed - at - 1;

    memmove(&d->exceptions[at], &d->exceptions[at + 1],
            behind * sizeof(*d->exceptions));
    memmove(&d->exception_from[at], &d->exception_from[at + 1], behind * 8);
    memmove(&d->exception_to[at], &d->exception_to[at + 1], behind * 8);
    d->exception_listed--;
}

/* One that a retry met again, or that is only named again, keeps its revisions. */
static void note_exception(struct device *d, const struct exception *e, uint64_t from,
                           uint64_t to)
{
    uint32_t at = find_exception(d, e);

    if (at < d->exception_listed) {
        if (from >= to) {
            from = d->exception_from[at];
            to = d->exception_to[at];
        }
        drop_exception(d, at);
    } else if (at == EXCEPTIONS_MAX) {
        drop_exception(d, 0);
    }
    d->exceptions[d->exception_listed] = *e;
    d->exception_from[d->exception_listed] = from;
    d->exception_to[d->exception_listed] = to;
    d->exception_listed++;
}

void device_note_exceptions(struct device *d, const struct agent_ack *ack)
{
    uint32_t fresh = ack->exception_listed - ack->standing;

    d->exception_count = ack->exception_count;
    if (ack->exception_count == 0) {
        device_clear_exceptions(d);
        return;
    }
    if (ack->exception_listed == 0) {
        return;
    }
    if (!d->exceptions) {
        d->exceptions = core_need(calloc(EXCEPTIONS_MAX, sizeof(*d->exceptions)));
        d->exception_from = core_need(calloc(EXCEPTIONS_MAX, 8));
        d->exception_to = core_need(calloc(EXCEPTIONS_MAX, 8));
    }
    for (uint32_t i = ack->exception_listed; i-- > 0;) {
        note_exception(d, &ack->exceptions[i], i < fresh ? d->applied : 0,
                       i < fresh ? ack->applied : 0);
    }
    /* A complete list: all that it names stand at the end now. */
    while (ack->exception_listed == ack->exception_count &&
           d->exception_listed > ack->exception_listed) {
        drop_exception(d, 0);
    }
}

void device_note_ready(struct core *c, struct device *d, bool ready)
{
    d->ready = ready;
    if (ready && !d->is_silent) {
        device_set_state(c, d, NODE_ONLINE, "its data plane forwards");
    } else if (!ready && d->state == NODE_ONLINE) {
        device_set_state(c, d, NODE_OFFLINE, "its data plane is not ready");
    }
}

void sessions_liveness(struct core *c, const char *device_id, bool is_silent)
{
    struct device *d = device_find(c, device_id);

    if (!d) {
        return;
    }
    d->is_silent = is_silent;
    if (is_silent && d->state == NODE_ONLINE) {
        device_set_state(c, d, NODE_SUSPECT, "silent");
    } else if (!is_silent && d->state == NODE_SUSPECT && d->session && d->ready) {
        device_set_state(c, d, NODE_ONLINE, "heard again");
    }
}
