#include "tests/unit/controller/core/move_world.h"

#include "controller/lifecycle/move.h"

void world_start_devices(struct world *w)
{
    for (unsigned i = 0; i < 3; i++) {
        device_dial(&w->at[i]);
        device_hello(&w->at[i]);
        devices_settle(w->at, 3);
    }
}

void world_init(struct world *w)
{
    static const char *const names[] = { "g1", "g2", "g3" };

    struct command cmd = { .kind = COMMAND_PUT_REGION };
    struct region *region = calloc(1, sizeof(*region));

    w->rig = rig_new();
    rig_copy(region->name, "lab");
    region->underlay_source_count = 1;
    region->underlay_sources[0] = (struct prefix){ ip_v4(0xac100000), 12 };
    cmd.region = region;
    ck_assert(!rig_command(w->rig, &cmd)->err.code);
    free(region);
    rig_cluster(w->rig, "c1", "172.16.255.1");
    rig_cluster(w->rig, "c2", "172.16.255.2");
    rig_cluster(w->rig, "c3", "172.16.255.3");
    rig_node(w->rig, "g1", "c1", "172.16.0.1");
    rig_node(w->rig, "g2", "c2", "172.16.0.2");
    rig_node(w->rig, "g3", "c3", "172.16.0.3");
    for (unsigned i = 0; i < 3; i++) {
        device_init(&w->at[i], w->rig, names[i]);
    }
    rig_must(w->rig, TENANT(1, "c1") TENANT(2, "c3") LOCAL(1, "10.1.0.0/16")
                         VM(1, "10.1.0.5") PEER(2, "10.1.0.0/16", 1));
    world_start_devices(w);
}

void world_fini(struct world *w)
{
    for (unsigned i = 0; i < 3; i++) {
        device_fini(&w->at[i]);
    }
    rig_free(w->rig);
}

const struct core_reply *world_move(struct world *w, uint32_t vni, const char *to)
{
    struct command cmd = { .kind = COMMAND_MOVE, .who = "test" };

    cmd.move.vni = vni;
    cmd.move.drain_ms = 5000;
    rig_copy(cmd.move.cluster, to);
    return rig_command(w->rig, &cmd);
}

const struct operation *world_operation(const struct world *w)
{
    ck_assert_ptr_null(core_operation_at(w->rig->core, 1));
    return core_operation_at(w->rig->core, 0);
}

uint32_t device_rows_of(const struct device *d, uint32_t vni)
{
    uint32_t count = 0;

    for (int t = 0; t < TABLE_COUNT; t++) {
        count += rows_count(table_set_rows(d->tables, vni, (enum table_id)t));
    }
    return count;
}

struct device *world_home_of(struct world *w, uint32_t vni)
{
    struct tenant_status t;

    ck_assert(!core_tenant(w->rig->core, vni, &t));
    return &w->at[t.cluster[1] - '1'];
}

struct device *world_steered_to(struct world *w)
{
    struct rows *rows = table_set_rows(w->at[2].tables, 2, TABLE_VXLAN_ROUTE);
    struct rows_iter it = rows_begin(rows, TABLE_VXLAN_ROUTE);
    struct entry e;
    struct row row;

    ck_assert(rows_next(&it, &row));
    ck_assert(!entry_unpack(TABLE_VXLAN_ROUTE, 2, &row, &e, NULL));
    ck_assert_int_eq(e.route.action.scope, SCOPE_DERIVED);
    return &w->at[e.route.action.endpoint.b[3] - 1]; /* 172.16.255.N is cN's */
}

void world_check_whole(struct world *w)
{
    ck_assert_uint_eq(device_rows_of(world_home_of(w, 1), 1), WHOLE);
    ck_assert_uint_eq(device_rows_of(world_steered_to(w), 1), WHOLE);
}

const struct operation *world_finish(struct world *w)
{
    for (unsigned i = 0; i < 100 && world_operation(w)->state == OPERATION_RUNNING;
         i++) {
        devices_settle(w->at, 3);
        world_check_whole(w);
        rig_wait(w->rig, 500);
    }
    devices_settle(w->at, 3);
    return world_operation(w);
}
