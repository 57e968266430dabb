/* vni_cluster: one word a VNI, and the clusters' names behind small numbers. */
#include "agent/fwd/fib_impl.h"

enum { RETIRE_A_CLUSTER = 33 }; /* two slots of exact.c, a segment, and a name */

/* Key in the low bits as everywhere; above them the number plus one, for no slot in use
 * is 0. */
enum { CLUSTER_SHIFT = 25 };
_Static_assert((EXACT_VNI_KEY + 1) == UINT64_C(1) << CLUSTER_SHIFT, "beside the key");

uint32_t cluster_in(uint64_t slot)
{
    return (uint32_t)(slot >> CLUSTER_SHIFT) - 1;
}

static bool name_parse(const uint8_t *name, size_t len, struct cluster_value *ret)
{
    if (len < 1 || len > CLUSTER_NAME_MAX) {
        return false;
    }
    memset(ret, 0, sizeof(*ret));
    memcpy(ret->name, name, len);
    return true;
}

/* The last reference's number waits for the workers; room was reserved. */
static void cluster_release(struct fib *f, uint32_t cluster)
{
    if (pool_release(&f->cluster_names, cluster)) {
        retire_add(&f->retire, RETIRED_CLUSTER, cluster, 0);
    }
}

uint32_t fib_cluster_hold(struct fib *f, const char *name)
{
    struct cluster_value v;

    if (!name_parse((const uint8_t *)name, strlen(name), &v)) {
        return FIB_CLUSTER_NONE;
    }
    return pool_acquire(&f->cluster_names, &v);
}

void fib_cluster_drop(struct fib *f, uint32_t cluster)
{
    if (!retire_reserve(&f->retire, 1)) {
        return; /* the number stays taken, and is right */
    }
    cluster_release(f, cluster);
    atomic_fetch_add(&f->retire.epoch, 1);
}

const char *fib_cluster_name(const struct fib *f, uint32_t cluster)
{
    const struct cluster_value *v = pool_value(&f->cluster_names, cluster);

    return v->name;
}

static uint64_t hash_of(const struct fib *f, uint32_t vni)
{
    return exact_hash1(&f->clusters, vni);
}

void fib_cluster_ask(const struct fib *f, uint32_t vni)
{
    const struct exact_dir *dir =
        atomic_load_explicit(&f->clusters.dir, memory_order_acquire);

    __builtin_prefetch(exact_home_in(&f->clusters, dir, hash_of(f, vni)));
}

uint32_t fib_cluster_of(const struct fib *f, uint32_t vni)
{
    struct exact_entry key = { .w0 = vni };
    uint64_t slot;

    return vni && exact_find(&f->clusters, &key, &slot) ? cluster_in(slot)
                                                        : FIB_CLUSTER_NONE;
}

/* ---- the writer's pass ---- */

static enum rc cluster_put(struct fib *f, uint32_t vni, const struct row *row)
{
    struct cluster_value v;
    struct exact_entry entry = { .w0 = vni };
    bool existed;
    uint64_t old;
    uint32_t cluster;
    enum rc rc;

    if (row->value_len < 2 || row->value[0] != row->value_len - 1 ||
        !name_parse(row->value + 1, row->value[0], &v)) {
        return RC_INVALID;
    }
    if (f->clusters.count >= f->limits.max_vnis &&
        fib_cluster_of(f, vni) == FIB_CLUSTER_NONE) {
        return RC_FULL;
    }
    if (!retire_reserve(&f->retire, RETIRE_A_CLUSTER)) {
        return RC_NO_MEMORY;
    }
    cluster = pool_acquire(&f->cluster_names, &v);
    if (cluster == POOL_NONE) {
        return f->cluster_names.live == FIB_CLUSTERS_MAX ? RC_FULL : RC_NO_MEMORY;
    }
    entry.w0 |= (cluster + UINT64_C(1)) << CLUSTER_SHIFT;
    rc = exact_put(&f->clusters, &entry, &existed, &old);
    if (rc) {
        cluster_release(f, cluster);
    } else if (existed) {
        cluster_release(f, cluster_in(old));
    }
    return rc;
}

static enum rc cluster_delete(struct fib *f, uint32_t vni)
{
    struct exact_entry key = { .w0 = vni };
    uint64_t old;

    if (!retire_reserve(&f->retire, RETIRE_A_CLUSTER)) {
        return RC_NO_MEMORY;
    }
    if (exact_del(&f->clusters, &key, &old)) {
        cluster_release(f, cluster_in(old));
    }
    return RC_OK;
}

void cluster_pass(struct fib *f, const struct table_change *c, struct refusal *refused)
{
    struct row_cursor before = row_cursor_of(c->before, TABLE_VNI_CLUSTER);
    struct row_cursor after = row_cursor_of(c->after, TABLE_VNI_CLUSTER);
    bool puts = row_cursor_next(&after); /* at most one row a VNI */
    enum rc rc = RC_OK;

    if (puts) {
        rc = cluster_put(f, c->vni, &after.row);
    } else if (row_cursor_next(&before)) {
        rc = cluster_delete(f, c->vni);
    }
    if (rc) {
        refuse(refused, c, puts ? &after.row : &before.row,
               puts ? BATCH_PUT : BATCH_DELETE, rc);
    }
}
