#include "agent/driver/driver_memory.h"

#include "tests/unit/agent/driver/driver_suite.h"

struct memory_rig {
    struct driver_rig base;
    struct memory_device *device;
    uint64_t now_ms;
};

static struct driver *rig_make(struct driver_rig *rig,
                               const struct driver_events *events, void *ctx)
{
    return driver_memory_new(((struct memory_rig *)rig)->device, events, ctx);
}

/* Jumps from wake-up to wake-up. */
static bool rig_pump(struct driver_rig *base, bool (*is_done)(void *arg), void *arg)
{
    struct memory_rig *rig = (struct memory_rig *)base;

    for (int i = 0; i < 1000 && !is_done(arg); i++) {
        uint64_t at = memory_device_next_wake(rig->device);

        if (at == UINT64_MAX) {
            return false;
        }
        rig->now_ms = at > rig->now_ms ? at : rig->now_ms;
        memory_device_step(rig->device, rig->now_ms);
    }
    return is_done(arg);
}

static void rig_restart(struct driver_rig *rig)
{
    memory_device_crash(((struct memory_rig *)rig)->device);
    memory_device_start(((struct memory_rig *)rig)->device);
}

static void rig_free(struct driver_rig *rig)
{
    memory_device_free(((struct memory_rig *)rig)->device);
    free(rig);
}

static struct driver_rig *rig_new(void)
{
    struct memory_rig *rig = calloc(1, sizeof(*rig));

    rig->base = (struct driver_rig){ .make = rig_make,
                                     .pump = rig_pump,
                                     .restart_device = rig_restart,
                                     .free = rig_free,
                                     .takes_probes = true };
    rig->device = memory_device_new(
        &(struct memory_device_config){ .boot_id = 1, .work_ms = 2, .answer_ms = 3 });
    return &rig->base;
}

/* ---- what is this driver's own: the hooks ---- */

struct heard {
    unsigned ups, downs, dones;
    struct driver_done last;
    struct exception exceptions[8];
};

static void heard_up(void *ctx, const struct device_state *state)
{
    (void)state;
    ((struct heard *)ctx)->ups++;
}

static void heard_down(void *ctx, const struct err *cause)
{
    (void)cause;
    ((struct heard *)ctx)->downs++;
}

static void heard_done(void *ctx, const struct driver_done *done)
{
    struct heard *h = ctx;

    h->dones++;
    h->last = *done;
    for (uint32_t i = 0; i < done->exception_count && i < 8; i++) {
        h->exceptions[i] = done->exceptions[i];
    }
}

static const struct driver_events heard_events = { .up = heard_up,
                                                   .down = heard_down,
                                                   .done = heard_done };

static void run(struct memory_device *d)
{
    for (uint64_t at; (at = memory_device_next_wake(d)) != UINT64_MAX;) {
        memory_device_step(d, at);
    }
}

static struct blob *vms(enum entry_op op, uint32_t first, uint32_t count, uint32_t nc)
{
    struct batch_writer w;
    struct blob *b;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < count; i++) {
        struct entry e = { .table = TABLE_VM_NC, .vni = 5 };

        e.vm_nc.vm = ip_v4(0x0a000000 + first + i);
        e.vm_nc.nc = ip_v4(nc);
        batch_add_entry(&w, op, &e);
    }
    b = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return b;
}

static void write_vms(struct driver *v, enum entry_op op, uint32_t first,
                      uint32_t count, uint32_t nc)
{
    struct driver_write w = { .id = 1, .term = 1, .ops = vms(op, first, count, nc) };

    v->cls->write(v, &w);
    blob_unref(w.ops);
}

START_TEST(a_full_table_refuses_what_does_not_fit_and_takes_the_rest)
{
    struct memory_device_config config = { .boot_id = 1 };
    struct heard h = { 0 };
    struct memory_device *d;
    struct driver *v;

    config.capacity[TABLE_VM_NC] = 3;
    d = memory_device_new(&config);
    v = driver_memory_new(d, &heard_events, &h);
    v->cls->open(v);
    run(d);
    write_vms(v, ENTRY_PUT, 1, 5, 1 << 24);
    run(d);
    ck_assert_int_eq(h.last.rc, RC_OK);
    ck_assert_uint_eq(h.last.exception_count, 2);
    ck_assert_int_eq(h.exceptions[0].reason, EXCEPTION_FULL);
    ck_assert_uint_eq(h.exceptions[0].vni, 5);
    ck_assert_mem_eq(h.exceptions[0].key, "\x04\x0a\x00\x00\x04", 5);
    ck_assert_mem_eq(h.exceptions[1].key, "\x04\x0a\x00\x00\x05", 5);
    write_vms(v, ENTRY_PUT, 1, 3, 2 << 24); /* updates fit in a full table */
    run(d);
    ck_assert_uint_eq(h.last.exception_count, 0);
    ck_assert_uint_eq(table_set_count(memory_device_tables(d), TABLE_VM_NC), 3);
    v->cls->close(v);
    memory_device_free(d);
}
END_TEST

START_TEST(a_second_writer_ousts_the_first_who_hears_of_it_once)
{
    struct memory_device *d =
        memory_device_new(&(struct memory_device_config){ .boot_id = 1 });
    struct heard a = { 0 };
    struct heard b = { 0 };
    struct driver *first = driver_memory_new(d, &heard_events, &a);
    struct driver *second = driver_memory_new(d, &heard_events, &b);

    first->cls->open(first);
    run(d);
    second->cls->open(second);
    write_vms(first, ENTRY_PUT, 1, 1, 1 << 24);
    run(d);
    ck_assert_uint_eq(a.ups, 1);
    ck_assert_uint_eq(a.downs, 1);
    ck_assert_uint_eq(a.dones, 0);
    ck_assert_uint_eq(b.ups, 1);
    ck_assert_uint_eq(table_set_vni_count(memory_device_tables(d)), 0);
    first->cls->close(first);
    second->cls->close(second);
    memory_device_free(d);
}
END_TEST

START_TEST(each_corruption_changes_the_digest_behind_everybodys_back)
{
    for (int kind = 0; kind < CORRUPT_KINDS; kind++) {
        for (uint64_t pick = 0; pick < 50; pick++) {
            struct memory_device *d =
                memory_device_new(&(struct memory_device_config){ .boot_id = 1 });
            struct heard h = { 0 };
            struct driver *v = driver_memory_new(d, &heard_events, &h);
            struct tree_node root = { 0 };
            struct digest before;
            struct digest after;

            v->cls->open(v);
            run(d);
            write_vms(v, ENTRY_PUT, 10, 9, 1 << 24);
            run(d);
            before = table_set_digest(memory_device_tables(d), TABLE_VM_NC, root);
            ck_assert_uint_eq(before.count, 9);
            ck_assert(
                memory_device_corrupt(d, (enum memory_corruption)kind, pick * 37));
            if (kind >= CORRUPT_KEEP) {
                write_vms(v, ENTRY_DELETE, 10, 9, 0);
                run(d);
                ck_assert_int_eq(h.last.rc, RC_OK);
            }
            after = table_set_digest(memory_device_tables(d), TABLE_VM_NC, root);
            ck_assert(before.sum != after.sum || kind == CORRUPT_LOSE);
            if (kind >= CORRUPT_KEEP) { /* rows that should be gone */
                ck_assert_uint_eq(after.count, kind == CORRUPT_KEEP   ? 1
                                               : kind == CORRUPT_LOSE ? 9
                                                                      : 5);
                write_vms(v, ENTRY_DELETE, 10, 9, 0); /* once, and no more */
                run(d);
                ck_assert_uint_eq(table_set_count(memory_device_tables(d), TABLE_VM_NC),
                                  0);
            }
            v->cls->close(v);
            memory_device_free(d);
        }
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("driver_memory");

    driver_suite(tc, rig_new);
    tcase_add_test(tc, a_full_table_refuses_what_does_not_fit_and_takes_the_rest);
    tcase_add_test(tc, a_second_writer_ousts_the_first_who_hears_of_it_once);
    tcase_add_test(tc, each_corruption_changes_the_digest_behind_everybodys_back);
    return unit_run("driver_memory", tc);
}
