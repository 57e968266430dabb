/* Peer loops and chains: what the core accepts is what address by address is right. */
#include "tests/unit/controller/core/rig.h"

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % below;
}

static struct rig *region(int tenants)
{
    struct rig *r = rig_new();
    char lines[4096] = "";

    rig_cluster(r, "c1", "172.16.255.1");
    for (int i = 1; i <= tenants; i++) {
        sprintf(lines + strlen(lines),
                "{\"table\":\"tenant\",\"vni\":%d,\"cluster\":\"c1\"}\n", i);
    }
    rig_must(r, lines);
    return r;
}

/* "VNI PREFIX PEER" or "VNI PREFIX local" or "VNI PREFIX gone", ';' between them. */
static const char *routes(const char *text)
{
    static char lines[8192];

    lines[0] = '\0';
    while (*text) {
        char prefix[64];
        char what[16];
        unsigned vni;
        int n;

        ck_assert_int_eq(sscanf(text, " %u %63s %15[a-z0-9]%n", &vni, prefix, what, &n),
                         3);
        text += n + (text[n] == ';');
        sprintf(lines + strlen(lines),
                "{%s\"table\":\"vxlan_route\",\"vni\":%u,\"prefix\":\"%s\"%s%s%s}\n",
                *what == 'g' ? "\"op\":\"delete\"," : "", vni, prefix,
                *what == 'g'   ? ""
                : *what == 'l' ? ",\"scope\":\"local\""
                               : ",\"scope\":\"peer\",\"peer_vni\":",
                *what > '9' ? "" : what, "");
    }
    return lines;
}

static const struct {
    const char *before;
    const char *change;
    const char *rule; /* "": accepted */
    const char *named;
} cases[] = {
    /* Mutual peering of two VPCs with their own prefixes is the usual case. */
    { "1 10.1.0.0/16 local;2 10.2.0.0/16 local;1 10.2.0.0/16 2", "2 10.1.0.0/16 1", "",
      "" },
    { "1 10.0.0.0/8 2", "2 10.0.0.0/8 1", "peer_loop", "vni 2, 1, 2" },
    { "1 10.0.0.0/8 2", "2 10.7.0.0/16 1", "peer_loop", "10.7.0.0" },
    /* The own more specific route shields: the packet never comes back. */
    { "1 10.0.0.0/8 2;1 10.1.0.0/16 local", "2 10.1.0.0/16 1", "", "" },
    { "1 10.0.0.0/8 2;1 10.1.0.0/16 local", "2 10.0.0.0/15 1", "peer_loop",
      "10.0.0.0" },
    /* Two halves shield as one whole does. */
    { "1 10.0.0.0/8 2;1 10.1.0.0/17 local;1 10.1.128.0/17 local", "2 10.1.0.0/16 1", "",
      "" },
    /* … and taking one away uncovers the loop. */
    { "1 10.0.0.0/8 2;1 10.1.0.0/17 local;1 10.1.128.0/17 local;2 10.1.0.0/16 1",
      "1 10.1.128.0/17 gone", "peer_loop", "10.1.128.0" },
    { "1 10.0.0.0/8 2;2 10.0.0.0/8 3", "3 10.0.0.0/8 1", "peer_loop", "" },
    /* Three peers are four lookups; one more is refused wherever it is added. */
    { "1 10.0.0.0/8 2;2 10.0.0.0/8 3;3 10.0.0.0/8 4", "4 10.0.0.0/8 local", "", "" },
    { "1 10.0.0.0/8 2;2 10.0.0.0/8 3;3 10.0.0.0/8 4", "4 10.0.0.0/9 5", "peer_chain",
      "vni 1, 2, 3, 4, 5" },
    { "2 10.0.0.0/8 3;3 10.0.0.0/8 4;4 10.0.0.0/8 5", "1 10.9.0.0/16 2", "peer_chain",
      "vni 1, 2, 3, 4, 5" },
    { "1 10.0.0.0/8 2;2 10.0.0.0/8 3;4 10.0.0.0/8 5", "3 10.9.0.0/16 4", "peer_chain",
      "10.9.0.0" },
    { "1 10.0.0.0/8 2;2 10.0.0.0/8 3;4 11.0.0.0/8 5", "3 10.9.0.0/16 4", "", "" },
    /* One batch that makes both halves of a loop. */
    { "", "1 10.0.0.0/8 2;2 10.0.0.0/8 1", "peer_loop", "" },
    /* Families do not meet. */
    { "1 0.0.0.0/0 2", "2 ::/0 1", "", "" },
    { "1 ::/0 2", "2 2001:db8::/32 1", "peer_loop", "2001:db8::" },
    /* The last address of the space is an address too. */
    { "1 255.255.255.255/32 2;1 255.0.0.0/8 local", "2 255.0.0.0/8 1", "peer_loop",
      "255.255.255.255" },
};

START_TEST(loops_and_long_chains_are_refused_with_address_and_vnis)
{
    struct rig *r = region(6);
    const struct core_reply *reply;

    rig_must(r, routes(cases[_i].before));
    reply = rig_entries_confirmed(r, routes(cases[_i].change));
    ck_assert_msg(strcmp(reply->err.rule, cases[_i].rule) == 0, "case %d: '%s' %s", _i,
                  reply->err.rule, reply->err.msg);
    ck_assert_msg(strstr(reply->err.msg, cases[_i].named) != NULL, "case %d: %s", _i,
                  reply->err.msg);
    rig_free(r);
}
END_TEST

/* ---- against the definition, for each address of a small space ---- */

#define VNIS      6
#define ADDRESSES 16

struct route {
    uint8_t state; /* 0: none, 1: local, 2: peer */
    uint8_t peer;
};

/* By VNI, length 28 to 32 and address within 10.0.0.0/28. */
typedef struct route tables[VNIS + 1][5][ADDRESSES];

static const struct route *longest(tables t, uint32_t vni, uint32_t address)
{
    for (int len = 4; len >= 0; len--) {
        uint32_t masked = address & ~((ADDRESSES - 1u) >> len) & (ADDRESSES - 1);

        if (t[vni][len][masked].state) {
            return &t[vni][len][masked];
        }
    }
    return NULL;
}

static bool is_right(tables t)
{
    for (uint32_t start = 1; start <= VNIS; start++) {
        for (uint32_t address = 0; address < ADDRESSES; address++) {
            bool seen[VNIS + 1] = { false };
            uint32_t vni = start;
            int peers = 0;

            for (;;) {
                const struct route *route = longest(t, vni, address);

                if (seen[vni] || peers > 3) {
                    return false;
                }
                seen[vni] = true;
                if (!route || route->state != 2) {
                    break;
                }
                peers++;
                vni = route->peer;
            }
        }
    }
    return true;
}

static void random_edit(tables t, char *lines)
{
    uint32_t vni = 1 + draw(VNIS);
    uint32_t len = draw(5);
    uint32_t address = draw(ADDRESSES) & ~((ADDRESSES - 1u) >> len) & (ADDRESSES - 1);
    struct route *route = &t[vni][len][address];
    char text[64];

    route->state = (uint8_t)draw(3);
    route->peer = (uint8_t)(1 + draw(VNIS));
    if (route->peer == vni) {
        route->peer = (uint8_t)(vni % VNIS + 1);
    }
    sprintf(text, "%u 10.0.0.%u/%u ", vni, address, 28 + len);
    sprintf(text + strlen(text),
            route->state == 2 ? "%u"
            : route->state    ? "local"
                              : "gone",
            route->peer);
    /* A later edit of the same key in one batch would be refused as a duplicate. */
    sprintf(lines + strlen(lines), "%s", *lines ? ";" : "");
    sprintf(lines + strlen(lines), "%s", text);
}

START_TEST(random_edits_are_accepted_exactly_when_no_address_loops)
{
    static tables now, next;
    struct rig *r;
    int accepted = 0;
    int refused = 0;

    seed = 0x9e3779b97f4a7c15u + (uint64_t)_i;
    memset(now, 0, sizeof(now));
    r = region(VNIS);
    for (int step = 0; step < 600; step++) {
        char lines[1024] = "";
        const struct core_reply *reply;

        memcpy(next, now, sizeof(now));
        for (uint32_t n = 1 + draw(3); n > 0; n--) {
            random_edit(next, lines);
        }
        reply = rig_entries_confirmed(r, routes(lines));
        if (strcmp(reply->err.rule, "duplicate_key") == 0) {
            continue;
        }
        ck_assert_msg(is_right(next) == (reply->err.code == RC_OK),
                      "seed %d step %d: %s: %s", _i, step, lines, reply->err.msg);
        if (reply->err.code == RC_OK) {
            memcpy(now, next, sizeof(now));
            accepted++;
        } else {
            refused++;
        }
    }
    ck_assert_int_gt(accepted, 50);
    ck_assert_int_gt(refused, 20);
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

START_TEST(a_hub_with_many_peers_and_a_large_vni_stay_cheap_to_check)
{
    struct rig *r = rig_new();
    struct batch_writer w;
    struct entry e;

    rig_cluster(r, "c1", "172.16.255.1");
    batch_writer_init(&w);
    for (uint32_t i = 0; i < 5000; i++) {
        e = (struct entry){ .table = TABLE_TENANT, .vni = 1 + i };
        rig_copy(e.tenant.cluster, "c1");
        batch_add_entry(&w, ENTRY_PUT, &e);
    }
    rig_queue(r, batch_writer_finish(&w));
    rig_run(r);
    /* All peer to VNI 1; it holds 10,000 routes of its own. */
    for (uint32_t i = 1; i < 5000; i++) {
        e = (struct entry){ .table = TABLE_VXLAN_ROUTE, .vni = 1 + i };
        e.route.dst = (struct prefix){ ip_v4(0x0a000000), 8 };
        e.route.action = (struct route_action){ .scope = SCOPE_PEER, .vni = 1 };
        batch_add_entry(&w, ENTRY_PUT, &e);
    }
    rig_queue(r, batch_writer_finish(&w));
    for (uint32_t i = 0; i < 10000; i++) {
        e = (struct entry){ .table = TABLE_VXLAN_ROUTE, .vni = 1 };
        e.route.dst = (struct prefix){ ip_v4(0x0a000000 + (i << 8)), 24 };
        e.route.action.scope = SCOPE_LOCAL;
        batch_add_entry(&w, ENTRY_PUT, &e);
    }
    rig_queue(r, batch_writer_finish(&w));
    rig_run(r);
    ck_assert_int_eq(rig_reply(r, r->next_token)->err.code, RC_OK);
    /* The hub peers on, with a shield of 10,000 routes at one of its sources. */
    rig_must(r, routes("1 10.200.0.0/16 2"
                       ";2 10.200.0.0/16 local"));
    RIG_REFUSES(r, routes("1 10.201.0.0/16 2"), RC_INVALID, "peer_loop");
    batch_writer_fini(&w);
    rig_free(r);
}
END_TEST

static void put_peer(struct batch_writer *w, uint32_t vni, uint32_t addr, uint8_t len,
                     uint32_t peer)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };

    e.route.dst = (struct prefix){ ip_v4(addr), len };
    e.route.action = (struct route_action){ .scope = SCOPE_PEER, .vni = peer };
    batch_add_entry(w, ENTRY_PUT, &e);
}

/* Each of WIDE tenants peers, by a prefix of its own, to each of WIDE others, and those
 * to one: behind it are WIDE^3 ways to look at.  What one route may cost is bounded,
 * and it is below what a batch may. */
START_TEST(a_route_whose_check_would_take_too_long_is_refused_and_others_are_not)
{
    enum { WIDE = 72, HUB = 1, INNER = 100, OUTER = 200 };
    struct rig *r = rig_new();
    struct batch_writer w;

    rig_cluster(r, "c1", "172.16.255.1");
    batch_writer_init(&w);
    for (uint32_t vni = 1; vni < OUTER + WIDE; vni++) {
        struct entry e = { .table = TABLE_TENANT, .vni = vni };

        rig_copy(e.tenant.cluster, "c1");
        batch_add_entry(&w, ENTRY_PUT, &e);
    }
    rig_queue(r, batch_writer_finish(&w));
    for (uint32_t i = 0; i < WIDE; i++) {
        put_peer(&w, INNER + i, 0x0a000000, 8, HUB);
        for (uint32_t k = 0; k < WIDE; k++) {
            put_peer(&w, OUTER + i, 0x0a000000 + (k << 16), 16, INNER + k);
        }
    }
    rig_queue(r, batch_writer_finish(&w));
    rig_run(r);
    ck_assert_int_eq(rig_reply(r, r->next_token)->err.code, RC_OK);
    RIG_REFUSES(r, routes("1 10.0.0.0/8 2"), RC_RANGE, "peer_complexity");
    /* Of the same size, but only one of the ways overlaps it. */
    rig_must(r, routes("1 10.7.0.0/16 2;1 10.8.0.0/16 3"));
    batch_writer_fini(&w);
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("chains");

    tcase_add_loop_test(tc, loops_and_long_chains_are_refused_with_address_and_vnis, 0,
                        ARRAY_LEN(cases));
    tcase_add_loop_test(tc, random_edits_are_accepted_exactly_when_no_address_loops, 0,
                        8);
    tcase_add_test(tc, a_hub_with_many_peers_and_a_large_vni_stay_cheap_to_check);
    tcase_add_test(
        tc, a_route_whose_check_would_take_too_long_is_refused_and_others_are_not);
    tcase_set_timeout(tc, 60);
    return unit_run("chains", tc);
}
