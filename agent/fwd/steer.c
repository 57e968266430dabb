#include "agent/fwd/steer.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(CLUSTER_SIDE_MAX <= MEMBER_TABLE_MEMBERS, "every member has a place");

struct steer *steer_new(void)
{
    return calloc(1, sizeof(struct steer));
}

static void cluster_free(struct steer_cluster *k)
{
    if (k->v6.table != k->v4.table) {
        free((void *)k->v6.table);
    }
    free((void *)k->v4.table);
    free(k);
}

void steer_free_old(struct steer_cluster *old)
{
    while (old) {
        struct steer_cluster *next = old->next;

        cluster_free(old);
        old = next;
    }
}

/* The writer's own view: it may free what it finds. */
static struct steer_cluster *entry_at(struct steer *s, uint32_t number)
{
    return (struct steer_cluster *)atomic_load_explicit(&s->at[number],
                                                        memory_order_relaxed);
}

void steer_free(struct steer *s)
{
    if (!s) {
        return;
    }
    for (uint32_t i = 0; i < FIB_CLUSTERS_MAX; i++) {
        struct steer_cluster *k = entry_at(s, i);

        if (k) {
            cluster_free(k);
        }
    }
    free(s);
}

/* ---- making one cluster's entry ---- */

/* The members that have an address of this family. */
static bool choose(struct steer_choice *choice, const struct cluster_member *members,
                   uint32_t count, bool is_v6)
{
    uint64_t seeds[MEMBER_TABLE_MEMBERS];
    struct member_table *table;

    for (uint32_t i = 0; i < count; i++) {
        const struct ip *ip = is_v6 ? &members[i].v6 : &members[i].v4;

        if (ip->family != IP_NONE) {
            memcpy(choice->address[choice->count], ip->b, ip_size(ip));
            seeds[choice->count++] = member_seed(members[i].node);
        }
    }
    if (choice->count == 0) {
        return true;
    }
    table = aligned_alloc(_Alignof(struct member_table), sizeof(*table));
    if (!table) {
        return false;
    }
    member_table_fill(table, seeds, choice->count);
    choice->table = table;
    return true;
}

static struct steer_cluster *cluster_new(const struct cluster_member *members,
                                         uint32_t count)
{
    struct steer_cluster *k = calloc(1, sizeof(*k));
    bool is_made;

    if (!k) {
        return NULL;
    }
    k->member_count = count;
    memcpy(k->members, members, count * sizeof(*members));
    is_made = choose(&k->v4, members, count, false);
    if (is_made && k->v4.count == count) {
        /* All have IPv4: if all have IPv6 too, both choices are the same. */
        for (uint32_t i = 0; i < count && members[i].v6.family != IP_NONE; i++) {
            memcpy(k->v6.address[k->v6.count++], members[i].v6.b, 16);
        }
        if (k->v6.count == count) {
            k->v6.table = k->v4.table;
            return k;
        }
        k->v6.count = 0;
    }
    if (!is_made || !choose(&k->v6, members, count, true)) {
        cluster_free(k);
        return NULL;
    }
    return k;
}

static bool same_member(const struct cluster_member *a, const struct cluster_member *b)
{
    return strcmp(a->node, b->node) == 0 && ip_compare(&a->v4, &b->v4) == 0 &&
           ip_compare(&a->v6, &b->v6) == 0;
}

static bool is_of(const struct steer_cluster *k, const struct cluster_member *members,
                  uint32_t count)
{
    bool same = k && k->member_count == count;

    for (uint32_t i = 0; same && i < count; i++) {
        same = same_member(&k->members[i], &members[i]);
    }
    return same;
}

/* ---- the whole ---- */

/* What a configuration will make of the entries. */
struct plan {
    struct steer_cluster *made; /* list of new ones */
    bool stays[FIB_CLUSTERS_MAX];
};

/* Members from `first` on that are of one cluster. */
static uint32_t run_length(const struct cluster_member members[], uint32_t count,
                           uint32_t first)
{
    uint32_t n = 1;

    while (first + n < count &&
           strcmp(members[first + n].cluster, members[first].cluster) == 0) {
        n++;
    }
    return n;
}

/* Makes what is not there yet.  The number of each new entry is held once more. */
static enum rc plan_cluster(const struct steer *s, struct fib *f, struct plan *plan,
                            const struct cluster_member *members, uint32_t count)
{
    uint32_t number = fib_cluster_hold(f, members->cluster);
    const struct steer_cluster *have;
    struct steer_cluster *k;

    if (number == FIB_CLUSTER_NONE) {
        return RC_FULL;
    }
    have = steer_find(s, number);
    plan->stays[number] = true;
    if (is_of(have, members, count)) {
        fib_cluster_drop(f, number); /* its entry holds it already */
        return RC_OK;
    }
    k = cluster_new(members, count);
    if (!k) {
        fib_cluster_drop(f, number);
        return RC_NO_MEMORY;
    }
    k->number = number;
    k->next = plan->made;
    plan->made = k;
    return RC_OK;
}

static void plan_undo(struct fib *f, struct plan *plan)
{
    for (const struct steer_cluster *k = plan->made; k; k = k->next) {
        fib_cluster_drop(f, k->number);
    }
    steer_free_old(plan->made);
}

/* Puts `k` (null: none) in place of what stands there, which goes to the old ones with
 * its hold on the number. */
static void swap(struct steer *s, struct fib *f, uint32_t number,
                 struct steer_cluster *k, struct steer_cluster **io_old)
{
    struct steer_cluster *old = entry_at(s, number);

    atomic_store_explicit(&s->at[number], k, memory_order_release);
    if (old) {
        old->next = *io_old;
        *io_old = old;
        fib_cluster_drop(f, number);
    }
}

static void carry_out(struct steer *s, struct fib *f, struct plan *plan,
                      struct steer_cluster **io_old)
{
    while (plan->made) {
        struct steer_cluster *k = plan->made;

        plan->made = k->next;
        k->next = NULL;
        swap(s, f, k->number, k, io_old);
    }
    for (uint32_t i = 0; i < FIB_CLUSTERS_MAX; i++) {
        if (!plan->stays[i]) {
            swap(s, f, i, NULL, io_old);
        }
    }
}

enum rc steer_configure(struct steer *s, struct fib *f,
                        const struct cluster_member members[], uint32_t count,
                        struct steer_cluster **io_old, struct err *err)
{
    struct plan plan = { .made = NULL };
    enum rc rc = RC_OK;

    for (uint32_t i = 0; i < count && rc == RC_OK;) {
        uint32_t n = run_length(members, count, i);

        rc = plan_cluster(s, f, &plan, &members[i], n);
        i += n;
    }
    if (rc != RC_OK) {
        plan_undo(f, &plan);
        return err_set(err, rc, "cluster members: %s",
                       rc == RC_FULL ? "too many clusters" : "no memory");
    }
    carry_out(s, f, &plan, io_old);
    return RC_OK;
}
