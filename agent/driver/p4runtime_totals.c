/* p4runtime_totals: what a switch counts and how full its tables are.
 *
 * P4Runtime has no counters of ports: those are the switch's own telemetry.  How full
 * its tables are is what xgwh holds of it, read back and maintained since.
 */
#include "agent/driver/p4runtime_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "agent/fwd/drop_reason.h"

static void no_entry(void *ctx, const struct phys_entry *e)
{
    (void)ctx;
    (void)e;
}

/* ---- tables ---- */

#define TABLE_READINGS (2 * PHYS_TABLES + 1)

struct table_readings {
    struct device_reading at[TABLE_READINGS];
    uint32_t count;
    char names[TABLE_READINGS][READING_RESOURCE_MAX + 1];
};

/* `half` < 0: of both alike. */
static void add(struct table_readings *r, const char *table, int half, uint64_t used,
                uint64_t capacity)
{
    char *name = r->names[r->count];

    if (half < 0) {
        snprintf(name, sizeof(r->names[0]), "table.%s", table);
    } else {
        snprintf(name, sizeof(r->names[0]), "table.%s.%d", table, half);
    }
    r->at[r->count++] =
        (struct device_reading){ "", name, READING_TABLE, false, used, capacity };
}

/* What is used of a table in a half, and how much there is, in entries; of route_part,
 * in partitions, for one takes all of its slots.  A VM that finds no place in vm_nc
 * goes to its spill, so the two are one. */
static void use_of(const struct xgwh *x, const struct phys_sizes *sizes,
                   const struct xgwh_usage *u, enum phys_table table, int half,
                   uint64_t *used, uint64_t *capacity)
{
    *used = u->used[table][half];
    *capacity = xgwh_limit(x, table);
    if (table == PHYS_ROUTE_PART) {
        *used = u->partitions[half];
        *capacity = sizes->partitions - 1; /* number 0 is not used */
    } else if (table == PHYS_VM_NC) {
        *used += u->used[PHYS_VM_NC_SPILL][half];
        *capacity += xgwh_limit(x, PHYS_VM_NC_SPILL);
    }
}

/* Tables of buckets are full by their nature, and port_out is as the ports are. */
static bool can_fill(enum phys_table table)
{
    return table != PHYS_NEXT_HOP && table != PHYS_PORT_OUT && table != PHYS_FALLBACK &&
           table != PHYS_VM_NC_SPILL;
}

static void read_tables(const struct p4runtime *p, struct table_readings *ret)
{
    struct xgwh_usage u = xgwh_status(p->xgwh).usage;
    unsigned halves = p4rt_switch_devices(p->sw);

    ret->count = 0;
    for (int t = 0; t < PHYS_TABLES; t++) {
        const struct phys_table_desc *d = phys_table_desc((enum phys_table)t);
        bool is_halved = d->halved && halves > 1;

        for (int half = 0; can_fill((enum phys_table)t) && half < 1 + is_halved;
             half++) {
            uint64_t used;
            uint64_t capacity;

            use_of(p->xgwh, &p->sizes, &u, (enum phys_table)t, half, &used, &capacity);
            add(ret, d->name, is_halved ? half : -1, used, capacity);
        }
    }
    add(ret, "meter", -1, u.meters, p->sizes.meters);
}

/* ---- totals ---- */

static_assert(DROP_COUNT <= DROP_REASONS_MAX, "every reason has its place");

static void tell(struct p4runtime *p)
{
    struct device_drop drops[DROP_COUNT];
    struct table_readings readings = { .count = 0 };
    struct device_totals totals = { .drop_list = drops };

    for (unsigned i = 1; i < DROP_COUNT; i++) {
        drops[totals.drop_count++] =
            (struct device_drop){ drop_reason_name(i), p->drops[i] };
        totals.drops += p->drops[i];
    }
    totals.drops += p->drops[DROP_NONE]; /* of reasons that we do not know */
    if (p->xgwh) {
        read_tables(p, &readings);
    }
    totals.readings = readings.at;
    totals.reading_count = readings.count;
    p->driver.events->totals(p->driver.ctx, &totals);
}

static void totals_cell(void *ctx, enum phys_counter counter, uint8_t device,
                        uint64_t index, uint64_t packets, uint64_t bytes)
{
    struct p4runtime *p = ctx;

    (void)counter;
    (void)device;
    (void)bytes;
    p->drops[index < DROP_COUNT ? index : DROP_NONE] += packets;
}

static void totals_end(void *ctx, enum rc rc, const struct err *err)
{
    struct p4runtime *p = ctx;

    (void)err;
    p->totals_read = NULL;
    if (rc == RC_OK) {
        tell(p);
    }
}

void p4runtime_poll_totals(struct driver *d)
{
    static const struct p4rt_read_events events = { .entry = no_entry,
                                                    .counter = totals_cell,
                                                    .end = totals_end };
    struct p4runtime *p = (struct p4runtime *)d;

    if (!p->is_up || p->totals_read) {
        return;
    }
    memset(p->drops, 0, sizeof(p->drops));
    if (p->no_program) {
        tell(p);
        return;
    }
    p->totals_read = p4rt_read_counter(p->sw, PHYS_COUNTER_DROP, &events, p);
}

/* ---- a counter's cells, for others ---- */

static void counters_cell(void *ctx, enum phys_counter counter, uint8_t device,
                          uint64_t index, uint64_t packets, uint64_t bytes)
{
    struct p4runtime *p = ctx;

    (void)counter;
    (void)device;
    p->counters.cell(p->counters.ctx, index, packets, bytes);
}

static void counters_end(void *ctx, enum rc rc, const struct err *err)
{
    struct p4runtime *p = ctx;

    p->counters_read = NULL;
    p->counters.end(p->counters.ctx, rc, err);
}

enum rc driver_p4runtime_counters(struct driver *d, enum phys_counter counter,
                                  const struct driver_p4runtime_counters *to)
{
    static const struct p4rt_read_events events = { .entry = no_entry,
                                                    .counter = counters_cell,
                                                    .end = counters_end };
    struct p4runtime *p = (struct p4runtime *)d;

    if (!p->is_up || p->no_program) {
        return RC_UNREACHABLE;
    }
    if (p->counters_read) {
        return RC_CONFLICT;
    }
    p->counters = *to;
    p->counters_read = p4rt_read_counter(p->sw, counter, &events, p);
    return p->counters_read ? RC_OK : RC_NO_MEMORY;
}
