/* Tenants that move between clusters while all else goes on. */
#include "tests/sim/sim.h"

#include <string.h>

#define NEWEST 1024 /* operations that may have gone on since the last look */

uint32_t moves_first_of_newest(const struct sim *s)
{
    uint32_t count = core_operation_count(s->core);

    return count > NEWEST ? count - NEWEST : 0;
}

bool moves_are_over(const struct sim *s)
{
    const struct operation *o;

    for (uint32_t i = 0; (o = core_operation_at(s->core, i)); i++) {
        if (o->state == OPERATION_RUNNING) {
            return false;
        }
    }
    return true;
}

bool moves_is_moving(const struct sim *s, uint32_t vni)
{
    const struct operation *o;

    for (uint32_t i = 0; (o = core_operation_at(s->core, i)); i++) {
        if (o->kind == OPERATION_MOVE && o->state == OPERATION_RUNNING &&
            o->move.vni == vni) {
            return true;
        }
    }
    return false;
}

void moves_begin(struct sim *s, uint32_t vni, struct sim_command *slot)
{
    struct command cmd = { .kind = COMMAND_MOVE, .who = "sim" };

    cmd.move.vni = vni;
    cmd.move.drain_ms = (uint32_t)sim_random(s, 20000);
    sim_cluster_name((unsigned)sim_random(s, SIM_HOMES), cmd.move.cluster);
    slot->token = cmd.token = sim_next_token(s);
    slot->vni = vni;
    slot->is_unknown = false;
    s->counts.moves++;
    controller_command(s, &cmd);
}

/* The tenant's row says its new homes as soon as the move steers. */
static void follow(struct sim *s, const struct operation *o)
{
    struct rows *rows = table_set_rows(s->model, o->move.vni, TABLE_TENANT);
    struct rows_iter it = rows_begin(rows, TABLE_TENANT);
    struct batch_writer w;
    struct entry e;
    struct row row;
    struct blob *ops;

    if (!rows || !rows_next(&it, &row) ||
        entry_unpack(TABLE_TENANT, o->move.vni, &row, &e, NULL)) {
        return; /* deleted meanwhile */
    }
    strcpy(e.tenant.cluster, o->move.to.x86);
    strcpy(e.tenant.h_home, o->move.to.h);
    e.tenant.half = o->move.to.half;
    batch_writer_init(&w);
    batch_add_entry(&w, ENTRY_PUT, &e);
    ops = batch_writer_finish(&w);
    check_model_apply(s->model, ops);
    blob_unref(ops);
    batch_writer_fini(&w);
    s->counts.moved++;
}

static bool has_steered(const struct operation *o)
{
    return o->kind == OPERATION_MOVE &&
           (o->state == OPERATION_DONE ||
            (o->state == OPERATION_RUNNING && o->step >= MOVE_STEER));
}

void moves_follow_newest(struct sim *s, uint32_t vni)
{
    for (uint32_t i = core_operation_count(s->core); i-- > 0;) {
        const struct operation *o = core_operation_at(s->core, i);

        if (has_steered(o) && o->move.vni == vni) {
            follow(s, o);
            return;
        }
    }
}

void moves_follow(struct sim *s)
{
    const struct operation *o;

    if (!s->core || !core_is_ready(s->core) ||
        core_revision(s->core) == s->followed_revision) {
        return;
    }
    s->followed_revision = core_revision(s->core);
    for (uint32_t i = moves_first_of_newest(s); (o = core_operation_at(s->core, i));
         i++) {
        uint64_t *last;

        if (o->kind != OPERATION_MOVE) {
            continue;
        }
        last = &s->followed[o->move.vni % SIM_FOLLOWED];
        if (operation_number(o) > *last && has_steered(o)) {
            *last = operation_number(o);
            follow(s, o);
        } else if (operation_number(o) > *last && o->state == OPERATION_UNDONE &&
                   o->step == MOVE_PROBE) {
            *last = operation_number(o);
            s->counts.refuted += strstr(o->text, "VNI is") != NULL;
        }
    }
}

/* Whoever may take packets of the VNI at the cluster has it: all there that forward,
 * but those whose writes were made to fail, or whose tables were spoilt. */
static void check_whole(struct sim *s, const struct sim_agent *lb, uint32_t vni,
                        const char *cluster)
{
    for (unsigned i = 0; i < s->config.nodes; i++) {
        const struct sim_agent *a = &s->agents[i];

        if (strcmp(a->cluster, cluster) == 0 && a->device_at_ms == 0 &&
            !a->is_tainted && memory_device_state(a->device).ready &&
            !table_set_rows(memory_device_tables(a->device), vni, TABLE_VNI)) {
            sim_fail(s, "%s steers vni %u to %s, where %s has it not", lb->name, vni,
                     cluster, a->name);
        }
    }
}

/* Make before break: while a tenant moves, a row that is turned leads to where it is
 * whole.  Both ends have it until it is removed from one. */
void moves_check_steered(struct sim_agent *lb, const struct change_list *changes)
{
    struct sim *s = lb->sim;
    const struct operation *o;

    for (uint32_t k = 0; s->core && k < changes->count; k++) {
        const struct table_change *ch = &changes->at[k];
        struct rows_iter it = rows_begin(ch->after, TABLE_VNI_CLUSTER);
        struct entry e;
        struct row row;

        if (!ch->before || !ch->after || !rows_next(&it, &row) ||
            entry_unpack(TABLE_VNI_CLUSTER, ch->vni, &row, &e, NULL)) {
            continue;
        }
        for (uint32_t i = 0; (o = core_operation_at(s->core, i)); i++) {
            if (o->kind == OPERATION_MOVE && o->state == OPERATION_RUNNING &&
                o->move.vni == ch->vni && o->step < MOVE_REMOVE) {
                s->counts.turned++;
                check_whole(s, lb, ch->vni, e.vni_cluster.cluster);
            }
        }
    }
}
