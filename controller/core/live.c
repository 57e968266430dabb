/* live: traces that ask the nodes on the way.  See live.h. */
#include "controller/core/live.h"

#include "controller/core/core_internal.h"

#include <stdio.h>

#define BEGIN_MS 1000 /* at the latest, though groups are behind what is committed */
#define LOOK_MS  20   /* whether they still are */
#define AGAIN_MS 300  /* between two probes of one node */
#define TRIES    3    /* so often a node differs */
/* Of a probe: up to 4 lookups of 129 prefixes, where half are in cache. */
#define PROBE_UNITS 256u

enum ask_state { ASK_DUE, ASK_SENT, ASK_SETTLED };

/* What a node is asked: the answer of the same index. */
struct live_ask {
    enum ask_state state;
    uint64_t id;      /* of the probe */
    uint64_t session; /* that it went out on */
    uint64_t at_ms;   /* not before */
    unsigned differed;
    struct probe probe;
};

struct live {
    struct live *next;
    uint64_t token;
    uint64_t begun_ms;
    struct live_key key;
    struct ip src;
    struct live_trace *trace; /* null: not looked up yet */
    struct live_ask *asks;
    uint32_t unsettled;
};

/* ---- what comes of it ---- */

const char *live_verdict_name(unsigned verdict)
{
    static const char *const names[] = { "says_nothing", "agrees", "differs" };

    return verdict < LIVE_VERDICTS ? names[verdict] : "unknown";
}

enum live_verdict live_trace_verdict(const struct live_trace *t)
{
    if (t->count[LIVE_DIFFERS] > 0) {
        return LIVE_DIFFERS;
    }
    return t->count[LIVE_AGREES] > 0 ? LIVE_AGREES : LIVE_SAYS_NOTHING;
}

void live_trace_free(struct live_trace *t)
{
    if (t) {
        free(t->answers);
        free(t);
    }
}

static void live_free(struct live *l)
{
    live_trace_free(l->trace);
    free(l->asks);
    free(l);
}

static void settle(struct live *l, uint32_t i, enum live_verdict verdict,
                   const char *found)
{
    struct live_answer *answer = &l->trace->answers[i];

    answer->verdict = verdict;
    if (found) {
        snprintf(answer->found, sizeof(answer->found), "%s", found);
    }
    l->asks[i].state = ASK_SETTLED;
    l->trace->count[verdict]++;
    l->unsettled--;
}

/* ---- probes ---- */

/* As who sends there addresses it; of IP_NONE: not over this family. */
static struct ip address_of(const struct device_config *d,
                            const struct trace_packet *came)
{
    bool is_v4 = came->underlay == IP_V4;
    const struct ip *vip = is_v4 ? &d->vip_v4 : &d->vip_v6;

    if (came->is_fallback) {
        return is_v4 ? d->fallback_v4 : d->fallback_v6;
    }
    if (vip->family != IP_NONE) {
        return *vip;
    }
    return is_v4 ? d->vtep_v4 : d->vtep_v6;
}

/* Makes the probe of that number, by what the node is to hold now.  False: the node has
 * no address for it. */
static bool make_probe(const struct core *c, const struct live *l, uint32_t i,
                       uint64_t number, struct probe *ret)
{
    const struct live_answer *answer = &l->trace->answers[i];
    const struct trace_packet *came = &l->trace->hops[answer->hop].came;
    const struct device *d = device_find(c, answer->node);
    struct device_config *config = core_need(malloc(sizeof(*config)));
    struct blob *packed =
        session_make_config(c, objects_node(&c->objects, answer->node));
    struct probe_node node = { .tables = d->group->desired, .config = config };
    struct ip to;

    core_must(!device_config_unpack(packed->data, packed->len, config, NULL));
    to = address_of(config, came);
    if (to.family != IP_NONE) {
        probe_make_to(&node, came->vni, &l->key.dst, came->underlay, number, ret);
        ret->sent.outer_dst = to;
        ret->sent.outer_src =
            came->from.family != IP_NONE ? came->from : ret->sent.outer_src;
        ret->sent.src = l->src.family != IP_NONE ? l->src : ret->sent.src;
        probe_expect(&node, ret);
    }
    blob_unref(packed);
    free(config);
    return to.family != IP_NONE;
}

static bool same_want(const struct probe_want *a, const struct probe_want *b)
{
    char text[PROBE_TEXT_MAX + 1];

    return a->outcome == b->outcome && a->is_fallback == b->is_fallback &&
           strcmp(a->reason, b->reason) == 0 &&
           !vxlan_packet_differs(&a->packet, &b->packet, text, sizeof(text));
}

static void send_probe(struct core *c, struct live *l, uint32_t i,
                       const struct device *d)
{
    struct live_ask *ask = &l->asks[i];
    uint8_t frame[VXLAN_PACKET_MAX];
    struct core_effect *e;
    size_t len;

    ask->id = ++c->last_ask;
    units_spend(&c->units, PROBE_UNITS);
    if (!make_probe(c, l, i, ask->id, &ask->probe)) {
        return; /* it has changed its address: not expected, and given up in the end */
    }
    probe_print_want(&ask->probe.want, l->trace->answers[i].expected);
    ask->state = ASK_SENT;
    ask->session = d->session->id;
    len = vxlan_packet_build(&ask->probe.sent, frame);
    e = effect_add(c, CORE_SEND);
    e->send.session = ask->session;
    e->send.msg.kind = CTL_PROBE;
    e->send.msg.probe = (struct ctl_probe){ .probe_id = ask->id,
                                            .frame = core_need(blob_copy(frame, len)) };
}

/* ---- the beginning ---- */

static bool is_active(const struct core *c, const struct device *d)
{
    const struct node *node = objects_node(&c->objects, d->name);
    const struct cluster *cluster =
        node ? objects_cluster(&c->objects, node->cluster) : NULL;

    return cluster && node->side == cluster->active_side;
}

/* XGW-H hands packets of the family to this node. */
static bool is_member(const struct core *c, const struct device *d, uint8_t family)
{
    const struct node *node = objects_node(&c->objects, d->name);

    return (family == IP_V4 ? &node->fallback_v4 : &node->fallback_v6)->family !=
           IP_NONE;
}

static void add_ask(struct live *l, uint32_t hop, const struct device *d)
{
    struct live_trace *t = l->trace;

    t->answers =
        core_need(realloc(t->answers, (t->answer_count + 1) * sizeof(*t->answers)));
    l->asks = core_need(realloc(l->asks, (t->answer_count + 1) * sizeof(*l->asks)));
    l->asks[t->answer_count] = (struct live_ask){ .state = ASK_DUE };
    t->answers[t->answer_count] = (struct live_answer){ .hop = hop };
    memcpy(t->answers[t->answer_count].node, d->name, NODE_NAME_MAX + 1);
    t->answer_count++;
    l->unsettled++;
}

static void look_up(struct core *c, struct live *l)
{
    struct live_trace *t = core_need(calloc(1, sizeof(*t)));

    l->trace = t;
    t->revision = c->revision;
    t->hop_count = core_trace(c, l->key.vni, &l->key.dst, l->key.underlay, t->hops);
    l->key.underlay = t->hops[0].came.underlay;
    for (uint32_t h = 0; h < t->hop_count; h++) {
        const struct trace_hop *hop = &t->hops[h];

        for (uint32_t i = 0; hop->is_verdict && i < c->device_count; i++) {
            const struct device *d = c->devices[i];

            if (strcmp(d->group->name, hop->cluster) == 0 && is_active(c, d) &&
                (!hop->came.is_fallback || is_member(c, d, hop->came.underlay))) {
                add_ask(l, h, d);
            }
        }
    }
}

/* ---- the end ---- */

/* A trace of a tenant that is no more is over no family. */
static bool same_key(const struct live_key *noted, const struct live_key *asked)
{
    return noted->vni == asked->vni &&
           (noted->underlay == asked->underlay || asked->underlay == IP_NONE) &&
           ip_compare(&noted->dst, &asked->dst) == 0;
}

static void note_differing(struct core *c, const struct live *l,
                           const struct live_answer *answer)
{
    struct device *d = device_find(c, answer->node);
    struct live_key *keys = d ? d->differing : NULL;
    char what[PROBE_WHY_MAX + 1];
    char dst[IP_TEXT_MAX];
    unsigned i = 0;

    if (!d) {
        return; /* it was deleted meanwhile */
    }
    while (i < d->differing_count && !same_key(&keys[i], &l->key)) {
        i++;
    }
    if (i == LIVE_KEYS_MAX) { /* of so many the oldest is forgotten */
        memmove(&keys[0], &keys[1], (LIVE_KEYS_MAX - 1) * sizeof(*keys));
        i = LIVE_KEYS_MAX - 1;
    }
    keys[i] = l->key;
    d->differing_count = i < d->differing_count ? d->differing_count : i + 1;
    ip_print(&l->key.dst, dst);
    snprintf(what, sizeof(what), "vni %u to %s: expected %.60s, found %.60s",
             l->key.vni, dst, answer->expected, answer->found);
    watch_trace(c, d->name, what);
}

/* It agrees, or is on this way no more; else it stays as it is. */
static bool is_clean(const struct live *l, const char *node)
{
    for (uint32_t i = 0; i < l->trace->answer_count; i++) {
        const struct live_answer *answer = &l->trace->answers[i];

        if (answer->verdict != LIVE_AGREES && strcmp(answer->node, node) == 0) {
            return false;
        }
    }
    return true;
}

static void forget_clean(struct core *c, const struct live *l, struct device *d)
{
    unsigned kept = 0;

    if (!is_clean(l, d->name)) {
        return;
    }
    for (unsigned i = 0; i < d->differing_count; i++) {
        if (!same_key(&d->differing[i], &l->key)) {
            d->differing[kept++] = d->differing[i];
        }
    }
    if (kept == 0) {
        watch_trace(c, d->name, NULL);
    }
    d->differing_count = kept;
}

static void finish(struct core *c, struct live *l)
{
    struct core_reply reply = { .token = l->token,
                                .bad_index = UINT32_MAX,
                                .revision = l->trace->revision,
                                .live = l->trace };

    for (uint32_t i = 0; i < l->trace->answer_count; i++) {
        if (l->trace->answers[i].verdict == LIVE_DIFFERS) {
            note_differing(c, l, &l->trace->answers[i]);
        }
    }
    for (uint32_t i = 0; i < c->device_count; i++) {
        if (c->devices[i]->differing_count > 0) {
            forget_clean(c, l, c->devices[i]);
        }
    }
    effect_reply(c, &reply);
    l->trace = NULL;
    live_free(l);
}

/* ---- in between ---- */

/* It has what was to be there when the trace was looked up. */
static bool has_applied(const struct live *l, const struct device *d)
{
    uint64_t revision = d->group->revision;

    return device_has_applied(d, revision < l->trace->revision ? revision
                                                               : l->trace->revision);
}

static void give_up(struct live *l, uint32_t i, const struct device *d)
{
    char text[64];

    if (!has_applied(l, d)) {
        snprintf(text, sizeof(text), "it has not applied revision %llu yet",
                 (unsigned long long)l->trace->revision);
        settle(l, i, LIVE_SAYS_NOTHING, text);
    } else if (!l->trace->answers[i].found[0]) {
        settle(l, i, LIVE_SAYS_NOTHING, "no answer in time");
    } else {
        settle(l, i, LIVE_SAYS_NOTHING, NULL); /* what it said last */
    }
}

/* What the node is to be asked; true: it can be. */
static bool expect(struct core *c, struct live *l, uint32_t i)
{
    struct live_answer *answer = &l->trace->answers[i];
    struct live_ask *ask = &l->asks[i];

    if (answer->expected[0]) {
        return true;
    }
    units_spend(&c->units, PROBE_UNITS);
    if (!make_probe(c, l, i, 0, &ask->probe)) {
        settle(l, i, LIVE_SAYS_NOTHING, "it has no address of the underlay's family");
        return false;
    }
    probe_print_want(&ask->probe.want, answer->expected);
    return true;
}

/* One that has a session, and time. */
static void ask_node(struct core *c, struct live *l, uint32_t i, const struct device *d)
{
    struct live_ask *ask = &l->asks[i];

    if (ask->state == ASK_SENT && ask->session != d->session->id) {
        ask->state = ASK_DUE; /* the answer is lost with its session */
    }
    if (ask->state == ASK_DUE && ask->at_ms <= c->now_ms && has_applied(l, d)) {
        send_probe(c, l, i, d);
    }
}

/* One that is not settled. */
static void go_on_with(struct core *c, struct live *l, uint32_t i)
{
    const struct live_answer *answer = &l->trace->answers[i];
    const struct device *d = device_find(c, answer->node);

    units_spend(&c->units, 1);
    if (!d || strcmp(d->group->name, l->trace->hops[answer->hop].cluster) != 0) {
        settle(l, i, LIVE_SAYS_NOTHING, "the node is in this cluster no more");
    } else if (expect(c, l, i)) {
        if (!d->session) {
            settle(l, i, LIVE_SAYS_NOTHING, "it has no session");
        } else if (!d->session->sync) {
            settle(l, i, LIVE_SAYS_NOTHING, "it has no data plane");
        } else if (c->now_ms >= l->begun_ms + LIVE_MS) {
            give_up(l, i, d);
        } else {
            ask_node(c, l, i, d);
        }
    }
}

/* True: it is over. */
static bool go_on(struct core *c, struct live *l)
{
    if (!l->trace) {
        if (!core_is_projected(c) && c->now_ms < l->begun_ms + BEGIN_MS) {
            return false; /* groups will be those of what was just committed */
        }
        look_up(c, l);
    }
    for (uint32_t i = 0; i < l->trace->answer_count; i++) {
        if (l->asks[i].state == ASK_SETTLED) {
            continue;
        }
        if (c->units == 0) {
            lives_note(c); /* the others in the next step */
            return false;
        }
        go_on_with(c, l, i);
    }
    return l->unsettled == 0;
}

/* When to look again, though nobody said anything. */
static uint64_t next_look(const struct core *c)
{
    uint64_t at = UINT64_MAX;

    for (const struct live *l = c->lives; l; l = l->next) {
        uint64_t look_ms = l->trace ? l->begun_ms + LIVE_MS : c->now_ms + LOOK_MS;

        at = look_ms < at ? look_ms : at;
        for (uint32_t i = 0; l->trace && i < l->trace->answer_count; i++) {
            const struct live_ask *ask = &l->asks[i];

            if (ask->state == ASK_DUE && ask->at_ms > c->now_ms && ask->at_ms < at) {
                at = ask->at_ms;
            }
        }
    }
    return at;
}

bool lives_work(struct core *c)
{
    struct live **at = &c->lives;

    if (!lives_have_work(c)) {
        return false;
    }
    c->lives_are_idle = true;
    while (*at) {
        struct live *l = *at;

        if (go_on(c, l)) {
            *at = l->next;
            c->live_count--;
            finish(c, l);
        } else {
            at = &l->next;
        }
    }
    c->lives_at_ms = next_look(c);
    return true;
}

bool lives_have_work(const struct core *c)
{
    return c->phase == PHASE_SERVING && c->lives && !c->lives_are_idle;
}

void lives_note(struct core *c)
{
    c->lives_are_idle = false;
}

/* ---- answers ---- */

static void take_answer(struct core *c, struct live *l, uint32_t i,
                        const struct agent_probe *p)
{
    struct live_ask *ask = &l->asks[i];
    struct live_answer *answer = &l->trace->answers[i];
    char why[PROBE_WHY_MAX + 1];
    enum probe_verdict verdict = probe_judge(&ask->probe, &p->result, why);
    struct probe now;

    probe_print_found(&ask->probe, &p->result, answer->found);
    if (p->result.rc == RC_NOT_FOUND) { /* a device that takes no probes */
        settle(l, i, LIVE_SAYS_NOTHING, NULL);
        return;
    }
    if (verdict == PROBE_AGREES) {
        settle(l, i, LIVE_AGREES, NULL);
        return;
    }
    ask->state = ASK_DUE;
    ask->at_ms = c->now_ms + AGAIN_MS;
    units_spend(&c->units, PROBE_UNITS);
    if (verdict == PROBE_DIFFERS && make_probe(c, l, i, ask->id, &now) &&
        same_want(&now.want, &ask->probe.want) && ++ask->differed == TRIES) {
        settle(l, i, LIVE_DIFFERS, NULL);
    }
}

void lives_probe(struct core *c, const struct session *s, const struct agent_probe *p)
{
    for (struct live *l = c->lives; l; l = l->next) {
        for (uint32_t i = 0; l->trace && i < l->trace->answer_count; i++) {
            const struct live_ask *ask = &l->asks[i];

            if (ask->state == ASK_SENT && ask->id == p->probe_id &&
                ask->session == s->id) {
                take_answer(c, l, i, p);
                return;
            }
        }
    }
}

void lives_forget_asks(struct core *c, const char *node)
{
    for (struct live *l = c->lives; l; l = l->next) {
        for (uint32_t i = 0; l->trace && i < l->trace->answer_count; i++) {
            if (l->asks[i].state == ASK_SENT &&
                strcmp(l->trace->answers[i].node, node) == 0) {
                l->asks[i].state = ASK_DUE;
            }
        }
    }
    lives_note(c);
}

/* ---- who asks, and time ---- */

void lives_ask(struct core *c, const struct command *cmd)
{
    struct core_reply reply = { .token = cmd->token, .bad_index = UINT32_MAX };
    struct live *l;

    if (c->phase != PHASE_SERVING) {
        err_set(&reply.err, RC_UNREACHABLE, "not serving");
    } else if (c->live_count == LIVES_MAX) {
        err_field(&reply.err, RC_FULL, "", "live_traces",
                  "%d live traces are under way: try again", LIVES_MAX);
    }
    l = reply.err.code == RC_OK ? calloc(1, sizeof(*l)) : NULL;
    if (!l) {
        if (reply.err.code == RC_OK) {
            err_set(&reply.err, RC_NO_MEMORY, "out of memory");
        }
        effect_reply(c, &reply);
        return;
    }
    l->token = cmd->token;
    l->begun_ms = c->now_ms;
    l->key = (struct live_key){ cmd->trace.vni, cmd->trace.underlay, cmd->trace.dst };
    l->src = cmd->trace.src;
    l->next = c->lives;
    c->lives = l;
    c->live_count++;
    lives_note(c);
}

uint64_t lives_wake(const struct core *c)
{
    return c->lives ? c->lives_at_ms : UINT64_MAX;
}

void lives_tick(struct core *c)
{
    if (lives_wake(c) <= c->now_ms) {
        lives_note(c);
    }
}

void lives_extend(struct core *c, uint64_t late_ms)
{
    for (struct live *l = c->lives; l; l = l->next) {
        l->begun_ms += late_ms;
    }
}

void lives_fail_all(struct core *c, enum rc rc, const char *why)
{
    while (c->lives) {
        struct live *l = c->lives;
        struct core_reply reply = { .token = l->token, .bad_index = UINT32_MAX };

        err_set(&reply.err, rc, "%s", why);
        effect_reply(c, &reply);
        c->lives = l->next;
        live_free(l);
    }
    c->live_count = 0;
}

void lives_fini(struct core *c)
{
    while (c->lives) {
        struct live *next = c->lives->next;

        live_free(c->lives);
        c->lives = next;
    }
}
