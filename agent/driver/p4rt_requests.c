#include "agent/driver/p4rt_requests.h"

#include <stdlib.h>
#include <string.h>

#include "agent/p4rt/p4rt_codec.h"

void p4rt_item_free(struct p4rt_item *it)
{
    buf_fini(&it->body);
    free(it);
}

void p4rt_requests_init(struct p4rt_requests *r,
                        const struct p4rt_requests_options *options)
{
    memset(r, 0, sizeof(*r));
    TAILQ_INIT(&r->items);
    r->options = *options;
}

void p4rt_requests_clear(struct p4rt_requests *r)
{
    struct p4rt_item *it;

    while ((it = TAILQ_FIRST(&r->items)) != NULL) {
        TAILQ_REMOVE(&r->items, it, next);
        p4rt_item_free(it);
    }
    memset(r->open, 0, sizeof(r->open));
    r->segment = 0;
    r->bytes = 0;
    r->failed = false;
}

/* ---- adding ---- */

static struct p4rt_item *item_add(struct p4rt_requests *r)
{
    struct p4rt_item *it = calloc(1, sizeof(*it));

    if (!it) {
        r->failed = true;
        return NULL;
    }
    it->segment = r->segment;
    TAILQ_INSERT_TAIL(&r->items, it, next);
    return it;
}

/* The request of `device` that the next update goes into. */
static struct p4rt_item *request_for(struct p4rt_requests *r, unsigned device)
{
    struct p4rt_item *it = r->open[device];

    if (!it || it->body.len >= r->options.request_bytes ||
        it->updates >= r->options.request_updates) {
        it = item_add(r);
        r->open[device] = it;
        if (it) {
            it->device = (uint8_t)device;
        }
    }
    return it;
}

typedef void add_update(const struct p4rt_requests *r, struct p4rt_item *it,
                        const void *what);

static void add_to(struct p4rt_requests *r, unsigned device, add_update *add_one,
                   const void *what)
{
    struct p4rt_item *it = request_for(r, device);
    size_t before;

    if (!it) {
        return;
    }
    before = it->body.len;
    add_one(r, it, what);
    it->updates++;
    r->bytes += it->body.len - before;
    r->failed = r->failed || buf_failed(&it->body);
}

static void add(struct p4rt_requests *r, uint8_t half, add_update *add_one,
                const void *what)
{
    for (unsigned i = 0; i < r->options.devices; i++) {
        if (r->options.devices == 1 || half == PHYS_BOTH || half == i) {
            add_to(r, i, add_one, what);
        }
    }
}

static void add_entry(const struct p4rt_requests *r, struct p4rt_item *it,
                      const void *what)
{
    const struct phys_write *write = what;

    (void)r;
    p4rt_write_entry(&it->body, (enum phys_op)write->op, &write->entry);
}

static void add_meter(const struct p4rt_requests *r, struct p4rt_item *it,
                      const void *what)
{
    const struct phys_meter_write *write = what;
    struct p4rt_entity cell = { .kind = P4RT_METER,
                                .id = r->options.meter_id[write->meter],
                                .has_index = true,
                                .index = write->index,
                                .config = write->config };

    cell.has_config = write->config.cir != 0 || write->config.cburst != 0 ||
                      write->config.pir != 0 || write->config.pburst != 0;
    p4rt_write_cell(&it->body, &cell);
}

void p4rt_requests_entry(struct p4rt_requests *r, const struct phys_write *write)
{
    if (write->barrier) {
        p4rt_requests_barrier(r);
    }
    add(r, write->entry.half, add_entry, write);
}

void p4rt_requests_meter(struct p4rt_requests *r, const struct phys_meter_write *write)
{
    if (write->barrier) {
        p4rt_requests_barrier(r);
    }
    add(r, write->half, add_meter, write);
}

void p4rt_requests_barrier(struct p4rt_requests *r)
{
    struct p4rt_item *last = TAILQ_LAST(&r->items, p4rt_items);

    if (last && last->segment == r->segment) {
        r->segment++;
        memset(r->open, 0, sizeof(r->open));
    }
}

void p4rt_requests_mark(struct p4rt_requests *r, uint64_t mark)
{
    struct p4rt_item *it = item_add(r);

    if (it) {
        it->mark = mark;
    }
    memset(r->open, 0, sizeof(r->open)); /* what comes later is not before it */
}

void p4rt_requests_append(struct p4rt_requests *to, struct p4rt_requests *from)
{
    struct p4rt_item *it;

    p4rt_requests_barrier(to);
    TAILQ_FOREACH(it, &from->items, next)
    {
        it->segment += to->segment;
    }
    to->segment += from->segment;
    to->bytes += from->bytes;
    to->failed = to->failed || from->failed;
    TAILQ_CONCAT(&to->items, &from->items, next);
    memset(to->open, 0, sizeof(to->open));
    p4rt_requests_clear(from);
}
