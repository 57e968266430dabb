#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "agent/fwd/steer.h"

/* Members by cluster and node; `v4`, `v6`: the address' last byte, 0 for none. */
static struct cluster_member member(const char *cluster, const char *node, uint8_t v4,
                                    uint8_t v6)
{
    struct cluster_member m = { .cluster = "" };

    snprintf(m.cluster, sizeof(m.cluster), "%s", cluster);
    snprintf(m.node, sizeof(m.node), "%s", node);
    if (v4) {
        m.v4 = ip_v4(0xac120000u + v4);
    }
    if (v6) {
        m.v6.family = IP_V6;
        m.v6.b[0] = 0xfd;
        m.v6.b[15] = v6;
    }
    return m;
}

struct rig {
    struct fib *fib;
    struct steer *steer;
    struct fib_reader reader;
};

static void rig_init(struct rig *r)
{
    *r = (struct rig){ .fib = fib_new(NULL), .steer = steer_new() };
    ck_assert(r->fib && r->steer);
    fib_reader_online(r->fib, &r->reader);
}

static void rig_fini(struct rig *r)
{
    steer_free(r->steer);
    fib_free(r->fib);
}

/* How many entries were replaced. */
static unsigned configure(struct rig *r, const struct cluster_member m[],
                          uint32_t count)
{
    struct steer_cluster *old = NULL;
    unsigned n = 0;

    ck_assert_int_eq(steer_configure(r->steer, r->fib, m, count, &old, NULL), RC_OK);
    for (const struct steer_cluster *k = old; k; k = k->next) {
        n++;
    }
    steer_free_old(old);
    fib_reader_quiescent(r->fib, &r->reader);
    fib_reclaim(r->fib, fib_readers_oldest(&r->reader, 1));
    return n;
}

/* The entry of a cluster by its name. */
static const struct steer_cluster *find(struct rig *r, const char *name)
{
    uint32_t number = fib_cluster_hold(r->fib, name);
    const struct steer_cluster *k;

    ck_assert_uint_lt(number, FIB_CLUSTERS_MAX);
    ck_assert_str_eq(fib_cluster_name(r->fib, number), name);
    k = steer_find(r->steer, number);
    fib_cluster_drop(r->fib, number);
    return k;
}

START_TEST(a_cluster_has_the_members_that_were_named)
{
    struct cluster_member m[] = { member("a", "n1", 1, 1), member("a", "n2", 2, 2),
                                  member("b", "n3", 3, 3) };
    const struct steer_cluster *a;
    struct rig r;

    rig_init(&r);
    ck_assert_ptr_null(find(&r, "a"));
    ck_assert_uint_eq(configure(&r, m, 3), 0);
    a = find(&r, "a");
    ck_assert_uint_eq(a->v4.count, 2);
    ck_assert_uint_eq(a->v6.count, 2);
    ck_assert_mem_eq(a->v4.address[0], "\xac\x12\0\1", 4);
    ck_assert_mem_eq(a->v4.address[1], "\xac\x12\0\2", 4);
    ck_assert_mem_eq(a->v6.address[1], m[1].v6.b, 16);
    ck_assert_uint_eq(find(&r, "b")->v4.count, 1);
    ck_assert_ptr_null(find(&r, "c"));
    rig_fini(&r);
}
END_TEST

START_TEST(only_members_with_an_address_of_the_family_are_chosen)
{
    struct cluster_member m[] = { member("a", "n1", 1, 0), member("a", "n2", 2, 2),
                                  member("four", "n3", 3, 0),
                                  member("six", "n4", 0, 4) };
    const struct steer_cluster *a;
    unsigned seen = 0;
    struct rig r;

    rig_init(&r);
    configure(&r, m, 4);
    a = find(&r, "a");
    ck_assert_uint_eq(a->v4.count, 2);
    ck_assert_uint_eq(a->v6.count, 1);
    ck_assert_mem_eq(a->v6.address[0], m[1].v6.b, 16);
    for (uint32_t s = 0; s < MEMBER_TABLE_SLOTS; s++) {
        seen |= 1u << a->v4.table->slot[s] | 4u << a->v6.table->slot[s];
    }
    ck_assert_uint_eq(seen, 7);
    ck_assert_ptr_null(find(&r, "four")->v6.table);
    ck_assert_ptr_nonnull(find(&r, "four")->v4.table);
    ck_assert_ptr_null(find(&r, "six")->v4.table);
    ck_assert_ptr_nonnull(find(&r, "six")->v6.table);
    rig_fini(&r);
}
END_TEST

START_TEST(a_change_touches_its_own_cluster_only)
{
    struct cluster_member m[] = { member("a", "n1", 1, 1), member("b", "n2", 2, 2),
                                  member("b", "n3", 3, 3) };
    const struct steer_cluster *a;
    const struct steer_cluster *b;
    struct rig r;

    rig_init(&r);
    configure(&r, m, 3);
    a = find(&r, "a");
    b = find(&r, "b");
    ck_assert_uint_eq(configure(&r, m, 3), 0);
    ck_assert_ptr_eq(find(&r, "b"), b);
    m[2].v4 = ip_v4(0xac120009);
    ck_assert_uint_eq(configure(&r, m, 3), 1);
    ck_assert_ptr_eq(find(&r, "a"), a);
    ck_assert_mem_eq(find(&r, "b")->v4.address[1], "\xac\x12\0\x9", 4);
    ck_assert_uint_eq(configure(&r, m, 1), 1); /* b has none any more */
    ck_assert_ptr_eq(find(&r, "a"), a);
    ck_assert_ptr_null(find(&r, "b"));
    ck_assert_uint_eq(configure(&r, m, 0), 1);
    ck_assert_ptr_null(find(&r, "a"));
    ck_assert_uint_eq(fib_stats(r.fib).clusters, 0); /* nothing is held */
    rig_fini(&r);
}
END_TEST

/* More names come and go than there are numbers. */
START_TEST(numbers_are_used_again)
{
    struct rig r;

    rig_init(&r);
    for (unsigned i = 0; i < 3 * FIB_CLUSTERS_MAX; i++) {
        char name[16];
        struct cluster_member m;

        snprintf(name, sizeof(name), "c%u", i);
        if (i % 64 == 0) { /* filling a table takes a while */
            m = member(name, "n", 1, 0);
            configure(&r, &m, 1);
            ck_assert_uint_eq(find(&r, name)->v4.count, 1);
        } else {
            ck_assert_ptr_null(find(&r, name));
            fib_reader_quiescent(r.fib, &r.reader);
            fib_reclaim(r.fib, fib_readers_oldest(&r.reader, 1));
        }
    }
    rig_fini(&r);
}
END_TEST

/* A number that a worker may have read keeps its name. */
START_TEST(a_number_waits_for_the_workers)
{
    uint32_t number;
    struct rig r;

    rig_init(&r);
    number = fib_cluster_hold(r.fib, "a");
    fib_cluster_drop(r.fib, number);
    fib_reclaim(r.fib, fib_readers_oldest(&r.reader, 1));
    ck_assert_uint_ne(fib_cluster_hold(r.fib, "b"), number);
    fib_reader_quiescent(r.fib, &r.reader);
    fib_reclaim(r.fib, fib_readers_oldest(&r.reader, 1));
    ck_assert_uint_eq(fib_cluster_hold(r.fib, "c"), number);
    rig_fini(&r);
}
END_TEST

START_TEST(without_a_number_left_nothing_changes)
{
    struct cluster_member m[] = { member("a", "n1", 1, 1), member("z", "n2", 2, 2) };
    struct steer_cluster *old = NULL;
    struct err err = { 0 };
    struct rig r;
    char name[16];

    rig_init(&r);
    configure(&r, m, 1);
    for (unsigned i = 1; i < FIB_CLUSTERS_MAX; i++) {
        snprintf(name, sizeof(name), "held%u", i);
        ck_assert_uint_lt(fib_cluster_hold(r.fib, name), FIB_CLUSTERS_MAX);
    }
    m[0].v4 = ip_v4(0xac120007);
    ck_assert_int_eq(steer_configure(r.steer, r.fib, m, 2, &old, &err), RC_FULL);
    ck_assert_ptr_null(old);
    ck_assert_str_ne(err.msg, "");
    ck_assert_mem_eq(find(&r, "a")->v4.address[0], "\xac\x12\0\1", 4);
    rig_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("steer");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_cluster_has_the_members_that_were_named);
    tcase_add_test(tc, only_members_with_an_address_of_the_family_are_chosen);
    tcase_add_test(tc, a_change_touches_its_own_cluster_only);
    tcase_add_test(tc, numbers_are_used_again);
    tcase_add_test(tc, a_number_waits_for_the_workers);
    tcase_add_test(tc, without_a_number_left_nothing_changes);
    return unit_run("steer", tc);
}
