/* p4runtime_totals: what a switch counts and how full its tables are.
 *
 * Ports are those that packets may leave by, and what they carry is what the program
 * counts (p4/README.md).  How full its tables are is what xgwh holds of it, read back
 * and maintained since.
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
#define ALL_READINGS                                                                   \
    (TABLE_READINGS + XGWH_UPLINKS_MAX * PORT_READINGS + SOFT_CORES_MAX)

struct readings {
    struct device_reading at[ALL_READINGS];
    uint32_t count;
    char tables[TABLE_READINGS][READING_RESOURCE_MAX + 1];
    char ports[XGWH_UPLINKS_MAX][READING_PART_MAX + 1];
};

/* `half` < 0: of both alike. */
static void add(struct readings *r, const char *table, int half, uint64_t used,
                uint64_t capacity)
{
    char *name = r->tables[r->count];

    if (half < 0) {
        snprintf(name, sizeof(r->tables[0]), "table.%s", table);
    } else {
        snprintf(name, sizeof(r->tables[0]), "table.%s.%d", table, half);
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

/* The first of all readings. */
static void read_tables(const struct p4runtime *p, struct readings *ret)
{
    struct xgwh_usage u = xgwh_status(p4runtime_belief(p)).usage;
    unsigned halves = p4rt_switch_devices(p->sw);

    ret->count = 0;
    for (int t = 0; t < PHYS_TABLES; t++) {
        const struct phys_table_desc *d = phys_table_desc((enum phys_table)t);
        bool is_halved = d->halved && halves > 1;

        for (int half = 0; can_fill((enum phys_table)t) && half < 1 + is_halved;
             half++) {
            uint64_t used;
            uint64_t capacity;

            use_of(p4runtime_belief(p), &p->sizes, &u, (enum phys_table)t, half, &used,
                   &capacity);
            add(ret, d->name, is_halved ? half : -1, used, capacity);
        }
    }
    add(ret, "meter", -1, u.meters, p->sizes.meters);
}

/* ---- ports ---- */

/* An uplink is a port of one number in each pipe that has the wire: p4/README.md. */
#define PIPE_2 256u

static void add_ports(struct p4runtime *p, struct readings *to,
                      struct device_totals *totals)
{
    for (unsigned i = 0; i < p->port_count; i++) {
        struct port_counts *c = &p->port_counts[i];
        char *part = to->ports[i];

        if (p->ports[i] < p->soft.link_count) {
            c->link_bps = p->soft.link_bps[p->ports[i]];
        }
        snprintf(part, sizeof(to->ports[0]), "port/%u", p->ports[i]);
        gateway_words_port(part, c, &to->at[to->count]);
        to->count += PORT_READINGS;
        totals->rx_packets += c->rx_packets;
        totals->rx_bytes += c->rx_bytes;
        totals->tx_packets += c->tx_packets;
        totals->tx_bytes += c->tx_bytes;
    }
}

static void count_port(struct p4runtime *p, bool is_rx, uint64_t index,
                       uint64_t packets, uint64_t bytes)
{
    for (unsigned i = 0; i < p->port_count; i++) {
        struct port_counts *c = &p->port_counts[i];

        if (p->ports[i] != index && (p->ports[i] ^ PIPE_2) != index) {
            continue;
        }
        if (is_rx) {
            c->rx_packets += packets;
            c->rx_bytes += bytes;
        } else {
            c->tx_packets += packets;
            c->tx_bytes += bytes;
        }
    }
}

/* ---- totals ---- */

static_assert(ALL_READINGS + 66 <= READINGS_MAX, "and those of the host");
static_assert(DROP_COUNT + 1 <= DROP_REASONS_MAX, "every reason has its place");

static void tell(struct p4runtime *p)
{
    struct device_drop drops[DROP_COUNT + 1];
    struct readings readings = { .count = 0 };
    struct device_totals totals = { .drop_list = drops };
    const struct p4runtime_soft *soft = &p->soft;
    struct top_report top;

    p->drops[DROP_NO_BUFFER] += soft->has_counted ? soft->lost : 0;
    for (unsigned i = 1; i < DROP_COUNT; i++) {
        drops[totals.drop_count++] =
            (struct device_drop){ drop_reason_name(i), p->drops[i] };
        totals.drops += p->drops[i];
    }
    totals.drops += p->drops[DROP_NONE]; /* of reasons that we do not know */
    if (soft->has_counted) { /* what its ports missed is told, and no drop of ours */
        drops[totals.drop_count++] = (struct device_drop){ "rx_missed", soft->missed };
    }
    if (p->xgwh) {
        read_tables(p, &readings);
        add_ports(p, &readings, &totals);
    }
    for (uint32_t i = 0; i < soft->core_count; i++) {
        readings.at[readings.count++] = soft->cores[i];
    }
    totals.readings = readings.at;
    totals.reading_count = readings.count;
    totals.top = p4runtime_top_take(p, &top) ? &top : NULL;
    p->driver.events->totals(p->driver.ctx, &totals);
}

static void totals_cell(void *ctx, enum phys_counter counter, uint8_t device,
                        uint64_t index, uint64_t packets, uint64_t bytes)
{
    struct p4runtime *p = ctx;

    (void)device;
    if (counter == PHYS_COUNTER_DROP) {
        p->drops[index < DROP_COUNT ? index : DROP_NONE] += packets;
    } else {
        count_port(p, counter == PHYS_COUNTER_PORT_RX, index, packets, bytes);
    }
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

/* The cells of each port, in either pipe. */
static uint32_t port_cells(struct p4runtime *p, uint32_t index[2 * XGWH_UPLINKS_MAX])
{
    uint32_t count = 0;

    p->port_count = xgwh_ports(p4runtime_belief(p), p->ports);
    memset(p->port_counts, 0, sizeof(p->port_counts));
    for (unsigned i = 0; i < p->port_count; i++) {
        index[count++] = p->ports[i];
        index[count++] = p->ports[i] ^ PIPE_2;
    }
    return count;
}

void p4runtime_read_totals(struct p4runtime *p)
{
    static const struct p4rt_read_events events = { .entry = no_entry,
                                                    .counter = totals_cell,
                                                    .end = totals_end };
    uint32_t index[2 * XGWH_UPLINKS_MAX];
    uint32_t count = port_cells(p, index);
    const struct p4rt_cells cells[] = { { PHYS_COUNTER_DROP, NULL, 0 },
                                        { PHYS_COUNTER_PORT_RX, index, count },
                                        { PHYS_COUNTER_PORT_TX, index, count } };

    memset(p->drops, 0, sizeof(p->drops));
    p->totals_read = p4rt_read_cells(p->sw, cells, 3, &events, p);
}

void p4runtime_poll_totals(struct driver *d)
{
    struct p4runtime *p = (struct p4runtime *)d;

    if (!p->is_up || p->totals_read || p->soft.counting) {
        return;
    }
    if (p->no_program) {
        memset(p->drops, 0, sizeof(p->drops));
        p->port_count = 0;
        tell(p);
        return;
    }
    p4runtime_top_poll(p);
    if (!p4runtime_soft_cores(p)) {
        p4runtime_read_totals(p);
    }
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
