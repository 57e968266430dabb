/*
 * growth_course: what tenants and operators do, week by week.
 *
 * A tenant has one or two routes and 1 to 2,000 VMs, the sizes in a Pareto distribution
 * of exponent 1.3 (mean 4): one in twenty of a real region's, so that a million fit
 * into memory.  Top customers announce what a real one has; they come with one entry in
 * hundred of it, and what they announced ends when they are there.
 */
#include "tests/sim/growth.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENANTS_A_BATCH 400
#define VMS_MAX         2000
#define BURST_WEEKS     7
#define FESTIVAL_WEEKS  26
#define ATTACK_WEEKS    39
#define QUARTER         13
#define YEAR            52
#define MOVES_A_TIME    12
#define ENTRY_SHARE     100 /* of what is announced, one in so many comes */

/* splitmix64 (Steele, Lea, Flood 2014) */
uint64_t growth_random(struct growth *g, uint64_t below)
{
    uint64_t z = (g->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

void growth_note(struct growth *g, uint64_t a, uint64_t b)
{
    const uint64_t values[3] = { g->now_ms, a, b };

    for (unsigned i = 0; i < 3; i++) {
        g->hash = (g->hash ^ values[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
        g->hash ^= g->hash >> 29;
    }
}

void growth_fail(struct growth *g, const char *fmt, ...)
{
    va_list args;
    int n;

    if (g->failure[0]) {
        return; /* the first one counts */
    }
    n = snprintf(g->failure, sizeof(g->failure), "in week %u: ", g->week);
    va_start(args, fmt);
    vsnprintf(g->failure + n, sizeof(g->failure) - (size_t)n, fmt, args);
    va_end(args);
}

/* ---- clusters ---- */

static void must(struct growth *g, struct command *cmd, const char *what)
{
    const struct core_reply *r = shell_command(g, cmd);

    if (r->err.code) {
        growth_fail(g, "%s: %s", what, r->err.msg);
    }
}

static void put_node(struct growth *g, unsigned cluster, char side)
{
    struct command cmd = { .kind = COMMAND_PUT_NODE };
    const struct growth_cluster *k = &g->clusters[cluster];
    unsigned number = 1 + 2 * cluster + (side == 'b');

    snprintf(cmd.node.name, sizeof(cmd.node.name), "%s-%c", k->name, side);
    memcpy(cmd.node.cluster, k->name, sizeof(cmd.node.cluster));
    cmd.node.kind = k->is_h ? DEVICE_SOFT_H : DEVICE_X86;
    cmd.node.side = side;
    cmd.node.vtep_v4 = ip_v4(0xc6120000 + number);
    cmd.node.fallback_v4 = k->is_h ? cmd.node.vtep_v6 : ip_v4(0xc6130000 + number);
    must(g, &cmd, "a node");
    shell_add_node(g, cluster, side);
}

static void build_one(struct growth *g, bool is_h)
{
    struct command cmd = { .kind = COMMAND_PUT_CLUSTER };
    unsigned at = g->cluster_count;
    struct growth_cluster *k = &g->clusters[at];

    if (at == GROWTH_CLUSTERS_MAX) {
        growth_fail(g, "more than %d clusters", GROWTH_CLUSTERS_MAX);
        return;
    }
    snprintf(k->name, sizeof(k->name), "%s-%03u", is_h ? "h" : "x", at);
    k->is_h = is_h;
    k->backing = at - 1; /* each XGW-H is built with one behind it */
    memcpy(cmd.cluster.name, k->name, sizeof(cmd.cluster.name));
    cmd.cluster.kind = is_h ? CLUSTER_XGW_H : CLUSTER_X86;
    cmd.cluster.active_side = 'a';
    cmd.cluster.vip_v4 = ip_v4(0xc6330001 + at);
    if (is_h) {
        memcpy(cmd.cluster.backing, g->clusters[k->backing].name,
               sizeof(cmd.cluster.backing));
        fallback_meter_default(&cmd.cluster.fallback_meter);
    }
    g->cluster_count++;
    must(g, &cmd, "a cluster");
    put_node(g, at, 'a');
    put_node(g, at, 'b');
}

static void build(struct growth *g)
{
    if (g->config.is_verbose) {
        printf("week %u: builds a cluster for %u tenants: %s\n", g->week, g->alive,
               g->reply.err.msg);
    }
    build_one(g, false);
    build_one(g, true);
    shell_settle(g);
    g->counts.built++;
}

/* ---- batches ---- */

static const struct core_reply *send(struct growth *g, struct batch_writer *w)
{
    struct command cmd = { .kind = COMMAND_ENTRIES, .confirm = true };
    const struct core_reply *r;

    cmd.entries.ops = batch_writer_finish(w);
    batch_writer_fini(w);
    r = shell_command(g, &cmd);
    blob_unref(cmd.entries.ops);
    if (!r->err.code) {
        g->counts.entries += r->counts.added + r->counts.changed;
    }
    return r;
}

static void add_vm(struct growth *g, struct batch_writer *w, uint32_t place,
                   uint32_t number)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = growth_vni(place) };
    uint8_t v6[16] = { 0xfd, [14] = (uint8_t)(number >> 8), [15] = (uint8_t)number };

    v6[13] = (uint8_t)(number >> 16);
    e.vm_nc.vm = number % 10 == 9 ? ip_v6(v6) : ip_v4(0x0a000000 + number);
    e.vm_nc.nc = ip_v4(0xac100000 + (uint32_t)growth_random(g, 20000));
    batch_add_entry(w, ENTRY_PUT, &e);
}

static void add_route(struct batch_writer *w, uint32_t place, uint32_t peer)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = growth_vni(place) };

    e.route.dst = (struct prefix){ ip_v4(0x0a000000), 8 };
    e.route.action.scope = SCOPE_LOCAL;
    if (peer) {
        e.route.dst = (struct prefix){ ip_v4(0xc0a80000), 16 };
        e.route.action.scope = SCOPE_PEER;
        e.route.action.vni = growth_vni(peer - 1);
    }
    batch_add_entry(w, ENTRY_PUT, &e);
}

/* Without a home: the core chooses. */
static void put_tenant(struct batch_writer *w, uint32_t place,
                       const struct tenant_reserve *reserve)
{
    struct entry e = { .table = TABLE_TENANT, .vni = growth_vni(place) };

    e.tenant.reserve = *reserve;
    batch_add_entry(w, ENTRY_PUT, &e);
}

static uint32_t draw_vms(struct growth *g)
{
    double u = (double)(1 + growth_random(g, 1000000)) / 1000000;
    double vms = pow(u, -1 / 1.3);

    return vms < VMS_MAX ? (uint32_t)vms : VMS_MAX;
}

/* A living one that leads nowhere itself, so that chains stay short; 0: none found. */
static uint32_t draw_peer(struct growth *g)
{
    uint32_t place = g->tenant_count ? (uint32_t)growth_random(g, g->tenant_count) : 0;

    return g->tenant_count && g->tenants[place].is_alive && !g->tenants[place].peer &&
                   !g->tenants[place].is_passing
               ? place + 1
               : 0;
}

static uint32_t new_tenant(struct growth *g)
{
    struct growth_tenant *t;

    if (g->tenant_count == g->tenant_cap) {
        g->tenant_cap = g->tenant_cap ? 2 * g->tenant_cap : 4096;
        g->tenants = realloc(g->tenants, g->tenant_cap * sizeof(*g->tenants));
    }
    t = &g->tenants[g->tenant_count];
    *t = (struct growth_tenant){ 0 };
    g->place_of[growth_vni(g->tenant_count)] = g->tenant_count + 1;
    return g->tenant_count++;
}

static void live(struct growth *g, uint32_t place)
{
    struct growth_tenant *t = &g->tenants[place];

    t->is_alive = true;
    g->alive++;
    if (t->peer) {
        g->tenants[t->peer - 1].inbound++;
    }
}

/* Puts the tenants from `first` on, which are drawn; builds where the core says so. */
static void put_drawn(struct growth *g, uint32_t first,
                      const struct tenant_reserve *reserve)
{
    for (unsigned attempt = 0; attempt < 3 && !g->failure[0]; attempt++) {
        struct batch_writer w;
        const struct core_reply *r;

        batch_writer_init(&w);
        for (uint32_t i = first; i < g->tenant_count; i++) {
            const struct growth_tenant *t = &g->tenants[i];

            put_tenant(&w, i, reserve);
            add_route(&w, i, 0);
            if (t->peer) {
                add_route(&w, i, t->peer);
            }
            for (uint32_t v = 0; v < t->vms; v++) {
                add_vm(g, &w, i, v);
            }
        }
        r = send(g, &w);
        if (!r->err.code) {
            for (uint32_t i = first; i < g->tenant_count; i++) {
                live(g, i);
            }
            return;
        }
        if (strcmp(r->err.rule, "no_cluster_fits") != 0 ||
            !strstr(r->err.msg, "build a cluster")) {
            growth_fail(g, "new tenants: %s", r->err.msg);
            return;
        }
        build(g);
    }
    growth_fail(g, "new tenants find no room in clusters that were built: %s",
                g->reply.err.msg);
}

static void grow(struct growth *g, uint32_t want)
{
    const struct tenant_reserve none = { 0 };

    while (g->alive < want && !g->failure[0]) {
        uint32_t first = g->tenant_count;
        uint32_t entries = 0;

        for (unsigned i = 0;
             i < TENANTS_A_BATCH && entries < 6000 && g->alive + i < want; i++) {
            uint32_t peer = growth_random(g, 20) == 0 ? draw_peer(g) : 0;
            uint32_t place = new_tenant(g);

            g->tenants[place].vms = draw_vms(g);
            g->tenants[place].peer = peer > first ? 0 : peer; /* not of this batch */
            entries += g->tenants[place].vms + 3;
        }
        put_drawn(g, first, &none);
    }
}

/* ---- who goes, who grows ---- */

static void forget(struct growth *g, uint32_t place)
{
    struct growth_tenant *t = &g->tenants[place];

    t->is_alive = false;
    g->alive--;
    if (t->peer) {
        g->tenants[t->peer - 1].inbound--;
    }
}

static bool is_big(const struct growth *g, uint32_t place)
{
    for (unsigned i = 0; i < GROWTH_BIG_MAX; i++) {
        if (g->big[i].tenant == place + 1) {
            return true;
        }
    }
    return false;
}

static void leave(struct growth *g)
{
    struct batch_writer w;
    uint32_t count = g->alive / 300;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = (uint32_t)growth_random(g, g->tenant_count);
        struct growth_tenant *t = &g->tenants[place];
        struct entry e = { .table = TABLE_TENANT, .vni = growth_vni(place) };

        if (t->is_alive && !t->inbound && !t->is_passing && !is_big(g, place)) {
            batch_add_entry(&w, ENTRY_DELETE, &e);
            forget(g, place);
            g->counts.deleted++;
        }
    }
    if (send(g, &w)->err.code) {
        growth_fail(g, "tenants leave: %s", g->reply.err.msg);
    }
}

static void rebalance(struct growth *g, uint32_t threshold_bp);

/* More VMs of one tenant; where its cluster is critical, room is made. */
static void swell(struct growth *g, uint32_t place, uint32_t vms)
{
    struct growth_tenant *t = &g->tenants[place];

    for (unsigned attempt = 0; attempt < 3 && !g->failure[0]; attempt++) {
        struct batch_writer w;

        batch_writer_init(&w);
        for (uint32_t v = 0; v < vms; v++) {
            add_vm(g, &w, place, t->vms + v);
        }
        if (!send(g, &w)->err.code) {
            t->vms += vms;
            return;
        }
        if (g->reply.err.code != RC_FULL) {
            growth_fail(g, "VMs of vni %u: %s", growth_vni(place), g->reply.err.msg);
        }
        g->counts.critical++;
        build(g);
        rebalance(g, 100);
    }
}

static void swell_some(struct growth *g)
{
    for (unsigned i = 0; i < 40; i++) {
        uint32_t place = (uint32_t)growth_random(g, g->tenant_count);
        struct growth_tenant *t = &g->tenants[place];

        if (t->is_alive && !t->is_passing && t->vms < 60000) {
            swell(g, place, 1 + t->vms / 2 < 5000 ? 1 + t->vms / 2 : 5000);
        }
    }
}

/* ---- what nobody announced ---- */

#define RULES_A_TENANT 80
#define RULE_TENANTS   16 /* more rules than an XGW-H has rows for */

static void add_rules(struct growth *g, struct batch_writer *w, uint32_t place)
{
    const struct growth_tenant *t = &g->tenants[place];

    for (uint32_t i = 0; i < RULES_A_TENANT; i++) {
        struct entry e = { .table = TABLE_ACL, .vni = growth_vni(place) };

        e.acl.priority = (uint16_t)(1 + t->rules + i);
        e.acl.action = ACL_DENY;
        e.acl.match.src = (struct prefix){ ip_v4(0xcb007100 + i), 32 }; /* TEST-NET-3 */
        e.acl.match.dst = (struct prefix){ ip_v4(0x0a000000), 8 };
        e.acl.match.sport = e.acl.match.dport = (struct port_range){ 0, UINT16_MAX };
        batch_add_entry(w, ENTRY_PUT, &e);
    }
}

/* At the critical level they are refused, all of the batch and with numbers; then a
 * cluster is built, tenants move there, and they are taken. */
static void put_rules(struct growth *g, uint32_t place)
{
    uint64_t before = core_count(g->core, TABLE_ACL);

    for (unsigned attempt = 0; attempt < 3 && !g->failure[0]; attempt++) {
        struct batch_writer w;

        batch_writer_init(&w);
        add_rules(g, &w, place);
        if (!send(g, &w)->err.code) {
            g->tenants[place].rules += RULES_A_TENANT;
            g->counts.critical_ended += attempt > 0;
            return;
        }
        if (g->reply.err.code != RC_FULL || !strstr(g->reply.err.msg, "needs") ||
            core_count(g->core, TABLE_ACL) != before) {
            growth_fail(g, "rules of vni %u: %s", growth_vni(place), g->reply.err.msg);
        }
        g->counts.critical += attempt == 0;
        if (attempt > 0) {
            build(g);
        }
        rebalance(g, 100);
    }
    growth_fail(g, "rules of vni %u found no room in clusters that were built: %s",
                growth_vni(place), g->reply.err.msg);
}

/* The tenants of one XGW-H cluster are attacked, and put more access rules than it has
 * room for. */
static void attack(struct growth *g)
{
    uint32_t places[RULE_TENANTS];
    uint32_t count = 0;
    const struct table_set *set = core_group_desired(g->core, g->clusters[1].name);

    for (uint32_t vni = table_set_next(set, VNI_MIN, ~0u); vni && count < RULE_TENANTS;
         vni = table_set_next(set, vni + 1, ~0u)) {
        uint32_t place = g->place_of[vni] - 1;

        if (!g->tenants[place].is_passing && !is_big(g, place)) {
            places[count++] = place;
        }
    }
    for (uint32_t i = 0; i < count && !g->failure[0]; i++) {
        put_rules(g, places[i]);
    }
    g->counts.attacks++;
}

/* ---- top customers ---- */

static struct growth_big *free_big(struct growth *g)
{
    for (unsigned i = 0; i < GROWTH_BIG_MAX; i++) {
        if (!g->big[i].tenant) {
            return &g->big[i];
        }
    }
    return NULL;
}

static void announce(struct growth *g)
{
    struct growth_big *b = free_big(g);
    struct tenant_reserve r = { 0 };
    uint32_t place;

    if (!b) {
        return;
    }
    r.vms = 50000 + (uint32_t)growth_random(g, 750000);
    r.routes = 1000 + (uint32_t)growth_random(g, 50000);
    r.bps = (1 + growth_random(g, 300)) * UINT64_C(1000000000);
    r.pps = r.bps / 4000;
    place = new_tenant(g);
    g->tenants[place].vms = 1;
    put_drawn(g, place, &r);
    b->tenant = place + 1;
    b->weeks_left = 4 + (unsigned)growth_random(g, 10);
    b->vms_a_week = 1 + r.vms / ENTRY_SHARE / b->weeks_left;
    g->counts.bursts++;
}

/* Larger than any cluster: refused, and nothing is built for it. */
static void announce_too_much(struct growth *g)
{
    struct tenant_reserve r = { .vms = 5000000 };
    uint32_t place = new_tenant(g);
    struct batch_writer w;

    batch_writer_init(&w);
    put_tenant(&w, place, &r);
    if (!send(g, &w)->err.code) {
        growth_fail(g, "5 M VMs of one tenant found a place");
    }
    g->counts.too_big++;
}

static void come(struct growth *g)
{
    const struct tenant_reserve none = { 0 };

    for (unsigned i = 0; i < GROWTH_BIG_MAX && !g->failure[0]; i++) {
        struct growth_big *b = &g->big[i];
        struct batch_writer w;

        if (b->tenant && b->weeks_left > 0) {
            uint64_t critical = g->counts.critical;

            b->weeks_left--;
            swell(g, b->tenant - 1, b->vms_a_week);
            if (g->counts.critical != critical) {
                growth_fail(g, "vni %u: entries that were announced were refused: %s",
                            growth_vni(b->tenant - 1), g->reply.err.msg);
            }
        } else if (b->tenant) {
            batch_writer_init(&w);
            put_tenant(&w, b->tenant - 1, &none);
            if (send(g, &w)->err.code) {
                growth_fail(g, "an announcement ends: %s", g->reply.err.msg);
            }
            b->tenant = 0;
        }
    }
}

/* ---- operators ---- */

static void rebalance(struct growth *g, uint32_t threshold_bp)
{
    struct placement_move moves[MOVES_A_TIME];
    char to[MOVES_A_TIME][CLUSTER_NAME_MAX + 1];
    char ids[MOVES_A_TIME][OPERATION_ID_MAX + 1];
    uint32_t count = 0;

    core_rebalance(g->core, CLUSTER_XGW_H, threshold_bp, moves, MOVES_A_TIME, &count);
    for (uint32_t i = 0; i < count; i++) {
        double gain = moves[i].from_before - moves[i].from_after;

        if (gain < 0 || moves[i].to_after > moves[i].from_before) {
            growth_fail(g, "a move of vni %u that gains nothing", moves[i].id);
        }
        snprintf(to[i], sizeof(to[i]), "%s",
                 placement_cluster_at(core_placement(g->core), moves[i].to)->name);
    }
    for (uint32_t i = 0; i < count && !g->failure[0]; i++) {
        struct command cmd = { .kind = COMMAND_MOVE };

        cmd.move.vni = moves[i].id;
        cmd.move.drain_ms = 5000;
        memcpy(cmd.move.cluster, to[i], sizeof(to[i]));
        g->counts.moves++;
        ids[i][0] = '\0';
        if (!shell_command(g, &cmd)->err.code) {
            memcpy(ids[i], g->reply.operation, sizeof(ids[i]));
        } else if (strcmp(g->reply.err.rule, "no_room") == 0) {
            g->counts.move_refused++;
        } else {
            growth_fail(g, "a move: %s", g->reply.err.msg);
        }
    }
    shell_settle(g);
    for (uint32_t i = 0; i < count && !g->failure[0]; i++) {
        const struct operation *o =
            ids[i][0] ? core_operation_find(g->core, ids[i]) : NULL;

        g->counts.moved += o && o->state == OPERATION_DONE;
        g->counts.moved_back += o && o->state == OPERATION_UNDONE;
        if (o && o->state == OPERATION_UNDONE) {
            growth_fail(g, "a move of vni %u went back: %s", o->move.vni, o->text);
        }
    }
}

/* Three days of raised levels; two tenants come for it, and are gone by themselves. */
static void begin_festival(struct growth *g)
{
    const struct tenant_reserve none = { 0 };
    struct command cmd = { .kind = COMMAND_PUT_FESTIVAL, .confirm = true };
    struct festival *f = &cmd.festival;
    uint32_t first = g->tenant_count;

    festival_default(f);
    for (unsigned i = 0; i < 2; i++) {
        uint32_t place = new_tenant(g);

        g->tenants[place].vms = 1;
        g->tenants[place].is_passing = true;
        f->tenants[f->tenant_count++] = growth_vni(place);
    }
    put_drawn(g, first, &none);
    if (f->tenants[0] > f->tenants[1]) {
        uint32_t larger = f->tenants[0];

        f->tenants[0] = f->tenants[1];
        f->tenants[1] = larger;
    }
    snprintf(f->name, sizeof(f->name), "festival-%u", g->week);
    f->starts_s = (UINT64_C(1700000000000) + g->now_ms) / 1000;
    f->ends_s = f->starts_s + UINT64_C(3) * 86400;
    f->growth_percent = 130;
    must(g, &cmd, "a festival");
    g->counts.festivals++;
}

static void end_festival(struct growth *g)
{
    struct command cmd = { .kind = COMMAND_DELETE_FESTIVAL };
    const struct festival *f = core_festival_at(g->core, 0);

    if (!f) {
        return;
    }
    if (!f->is_over) {
        growth_fail(g, "festival %s is not over", f->name);
    }
    for (uint32_t i = 0; i < f->tenant_count; i++) {
        forget(g, g->place_of[f->tenants[i]] - 1);
    }
    snprintf(cmd.name, sizeof(cmd.name), "%s", f->name);
    must(g, &cmd, "the end of a festival");
}

/* What was counted as it changed is what a start counts anew. */
static void restart(struct growth *g)
{
    struct usage before[GROWTH_CLUSTERS_MAX];
    struct usage after;

    for (unsigned i = 0; i < g->cluster_count; i++) {
        placement_usage(core_placement(g->core),
                        core_place_of(g->core, g->clusters[i].name), &before[i]);
    }
    shell_stop(g);
    shell_start(g);
    for (unsigned i = 0; i < g->cluster_count && !g->failure[0]; i++) {
        placement_usage(core_placement(g->core),
                        core_place_of(g->core, g->clusters[i].name), &after);
        if (memcmp(&before[i], &after, sizeof(after)) != 0) {
            growth_fail(g, "%s: what it holds is counted otherwise after a restart",
                        g->clusters[i].name);
        }
    }
    shell_settle(g);
    g->counts.restarts++;
}

/* ---- the weeks ---- */

static void week(struct growth *g)
{
    double share = (double)g->week / g->config.weeks;
    double want = g->config.from * pow((double)g->config.to / g->config.from, share);
    uint64_t began_ms = g->now_ms;

    end_festival(g);
    if (g->week > 0) {
        leave(g);
        swell_some(g);
    }
    come(g);
    grow(g, (uint32_t)want);
    if (g->week % ATTACK_WEEKS == 11) {
        attack(g);
    }
    if (g->week % BURST_WEEKS == 3) {
        announce(g);
    }
    if (g->week % YEAR == 30) {
        announce_too_much(g);
    }
    if (g->week % QUARTER == QUARTER - 1) {
        rebalance(g, 300);
    }
    if (g->week % FESTIVAL_WEEKS == FESTIVAL_WEEKS - 1) {
        begin_festival(g);
    }
    if (g->week % YEAR == YEAR - 1) {
        restart(g);
    }
    shell_settle(g);
    check_week(g);
    if (!g->failure[0] && g->now_ms - began_ms < GROWTH_WEEK_MS) {
        shell_pass(g, GROWTH_WEEK_MS - (g->now_ms - began_ms));
        shell_settle(g);
    }
}

bool growth_run(struct growth *g, const struct growth_config *config)
{
    struct command cmd = { .kind = COMMAND_PUT_REGION };
    struct region region = { .name = "growth" };

    memset(g, 0, sizeof(*g));
    g->config = *config;
    g->random = config->seed;
    g->hash = UINT64_C(0xcbf29ce484222325);
    g->now_ms = 1000;
    g->end = &g->first;
    g->place_of = calloc(VNI_MAX + 1, sizeof(*g->place_of));
    g->db = memory_db_new();
    shell_start(g);
    region.icmp_source_v4 = ip_v4(0xc6336401);
    cmd.region = &region;
    must(g, &cmd, "the region");
    for (; g->week <= config->weeks && !g->failure[0]; g->week++) {
        week(g);
        if (config->is_verbose && g->week % QUARTER == 0) {
            printf("week %u: %u tenants, %u clusters, %llu entries put\n", g->week,
                   g->alive, g->cluster_count, (unsigned long long)g->counts.entries);
            fflush(stdout);
        }
    }
    if (config->weeks > ATTACK_WEEKS && g->counts.critical == 0) {
        growth_fail(g, "nothing was refused at a critical level");
    }
    return !g->failure[0];
}

void growth_fini(struct growth *g)
{
    shell_fini(g);
    memory_db_free(g->db);
    free(g->tenants);
    free(g->place_of);
}
