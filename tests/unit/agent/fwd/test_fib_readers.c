/* Workers that read while the writer changes: of every entry they see the old or the
 * new answer, never a hole and never a mixture. */
#include <pthread.h>
#include <time.h>

#include "tests/unit/agent/fwd/region.h"

enum { READERS = 2, DEADLINE_S = 100 };

struct readers;
typedef void ask_fn(struct readers *all, uint64_t *seed);

struct readers {
    struct fib *fib;
    struct fib_reader epoch[READERS];
    ask_fn *ask; /* one burst: asks and checks */
    atomic_bool is_over;
    atomic_uint bursts[READERS];
    atomic_uint wrong;
    atomic_uint next_index;
    pthread_t thread[READERS];
};

static void *reader_main(void *arg)
{
    struct readers *all = arg;
    unsigned me = atomic_fetch_add(&all->next_index, 1);
    uint64_t seed = 1000 + me;

    fib_reader_online(all->fib, &all->epoch[me]);
    while (!atomic_load(&all->is_over)) {
        all->ask(all, &seed);
        if (random_below(&seed, 64) == 0) { /* as if it slept */
            fib_reader_offline(&all->epoch[me]);
            fib_reader_online(all->fib, &all->epoch[me]);
        }
        fib_reader_quiescent(all->fib, &all->epoch[me]);
        atomic_fetch_add(&all->bursts[me], 1);
    }
    fib_reader_offline(&all->epoch[me]);
    return NULL;
}

static void readers_start(struct readers *all, struct fib *fib, ask_fn *ask)
{
    memset(all, 0, sizeof *all);
    all->fib = fib;
    all->ask = ask;
    for (unsigned i = 0; i < READERS; i++) {
        atomic_init(&all->epoch[i].epoch, UINT64_MAX);
    }
    for (unsigned i = 0; i < READERS; i++) {
        ck_assert_int_eq(pthread_create(&all->thread[i], NULL, reader_main, all), 0);
    }
}

static bool all_read(struct readers *all, unsigned bursts)
{
    for (unsigned i = 0; i < READERS; i++) {
        if (atomic_load(&all->bursts[i]) < bursts) {
            return false;
        }
    }
    return true;
}

static void readers_stop(struct readers *all)
{
    atomic_store(&all->is_over, true);
    for (unsigned i = 0; i < READERS; i++) {
        pthread_join(all->thread[i], NULL);
    }
    ck_assert_uint_eq(atomic_load(&all->wrong), 0);
}

/* The writer goes on for `rounds` and until every reader had enough bursts beside it.
 */
typedef void change_fn(struct region *r, uint64_t *seed, unsigned round);

static void run(struct region *r, ask_fn *ask, change_fn *change, unsigned rounds,
                unsigned bursts)
{
    struct readers *all = aligned_alloc(64, sizeof *all);
    time_t end = time(NULL) + DEADLINE_S;
    uint64_t seed = 5;

    ck_assert_ptr_nonnull(all);
    readers_start(all, r->fib, ask);
    for (unsigned round = 0; round < rounds || !all_read(all, bursts); round++) {
        change(r, &seed, round);
        region_commit(r, fib_readers_oldest(all->epoch, READERS));
        ck_assert_int_eq(r->rc, RC_OK);
        ck_assert_int_lt(time(NULL), end);
    }
    readers_stop(all);
    fib_reclaim(r->fib, UINT64_MAX);
    ck_assert_uint_eq(fib_stats(r->fib).retired_bytes, 0);
    free(all);
}

static void wrong(struct readers *all)
{
    atomic_fetch_add(&all->wrong, 1);
}

/* 32 queries, one way or the other. */
static void resolve(struct readers *all, uint64_t *seed, struct fib_query q[32])
{
    if (random_below(seed, 2)) {
        fib_resolve_burst(all->fib, q, 32);
    } else {
        resolve_by_batch(all->fib, q, 32, NULL);
    }
}

/* ---- VM-NC: permanent entries among churning ones ---- */

enum { PERMANENT = 600, CHURN = 4000, VM_VNI = 42 };

/* Every third VM is IPv6. */
static struct ip vm_address(uint32_t n)
{
    uint8_t b[16] = {
        0xfd, [13] = (uint8_t)(n >> 16), [14] = (uint8_t)(n >> 8), [15] = (uint8_t)n
    };

    return n % 3 ? ip_v4(0x0a000000u + n) : ip_v6(b);
}

/* The MAC and the NC carry the same number, so a mixture shows. */
static struct entry vm_numbered(uint32_t n, uint32_t version)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = VM_VNI };
    uint32_t mark = n * 16 + version;
    uint8_t nc6[16] = { 0x20,
                        1,
                        [12] = (uint8_t)(mark >> 24),
                        [13] = (uint8_t)(mark >> 16),
                        [14] = (uint8_t)(mark >> 8),
                        [15] = (uint8_t)mark };

    e.vm_nc.vm = vm_address(n);
    if (version % 3 == 0) { /* inline in the table */
        e.vm_nc.nc = ip_v4(0xac000000u + mark);
        return e;
    }
    e.vm_nc.nc = ip_v6(nc6);
    e.vm_nc.has_mac = true;
    e.vm_nc.mac[0] = 2;
    e.vm_nc.mac[2] = (uint8_t)(mark >> 24);
    e.vm_nc.mac[3] = (uint8_t)(mark >> 16);
    e.vm_nc.mac[4] = (uint8_t)(mark >> 8);
    e.vm_nc.mac[5] = (uint8_t)mark;
    return e;
}

static void ask_permanent(struct readers *all, uint64_t *seed)
{
    struct fib_query q[32];
    uint32_t n[32];

    for (unsigned i = 0; i < 32; i++) {
        struct ip ip;

        n[i] = random_below(seed, PERMANENT);
        ip = vm_address(n[i]);
        q[i] = query_of(VM_VNI, &ip);
    }
    resolve(all, seed, q);
    for (unsigned i = 0; i < 32; i++) {
        uint32_t mark;

        if (q[i].kind != FIB_LOCAL) {
            wrong(all);
            continue;
        }
        if (q[i].addr_family == IP_V4) {
            mark = (uint32_t)(q[i].addr[1] << 16 | q[i].addr[2] << 8 | q[i].addr[3]);
        } else {
            mark = (uint32_t)(q[i].addr[13] << 16 | q[i].addr[14] << 8 | q[i].addr[15]);
            if (!q[i].has_mac || memcmp(q[i].mac + 2, q[i].addr + 12, 4) != 0) {
                wrong(all);
            }
        }
        /* Another VM's number, or another version's family? */
        if (mark / 16 != n[i] || (mark % 16 % 3 == 0) != (q[i].addr_family == IP_V4)) {
            wrong(all);
        }
    }
}

static void change_vms(struct region *r, uint64_t *seed, unsigned round)
{
    bool is_growing = round / 40 % 2 == 0; /* segments grow and split, then shrink */

    for (unsigned i = 0; i < 100; i++) {
        struct entry e = vm_numbered(PERMANENT + random_below(seed, CHURN), 0);
        bool is_put = random_below(seed, 4) ? is_growing : !is_growing;

        region_queue(r, is_put ? ENTRY_PUT : ENTRY_DELETE, &e);
    }
    for (unsigned i = 0; i < 20; i++) {
        struct entry e =
            vm_numbered(random_below(seed, PERMANENT), random_below(seed, 16));

        region_queue(r, ENTRY_PUT, &e);
    }
}

START_TEST(a_vm_that_stays_is_found_while_others_move_around_it)
{
    struct region r;
    struct entry vni = vni_entry(VM_VNI, 0);
    struct entry r4 = route_entry(VM_VNI, "10.0.0.0/8", SCOPE_LOCAL, 0, NULL);
    struct entry r6 = route_entry(VM_VNI, "fd00::/8", SCOPE_LOCAL, 0, NULL);

    region_init(&r, NULL);
    region_queue(&r, ENTRY_PUT, &vni);
    region_queue(&r, ENTRY_PUT, &r4);
    region_queue(&r, ENTRY_PUT, &r6);
    for (uint32_t n = 0; n < PERMANENT; n++) {
        struct entry e = vm_numbered(n, n % 16);

        region_queue(&r, ENTRY_PUT, &e);
    }
    region_commit(&r, UINT64_MAX);
    run(&r, ask_permanent, change_vms, 500, 1000);
    region_audit(&r);
    region_fini(&r);
}
END_TEST

/* ---- routes: a VNI goes between line, tree and wide tree ---- */

enum { ROUTE_VNI = 7 };

static void ask_routes(struct readers *all, uint64_t *seed)
{
    static const char *const text[] = { "10.1.2.3", "10.9.9.9", "fd00:1::5",
                                        "fd99::1" };
    struct fib_query q[32];

    for (unsigned i = 0; i < 32; i++) {
        struct ip ip = ip_of(text[i % 4]);

        ip.b[3] = (uint8_t)(ip.family == IP_V4 ? random_below(seed, 256) : ip.b[3]);
        q[i] = query_of(ROUTE_VNI, &ip);
    }
    resolve(all, seed, q);
    for (unsigned i = 0; i < 32; i++) {
        uint32_t first = i % 4 == 0 || i % 4 == 2 ? 1000 : 2000;

        /* One of the two versions of the prefix that stays, never its cover. */
        if (q[i].kind != FIB_TUNNEL || q[i].out_vni < first ||
            q[i].out_vni > first + 1 || q[i].addr[3] != (q[i].out_vni & 1)) {
            wrong(all);
        }
    }
}

static struct entry tunnel_route(const char *prefix, uint32_t vni)
{
    return route_entry(ROUTE_VNI, prefix, SCOPE_IDC, vni,
                       vni & 1 ? "172.16.0.1" : "172.16.0.0");
}

static void change_routes(struct region *r, uint64_t *seed, unsigned round)
{
    static const char *const staying[] = { "10.1.2.0/24", "10.0.0.0/8", "fd00:1::/48",
                                           "fd00::/8" };
    unsigned many = round % 3 == 0 ? 0 : round % 3 == 1 ? 12 : 200;
    char prefix[64];

    for (unsigned i = 0; i < 200; i++) {
        struct entry e;

        snprintf(prefix, sizeof prefix, "10.%u.%u.0/24", 16 + i % 16, i);
        e = route_entry(ROUTE_VNI, prefix, SCOPE_INTERNET, 0, NULL);
        region_queue(r, i < many ? ENTRY_PUT : ENTRY_DELETE, &e);
        snprintf(prefix, sizeof prefix, "fd00:7:%x::/%u", i, i == 150 ? 80 : 64);
        e = route_entry(ROUTE_VNI, prefix, SCOPE_INTERNET, 0, NULL);
        region_queue(r, i < many ? ENTRY_PUT : ENTRY_DELETE, &e);
    }
    for (unsigned i = 0; i < 4; i++) {
        struct entry e =
            tunnel_route(staying[i], (i % 2 ? 2000 : 1000) + random_below(seed, 2));

        region_queue(r, ENTRY_PUT, &e);
    }
}

START_TEST(a_route_that_stays_answers_while_its_vni_is_rebuilt)
{
    struct region r;
    struct entry vni = vni_entry(ROUTE_VNI, 0);
    uint64_t seed = 1;

    region_init(&r, NULL);
    region_queue(&r, ENTRY_PUT, &vni);
    change_routes(&r, &seed, 0);
    region_commit(&r, UINT64_MAX);
    run(&r, ask_routes, change_routes, 150, 1000);
    region_audit(&r);
    region_fini(&r);
}
END_TEST

/* ---- several entries that change together ---- */

static void ask_moving(struct readers *all, uint64_t *seed)
{
    struct fib_query q[32];

    for (unsigned i = 0; i < 32; i++) {
        struct ip ip = ip_of(i % 2 ? "10.0.0.1" : "10.1.0.1");

        q[i] = query_of(1 + random_below(seed, 2), &ip);
    }
    resolve(all, seed, q);
    for (unsigned i = 0; i < 32; i++) {
        if (q[i].kind != FIB_LOCAL && q[i].kind != FIB_TUNNEL) {
            wrong(all);
        }
    }
}

/* The VM and its route go together and a tunnel takes over, and back; a peer's VNI
 * loses its routes in the batch that turns the peering away from it. */
static void change_moving(struct region *r, uint64_t *seed, unsigned round)
{
    bool is_here = round % 2 == 0;
    enum entry_op there = is_here ? ENTRY_PUT : ENTRY_DELETE;
    struct entry local = route_entry(2, "10.0.0.0/24", SCOPE_LOCAL, 0, NULL);
    struct entry vm = vm_nc_entry(2, "10.0.0.1", "172.16.0.1", NULL);
    struct entry vm2 = vm_nc_entry(3, "10.1.0.1", "172.16.0.2", NULL);
    struct entry local3 = route_entry(3, "10.1.0.0/24", SCOPE_LOCAL, 0, NULL);
    struct entry peer = is_here
                            ? route_entry(2, "10.1.0.0/24", SCOPE_PEER, 3, NULL)
                            : route_entry(2, "10.1.0.0/24", SCOPE_IDC, 9, "172.16.0.8");

    (void)seed;
    region_queue(r, there, &local);
    region_queue(r, there, &vm);
    region_queue(r, there, &vm2);
    region_queue(r, there, &local3);
    region_queue(r, ENTRY_PUT, &peer);
}

START_TEST(entries_that_change_together_never_open_a_hole)
{
    struct region r;
    struct entry cover = route_entry(2, "10.0.0.0/8", SCOPE_IDC, 9, "172.16.0.9");
    struct entry to2 = route_entry(1, "10.0.0.0/8", SCOPE_PEER, 2, NULL);
    uint64_t seed = 1;

    region_init(&r, NULL);
    for (uint32_t v = 1; v <= 3; v++) {
        struct entry vni = vni_entry(v, 0);

        region_queue(&r, ENTRY_PUT, &vni);
    }
    region_queue(&r, ENTRY_PUT, &cover);
    region_queue(&r, ENTRY_PUT, &to2);
    change_moving(&r, &seed, 0);
    region_commit(&r, UINT64_MAX);
    run(&r, ask_moving, change_moving, 5000, 1000);
    region_fini(&r);
}
END_TEST

/* ---- reclamation ---- */

START_TEST(memory_waits_for_the_slowest_reader)
{
    struct region r;
    struct fib_reader slow = FIB_READER_INIT;
    struct entry vni = vni_entry(1, 0);

    region_init(&r, NULL);
    fib_reader_online(r.fib, &slow);
    region_queue(&r, ENTRY_PUT, &vni);
    for (unsigned i = 0; i < 10; i++) {
        struct entry e = route_entry(1, "10.0.0.0/8", SCOPE_IDC, 1 + i, "172.16.0.1");

        region_queue(&r, ENTRY_PUT, &e);
        region_commit(&r, fib_readers_oldest(&slow, 1));
    }
    ck_assert_uint_gt(fib_stats(r.fib).retired_bytes, 9 * 64);
    fib_reader_quiescent(r.fib, &slow);
    fib_reclaim(r.fib, fib_readers_oldest(&slow, 1));
    ck_assert_uint_eq(fib_stats(r.fib).retired_bytes, 0);
    fib_reader_offline(&slow);
    ck_assert_uint_eq(fib_readers_oldest(&slow, 1), UINT64_MAX);
    region_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fib_readers");

    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, a_vm_that_stays_is_found_while_others_move_around_it);
    tcase_add_test(tc, a_route_that_stays_answers_while_its_vni_is_rebuilt);
    tcase_add_test(tc, entries_that_change_together_never_open_a_hole);
    tcase_add_test(tc, memory_waits_for_the_slowest_reader);
    return unit_run("fib_readers", tc);
}
