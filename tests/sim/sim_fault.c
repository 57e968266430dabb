#include "tests/sim/sim.h"

static void cut_link(struct sim *s, struct sim_agent *a)
{
    if (a->link) {
        s->counts.link_cuts++;
        link_break(s, a->link);
    }
}

static void partition(struct sim *s, struct sim_agent *a)
{
    if (a->heal_at_ms == 0) {
        s->counts.partitions++;
        a->is_partitioned = true;
        a->heal_at_ms = s->now_ms + sim_between(s, 1000, 120000);
    }
}

static void crash_agent(struct sim *s, struct sim_agent *a)
{
    if (a->session) {
        s->counts.agent_crashes++;
        agent_crash(a);
        a->start_at_ms = s->now_ms + sim_between(s, 1, 20000);
    }
}

static void crash_device(struct sim *s, struct sim_agent *a)
{
    if (a->device_at_ms == 0) {
        s->counts.device_crashes++;
        memory_device_crash(a->device);
        a->is_corrupt = false;
        a->device_at_ms = s->now_ms + sim_between(s, 1, 20000);
    }
}

static void corrupt(struct sim *s, struct sim_agent *a)
{
    /* Of rows; batches that get lost are the driver's own tests'. */
    enum memory_corruption kind = (enum memory_corruption)sim_random(s, CORRUPT_LOSE);

    if (a->device_at_ms == 0 &&
        memory_device_corrupt(a->device, kind, sim_random(s, UINT32_MAX))) {
        s->counts.corruptions++;
        a->is_corrupt = true;
        a->is_tainted = true;
    }
}

/* Its packets come out as other ones until all is healed, and no read-back shows it. */
static void lie(struct sim *s, struct sim_agent *a)
{
    s->counts.lies++;
    memory_device_spoil_probes(a->device, sim_random(s, 3) > 0);
}

static void stall(struct sim *s, struct sim_agent *a)
{
    if (a->heal_at_ms == 0) {
        s->counts.stalls++;
        memory_device_stall(a->device, true);
        a->heal_at_ms = s->now_ms + sim_between(s, 100, 20000);
        a->is_tainted = true;
    }
}

static void fail_write(struct sim *s, struct sim_agent *a)
{
    static const enum rc codes[] = { RC_NO_MEMORY, RC_UNREACHABLE, RC_FULL };

    s->counts.write_errors++;
    memory_device_fail_next(a->device, codes[sim_random(s, 3)]);
    a->is_tainted = true;
}

static void fail_store(struct sim *s)
{
    if (s->store && s->is_loaded) {
        bool is_unknown = sim_random(s, 2);

        s->counts.store_errors++;
        store_memory_fail_next(s->store, is_unknown ? RC_TIMEOUT : RC_UNREACHABLE,
                               is_unknown && sim_random(s, 2));
    }
}

static void crash_controller(struct sim *s)
{
    if (s->core) {
        s->counts.controller_crashes++;
        controller_crash(s);
        s->controller_at_ms = s->now_ms + sim_between(s, 10, 30000);
    }
}

void fault_step(struct sim *s)
{
    struct sim_agent *a = &s->agents[sim_random(s, s->config.nodes)];
    uint64_t kind = sim_random(s, 21);

    sim_note(s, "fault", kind, a->index);
    switch (kind) {
    case 0:
    case 1:
    case 2:
        cut_link(s, a);
        break;
    case 3:
    case 4:
        partition(s, a);
        break;
    case 5:
    case 6:
        crash_agent(s, a);
        break;
    case 7:
    case 8:
        crash_device(s, a);
        break;
    case 9:
        memory_device_disconnect(a->device);
        s->counts.disconnects++;
        break;
    case 10:
    case 11:
        corrupt(s, a);
        break;
    case 12:
        stall(s, a);
        break;
    case 13:
    case 14:
        fail_write(s, a);
        break;
    case 15:
    case 16:
        fail_store(s);
        break;
    case 17:
        crash_controller(s);
        break;
    case 18:
        lie(s, a);
        break;
    case 19:
        memory_device_set_delay(a->device, (uint32_t)sim_random(s, 300),
                                (uint32_t)sim_random(s, 300));
        break;
    default: /* the power of a rack */
        crash_agent(s, a);
        crash_device(s, a);
        cut_link(s, &s->agents[sim_random(s, s->config.nodes)]);
        break;
    }
}

/* Nothing is broken any more; what was corrupted in silence is found by a read-back,
 * as an agent does when it starts. */
void fault_heal(struct sim *s)
{
    for (unsigned i = 0; i < s->config.nodes; i++) {
        struct sim_agent *a = &s->agents[i];

        if (a->heal_at_ms != 0) {
            a->heal_at_ms = s->now_ms;
        }
        memory_device_fail_next(a->device, RC_OK);
        memory_device_forget_corruption(a->device);
        memory_device_spoil_probes(a->device, false);
        memory_device_set_delay(a->device, 1, 1);
        if (a->device_at_ms != 0) {
            a->device_at_ms = s->now_ms;
        }
        if (a->start_at_ms != 0) {
            a->start_at_ms = s->now_ms;
        } else if (a->is_corrupt) {
            agent_crash(a);
            a->start_at_ms = s->now_ms + 1;
        }
        a->is_corrupt = false;
    }
    if (s->controller_at_ms != 0) {
        s->controller_at_ms = s->now_ms;
    }
}
