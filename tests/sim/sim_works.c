/* XGW-H clusters are drained, retired, planned anew and built, one step of that now and
 * then, and somebody cancels some of it.  x86 clusters stand behind them and stay. */
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

#define NAMED_MAX 40

static bool can_ask(const struct sim *s)
{
    return s->core && core_is_ready(s->core) && churn_is_set_up(s);
}

uint64_t works_wake(const struct sim *s)
{
    return can_ask(s) && !s->is_quiet ? s->works_at_ms : UINT64_MAX;
}

static void ask(struct sim *s, struct command *cmd)
{
    cmd->token = sim_next_token(s);
    strcpy(cmd->who, "sim");
    controller_command(s, cmd);
}

static void put_state(struct sim *s, const struct cluster *k, enum cluster_state state)
{
    struct command cmd = { .kind = COMMAND_PUT_CLUSTER };

    cmd.cluster = *k;
    cmd.cluster.state = (uint8_t)state;
    ask(s, &cmd);
}

static void drain(struct sim *s, const struct cluster *k, const char *other)
{
    struct command cmd = { .kind = COMMAND_DRAIN };

    memcpy(cmd.drain.cluster, k->name, sizeof(cmd.drain.cluster));
    if (sim_random(s, 2)) {
        memcpy(cmd.drain.to, other, sizeof(cmd.drain.to));
    }
    cmd.drain.drain_ms = (uint32_t)sim_random(s, 3000);
    s->counts.drains++;
    ask(s, &cmd);
}

static void retire(struct sim *s, const struct cluster *k)
{
    struct command cmd = { .kind = COMMAND_RETIRE };

    memcpy(cmd.retire.cluster, k->name, sizeof(cmd.retire.cluster));
    ask(s, &cmd);
}

/* Some tenants, from a random one on. */
static void build(struct sim *s, const struct cluster *k)
{
    struct command cmd = { .kind = COMMAND_BUILD };
    uint32_t count = 1 + (uint32_t)sim_random(s, NAMED_MAX);
    uint32_t vni = core_tenant_next(s->core, 1 + (uint32_t)sim_random(s, VNI_MAX - 1));

    memcpy(cmd.build.cluster, k->name, sizeof(cmd.build.cluster));
    cmd.build.hold_ms = (uint32_t)sim_random(s, 20000);
    cmd.build.drain_ms = (uint32_t)sim_random(s, 3000);
    cmd.build.vnis = blob_new(count * sizeof(vni));
    for (; vni && cmd.build.vni_count < count; cmd.build.vni_count++) {
        memcpy(cmd.build.vnis->data + cmd.build.vni_count * sizeof(vni), &vni,
               sizeof(vni));
        vni = vni < VNI_MAX ? core_tenant_next(s->core, vni + 1) : 0;
    }
    s->counts.builds++;
    ask(s, &cmd);
    blob_unref(cmd.build.vnis);
}

static void cancel(struct sim *s, const struct operation *o)
{
    struct command cmd = { .kind = COMMAND_CANCEL };

    memcpy(cmd.name, o->id, sizeof(o->id));
    s->counts.cancels++;
    ask(s, &cmd);
}

static void go_on(struct sim *s, const struct cluster *k, const struct cluster *other)
{
    switch (k->state) {
    case CLUSTER_SERVING:
        if (other->state == CLUSTER_SERVING) {
            drain(s, k, other->name);
        }
        break;
    case CLUSTER_DRAINING:
        switch (sim_random(s, 4)) {
        case 0:
            put_state(s, k, CLUSTER_SERVING);
            break;
        case 1:
            drain(s, k, other->name); /* again: who was left behind */
            break;
        default:
            retire(s, k); /* refused while somebody is at home */
            break;
        }
        break;
    case CLUSTER_RETIRED:
        put_state(s, k, CLUSTER_PLANNED);
        break;
    default:
        build(s, k);
        break;
    }
}

static void count_done(struct sim *s)
{
    const struct operation *o;

    for (uint32_t i = moves_first_of_newest(s); (o = core_operation_at(s->core, i));
         i++) {
        if (o->kind != OPERATION_MOVE && o->state != OPERATION_RUNNING &&
            operation_number(o) > s->works_counted) {
            s->works_counted = operation_number(o);
            s->counts.built += o->kind == OPERATION_BUILD && o->state == OPERATION_DONE;
            s->counts.drained +=
                o->kind == OPERATION_DRAIN && o->state == OPERATION_DONE;
        }
    }
}

void works_step(struct sim *s)
{
    unsigned which = SIM_X86 + (unsigned)sim_random(s, SIM_X86);
    const struct operation *o;
    char name[2][CLUSTER_NAME_MAX + 1];

    if (!can_ask(s) || s->is_quiet || s->works_at_ms > s->now_ms) {
        return;
    }
    s->works_at_ms = s->now_ms + sim_between(s, 30000, 900000);
    count_done(s);
    sim_cluster_name(which, name[0]);
    sim_cluster_name(which == SIM_X86 ? SIM_X86 + 1 : SIM_X86, name[1]);
    o = core_cluster_work(s->core, name[0]);
    if (!o) {
        go_on(s, core_cluster_find(s->core, name[0]),
              core_cluster_find(s->core, name[1]));
    } else if (sim_random(s, 4) == 0) {
        cancel(s, o);
    }
}

void works_check(struct sim *s)
{
    const struct cluster *k;

    for (uint32_t vni = core_tenant_next(s->core, VNI_MIN); vni;
         vni = vni < VNI_MAX ? core_tenant_next(s->core, vni + 1) : 0) {
        k = core_steering(s->core, vni);
        if (!k || !cluster_is_announced(k->state)) {
            sim_fail(s, "vni %u is at home on cluster %s, which is %s", vni,
                     k ? k->name : "none", k ? cluster_state_name(k->state) : "gone");
        }
    }
    for (uint32_t i = 0; (k = core_cluster_at(s->core, i)); i++) {
        bool is_halfway = k->state == CLUSTER_LOADING || k->state == CLUSTER_CHECKING ||
                          k->state == CLUSTER_PROBING || k->state == CLUSTER_ADMITTING;

        if (is_halfway && !core_cluster_work(s->core, k->name)) {
            sim_fail(s, "cluster %s is %s, and nobody builds it", k->name,
                     cluster_state_name(k->state));
        }
    }
}
