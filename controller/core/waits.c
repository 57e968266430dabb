/* waits: callers who want to know when a revision is applied. */
#include "controller/core/core_internal.h"

#include <stdio.h>

static void answer(struct core *c, const struct wait *w, struct core_reply *reply)
{
    reply->token = w->token;
    reply->revision = w->revision;
    reply->bad_index = UINT32_MAX;
    effect_reply(c, reply);
}

static void add_missing(struct core_reply *reply, const char *name)
{
    size_t len = strlen(reply->missing);

    if (len + strlen(name) + 6 < sizeof(reply->missing)) {
        snprintf(reply->missing + len, sizeof(reply->missing) - len, "%s%s",
                 len ? "," : "", name);
    } else if (len + 5 <= sizeof(reply->missing) &&
               strcmp(reply->missing + len - 3, "...") != 0) {
        memcpy(reply->missing + len, ",...", 5);
    }
}

/* " 10.0.0.0/8": the key behind the VNI; "" where there is none. */
static void print_key(const struct exception *e, char to[PREFIX_TEXT_MAX + 1])
{
    struct row row = { .key = e->key, .key_len = e->key_len };
    struct entry entry;

    to[0] = '\0';
    if (entry_unpack((enum table_id)e->table, e->vni, &row, &entry, NULL) != RC_OK) {
        return;
    }
    if (entry.table == TABLE_VXLAN_ROUTE) {
        to[0] = ' ';
        prefix_print(&entry.route.dst, to + 1);
    } else if (entry.table == TABLE_VM_NC) {
        to[0] = ' ';
        ip_print(&entry.vm_nc.vm, to + 1);
    } else if (entry.table == TABLE_ACL) {
        snprintf(to, PREFIX_TEXT_MAX, " priority %u", entry.acl.priority);
    }
}

/* An exception that the ACK brought which went past the revision. */
static bool has_refused(const struct device *d, uint64_t revision,
                        struct core_reply *reply)
{
    static const char *const reasons[] = { "?", "the table is full",
                                           "the device is out of memory",
                                           "the device refuses it",
                                           "no answer from the device in time" };
    static const enum rc codes[] = { RC_BUG, RC_FULL, RC_NO_MEMORY, RC_INVALID,
                                     RC_TIMEOUT };

    for (uint32_t i = 0; i < d->exception_listed; i++) {
        const struct exception *e = &d->exceptions[i];
        unsigned reason = e->reason <= EXCEPTION_UNKNOWN ? e->reason : 0;

        if (d->exception_from[i] < revision && revision <= d->exception_to[i]) {
            char key[PREFIX_TEXT_MAX + 1];

            print_key(e, key);
            err_field(&reply->err, codes[reason], "", "exception",
                      "node %s: %s entry of vni %u%s is not in place: %s", d->name,
                      table_name(e->table), e->vni, key, reasons[reason]);
            return true;
        }
    }
    return false;
}

static bool asks_for(const struct wait *w, const struct group *g)
{
    return g && (!w->cluster[0] || strcmp(g->name, w->cluster) == 0);
}

/* Counts, for each group, its nodes and whether one that is online lacks something;
 * false: one has refused it. */
static bool tally(const struct core *c, const struct wait *w, struct core_reply *reply)
{
    for (uint32_t i = 0; i < c->group_count; i++) {
        memset(&c->groups[i]->tally, 0, sizeof(c->groups[i]->tally));
    }
    for (uint32_t i = 0; i < c->device_count; i++) {
        const struct device *d = c->devices[i];
        struct group *g = d->group;

        if (!asks_for(w, g)) {
            continue;
        }
        if (has_refused(d, w->revision, reply)) {
            return false;
        }
        g->tally.nodes++;
        if (d->state == NODE_ONLINE) {
            g->tally.online++;
            if (!device_has_applied(d, g->revision < w->revision ? g->revision
                                                                 : w->revision)) {
                g->tally.misses = true;
                add_missing(reply, d->name);
            }
        }
    }
    return true;
}

/* What keeps a group's nodes from having it, all of them; false: nothing. */
static bool group_misses(const struct core *c, const struct group *g,
                         const struct wait *w, struct core_reply *reply)
{
    bool is_behind = g->tally.nodes > 0 && jobs_are_behind(c, g, w->revision);

    if (g->tally.nodes == 0 || g->tally.misses || (g->tally.online > 0 && !is_behind)) {
        return g->tally.misses;
    }
    /* None is online, or the group's set is not made yet: none has it. */
    for (uint32_t i = 0; i < c->device_count; i++) {
        if (c->devices[i]->group == g) {
            add_missing(reply, c->devices[i]->name);
        }
    }
    return true;
}

/* Answers the wait if it is over. */
static bool is_over(struct core *c, const struct wait *w)
{
    struct core_reply reply = { 0 };
    bool misses = c->revision < w->revision;
    bool refused = !tally(c, w, &reply);

    for (uint32_t i = 0; i < c->group_count && !refused; i++) {
        if (asks_for(w, c->groups[i])) {
            misses = group_misses(c, c->groups[i], w, &reply) || misses;
        }
    }
    units_spend(&c->units, 1 + c->device_count + c->group_count);
    if (misses && !refused && c->now_ms < w->deadline_ms) {
        return false;
    }
    reply.applied = !misses && !refused;
    answer(c, w, &reply);
    return true;
}

void waits_add(struct core *c, const struct command *cmd)
{
    struct wait *w;
    struct core_reply reply = { .token = cmd->token, .bad_index = UINT32_MAX };

    if (cmd->wait.cluster[0] && !group_find(c, cmd->wait.cluster)) {
        err_field(&reply.err, RC_NOT_FOUND, "cluster", "unknown_cluster",
                  "there is no cluster '%s'", cmd->wait.cluster);
        effect_reply(c, &reply);
        return;
    }
    w = calloc(1, sizeof(*w));
    if (!w) {
        err_set(&reply.err, RC_NO_MEMORY, "out of memory");
        effect_reply(c, &reply);
        return;
    }
    w->token = cmd->token;
    w->revision = cmd->wait.revision;
    w->deadline_ms = cmd->wait.deadline_ms;
    memcpy(w->cluster, cmd->wait.cluster, sizeof(w->cluster));
    w->next = c->waits;
    c->waits = w;
    c->wait_count++;
    waits_note(c);
}

void waits_note(struct core *c)
{
    c->waits_left = c->wait_count;
}

bool waits_have_work(const struct core *c)
{
    return c->phase == PHASE_SERVING && c->waits_left > 0;
}

bool waits_work(struct core *c)
{
    if (!waits_have_work(c)) {
        return false;
    }
    while (c->waits_left > 0 && c->units > 0) {
        struct wait **at = c->wait_at && *c->wait_at ? c->wait_at : &c->waits;
        struct wait *w = *at;

        c->waits_left--;
        c->wait_at = &w->next;
        if (is_over(c, w)) {
            c->wait_at = at;
            *at = w->next;
            c->wait_count--;
            free(w);
        }
    }
    return true;
}

uint64_t waits_wake(const struct core *c)
{
    uint64_t wake = UINT64_MAX;

    for (const struct wait *w = c->waits; w; w = w->next) {
        wake = w->deadline_ms < wake ? w->deadline_ms : wake;
    }
    return wake;
}

void waits_fail_all(struct core *c, enum rc rc, const char *why)
{
    while (c->waits) {
        struct wait *w = c->waits;
        struct core_reply reply = { 0 };

        err_set(&reply.err, rc, "%s", why);
        answer(c, w, &reply);
        c->waits = w->next;
        free(w);
    }
    c->wait_count = 0;
    c->waits_left = 0;
    c->wait_at = NULL;
}

void waits_fini(struct core *c)
{
    while (c->waits) {
        struct wait *next = c->waits->next;

        free(c->waits);
        c->waits = next;
    }
}
