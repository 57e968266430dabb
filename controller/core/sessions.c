/* sessions: the streams of devices: who is let in, what he says, what he is told. */
#include "controller/core/core_internal.h"

#include "proto/base/log.h"

static struct session *session_find(const struct core *c, uint64_t id)
{
    struct session *s = c->sessions;

    while (s && s->id != id) {
        s = s->next;
    }
    return s;
}

static void leave_group(struct session *s)
{
    if (s->group) {
        s->group->session_count--;
        s->group = NULL;
    }
    sync_free(s->sync);
    s->sync = NULL;
}

static void session_remove(struct core *c, struct session *s)
{
    struct session **at = &c->sessions;

    while (*at != s) {
        at = &(*at)->next;
    }
    *at = s->next;
    if (c->pump_next == s) {
        c->pump_next = s->next;
    }
    if (s->device && s->device->session == s) {
        s->device->session = NULL;
    }
    traffic_forget_session(c, s->id);
    lives_note(c);
    leave_group(s);
    blob_unref(s->config);
    free(s);
}

/* The device's stream is gone: not a word on its packets. */
static void session_lost(struct core *c, struct session *s, const char *cause)
{
    struct device *d = s->device && s->device->session == s ? s->device : NULL;

    session_remove(c, s);
    if (d && d->state == NODE_ONLINE) {
        device_set_state(c, d, NODE_SUSPECT, cause);
    }
}

void session_end(struct core *c, struct session *s, enum rc rc, const char *why)
{
    effect_close(c, s->id, rc, "%s", why);
    effect_log(c, LOG_WARN, "session closed", "agent=%s cause=\"%s\"", s->device_id,
               why);
    session_lost(c, s, why);
}

void sessions_close_group(struct core *c, const struct group *g, const char *why)
{
    struct session *next;

    for (struct session *s = c->sessions; s; s = next) {
        next = s->next;
        if (s->group == g) {
            session_end(c, s, RC_NOT_FOUND, why);
        }
    }
}

void sessions_drop(struct core *c)
{
    session_remove(c, c->sessions);
}

/* ---- hello ---- */

/* An XGW-H node falls back to the active side of the cluster behind it. */
static void add_members(const struct core *c, const struct cluster *h,
                        struct device_config *config)
{
    const struct cluster *x86 = objects_cluster(&c->objects, h->backing);

    for (uint32_t i = 0; x86 && i < c->objects.node_count; i++) {
        const struct node *n = &c->objects.nodes[i];

        if (n->side == x86->active_side && strcmp(n->cluster, x86->name) == 0) {
            device_config_add_member(config, n);
        }
    }
}

struct blob *session_make_config(const struct core *c, const struct node *node)
{
    const struct cluster *cluster = objects_cluster(&c->objects, node->cluster);
    struct device_config *config = core_need(malloc(sizeof(*config)));
    struct buf packed = BUF_INIT;
    struct blob *blob;

    device_config_of(&c->objects.region, cluster, node, config);
    if (cluster->kind == CLUSTER_XGW_H) {
        add_members(c, cluster, config);
    } else if (cluster->kind == CLUSTER_LB) {
        steering_add_members(c, config);
    }
    device_config_pack(config, &packed);
    core_must(!buf_failed(&packed));
    blob = core_need(blob_copy(packed.data, packed.len));
    buf_fini(&packed);
    free(config);
    return blob;
}

static void send_assign(struct core *c, struct session *s)
{
    struct core_effect *e = effect_add(c, CORE_SEND);
    struct ctl_assign *a = &e->send.msg.assign;

    e->send.session = s->id;
    e->send.msg.kind = CTL_ASSIGN;
    a->term = c->config.term;
    memcpy(a->group, s->group->name, sizeof(a->group));
    a->beat_ms = c->config.beat_ms;
    a->telemetry_ms = watch_telemetry_ms(c);
    s->telemetry_ms = a->telemetry_ms;
    a->config = blob_ref(s->config);
    a->hello_id = s->hello_id;
}

/* Why this device gets no assignment; RC_OK with its node. */
static enum rc check_hello(const struct core *c, const struct session *s,
                           const struct agent_hello *h, const struct node **ret,
                           struct err *err)
{
    const struct node *node = objects_node(&c->objects, s->device_id);

    if (strcmp(h->device_id, s->device_id) != 0) {
        return err_set(err, RC_DENIED, "it says it is %s, its certificate %s",
                       h->device_id, s->device_id);
    }
    if (!node) {
        return err_set(err, RC_NOT_FOUND, "there is no node %s", s->device_id);
    }
    if (h->term_seen > c->config.term) {
        return err_set(err, RC_STALE, "it has seen term %llu, ours is %llu",
                       (unsigned long long)h->term_seen,
                       (unsigned long long)c->config.term);
    }
    if (node->kind != h->device_kind) {
        return err_set(err, RC_CONFLICT, "it is a device of kind %s, its node is %s",
                       device_kind_name(h->device_kind), device_kind_name(node->kind));
    }
    *ret = node;
    return RC_OK;
}

static void note_hello(struct core *c, struct device *d, const struct agent_hello *h)
{
    bool is_new = d->boot_id != 0 && d->boot_id != h->boot_id;

    d->applied = h->applied;
    d->ready = h->ready;
    d->last_seen_ms = c->now_ms;
    d->is_silent = false;
    device_clear_exceptions(d);
    if (h->boot_id == 0) {
        device_set_state(c, d, NODE_OFFLINE, "no data plane");
    } else if (is_new && !h->ready) {
        device_set_state(c, d, NODE_OFFLINE, "new data plane");
    } else if (h->ready) {
        device_set_state(c, d, NODE_ONLINE, "its data plane forwards");
    } else if (d->state == NODE_SUSPECT || d->state == NODE_ONLINE) {
        device_set_state(c, d, NODE_OFFLINE, "its data plane is not ready");
    }
    if (h->boot_id != 0) {
        d->boot_id = h->boot_id;
    }
}

/* The other session of this device, if any, gives way. */
static void take_over(struct core *c, struct session *s, struct device *d)
{
    struct session *old = d->session;

    d->session = s;
    s->device = d;
    if (old && old != s) {
        effect_close(c, old->id, RC_CONFLICT, "a newer session of %s", d->name);
        session_remove(c, old);
    }
}

static void hello(struct core *c, struct session *s, const struct agent_hello *h)
{
    const struct node *node = NULL;
    struct err err = { 0 };
    struct device *d;

    if (check_hello(c, s, h, &node, &err)) {
        session_end(c, s, err.code, err.msg);
        return;
    }
    d = device_find(c, node->name);
    take_over(c, s, d);
    note_hello(c, d, h);
    moves_forget_asks(c, d->name);
    audits_forget_asks(c, d->name);
    lives_forget_asks(c, d->name);
    probes_forget_asks(c, d->name);
    traffic_forget_session(c, s->id);
    leave_group(s);
    s->group = group_find(c, node->cluster);
    s->group->session_count++;
    s->hello_id = h->hello_id;
    s->hello_revision = s->group->revision;
    s->device_kind = h->device_kind;
    s->asked_ms = 0;
    blob_unref(s->config);
    s->config = session_make_config(c, node);
    send_assign(c, s);
    if (h->boot_id != 0) {
        s->sync = core_need(sync_new(s->group->desired, s->group->revision));
        sync_start(s->sync, h);
        if (s->group->is_touched) { /* the set is on its way to the next revision */
            sync_change(s->sync, 0, NULL);
        }
    }
    steering_note_devices(c);
    effect_log(c, LOG_INFO, "session assigned",
               "agent=%s group=%s boot=%llx applied=%llu ready=%d", d->name,
               s->group->name, (unsigned long long)h->boot_id,
               (unsigned long long)h->applied, h->ready);
    c->pump_is_idle = false;
}

/* ---- what else it says ---- */

static void session_msg(struct core *c, struct session *s, const struct agent_msg *msg)
{
    struct device *d = s->device;
    struct err err = { 0 };
    enum rc rc = RC_OK;

    if (msg->kind == AGENT_HELLO) {
        hello(c, s, &msg->hello);
        return;
    }
    if (!d) {
        session_end(c, s, RC_INVALID, "the first message is no HELLO");
        return;
    }
    d->last_seen_ms = c->now_ms;
    switch (msg->kind) {
    case AGENT_ROWS:
        audits_rows(c, s, &msg->rows);
        break;
    case AGENT_DIGESTS:
        if (msg->digests.query_id & AUDIT_QUERY_ID) {
            audits_digests(c, s, &msg->digests);
            break;
        }
        rc = s->sync ? sync_digests(s->sync, &msg->digests, &err)
                     : err_set(&err, RC_INVALID, "DIGESTS without a QUERY");
        s->asked_ms = c->now_ms;
        break;
    case AGENT_ACK:
        rc = s->sync ? sync_ack(s->sync, &msg->ack, &err)
                     : err_set(&err, RC_INVALID, "ACK without a BATCH");
        if (!rc) {
            device_note_exceptions(d, &msg->ack);
            d->applied = msg->ack.applied;
            device_note_ready(c, d, msg->ack.ready);
        }
        s->asked_ms = c->now_ms;
        break;
    case AGENT_AUDIT:
        moves_audit(c, s, &msg->audit);
        audits_answer(c, s, &msg->audit);
        break;
    case AGENT_PROBE:
        if (!probes_take_answer(c, s, &msg->probe)) {
            moves_probe(c, s, &msg->probe);
            lives_probe(c, s, &msg->probe);
        }
        break;
    case AGENT_TELEMETRY:
        watch_telemetry(c, d, msg->telemetry);
        return; /* nothing to be told because of it */
    case AGENT_COUNTERS:
        traffic_answer(c, s, &msg->counters);
        break;
    case AGENT_BEAT:
        d->beat = msg->beat;
        if (msg->beat.boot_id == d->boot_id) {
            device_note_ready(c, d, msg->beat.ready);
        }
        break;
    default:
        rc = err_set(&err, RC_INVALID, "message of unknown kind %d", (int)msg->kind);
        break;
    }
    if (rc) {
        session_end(c, s, rc, err.msg);
    }
    if (!rc && !d->is_member &&
        (msg->kind == AGENT_ACK || msg->kind == AGENT_DIGESTS)) {
        steering_note_devices(c); /* it may have all it lacked now */
    }
    if (msg->kind != AGENT_BEAT) {
        operations_note(c);
        audits_note(c);
        lives_note(c);
        probes_note(c);
    }
    c->pump_is_idle = false;
}

void sessions_input(struct core *c, const struct core_in *in)
{
    struct session *s = session_find(c, in->session.id);

    switch (in->kind) {
    case CORE_SESSION_OPEN:
        if (c->phase != PHASE_SERVING) {
            effect_close(c, in->session.id, RC_UNREACHABLE, "not serving");
            return;
        }
        s = core_need(calloc(1, sizeof(*s)));
        s->id = in->session.id;
        s->opened_ms = c->now_ms;
        memcpy(s->device_id, in->session.device_id,
               strnlen(in->session.device_id, sizeof(s->device_id) - 1));
        s->next = c->sessions;
        c->sessions = s;
        break;
    case CORE_SESSION_MSG:
        if (s) { /* else it was closed a moment ago */
            session_msg(c, s, in->session.msg);
        }
        break;
    default:
        if (s) {
            session_lost(c, s, "session lost");
        }
        break;
    }
}

/* ---- what it is told ---- */

void sessions_change(struct core *c, struct group *g, uint64_t revision,
                     struct blob *ops)
{
    for (struct session *s = c->sessions; s; s = s->next) {
        if (s->group == g && s->sync) {
            sync_change(s->sync, revision, ops);
            c->pump_is_idle = false;
        }
    }
}

static bool same_blob(const struct blob *a, const struct blob *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* It is told its configuration if that is another than before. */
static void reconfigure(struct core *c, struct session *s, const struct node *node)
{
    struct blob *config = session_make_config(c, node);

    if (same_blob(config, s->config) && s->telemetry_ms == watch_telemetry_ms(c)) {
        blob_unref(config);
        return;
    }
    blob_unref(s->config);
    s->config = config;
    send_assign(c, s);
}

void sessions_members_changed(struct core *c)
{
    for (struct session *s = c->sessions; s; s = s->next) {
        const struct node *node =
            s->device ? objects_node(&c->objects, s->device_id) : NULL;

        if (node && s->config && s->group && s->group->kind == GROUP_LB) {
            reconfigure(c, s, node);
        }
    }
}

#define CONFIGURE_UNITS 64u /* a configuration is made and compared */

/* Region, clusters or nodes changed: who belongs to another group goes at once, new
 * configurations follow. */
void sessions_objects_changed(struct core *c)
{
    struct session *next;

    for (struct session *s = c->sessions; s; s = next) {
        const struct node *node =
            s->device ? objects_node(&c->objects, s->device_id) : NULL;

        next = s->next;
        if (!node) {
            continue;
        }
        if (strcmp(node->cluster, s->group->name) != 0) {
            session_end(c, s, RC_CONFLICT, "its node belongs to another cluster now");
        } else if (node->kind != s->device_kind) {
            session_end(c, s, RC_CONFLICT, "its node is of another kind now");
        } else {
            s->must_configure = true;
            c->must_configure = true;
        }
    }
}

bool sessions_configure(struct core *c)
{
    if (!c->must_configure) {
        return false;
    }
    for (struct session *s = c->sessions; s && c->units > 0; s = s->next) {
        const struct node *node =
            s->must_configure ? objects_node(&c->objects, s->device_id) : NULL;

        s->must_configure = false;
        if (node) {
            reconfigure(c, s, node);
            units_spend(&c->units, CONFIGURE_UNITS);
        }
    }
    c->must_configure = c->units == 0; /* maybe more */
    return true;
}

/* One message of one session, in turn.  Sets when its answer became due. */
bool sessions_pump(struct core *c)
{
    struct session *s = c->pump_next ? c->pump_next : c->sessions;
    const struct session *start = s;
    struct ctl_msg msg;

    if (c->pump_is_idle || !s) {
        c->pump_is_idle = true;
        return false;
    }
    do {
        bool sent = s->sync && sync_next(s->sync, &msg);

        if (sent) {
            struct core_effect *e = effect_add(c, CORE_SEND);

            e->send.session = s->id;
            e->send.msg = msg;
            if (s->asked_ms == 0) {
                s->asked_ms = c->now_ms;
            }
        }
        if (sent || (s->sync && sync_has_work(s->sync))) {
            c->pump_next = s->next;
            return true;
        }
        s = s->next ? s->next : c->sessions;
    } while (s != start);
    c->pump_is_idle = true;
    return false;
}

bool sessions_have_work(const struct core *c)
{
    return !c->pump_is_idle && c->sessions;
}

/* ---- time ---- */

static uint64_t session_deadline(const struct core *c, const struct session *s)
{
    if (!s->device) {
        return s->opened_ms + c->config.session_timeout_ms;
    }
    if (!s->sync || s->asked_ms == 0 || !sync_status(s->sync).is_waiting) {
        return UINT64_MAX;
    }
    return s->asked_ms + c->config.session_timeout_ms;
}

void sessions_tick(struct core *c)
{
    struct session *next;

    for (struct session *s = c->sessions; s; s = next) {
        next = s->next;
        if (session_deadline(c, s) <= c->now_ms) {
            session_end(c, s, RC_TIMEOUT,
                        s->device ? "no answer in time" : "no HELLO in time");
        } else if (s->sync && s->asked_ms && !sync_status(s->sync).is_waiting) {
            s->asked_ms = 0;
        }
    }
}

uint64_t sessions_wake(const struct core *c)
{
    uint64_t wake = UINT64_MAX;

    for (const struct session *s = c->sessions; s; s = s->next) {
        uint64_t deadline = session_deadline(c, s);

        wake = deadline < wake ? deadline : wake;
    }
    return wake;
}

/* Our own lateness is no fault of a device: its deadlines move by it. */
void sessions_extend(struct core *c, uint64_t late_ms)
{
    for (struct session *s = c->sessions; s; s = s->next) {
        s->opened_ms += late_ms;
        if (s->asked_ms) {
            s->asked_ms += late_ms;
        }
    }
}
