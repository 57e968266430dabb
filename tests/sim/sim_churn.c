#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

/* ---- the region's set-up ---- */

#define SETUP_TOKEN UINT64_C(1)

/* Objects before the nodes: region, clusters, policy, consumers of steering. */
#define SETUP_OBJECTS (1u + SIM_CLUSTERS + 1 + SIM_CONSUMERS)

void sim_cluster_name(unsigned cluster, char ret[CLUSTER_NAME_MAX + 1])
{
    if (sim_is_lb(cluster)) {
        strcpy(ret, "lb");
        return;
    }
    snprintf(ret, CLUSTER_NAME_MAX + 1, sim_is_h(cluster) ? "h-%u" : "x86-%u",
             cluster % SIM_X86);
}

static void fill_setup(struct sim *s, uint32_t step, struct command *cmd,
                       struct region *region, struct policy *policy)
{
    if (step == 0) {
        cmd->kind = COMMAND_PUT_REGION;
        strcpy(region->name, "sim");
        region->icmp_source_v4 = ip_v4(0xc6336401);
        region->underlay_source_count = 1;
        region->underlay_sources[0] = (struct prefix){ ip_v4(0), 0 };
        cmd->region = region;
    } else if (step <= SIM_CLUSTERS) {
        cmd->kind = COMMAND_PUT_CLUSTER;
        sim_cluster_name(step - 1, cmd->cluster.name);
        cmd->cluster.kind = CLUSTER_X86;
        cmd->cluster.active_side = 'a';
        cmd->cluster.vip_v4 = ip_v4(0xc6336500 + step);
        if (sim_is_h(step - 1)) {
            cmd->cluster.kind = CLUSTER_XGW_H;
            sim_cluster_name(step - 1 - SIM_X86, cmd->cluster.backing);
            fallback_meter_default(&cmd->cluster.fallback_meter);
        } else if (sim_is_lb(step - 1)) {
            cmd->cluster.kind = CLUSTER_LB;
        }
    } else if (step == SIM_CLUSTERS + 1) {
        cmd->kind = COMMAND_PUT_POLICY;
        policy_set(policy, "idc", POLICY_XGW_X86, NULL);
        cmd->policy = policy;
    } else if (step < SETUP_OBJECTS) {
        cmd->kind = COMMAND_PUT_CONSUMER;
        consumers_name(step - SIM_CLUSTERS - 2, cmd->consumer.name);
    } else {
        const struct sim_agent *a = &s->agents[step - SETUP_OBJECTS];
        bool is_h = sim_is_h(a->index % SIM_CLUSTERS);
        bool is_lb = sim_is_lb(a->index % SIM_CLUSTERS);

        cmd->kind = COMMAND_PUT_NODE;
        memcpy(cmd->node.name, a->name, sizeof(cmd->node.name));
        memcpy(cmd->node.cluster, a->cluster, sizeof(cmd->node.cluster));
        cmd->node.kind = is_h ? DEVICE_SOFT_H : is_lb ? DEVICE_LB : DEVICE_X86;
        cmd->node.side = a->index / SIM_CLUSTERS % 2 ? 'b' : 'a';
        cmd->node.vtep_v4 = ip_v4(0xc6336600 + a->index);
        if (!is_h && !is_lb) {
            cmd->node.fallback_v4 = ip_v4(0xc6336700 + a->index);
        }
    }
}

bool churn_is_set_up(const struct sim *s)
{
    return s->setup_step == SETUP_OBJECTS + s->config.nodes;
}

void churn_setup(struct sim *s)
{
    struct command cmd = { .token = SETUP_TOKEN, .who = "sim" };
    struct region region = { 0 };
    struct policy policy = { 0 };

    if (churn_is_set_up(s) || s->is_setup_waiting || !s->core ||
        !core_is_ready(s->core)) {
        return;
    }
    s->is_setup_waiting = true;
    fill_setup(s, s->setup_step, &cmd, &region, &policy);
    controller_command(s, &cmd);
}

/* ---- what tenants do ---- */

static uint32_t vni_of(unsigned tenant)
{
    return 1 + tenant * UINT32_C(104729) % VNI_MAX; /* spread over the tree */
}

static bool is_tenant(const struct sim *s, uint32_t vni)
{
    return table_set_rows(s->model, vni, TABLE_TENANT) != NULL;
}

static void add_tenant(struct sim *s, struct batch_writer *w, uint32_t vni)
{
    struct entry e = { .table = TABLE_TENANT, .vni = vni };
    unsigned home = (unsigned)sim_random(s, SIM_X86);

    e.tenant.flags = (uint8_t)sim_random(s, VNI_FLAGS + 1) & TENANT_FLAGS;
    sim_cluster_name(home, e.tenant.cluster);
    if (sim_random(s, 3) > 0) {
        sim_cluster_name(home + SIM_X86, e.tenant.h_home);
        e.tenant.half = (uint8_t)(1 + sim_random(s, VNI_HALF_COUNT));
    }
    batch_add_entry(w, ENTRY_PUT, &e);
}

/* Its homes stay: only a move changes them. */
static void change_tenant(struct sim *s, struct batch_writer *w, uint32_t vni)
{
    struct rows_iter it =
        rows_begin(table_set_rows(s->model, vni, TABLE_TENANT), TABLE_TENANT);
    struct entry e;
    struct row row;

    if (rows_next(&it, &row) && !entry_unpack(TABLE_TENANT, vni, &row, &e, NULL)) {
        e.tenant.flags = (uint8_t)sim_random(s, VNI_FLAGS + 1) & TENANT_FLAGS;
        if (e.tenant.h_home[0]) {
            e.tenant.half = (uint8_t)(1 + sim_random(s, VNI_HALF_COUNT));
        }
        batch_add_entry(w, ENTRY_PUT, &e);
    }
}

/* Rules and meters: refused where the tenant has no home on XGW-H. */
static void add_guard(struct sim *s, struct batch_writer *w, enum entry_op op,
                      uint32_t vni)
{
    struct entry e = { .table = TABLE_ACL, .vni = vni };

    if (sim_random(s, 4) == 0) {
        e.table = TABLE_METER;
        e.meter.peak_bps = 1 + sim_random(s, 1000000);
        e.meter.committed_burst = e.meter.peak_burst = METER_BURST_MIN;
    } else {
        e.acl.priority = (uint16_t)(1 + sim_random(s, 8));
        e.acl.action = (uint8_t)(ACL_PERMIT + sim_random(s, 2));
        e.acl.match.src.addr.family = e.acl.match.dst.addr.family = IP_V4;
        e.acl.match.sport.last = e.acl.match.dport.last = UINT16_MAX;
    }
    batch_add_entry(w, op, &e);
}

/* Keys are few, so that they are put, deleted and put again. */
static void add_route(struct sim *s, struct batch_writer *w, enum entry_op op,
                      uint32_t vni)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };
    struct route_action *to = &e.route.action;

    if (sim_random(s, 4) == 0) {
        uint8_t v6[16] = { 0xfd, 0x00, (uint8_t)sim_random(s, 8) };

        e.route.dst.addr = ip_v6(v6);
        e.route.dst.len = 48;
    } else if (sim_random(s, 6) == 0) { /* covers those below */
        e.route.dst = (struct prefix){ ip_v4(UINT32_C(10) << 24), 8 };
    } else {
        e.route.dst.addr =
            ip_v4((UINT32_C(10) << 24) + ((uint32_t)sim_random(s, 30) << 16));
        e.route.dst.len = 16;
    }
    switch (sim_random(s, 5)) {
    case 0:
        to->scope = SCOPE_INTERNET;
        break;
    case 1:
        to->scope = SCOPE_IDC;
        to->vni = 77;
        to->endpoint = ip_v4(0xac100000 + (uint32_t)sim_random(s, 200) + 1);
        break;
    case 2:
        to->scope = SCOPE_PEER;
        to->vni = vni_of((unsigned)sim_random(s, s->config.tenants));
        if (to->vni == vni || !is_tenant(s, to->vni)) {
            to->scope = SCOPE_LOCAL;
            to->vni = 0;
        }
        break;
    default:
        to->scope = SCOPE_LOCAL;
        break;
    }
    batch_add_entry(w, op, &e);
}

static void add_vms(struct sim *s, struct batch_writer *w, enum entry_op op,
                    uint32_t vni, uint32_t count, uint32_t space)
{
    uint32_t first = (uint32_t)sim_random(s, space);
    uint32_t stride = 1 + (uint32_t)sim_random(s, 2) * 2; /* no key twice in a batch */

    for (uint32_t i = 0; i < count; i++) {
        struct entry e = { .table = TABLE_VM_NC, .vni = vni };

        uint32_t host = (first + i * stride) % space;
        uint8_t v6[16] = { 0xfd, [14] = (uint8_t)(host >> 8), [15] = (uint8_t)host };

        e.vm_nc.vm = host % 5 == 4 ? ip_v6(v6) : ip_v4(0x0a000001 + host);
        e.vm_nc.has_mac = sim_random(s, 200) == 0;
        e.vm_nc.mac[0] = e.vm_nc.has_mac ? 2 : 0;
        e.vm_nc.nc = ip_v4(0xac200000 + (uint32_t)sim_random(s, 1 << 16));
        batch_add_entry(w, op, &e);
    }
}

static void fill_change(struct sim *s, struct batch_writer *w, uint32_t vni)
{
    uint32_t space = vni == vni_of(0) ? 4000 : 60; /* one tenant is large */

    if (!is_tenant(s, vni)) {
        add_tenant(s, w, vni);
        add_route(s, w, ENTRY_PUT, vni);
        add_vms(s, w, ENTRY_PUT, vni, space / 4, space);
        return;
    }
    switch (sim_random(s, 20)) {
    case 0: { /* with all its entries */
        struct entry e = { .table = TABLE_TENANT, .vni = vni };

        batch_add_entry(w, ENTRY_DELETE, &e);
        break;
    }
    case 1:
        if (!moves_is_moving(s, vni)) {
            change_tenant(s, w, vni); /* other flags, perhaps another half */
            break;
        }
        add_route(s, w, ENTRY_PUT, vni);
        break;
    case 2:
    case 3:
    case 4:
        add_route(s, w, ENTRY_DELETE, vni);
        break;
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
        add_route(s, w, ENTRY_PUT, vni);
        break;
    case 10:
        add_guard(s, w, sim_random(s, 2) ? ENTRY_PUT : ENTRY_DELETE, vni);
        break;
    case 11:
    case 12:
        add_vms(s, w, ENTRY_DELETE, vni, 1 + (uint32_t)sim_random(s, 20), space);
        break;
    default:
        add_vms(s, w, ENTRY_PUT, vni, 1 + (uint32_t)sim_random(s, 20), space);
        break;
    }
}

static struct sim_command *free_command(struct sim *s, uint32_t vni)
{
    struct sim_command *free_one = NULL;

    for (unsigned i = 0; i < SIM_COMMANDS_MAX; i++) {
        if (s->commands[i].token == 0) {
            free_one = &s->commands[i];
        } else if (s->commands[i].vni == vni) {
            return NULL; /* one at a time, so that each outcome is plain */
        }
    }
    return free_one;
}

uint64_t sim_next_token(struct sim *s)
{
    return ++s->last_token + SETUP_TOKEN;
}

void churn_step(struct sim *s)
{
    uint32_t vni = vni_of((unsigned)sim_random(s, s->config.tenants));
    struct command cmd = { .kind = COMMAND_ENTRIES, .who = "sim", .confirm = true };
    struct sim_command *slot = free_command(s, vni);
    struct batch_writer w;

    if (!slot || !s->core || !core_is_ready(s->core)) {
        return;
    }
    if (is_tenant(s, vni) && sim_random(s, 40) == 0) {
        moves_begin(s, vni, slot);
        return;
    }
    batch_writer_init(&w);
    fill_change(s, &w, vni);
    slot->token = cmd.token = sim_next_token(s);
    slot->vni = vni;
    slot->ops = batch_writer_finish(&w);
    slot->is_unknown = false;
    batch_writer_fini(&w);
    s->counts.commands++;
    cmd.entries.ops = slot->ops;
    controller_command(s, &cmd);
}

/* ---- what is answered ---- */

static void forget(struct sim_command *c)
{
    blob_unref(c->ops);
    memset(c, 0, sizeof(*c));
}

void churn_reply(struct sim *s, const struct core_reply *r)
{
    sim_note(s, "reply", r->token, r->err.code);
    if (r->token == SETUP_TOKEN) {
        s->is_setup_waiting = false;
        if (r->err.code == RC_OK) {
            s->setup_step++;
        } else if (r->err.code != RC_UNREACHABLE && r->err.code != RC_TIMEOUT) {
            sim_fail(s, "set-up step %u: %s", s->setup_step, r->err.msg);
        }
        return;
    }
    for (unsigned i = 0; i < SIM_COMMANDS_MAX; i++) {
        struct sim_command *c = &s->commands[i];

        if (c->token != r->token) {
            continue;
        }
        if (r->err.code == RC_OK) {
            s->counts.acknowledged++;
            if (c->ops) {
                check_model_apply(s->model, c->ops);
            }
            forget(c);
        } else if (r->err.code == RC_TIMEOUT) {
            c->is_unknown = true;
            s->counts.unknown++;
        } else {
            s->counts.refused++;
            if (s->config.is_verbose) {
                printf("%9.3f refused: %s\n", (double)s->now_ms / 1e3, r->err.msg);
            }
            forget(c);
        }
        return;
    }
}

void churn_controller_lost(struct sim *s)
{
    s->is_setup_waiting = false;
    for (unsigned i = 0; i < SIM_COMMANDS_MAX; i++) {
        if (s->commands[i].token != 0 && !s->commands[i].is_unknown) {
            s->commands[i].is_unknown = true;
            s->counts.unknown++;
        }
    }
}

bool churn_has_outstanding(const struct sim *s)
{
    for (unsigned i = 0; i < SIM_COMMANDS_MAX; i++) {
        if (s->commands[i].token != 0 && !s->commands[i].is_unknown) {
            return true;
        }
    }
    return s->is_setup_waiting;
}

void churn_fini(struct sim *s)
{
    for (unsigned i = 0; i < SIM_COMMANDS_MAX; i++) {
        forget(&s->commands[i]);
    }
}
