#include "agent/driver/driver_p4runtime.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/driver/p4runtime_impl.h"
#include "proto/base/log.h"

static struct p4runtime *of(const struct driver *d)
{
    return (struct p4runtime *)d;
}

void p4runtime_kick(struct p4runtime *p)
{
    event_active(p->kick, EV_TIMEOUT, 0);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    p4runtime_pump(arg);
    p4runtime_count_turn(arg);
}

static void sink_write(void *ctx, const struct phys_write *w)
{
    p4rt_writer_entry(((struct p4runtime *)ctx)->writer, w);
}

static void sink_meter(void *ctx, const struct phys_meter_write *w)
{
    p4rt_writer_meter(((struct p4runtime *)ctx)->writer, w);
}

struct xgwh_sink p4runtime_sink(struct p4runtime *p)
{
    return (struct xgwh_sink){ sink_write, sink_meter, p };
}

enum rc p4runtime_put_state(struct p4runtime *p, const struct xgwh_state *s)
{
    struct xgwh_sink sink = p4runtime_sink(p);

    return xgwh_put_state(p4runtime_belief(p), s, &sink, &p->trouble);
}

/* ---- the belief ---- */

/* As many rows as the program has, in the proportions of one of our targets. */
static struct phys_sizes sizes_of(const struct p4rt_info *info)
{
    const struct phys_sizes *bench = phys_sizes_bench();
    struct phys_sizes sizes = *phys_sizes_tofino();

    if (info->table_size[PHYS_ROUTE_PART] >= bench->table[PHYS_ROUTE_PART]) {
        sizes = *bench;
    }
    for (unsigned i = 0; i < PHYS_TABLES; i++) {
        if (info->table_size[i] < sizes.table[i]) {
            sizes.table[i] = (uint32_t)info->table_size[i];
        }
    }
    if (sizes.partitions > sizes.table[PHYS_ROUTE_PART] / sizes.partition_slots) {
        sizes.partitions = sizes.table[PHYS_ROUTE_PART] / sizes.partition_slots;
    }
    if (sizes.meters > info->meter_size[PHYS_METER_VNI]) {
        sizes.meters = (uint32_t)info->meter_size[PHYS_METER_VNI];
    }
    if (sizes.fallback_buckets > info->meter_size[PHYS_METER_FB_MISS]) {
        sizes.fallback_buckets = (uint32_t)info->meter_size[PHYS_METER_FB_MISS];
    }
    return sizes;
}

static enum rc new_belief(struct p4runtime *p, const struct phys_sizes *sizes)
{
    struct xgwh_options options = { .sizes = sizes,
                                    .halves = p4rt_switch_devices(p->sw),
                                    .repack = 64 };
    struct xgwh *x = xgwh_new(&options);

    if (!x) {
        return RC_NO_MEMORY;
    }
    xgwh_free(p->xgwh);
    p->xgwh = x;
    p->sizes = *sizes;
    p->is_void = false;
    p->must_sweep = false;
    return RC_OK;
}

static uint64_t new_boot_id(void)
{
    uint64_t id = 0;

    while (id == 0) {
        if (getrandom(&id, sizeof(id), 0) != sizeof(id)) {
            abort(); /* Linux gives 8 bytes always, once it is up */
        }
    }
    return id;
}

enum rc p4runtime_start_empty(struct p4runtime *p)
{
    struct phys_sizes sizes = sizes_of(p4rt_switch_info(p->sw));

    p->boot_id = new_boot_id();
    p->highest_term = 0;
    p->is_fresh = true;
    return new_belief(p, &sizes);
}

/* ---- up and down ---- */

void p4runtime_go_down(struct p4runtime *p, const struct err *cause)
{
    bool was_up = p->is_up;

    p4runtime_map_drop(p);
    p4runtime_drop_repairs(p);
    p->is_void |= !TAILQ_EMPTY(&p->active) || !p4rt_writer_is_idle(p->writer) ||
                  (p->read && p->purpose != READ_STATE);
    p4runtime_stop_read(p);
    p4rt_read_cancel(p->totals_read);
    p->totals_read = NULL;
    p4runtime_count_drop(p);
    p4runtime_soft_drop(p);
    p4runtime_top_drop(p);
    p4runtime_drop_probes(p);
    if (p->counters_read) {
        p4rt_read_cancel(p->counters_read);
        p->counters_read = NULL;
        p->counters.end(p->counters.ctx, RC_UNREACHABLE, cause);
    }
    p4rt_writer_drop(p->writer);
    p4runtime_drop_jobs(p);
    p->refusal = (struct p4rt_outcome){ 0 };
    p->is_claiming = false;
    p->is_pushing = false;
    p->is_up = false;
    if (strcmp(p->trouble.msg, cause->msg) != 0) {
        log_warn("switch trouble", "cause=\"%s\" was_up=%d", cause->msg, was_up);
    }
    p->trouble = *cause;
    if (was_up) {
        p->driver.events->down(p->driver.ctx, cause);
    }
}

void p4runtime_come_up(struct p4runtime *p)
{
    struct xgwh_state s = xgwh_state(p4runtime_belief(p));
    struct device_state state = { .applied = p->must_sweep ? 0 : s.applied,
                                  .ready = xgwh_is_ready(p4runtime_belief(p)),
                                  .config_digest =
                                      p->lacks_config ? 0 : s.config_digest };

    xgwh_forget_full(p4runtime_belief(p)); /* it may be another switch */
    if (s.boot_id != 0) {
        p->boot_id = s.boot_id;
    } else if (!p->no_program) {
        p->boot_id = new_boot_id(); /* our rows are gone, so our tables were */
    }
    if (s.term > p->highest_term) {
        p->highest_term = s.term;
    }
    state.boot_id = p->boot_id;
    state.term = p->highest_term;
    p->is_up = true;
    if (p->was_deposed) {
        p->is_fresh = false; /* somebody else goes on writing */
    } else {
        p->trouble = (struct err){ 0 };
    }
    p->driver.events->up(p->driver.ctx, &state);
    p4runtime_kick(p);
}

void p4runtime_bounce(struct p4runtime *p, const struct err *cause)
{
    p4runtime_go_down(p, cause);
    p->is_void = true;
    p4runtime_start_read(p, READ_TO_COME_UP);
}

/* ---- the switch's events ---- */

static void on_found(void *ctx)
{
    struct p4runtime *p = ctx;
    struct phys_sizes sizes = sizes_of(p4rt_switch_info(p->sw));
    unsigned ours = 0;
    struct err err;
    enum rc rc = RC_OK;

    p->is_found = true;
    for (unsigned i = 0; i < p4rt_switch_devices(p->sw); i++) {
        ours += p4rt_switch_program(p->sw, (uint8_t)i) == P4RT_PROGRAM_OURS;
    }
    p->no_program = ours < p4rt_switch_devices(p->sw);
    p->is_half_known = p->no_program && ours > 0;
    if (p->no_program) {
        rc = p4runtime_start_empty(p);
        if (rc == RC_OK) {
            p4runtime_come_up(p);
        }
    } else if (p->xgwh && !p->is_void && !p->must_sweep && !p->was_deposed &&
               memcmp(&sizes, &p->sizes, sizeof(sizes)) == 0) {
        p->is_fresh = false;
        p4runtime_start_read(p, READ_STATE);
    } else {
        if (!p->xgwh || memcmp(&sizes, &p->sizes, sizeof(sizes)) != 0) {
            rc = new_belief(p, &sizes);
        }
        if (rc == RC_OK) {
            p4runtime_start_read(p, READ_TO_COME_UP);
        }
    }
    if (rc != RC_OK) {
        err_set(&err, rc, "switch: no memory for its tables");
        p4rt_switch_redial(p->sw, &err);
    }
}

static void on_lost(void *ctx, const struct err *cause)
{
    struct p4runtime *p = ctx;

    p->is_found = false;
    p4runtime_go_down(p, cause);
}

/* We may write: what the switch is to remember of us comes first. */
static void become_writer(struct p4runtime *p)
{
    struct xgwh_state s = xgwh_state(p4runtime_belief(p));

    s.boot_id = p->boot_id;
    s.term = p4rt_switch_term(p->sw);
    if (s.term > p->highest_term) {
        p->highest_term = s.term;
    }
    p->is_fresh = false;
    if (p4runtime_put_state(p, &s) != RC_OK) {
        p->is_void = true;
    }
    p4rt_writer_barrier(p->writer);
    p4rt_writer_mark(p->writer, ++p->last_mark);
    p4runtime_kick(p);
}

static void on_role(void *ctx, bool is_primary, uint64_t highest)
{
    struct p4runtime *p = ctx;
    bool was_claim = p->is_claiming;
    struct err err;

    p4runtime_settle(p);
    p->is_claiming = false;
    if (is_primary && !p->was_deposed) {
        p->trouble = (struct err){ 0 };
        if (!p->no_program) {
            become_writer(p);
        }
        p4runtime_kick(p);
        return;
    }
    if (is_primary) {
        p->was_deposed = false;
        p->highest_term = p4rt_switch_term(p->sw);
        err_field(&err, RC_CONFLICT, "election_id", "mastership",
                  "switch: primary again: what another controller wrote is read back");
        p4runtime_bounce(p, &err);
        return;
    }
    err_field(&err, RC_DENIED, "election_id", "mastership",
              "switch: another controller is primary, with term %llu, not %llu",
              (unsigned long long)highest, (unsigned long long)p4rt_switch_term(p->sw));
    if (highest <= p4rt_switch_term(p->sw)) {
        p4rt_switch_redial(p->sw, &err); /* nothing that we could name to the session */
        return;
    }
    p->highest_term = highest;
    p->was_deposed = true;
    if (was_claim && p->no_program) {
        p->trouble = err;
        p4runtime_kick(p); /* what waits is told that its term is too low */
    } else {
        p4runtime_bounce(p, &err);
    }
}

static void on_pushed(void *ctx, enum rc rc, const struct err *err)
{
    struct p4runtime *p = ctx;
    struct err cause;

    p->is_pushing = false;
    if (rc != RC_OK) {
        p->trouble = *err;
        log_error("switch takes no program", "cause=\"%s\"", err->msg);
        p4runtime_end_jobs(p, RC_UNREACHABLE, err);
        return;
    }
    p->no_program = false;
    if (p->is_half_known) {
        err_set(&cause, RC_CONFLICT, "switch: one of its devices had lost its program");
        p4runtime_bounce(p, &cause);
        return;
    }
    become_writer(p);
}

static void on_packet(void *ctx, uint8_t device, const struct p4rt_packet *packet)
{
    (void)device;
    p4runtime_take_packet(ctx, packet);
}

static void on_reached(void *ctx, uint64_t mark)
{
    p4runtime_reached(ctx, mark);
}

static void on_moved(void *ctx)
{
    p4runtime_kick(ctx);
}

static void on_stopped(void *ctx, const struct p4rt_outcome *first)
{
    struct p4runtime *p = ctx;

    if (p->is_found) {
        p4runtime_stopped(p, first);
    }
}

/* ---- what the session asks ---- */

static void add_job(struct p4runtime *p, const struct job *what, struct blob *ops)
{
    struct job *j = p->is_up ? calloc(1, sizeof(*j)) : NULL;

    if (!j) {
        if (p->is_up) {
            struct err err;

            /* As with a lost connection: the session starts over. */
            err_set(&err, RC_NO_MEMORY, "switch: no memory for a write");
            p->trouble = err;
            p->is_void = true;
        }
        return; /* `down` is on its way or was told */
    }
    *j = *what;
    j->ops = blob_ref(ops);
    TAILQ_INSERT_TAIL(&p->waiting, j, next);
    p4runtime_kick(p);
}

static void p4_open(struct driver *d)
{
    p4rt_switch_open(of(d)->sw);
}

static void p4_write(struct driver *d, const struct driver_write *w)
{
    struct job j = { .kind = JOB_WRITE,
                     .id = w->id,
                     .term = w->term,
                     .revision = w->revision,
                     .ready = w->ready };

    add_job(of(d), &j, w->ops);
}

static void p4_configure(struct driver *d, uint64_t id, uint64_t term,
                         struct blob *config)
{
    struct job j = { .kind = JOB_CONFIGURE, .id = id, .term = term };

    add_job(of(d), &j, config);
}

static void p4_read(struct driver *d, uint64_t read_id, uint32_t vni)
{
    struct job j = { .kind = JOB_READ, .id = read_id, .vni = vni };

    add_job(of(d), &j, NULL);
}

/* ---- status ---- */

struct driver_p4runtime_status driver_p4runtime_status(const struct driver *d)
{
    const struct p4runtime *p = of(d);

    return (struct driver_p4runtime_status){
        .is_up = p->is_up,
        .is_primary = p4rt_switch_is_primary(p->sw),
        .term = p4rt_switch_term(p->sw),
        .updates = p4rt_writer_updates(p->writer),
        .read_backs = p->read_backs,
        .trouble = p->trouble,
    };
}

/* ---- life ---- */

static void fini(struct p4runtime *p)
{
    p4runtime_map_drop(p);
    p4runtime_map_free(p->map);
    p4runtime_drop_repairs(p);
    p4runtime_drop_jobs(p);
    p4runtime_drop_probes(p);
    p4rt_writer_free(p->writer);
    p4rt_switch_free(p->sw);
    xgwh_free(p->xgwh);
    if (p->kick) {
        event_free(p->kick);
    }
    if (p->probe_turn) {
        event_free(p->probe_turn);
    }
    free(p);
}

static void p4_vni_counters(struct driver *d, uint64_t id, uint32_t from_vni)
{
    p4runtime_count(of(d), id, from_vni);
}

static void p4_close(struct driver *d)
{
    struct p4runtime *p = of(d);

    p4runtime_count_drop(p);
    p4runtime_soft_drop(p);
    p4runtime_top_drop(p);
    p4runtime_stop_read(p);
    p4rt_read_cancel(p->totals_read);
    p4rt_read_cancel(p->counters_read);
    fini(p);
}

static const struct driver_class p4runtime_class = {
    .name = "p4runtime",
    .open = p4_open,
    .write = p4_write,
    .configure = p4_configure,
    .read = p4_read,
    .poll_totals = p4runtime_poll_totals,
    .vni_counters = p4_vni_counters,
    .probe = p4runtime_probe,
    .close = p4_close,
};

enum rc driver_p4runtime_new(struct rpc_loop *loop,
                             const struct driver_p4runtime_options *options,
                             const struct driver_events *events, void *ctx,
                             struct driver **ret, struct err *err)
{
    static const struct p4rt_switch_events switch_events = { on_found, on_lost, on_role,
                                                             on_pushed, on_packet };
    static const struct p4rt_writer_events writer_events = { on_reached, on_stopped,
                                                             on_moved };
    struct p4rt_writer_options writer = { .request_bytes = options->request_bytes,
                                          .window = options->window,
                                          .deadline_ms = options->write_deadline_ms };
    struct p4runtime *p = calloc(1, sizeof(*p));
    enum rc rc;

    if (!p) {
        return err_set(err, RC_NO_MEMORY, "p4runtime driver: no memory");
    }
    p->driver = (struct driver){ &p4runtime_class, events, ctx };
    TAILQ_INIT(&p->waiting);
    TAILQ_INIT(&p->active);
    TAILQ_INIT(&p->probes);
    p->probe_turn = event_new(rpc_loop_base(loop), -1, 0, p4runtime_probe_turn, p);
    p->kick = event_new(rpc_loop_base(loop), -1, 0, on_kick, p);
    p->map = p4runtime_map_new(p, rpc_loop_base(loop));
    rc = p->kick && p->probe_turn && p->map
             ? p4rt_switch_new(loop, &options->sw, &switch_events, p, &p->sw, err)
             : err_set(err, RC_NO_MEMORY, "p4runtime driver: no memory");
    if (rc == RC_OK) {
        p->writer = p4rt_writer_new(p->sw, loop, &writer, &writer_events, p);
        rc = p->writer ? RC_OK
                       : err_set(err, RC_NO_MEMORY, "p4runtime driver: no memory");
    }
    if (rc != RC_OK) {
        fini(p);
        return rc;
    }
    *ret = &p->driver;
    return RC_OK;
}
