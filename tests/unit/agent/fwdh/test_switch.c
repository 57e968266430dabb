/* The tables of the software switch against a list that is searched from front to back:
 * random inserts, changes and deletes, every answer compared. */
#include "tests/unit/unit.h"

#include "agent/fwdh/switch.h"

#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252u;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 16) % below);
}

static const struct phys_sizes small = {
    .table = { [PHYS_VTEP] = 4,
               [PHYS_SOURCE] = 8,
               [PHYS_VNI] = 100,
               [PHYS_ACL] = 16,
               [PHYS_ROUTE_TCAM] = 400,
               [PHYS_ROUTE_PART] = 800,
               [PHYS_VM_NC_CONFLICT] = 40,
               [PHYS_VM_NC] = 200,
               [PHYS_VM_NC_SPILL] = 100,
               [PHYS_NC] = 1000,
               [PHYS_NEXT_HOP] = 512,
               [PHYS_PORT_OUT] = 64,
               [PHYS_FALLBACK] = 2048 },
    .partitions = 50,
    .partition_slots = 16,
    .meters = 64,
    .fallback_buckets = 4096,
    .hash_load = 500,
};

static struct hswitch *s;

static void setup(void)
{
    struct hswitch_options o = {
        .sizes = &small, .workers = 1, .port_count = 1, .seed = 3
    };

    ck_assert_int_eq(hswitch_new(&o, &s, NULL), RC_OK);
    hworker_online(s, &s->workers[0]);
}

static void teardown(void)
{
    hswitch_free(s);
}

static void publish(void)
{
    bool changed;

    ck_assert_int_eq(hswitch_publish(s, &changed, NULL), RC_OK);
    hworker_quiescent(s, &s->workers[0]);
    (void)hswitch_reclaim(s);
}

static void put24(uint8_t *to, uint32_t v)
{
    to[0] = (uint8_t)(v >> 16);
    to[1] = (uint8_t)(v >> 8);
    to[2] = (uint8_t)v;
}

/* ---- routes against a list ---- */

struct rule {
    struct hkey key;
    unsigned length;
    uint32_t priority;
    uint32_t mark;
    uint16_t part; /* of route_part */
};

static struct rule rules[1200];
static unsigned rule_count;

static void cut_key(struct hkey *k, unsigned length)
{
    k->vni &= s->masks.at[length].vni;
    k->hi &= s->masks.at[length].hi;
    k->lo &= s->masks.at[length].lo;
}

/* Few VNIs and few address bits, so that prefixes nest and meet. */
static struct hkey random_key(void)
{
    return (struct hkey){ .vni = draw(3) << 22 | draw(4) << 10 | draw(4),
                          .hi = (uint64_t)draw(4) << 62 | draw(2),
                          .lo = (uint64_t)draw(8) << 61 | draw(8) };
}

static unsigned random_length(void)
{
    static const uint8_t lengths[] = { 0,  1,  2,  3,  11, 12, 13,  23,  24,
                                       25, 26, 87, 88, 89, 91, 150, 151, 152 };

    return lengths[draw(sizeof(lengths))];
}

static bool matches(const struct rule *r, const struct hkey *k)
{
    return hkey_common(&r->key, k) >= r->length;
}

static struct phys_entry tcam_entry(const struct rule *r)
{
    struct phys_entry e = { .table = PHYS_ROUTE_TCAM,
                            .action = PHYS_SET_PART,
                            .priority = r->priority };

    hkey_store(r->key, e.key);
    hkey_store(s->masks.at[r->length], e.mask);
    e.data[2] = PHYS_SCOPE_LOCAL;
    put24(e.data + 3, r->mark);
    return e;
}

static const struct rule *best_rule(const struct hkey *k, int part)
{
    const struct rule *best = NULL;

    for (unsigned i = 0; i < rule_count; i++) {
        if ((part < 0 || rules[i].part == part) && matches(&rules[i], k) &&
            (!best || rules[i].priority > best->priority ||
             (rules[i].priority == best->priority && rules[i].length > best->length))) {
            best = &rules[i];
        }
    }
    return best;
}

static void check_tcam(unsigned half)
{
    struct htrie_query q[8];
    struct htrie_query *at[8];

    for (unsigned i = 0; i < 8; i++) {
        q[i].key = random_key();
        at[i] = &q[i];
        htrie_start(&s->half[half].trie, &q[i]);
    }
    htrie_walk(&s->masks, at, 8);
    for (unsigned i = 0; i < 8; i++) {
        const struct rule *want = best_rule(&q[i].key, -1);

        ck_assert_int_eq(q[i].best != NULL, want != NULL);
        if (want) {
            ck_assert_uint_eq(q[i].best->row.vni, want->mark);
        }
    }
}

static int find_rule(const struct rule *r)
{
    for (unsigned i = 0; i < rule_count; i++) {
        if (rules[i].length == r->length && rules[i].priority == r->priority &&
            rules[i].part == r->part && rules[i].key.vni == r->key.vni &&
            rules[i].key.hi == r->key.hi && rules[i].key.lo == r->key.lo) {
            return (int)i;
        }
    }
    return -1;
}

START_TEST(route_tcam_answers_by_priority_under_churn)
{
    uint32_t mark = 0;

    rule_count = 0;
    for (unsigned step = 0; step < 60000; step++) {
        struct rule r = { .key = random_key(),
                          .length = random_length(),
                          .mark = ++mark & 0xffffff };
        enum phys_op op = (enum phys_op)(1 + draw(3));
        struct phys_entry e;
        enum rc rc;
        int at;

        /* Mostly the prefix' length, now and then something else, so that a shorter
         * one wins and one prefix stands there twice. */
        r.priority = draw(4) ? r.length + 1 : 1 + draw(160);
        cut_key(&r.key, r.length);
        if (op != PHYS_INSERT && rule_count > 0) {
            unsigned i = draw(rule_count);

            r.key = rules[i].key;
            r.length = rules[i].length;
            r.priority = rules[i].priority;
        }
        /* Of one priority and overlapping: not defined. */
        at = find_rule(&r);
        e = tcam_entry(&r);
        if (op == PHYS_INSERT && at < 0 && rule_count >= small.table[PHYS_ROUTE_TCAM]) {
            ck_assert_int_eq(hswitch_write(s, 1, op, &e, NULL), RC_FULL);
            continue;
        }
        rc = hswitch_write(s, 1, op, &e, NULL);
        ck_assert_int_eq(rc, (at >= 0) == (op != PHYS_INSERT) ? RC_OK
                             : at >= 0                        ? RC_EXISTS
                                                              : RC_NOT_FOUND);
        if (rc == RC_OK && op == PHYS_INSERT) {
            rules[rule_count++] = r;
        } else if (rc == RC_OK && op == PHYS_MODIFY) {
            rules[at].mark = r.mark;
        } else if (rc == RC_OK) {
            rules[at] = rules[--rule_count];
        }
        ck_assert_uint_eq(hswitch_count(s, 1, PHYS_ROUTE_TCAM), rule_count);
        check_tcam(1);
        if (step % 64 == 0) {
            publish();
        }
    }
    ck_assert_uint_eq(hswitch_count(s, 0, PHYS_ROUTE_TCAM), 0);
    while (rule_count > 0) {
        struct phys_entry e = tcam_entry(&rules[--rule_count]);

        ck_assert_int_eq(hswitch_write(s, 1, PHYS_DELETE, &e, NULL), RC_OK);
        check_tcam(1);
    }
    publish();
    for (unsigned i = 0; i < HTRIE_SLOTS; i++) {
        ck_assert_ptr_null(atomic_load(&s->half[1].trie.root[i]));
    }
}
END_TEST

static struct phys_entry part_entry(const struct rule *r)
{
    struct phys_entry e = { .table = PHYS_ROUTE_PART,
                            .action = PHYS_TUNNEL,
                            .priority = r->priority };

    e.key[0] = (uint8_t)(r->part >> 8);
    e.key[1] = (uint8_t)r->part;
    phys_mask_exact(PHYS_ROUTE_PART, e.mask);
    hkey_store(r->key, e.key + 2);
    hkey_store(s->masks.at[r->length], e.mask + 2);
    put24(e.data, r->mark);
    put24(e.data + 3, r->mark & 0x1ffff);
    return e;
}

START_TEST(a_partition_answers_by_priority_and_is_full_at_its_slots)
{
    unsigned full = 0;

    rule_count = 0;
    for (unsigned step = 0; step < 60000; step++) {
        struct rule r = { .key = random_key(),
                          .length = random_length(),
                          .part = (uint16_t)(1 + draw(3)),
                          .mark = step & 0xffffff };
        enum phys_op op = (enum phys_op)(draw(5) < 3 ? 1 : 2 + draw(2));
        struct phys_entry e;
        struct phys_entry got;
        const struct hpart *part;
        unsigned used = 0;
        enum rc rc;
        int at;

        r.priority = r.length + 1;
        cut_key(&r.key, r.length);
        if (op != PHYS_INSERT && rule_count > 0) {
            unsigned i = draw(rule_count);
            uint32_t mark = r.mark;

            r = rules[i];
            r.mark = mark;
        }
        at = find_rule(&r);
        for (unsigned i = 0; i < rule_count; i++) {
            used += rules[i].part == r.part;
        }
        e = part_entry(&r);
        rc = hswitch_write(s, 0, op, &e, NULL);
        if (op == PHYS_INSERT && at < 0 && used == small.partition_slots) {
            ck_assert_int_eq(rc, RC_FULL);
            full++;
            continue;
        }
        ck_assert_int_eq(rc, (at >= 0) == (op != PHYS_INSERT) ? RC_OK
                             : at >= 0                        ? RC_EXISTS
                                                              : RC_NOT_FOUND);
        if (rc == RC_OK && op == PHYS_INSERT) {
            rules[rule_count++] = r;
        } else if (rc == RC_OK && op == PHYS_MODIFY) {
            rules[at].mark = r.mark;
        } else if (rc == RC_OK) {
            rules[at] = rules[--rule_count];
        }
        if (rc == RC_OK && op != PHYS_DELETE) {
            ck_assert(hswitch_find(s, 0, &e, &got, NULL));
            ck_assert_mem_eq(got.key, e.key, sizeof(e.key));
            ck_assert_mem_eq(got.mask, e.mask, sizeof(e.mask));
            ck_assert_mem_eq(got.data, e.data, sizeof(e.data));
            ck_assert_uint_eq(got.priority, e.priority);
            ck_assert_uint_eq(got.action, e.action);
        }
        for (unsigned i = 0; i < 4; i++) {
            struct hkey k = random_key();
            const struct rule *want = best_rule(&k, r.part);
            const struct hpart_result *hit;

            part = hparts_at(&s->half[0].parts, r.part);
            hit = part ? hpart_match(part, &s->masks, &k) : NULL;
            ck_assert_int_eq(hit != NULL, want != NULL);
            if (want) {
                ck_assert_uint_eq(hit->vni, want->mark);
            }
        }
        if (step % 64 == 0) {
            publish();
        }
    }
    ck_assert_uint_gt(full, 100);
}
END_TEST

/* ---- exact tables, records, read-back ---- */

static struct phys_entry vm_entry(uint32_t vni, uint32_t key, uint32_t nc)
{
    struct phys_entry e = { .table = PHYS_VM_NC, .action = PHYS_SET_NC };

    put24(e.key, vni);
    e.key[3] = vni & 1;
    e.key[7] = (uint8_t)key;
    phys_mask_exact(PHYS_VM_NC, e.mask);
    put24(e.data, nc);
    return e;
}

START_TEST(a_read_back_tells_what_stood_throughout_exactly_once)
{
    static bool stands[64], shown[64];
    struct hcursor c = { .at = 0 };
    struct phys_entry e;
    unsigned steps = 0;

    for (uint32_t k = 0; k < 64; k++) {
        e = vm_entry(7, k, 100 + k);
        stands[k] = true;
        ck_assert_int_eq(hswitch_write(s, 0, PHYS_INSERT, &e, NULL), RC_OK);
    }
    for (;;) {
        uint32_t budget = 3;

        while (hswitch_next(s, 0, PHYS_VM_NC, &c, &budget, &e, NULL)) {
            ck_assert_uint_eq(e.data[2], 100u + e.key[7]);
            if (e.key[2] == 7) {
                ck_assert(!shown[e.key[7]]);
                shown[e.key[7]] = true;
            }
        }
        if (budget > 0) {
            break;
        }
        e = vm_entry(7, draw(64), 0); /* somebody else writes meanwhile */
        if (hswitch_write(s, 0, PHYS_DELETE, &e, NULL) == RC_OK) {
            stands[e.key[7]] = false;
        }
        e = vm_entry(8, steps++, 1);
        e.data[2] = (uint8_t)(100 + e.key[7]);
        ck_assert_int_eq(hswitch_write(s, 0, PHYS_INSERT, &e, NULL), RC_OK);
    }
    for (uint32_t k = 0; k < 64; k++) {
        ck_assert(shown[k] || !stands[k]);
    }
}
END_TEST

START_TEST(a_hash_table_is_full_at_its_load_and_takes_again_after_a_delete)
{
    struct phys_entry e;
    struct err err = { 0 };

    for (uint32_t k = 0; k < 100; k++) {
        e = vm_entry(k, 1, k);
        ck_assert_int_eq(hswitch_write(s, 1, PHYS_INSERT, &e, NULL), RC_OK);
    }
    e = vm_entry(200, 1, 5);
    ck_assert_int_eq(hswitch_write(s, 1, PHYS_INSERT, &e, &err), RC_FULL);
    ck_assert_str_eq(err.msg, "vm_nc: the table is full");
    ck_assert_int_eq(hswitch_write(s, 0, PHYS_INSERT, &e, NULL), RC_OK);
    e = vm_entry(3, 1, 0);
    ck_assert_int_eq(hswitch_write(s, 1, PHYS_DELETE, &e, NULL), RC_OK);
    e = vm_entry(200, 1, 5);
    ck_assert_int_eq(hswitch_write(s, 1, PHYS_INSERT, &e, NULL), RC_OK);
    ck_assert_uint_eq(hswitch_limit(s, PHYS_VM_NC), 100);
}
END_TEST

START_TEST(an_empty_half_has_nothing_and_takes_everything_again)
{
    for (unsigned round = 0; round < 2; round++) {
        struct phys_meter_config c = { 1, 2, 3, 4 };
        struct phys_entry e = vm_entry(1, 1, 16);

        ck_assert_int_eq(hswitch_write(s, 0, PHYS_INSERT, &e, NULL), RC_OK);
        e = (struct phys_entry){ .table = PHYS_VTEP,
                                 .action = PHYS_IS_VTEP,
                                 .priority = 1,
                                 .key = { 1, 10, 0, 0, 1 },
                                 .mask = { 1, 255, 255, 255, 255 } };
        ck_assert_int_eq(hswitch_write(s, 0, PHYS_INSERT, &e, NULL), RC_OK);
        ck_assert_int_eq(hswitch_set_meter(s, 0, PHYS_METER_FB_MISS, 9, &c, NULL),
                         RC_OK);
        for (unsigned i = 0; i < 20; i++) {
            struct rule r = { .key = { .vni = i }, .length = 24, .priority = 25 };

            r.part = 1 + i % 3;
            e = tcam_entry(&r);
            ck_assert_int_eq(hswitch_write(s, 0, PHYS_INSERT, &e, NULL), RC_OK);
            e = part_entry(&r);
            ck_assert_int_eq(hswitch_write(s, 0, PHYS_INSERT, &e, NULL), RC_OK);
        }
        publish();
        ck_assert(hswitch_is_ready(s, 0));
        ck_assert(!hswitch_is_ready(s, 1));
        ck_assert_int_eq(hswitch_clear(s, 0, NULL), RC_OK);
        publish();
        ck_assert(!hswitch_is_ready(s, 0));
        for (unsigned t = 0; t < PHYS_TABLES; t++) {
            struct hcursor at = { .at = 0 };
            uint32_t budget = UINT32_MAX;

            ck_assert_uint_eq(hswitch_count(s, 0, (enum phys_table)t), 0);
            ck_assert(!hswitch_next(s, 0, (enum phys_table)t, &at, &budget, &e, NULL));
        }
        hswitch_get_meter(s, 0, PHYS_METER_FB_MISS, 9, &c);
        ck_assert_uint_eq(c.cir | c.pir | c.cburst | c.pburst, 0);
    }
    ck_assert(!hswitch_reclaim(s));
}
END_TEST

/* ---- what is refused ---- */

static const struct {
    struct phys_entry e;
    const char *rule; /* null: taken */
} checks[] = {
    { { .table = PHYS_VTEP, .action = PHYS_IS_VTEP, .key = { 1, 9 }, .mask = { 1 } },
      "priority" },
    { { .table = PHYS_VTEP,
        .action = PHYS_IS_VTEP,
        .priority = 1,
        .key = { 1, 10 },
        .mask = { 1, 255 } },
      "prefix" },
    { { .table = PHYS_SOURCE,
        .action = PHYS_IS_SOURCE,
        .priority = 1,
        .key = { 1, 10 },
        .mask = { 1, 255 } },
      NULL },
    { { .table = PHYS_SOURCE,
        .action = PHYS_IS_SOURCE,
        .priority = 1,
        .mask = { 1, 0, 255 } },
      "prefix" },
    { { .table = PHYS_SOURCE,
        .action = PHYS_IS_SOURCE,
        .priority = 1,
        .mask = { 1, 255, 0, 0, 0, 255 } },
      "prefix" },
    { { .table = PHYS_VNI, .action = PHYS_SET_NC, .key = { 0, 0, 1 } }, "action" },
    { { .table = PHYS_VNI, .action = PHYS_SET_VNI, .data = { 0, 3 } }, "half" },
    { { .table = PHYS_VNI, .action = PHYS_SET_VNI, .data = { 0, 2, 0, 64 } }, "meter" },
    { { .table = PHYS_VNI, .action = PHYS_SET_VNI, .priority = 3 }, "priority" },
    { { .table = PHYS_ROUTE_TCAM,
        .action = PHYS_SET_PART,
        .priority = 1,
        .mask = { 255, 0, 255 } },
      "prefix" },
    { { .table = PHYS_ROUTE_TCAM,
        .action = PHYS_SET_PART,
        .priority = 1,
        .data = { 0, 50 } },
      "partition" },
    { { .table = PHYS_ROUTE_TCAM,
        .action = PHYS_SET_PART,
        .priority = 1,
        .data = { 0, 1, 5 } },
      "scope" },
    { { .table = PHYS_ROUTE_TCAM,
        .action = PHYS_SET_PART,
        .priority = 1,
        .data = { 0, 1, 2, 0, 0, 1, 0, 0, 3 } },
      "half" },
    { { .table = PHYS_ROUTE_TCAM,
        .action = PHYS_SET_PART,
        .priority = 1,
        .data = { 0, 1, 3, 0, 0, 1, 2, 0, 0 } },
      "nc" },
    { { .table = PHYS_ROUTE_PART, .action = PHYS_LOCAL, .priority = 1 }, "partition" },
    { { .table = PHYS_ROUTE_PART,
        .action = PHYS_PEER,
        .priority = 1,
        .key = { 0, 1 },
        .data = { 0, 0, 1, 3 } },
      "half" },
    { { .table = PHYS_NC, .action = PHYS_NC6, .key = { 0, 0, 20 } }, "family" },
    { { .table = PHYS_NC, .action = PHYS_NC4, .key = { 1, 0, 20 } }, "family" },
    { { .table = PHYS_NC, .action = PHYS_NC6, .key = { 1, 0, 1 } }, NULL },
    { { .table = PHYS_PORT_OUT, .action = PHYS_SRC6, .key = { 0, 1, 0, 1 } },
      "family" },
    { { .table = PHYS_FALLBACK, .action = PHYS_MEMBER, .data = { 1, 0, 20 } }, NULL },
    { { .table = PHYS_FALLBACK,
        .action = PHYS_MEMBER,
        .key = { 1 },
        .data = { 1, 0, 20 } },
      "family" },
};

START_TEST(an_entry_of_no_use_is_refused_by_rule)
{
    struct err err = { 0 };
    enum rc rc = hswitch_write(s, 0, PHYS_INSERT, &checks[_i].e, &err);

    ck_assert_int_eq(rc, checks[_i].rule ? RC_INVALID : RC_OK);
    ck_assert_str_eq(err.rule, checks[_i].rule ? checks[_i].rule : "");
    ck_assert_uint_eq(hswitch_count(s, 0, (enum phys_table)checks[_i].e.table),
                      checks[_i].rule == NULL);
}
END_TEST

/* ---- hashes ---- */

START_TEST(the_hashes_are_those_of_the_chip)
{
    /* Python's zlib.crc32(); and CRC-16/ARC of 12 34 56, by its definition (reflected
     * 0x8005, initial 0) in Python. */
    ck_assert_uint_eq(hswitch_crc(s, 0, 0), 0xecbb4b55);
    ck_assert_uint_eq(hswitch_crc(s, UINT64_C(0x20010db801000000), 1), 0xe437fc37);
    ck_assert_uint_eq(hswitch_crc(s, UINT64_MAX, UINT64_MAX), 0x3fb3c61a);
    ck_assert_uint_eq(hswitch_bucket(0x123456, 65536), 0xfb36);
    ck_assert_uint_eq(hswitch_bucket(0x123456, 4096), 0xb36);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("switch");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, route_tcam_answers_by_priority_under_churn);
    tcase_add_test(tc, a_partition_answers_by_priority_and_is_full_at_its_slots);
    tcase_add_test(tc, a_read_back_tells_what_stood_throughout_exactly_once);
    tcase_add_test(tc, a_hash_table_is_full_at_its_load_and_takes_again_after_a_delete);
    tcase_add_test(tc, an_empty_half_has_nothing_and_takes_everything_again);
    tcase_add_loop_test(tc, an_entry_of_no_use_is_refused_by_rule, 0,
                        ARRAY_LEN(checks));
    tcase_add_test(tc, the_hashes_are_those_of_the_chip);
    return unit_run("switch", tc);
}
