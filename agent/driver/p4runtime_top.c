/* p4runtime_top: the heaviest tenants of a switch, by the counters of its VNIs
 * (tenant_growth.h), and the heaviest flows where the switch knows any.
 *
 * A round reads SLICE cells with each poll until all are read, and begins ROUND_POLLS
 * polls after the one before, or later: with as many VNIs as have a cell of their own
 * it takes ten polls.
 */
#include "agent/driver/p4runtime_impl.h"

#include <stdlib.h>
#include <string.h>

#include "agent/driver/tenant_growth.h"
#include "proto/rpc/program.h"

#define ROUND_POLLS 10 /* polls are a second apart */
#define SLICE       2560

struct tops {
    struct tenant_growth *growth;
    struct p4rt_read *read; /* of a slice */
    unsigned polls;         /* since the round began */
    bool is_over;           /* the round: all was read */
    uint32_t next_vni;      /* that the next slice begins with */
    uint32_t slice;
    uint32_t vnis[SLICE + 1]; /* 0: the rest */
    uint32_t cells[SLICE + 1];
    struct top_report report; /* interval_ms 0: none, or handed on */
};

/* ---- a slice ---- */

static void no_entry(void *ctx, const struct phys_entry *e)
{
    (void)ctx;
    (void)e;
}

static void on_cell(void *ctx, enum phys_counter counter, uint8_t device,
                    uint64_t index, uint64_t packets, uint64_t bytes)
{
    const struct p4runtime *p = ctx;

    (void)counter;
    (void)device;
    (void)packets;
    tenant_growth_count(p->tops->growth, index, bytes);
}

static void end_round(struct p4runtime *p)
{
    p->tops->is_over = true;
    p->soft.top.interval_ms = 0;
    if (!p4runtime_soft_flows(p)) {
        p4runtime_top_flows(p);
    }
}

static void on_end(void *ctx, enum rc rc, const struct err *err)
{
    struct p4runtime *p = ctx;
    struct tops *t = p->tops;
    uint64_t now_ms = program_now_ms();

    (void)err;
    t->read = NULL;
    if (rc != RC_OK) {
        tenant_growth_spoil(t->growth);
    }
    for (uint32_t i = 0; rc == RC_OK && i < t->slice; i++) {
        bool is_sound =
            t->vnis[i] == 0 ||
            xgwh_counted_index(p4runtime_belief(p), t->vnis[i]) == t->cells[i];

        tenant_growth_read(t->growth, t->cells[i], is_sound, now_ms);
    }
    if (t->next_vni == 0) {
        end_round(p);
    }
}

static void expect(struct tops *t, uint32_t vni, uint32_t cell)
{
    tenant_growth_expect(t->growth, vni, cell);
    t->vnis[t->slice] = vni;
    t->cells[t->slice++] = cell;
}

/* The next VNIs; behind the last ones the rest. */
static void choose(const struct p4runtime *p, struct tops *t)
{
    uint32_t vni = t->next_vni;
    uint32_t cell = 0;

    t->slice = 0;
    while (vni != 0 && t->slice < SLICE &&
           (vni = xgwh_counted_next(p4runtime_belief(p), vni, &cell)) != 0) {
        expect(t, vni, cell);
        vni = vni < VNI_MAX ? vni + 1 : 0;
    }
    t->next_vni = vni;
    if (vni == 0) {
        expect(t, 0, 0);
    }
}

static struct tops *tops_of(struct p4runtime *p)
{
    struct tops *t = p->tops;

    if (t && tenant_growth_cells(t->growth) == p->sizes.meters) {
        return t;
    }
    p4runtime_top_drop(p);
    t = calloc(1, sizeof(*t));
    if (t) {
        t->growth = tenant_growth_new(p->sizes.meters);
        t->polls = ROUND_POLLS; /* the first begins at once */
        t->is_over = true;
    }
    if (t && !t->growth) {
        free(t);
        t = NULL;
    }
    return p->tops = t;
}

void p4runtime_top_poll(struct p4runtime *p)
{
    static const struct p4rt_read_events events = { .entry = no_entry,
                                                    .counter = on_cell,
                                                    .end = on_end };
    struct tops *t = tops_of(p);
    struct p4rt_cells cells = { .counter = PHYS_COUNTER_VNI };

    if (!t || t->read) {
        return;
    }
    t->polls++;
    if (t->is_over && t->polls >= ROUND_POLLS && !p->soft.topping &&
        t->report.interval_ms == 0) {
        tenant_growth_begin(t->growth, program_now_ms());
        t->polls = 0;
        t->is_over = false;
        t->next_vni = VNI_MIN;
    }
    if (t->is_over) {
        return;
    }
    choose(p, t);
    cells.index = t->cells;
    cells.count = t->slice;
    t->read = p4rt_read_cells(p->sw, &cells, 1, &events, p);
    if (!t->read) {
        tenant_growth_spoil(t->growth);
        t->is_over = t->next_vni == 0;
    }
}

/* ---- the report ---- */

/* Of the switch's own interval, in that of the round. */
static void take_flows(struct top_report *to, const struct top_report *own)
{
    uint64_t from = own->interval_ms;
    uint64_t length = to->interval_ms;
    uint64_t all = tenant_growth_stretch(own->bytes, from, length, false);

    to->flows = own->flows;
    to->flows.rest = tenant_growth_stretch(own->flows.rest, from, length, true);
    for (uint32_t i = 0; i < to->flows.count; i++) {
        struct top_item *x = &to->flows.items[i];
        uint64_t least =
            tenant_growth_stretch(x->bytes - x->error, from, length, false);

        x->bytes = tenant_growth_stretch(x->bytes, from, length, true);
        x->error = x->bytes - least;
    }
    /* All that arrived, also what no VNI was found for. */
    to->bytes = to->bytes > all ? to->bytes : all;
}

void p4runtime_top_flows(struct p4runtime *p)
{
    struct tops *t = p->tops;

    if (!t || !tenant_growth_report(t->growth, &t->report)) {
        return;
    }
    t->report.no_flows = p->soft.is_absent;
    if (p->soft.top.interval_ms != 0) {
        take_flows(&t->report, &p->soft.top);
    }
}

bool p4runtime_top_take(struct p4runtime *p, struct top_report *ret)
{
    struct tops *t = p->tops;

    if (!t || t->report.interval_ms == 0) {
        return false;
    }
    *ret = t->report;
    t->report.interval_ms = 0;
    return true;
}

void p4runtime_top_drop(struct p4runtime *p)
{
    if (p->tops) {
        p4rt_read_cancel(p->tops->read);
        tenant_growth_free(p->tops->growth);
        free(p->tops);
        p->tops = NULL;
    }
}
