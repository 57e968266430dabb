/* A load balancer as a device: its own table, its members, and what differs from x86.
 */
#include <stdio.h>
#include <string.h>

#include "agent/gateway/device.h"
#include "tests/unit/unit.h"

static struct device device_new(uint8_t kind, const struct fib_limits *limits)
{
    struct device d;

    ck_assert_int_eq(device_init(&d, kind, limits, 42, NULL), RC_OK);
    return d;
}

static struct entry home(uint32_t vni, const char *cluster)
{
    struct entry e = { .table = TABLE_VNI_CLUSTER, .vni = vni };

    snprintf(e.vni_cluster.cluster, sizeof(e.vni_cluster.cluster), "%s", cluster);
    return e;
}

static enum rc write_entry(struct device *d, enum entry_op op, struct entry e,
                           struct refusals *refused, struct err *err)
{
    struct device_write w = { .term = 1, .revision = 7 };
    struct batch_writer ops;
    struct blob *b;
    enum rc rc;

    batch_writer_init(&ops);
    batch_add_entry(&ops, op, &e);
    b = batch_writer_finish(&ops);
    w.ops = b->data;
    w.len = b->len;
    rc = device_write(d, &w, refused, err);
    blob_unref(b);
    batch_writer_fini(&ops);
    return rc;
}

static void put_home(struct device *d, uint32_t vni, const char *cluster)
{
    struct refusals none = { 0 };

    ck_assert_int_eq(write_entry(d, ENTRY_PUT, home(vni, cluster), &none, NULL), RC_OK);
    ck_assert_uint_eq(none.count, 0);
}

static const char *home_of(const struct device *d, uint32_t vni)
{
    uint32_t cluster = fib_cluster_of(d->fib, vni);

    return cluster == FIB_CLUSTER_NONE ? NULL : fib_cluster_name(d->fib, cluster);
}

static enum rc bind_any(void *arg, const struct device_config *config,
                        struct fwd_port ports[UPLINKS_MAX], struct err *err)
{
    (void)arg;
    (void)config;
    (void)ports;
    (void)err;
    return RC_OK;
}

/* A load balancer with `count` members of one cluster; an x86 node for -1. */
static enum rc configure(struct device *d, int count, struct err *err)
{
    static struct device_config c;
    struct buf packed = BUF_INIT;
    struct device_old old;
    enum rc rc;

    memset(&c, 0, sizeof(c));
    strcpy(c.node, "lb-1");
    strcpy(c.cluster, "lb");
    c.kind = count < 0 ? DEVICE_X86 : DEVICE_LB;
    c.vtep_v4 = ip_v4(0xac100001);
    c.vip_v4 = ip_v4(0xac1f0001);
    for (int i = 0; i < count; i++) {
        struct cluster_member *m = &c.cluster_members[c.cluster_member_count++];

        strcpy(m->cluster, "x86-1");
        snprintf(m->node, sizeof(m->node), "n%d", i);
        m->v4 = ip_v4(0xac120001u + (uint32_t)i);
    }
    ck_assert_int_eq(device_config_check(&c, NULL), RC_OK);
    device_config_pack(&c, &packed);
    rc = device_configure(d, 1, packed.data, packed.len, bind_any, NULL, &old, err);
    device_old_fini(&old);
    buf_fini(&packed);
    return rc;
}

START_TEST(homes_are_put_changed_and_deleted)
{
    struct device d = device_new(DEVICE_LB, NULL);
    struct refusals none = { 0 };

    put_home(&d, 7, "x86-1");
    put_home(&d, 0xffffff, "h-1");
    ck_assert_str_eq(home_of(&d, 7), "x86-1");
    ck_assert_str_eq(home_of(&d, 0xffffff), "h-1");
    ck_assert_ptr_null(home_of(&d, 8));
    put_home(&d, 7, "h-1");
    ck_assert_str_eq(home_of(&d, 7), "h-1");
    ck_assert_int_eq(write_entry(&d, ENTRY_DELETE, home(7, ""), &none, NULL), RC_OK);
    ck_assert_ptr_null(home_of(&d, 7));
    ck_assert_uint_eq(fib_stats(d.fib).clusters, 1); /* h-1, of the other VNI */
    device_fini(&d);
}
END_TEST

START_TEST(a_read_back_tells_the_homes)
{
    struct device d = device_new(DEVICE_LB, NULL);
    struct device_reading r;
    struct batch_writer w;
    struct blob *b;

    put_home(&d, 3, "b");
    put_home(&d, 7, "x86-1");
    device_reading_init(&r, 0, 0);
    batch_writer_init(&w);
    while (device_read(&d, &r, 100, 1u << 16, &w)) {
    }
    b = batch_writer_finish(&w);
    /* PUT, table 6, VNI, one row, its bytes: batch.h and entry.h. */
    ck_assert_uint_eq(b->len, 13 + 2 + 13 + 6);
    ck_assert_mem_eq(b->data, "\1\6\0\0\3\0\0\0\1\0\0\0\2\1b", 15);
    ck_assert_mem_eq(b->data + 15, "\1\6\0\0\7\0\0\0\1\0\0\0\6\5x86-1", 19);
    blob_unref(b);
    batch_writer_fini(&w);
    device_reading_fini(&r);
    device_fini(&d);
}
END_TEST

START_TEST(rows_over_the_limit_are_named_and_the_rest_is_there)
{
    struct fib_limits limits = { .max_vnis = 2 };
    struct device d = device_new(DEVICE_LB, &limits);
    struct refusals refused = { 0 };

    put_home(&d, 1, "a");
    put_home(&d, 2, "a");
    ck_assert_int_eq(write_entry(&d, ENTRY_PUT, home(3, "a"), &refused, NULL), RC_OK);
    ck_assert_uint_eq(refused.count, 1);
    ck_assert_uint_eq(refused.at[0].reason, EXCEPTION_FULL);
    ck_assert_uint_eq(refused.at[0].table, TABLE_VNI_CLUSTER);
    ck_assert_uint_eq(refused.at[0].vni, 3);
    ck_assert_ptr_null(home_of(&d, 3));
    ck_assert_uint_eq(table_set_count(d.records, TABLE_VNI_CLUSTER), 2);
    put_home(&d, 2, "b"); /* a change needs no room */
    ck_assert_str_eq(home_of(&d, 2), "b");
    refusals_fini(&refused);
    device_fini(&d);
}
END_TEST

START_TEST(each_kind_takes_its_own_tables_only)
{
    struct device lb = device_new(DEVICE_LB, NULL);
    struct device x86 = device_new(DEVICE_X86, NULL);
    struct entry vni = { .table = TABLE_VNI, .vni = 7 };
    struct refusals none = { 0 };
    struct err err = { 0 };

    ck_assert_int_eq(write_entry(&lb, ENTRY_PUT, vni, &none, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "device_table");
    err = (struct err){ 0 };
    ck_assert_int_eq(write_entry(&x86, ENTRY_PUT, home(7, "a"), &none, &err),
                     RC_INVALID);
    ck_assert_str_eq(err.rule, "device_table");
    device_fini(&lb);
    device_fini(&x86);
}
END_TEST

START_TEST(a_configuration_for_another_kind_is_refused)
{
    struct device lb = device_new(DEVICE_LB, NULL);
    struct device x86 = device_new(DEVICE_X86, NULL);
    struct err err = { 0 };

    ck_assert_int_eq(configure(&lb, -1, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "device_kind");
    ck_assert_ptr_null(atomic_load(&lb.fwd));
    err = (struct err){ 0 };
    ck_assert_int_eq(configure(&x86, 2, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "device_kind");
    device_fini(&lb);
    device_fini(&x86);
}
END_TEST

START_TEST(members_come_with_the_configuration)
{
    struct device d = device_new(DEVICE_LB, NULL);
    const struct steer_cluster *k;

    put_home(&d, 7, "x86-1");
    ck_assert_ptr_null(steer_find(d.steer, fib_cluster_of(d.fib, 7)));
    ck_assert_int_eq(configure(&d, 3, NULL), RC_OK);
    k = steer_find(d.steer, fib_cluster_of(d.fib, 7));
    ck_assert_uint_eq(k->v4.count, 3);
    ck_assert_int_eq(configure(&d, 2, NULL), RC_OK);
    k = steer_find(d.steer, fib_cluster_of(d.fib, 7));
    ck_assert_uint_eq(k->v4.count, 2);
    ck_assert_int_eq(configure(&d, 0, NULL), RC_OK);
    ck_assert_ptr_null(steer_find(d.steer, fib_cluster_of(d.fib, 7)));
    device_fini(&d);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("device_lb");

    tcase_add_test(tc, homes_are_put_changed_and_deleted);
    tcase_add_test(tc, a_read_back_tells_the_homes);
    tcase_add_test(tc, rows_over_the_limit_are_named_and_the_rest_is_there);
    tcase_add_test(tc, each_kind_takes_its_own_tables_only);
    tcase_add_test(tc, a_configuration_for_another_kind_is_refused);
    tcase_add_test(tc, members_come_with_the_configuration);
    return unit_run("device_lb", tc);
}
