/* Counters of VNIs: some VNIs that the switch counts one by one, and their cells. */
#include "agent/driver/p4runtime_impl.h"

#include <stdlib.h>

struct count_job {
    uint64_t id;
    struct p4rt_read *read; /* null: nothing to read; answered at the next turn */
    enum rc rc;
    uint32_t next_vni;
    uint32_t count;
    struct vni_counter items[COUNTERS_MAX];
    uint64_t rest_packets, rest_bytes;
    uint16_t place[]; /* by index: in `items`, plus 1; 0: none */
};

/* ---- the answer ---- */

/* VNIs whose index is another by now: what was read may be somebody else's. */
static void drop_moved(const struct p4runtime *p, struct count_job *j)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < j->count; i++) {
        if (xgwh_counted_index(p4runtime_belief(p), j->items[i].vni) ==
            j->items[i].cell) {
            j->items[kept++] = j->items[i];
        }
    }
    j->count = kept;
}

static void answer(struct p4runtime *p)
{
    struct count_job *j = p->count;
    struct device_counters c = { .id = j->id, .rc = j->rc };

    p->count = NULL; /* before it tells, for the session may ask at once */
    if (j->rc == RC_OK) {
        drop_moved(p, j);
        c.next_vni = j->next_vni;
        c.items = j->items;
        c.count = j->count;
        c.rest_packets = j->rest_packets;
        c.rest_bytes = j->rest_bytes;
    }
    p->driver.events->counters(p->driver.ctx, &c);
    free(j);
}

static void on_entry(void *ctx, const struct phys_entry *e)
{
    (void)ctx;
    (void)e;
}

static void on_cell(void *ctx, enum phys_counter counter, uint8_t device,
                    uint64_t index, uint64_t packets, uint64_t bytes)
{
    struct p4runtime *p = ctx;
    struct count_job *j = p->count;
    struct vni_counter *item;

    (void)counter;
    (void)device;
    if (index == 0) {
        j->rest_packets += packets;
        j->rest_bytes += bytes;
    } else if (index < p->sizes.meters && j->place[index] != 0) {
        item = &j->items[j->place[index] - 1];
        item->packets += packets;
        item->bytes += bytes;
    }
}

static void on_end(void *ctx, enum rc rc, const struct err *err)
{
    struct p4runtime *p = ctx;

    (void)err;
    p->count->read = NULL;
    p->count->rc = rc;
    answer(p);
}

/* ---- asking ---- */

static struct count_job *job_new(const struct p4runtime *p, uint64_t id)
{
    struct count_job *j =
        calloc(1, sizeof(*j) + (p->sizes.meters + 1) * sizeof(j->place[0]));

    if (j) {
        j->id = id;
    }
    return j;
}

/* The next VNIs, and their indexes; with the last ones the index of the rest. */
static uint32_t choose(const struct p4runtime *p, struct count_job *j, uint32_t from,
                       uint32_t index[COUNTERS_MAX + 1])
{
    uint32_t at = 0;
    uint32_t vni = from;

    while (vni != 0 && j->count < COUNTERS_MAX &&
           (vni = xgwh_counted_next(p4runtime_belief(p), vni, &at)) != 0) {
        index[j->count] = at;
        j->items[j->count] = (struct vni_counter){ .vni = vni, .cell = at };
        j->place[at] = (uint16_t)++j->count;
        vni = vni < VNI_MAX ? vni + 1 : 0;
    }
    j->next_vni = vni != 0 ? xgwh_counted_next(p4runtime_belief(p), vni, &at) : 0;
    if (j->next_vni == 0) {
        index[j->count] = 0;
        return j->count + 1;
    }
    return j->count;
}

void p4runtime_count(struct p4runtime *p, uint64_t id, uint32_t from_vni)
{
    static const struct p4rt_read_events events = { .entry = on_entry,
                                                    .counter = on_cell,
                                                    .end = on_end };
    uint32_t index[COUNTERS_MAX + 1];
    struct p4rt_cells cells = { PHYS_COUNTER_VNI, index, 0 };
    struct count_job *j;

    p4runtime_count_drop(p);
    if (!p->is_up) {
        return; /* `down` was told */
    }
    j = p->count = job_new(p, id);
    if (!j) {
        return; /* as one that is not answered */
    }
    if (!p->no_program) {
        cells.count = choose(p, j, from_vni, index);
        j->read = p4rt_read_cells(p->sw, &cells, 1, &events, p);
        j->rc = j->read ? RC_OK : RC_NO_MEMORY;
    }
    if (!j->read) {
        p4runtime_kick(p);
    }
}

void p4runtime_count_turn(struct p4runtime *p)
{
    if (p->count && !p->count->read) {
        answer(p);
    }
}

void p4runtime_count_drop(struct p4runtime *p)
{
    if (p->count) {
        p4rt_read_cancel(p->count->read);
        free(p->count);
        p->count = NULL;
    }
}
