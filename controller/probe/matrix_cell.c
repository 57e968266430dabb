#include "controller/probe/matrix_cell.h"

#include <stdio.h>
#include <string.h>

#include "controller/probe/twist.h"
#include "controller/probe/way.h"
#include "proto/base/ip.h"

/* ---- the list ---- */

static const uint8_t families[] = { IP_V4, IP_V6 };

struct list {
    struct matrix_cell *at;
    uint16_t count;
};

static void add(struct list *l, const struct matrix_cell *c)
{
    if (l->count < MATRIX_CELLS_MAX) {
        l->at[l->count++] = *c;
    }
}

/* The cell for each family of the masks (TWIST_V4, …; 0: any one will do). */
static void add_families(struct list *l, struct matrix_cell c, unsigned underlay,
                         unsigned inner)
{
    for (unsigned u = 0; u < (underlay ? 2 : 1); u++) {
        for (unsigned i = 0; i < (inner ? 2 : 1); i++) {
            if ((!underlay || underlay & 1u << u) && (!inner || inner & 1u << i)) {
                c.underlay = underlay ? families[u] : IP_NONE;
                c.inner = inner ? families[i] : IP_NONE;
                add(l, &c);
            }
        }
    }
}

static void add_ways(struct list *l)
{
    for (uint8_t end = 0; end < WAY_ENDS; end++) {
        bool is_limit = end == WAY_PEER_LIMIT;
        bool forwards = end < WAY_FORWARDS;

        for (uint8_t hops = is_limit ? WAY_HOPS_MAX + 1 : 0;
             hops <= WAY_HOPS_MAX + is_limit; hops++) {
            for (unsigned out = 0; out < (forwards ? 2 : 1); out++) {
                struct matrix_cell c = { .kind = MATRIX_WAY,
                                         .what = end,
                                         .hops = hops,
                                         .out = forwards ? families[out] : IP_NONE };

                add_families(l, c, TWIST_BOTH, TWIST_BOTH);
            }
        }
    }
}

static void add_rules(struct list *l)
{
    for (uint8_t what = 0; what < MATRIX_RULES; what++) {
        for (uint8_t proto = 0; proto < MATRIX_PROTOS; proto++) {
            add_families(l,
                         (struct matrix_cell){
                             .kind = MATRIX_RULE, .what = what, .proto = proto },
                         0, TWIST_BOTH);
        }
    }
}

static const struct {
    const char *name;
    uint8_t underlay;
    uint8_t inner;
} fields[MATRIX_FIELDS] = {
    [FIELD_TO_VIP] = { "to the cluster's VIP", TWIST_BOTH, 0 },
    [FIELD_TO_FALLBACK] = { "to the fallback address", TWIST_BOTH, 0 },
    [FIELD_NOT_OURS] = { "to an address of nobody", TWIST_BOTH, 0 },
    [FIELD_OUTER_TTL] = { "outer TTL 1", TWIST_BOTH, 0 },
    [FIELD_NO_CHECKSUM] = { "no outer UDP checksum", TWIST_V6, 0 },
    [FIELD_CHECKSUM] = { "an outer UDP checksum", TWIST_V4, 0 },
    [FIELD_SOURCE] = { "from an address that is no NC's", TWIST_BOTH, 0 },
    [FIELD_UNKNOWN_VNI] = { "a VNI of nobody", TWIST_BOTH, 0 },
    [FIELD_MULTICAST] = { "multicast inside", TWIST_BOTH, TWIST_BOTH },
    [FIELD_MAPPED] = { "IPv4-mapped destination inside", TWIST_BOTH, TWIST_V6 },
    [FIELD_TTL_LOCAL] = { "inner TTL 1 within the VPC", TWIST_BOTH, TWIST_BOTH },
    [FIELD_TTL_PEER] = { "inner TTL 1 to a peer", TWIST_BOTH, TWIST_BOTH },
    [FIELD_TTL_LEAVES] = { "inner TTL 1 out of the region", TWIST_BOTH, TWIST_BOTH },
    [FIELD_FITS] = { "as large as the MTU", TWIST_BOTH, TWIST_BOTH },
    [FIELD_TOO_BIG] = { "larger than the MTU", TWIST_BOTH, TWIST_BOTH },
    [FIELD_TAG_ALLOWED] = { "inner VLAN tag that is allowed", TWIST_BOTH, TWIST_BOTH },
    [FIELD_HIDDEN_PORTS] = { "options before ports that rules may name", TWIST_BOTH,
                             TWIST_BOTH },
};

uint16_t matrix_cells(struct matrix_cell ret[static MATRIX_CELLS_MAX])
{
    struct list l = { .at = ret };

    add_ways(&l);
    for (uint8_t what = 0; what < MATRIX_ROUTES; what++) {
        add_families(&l, (struct matrix_cell){ .kind = MATRIX_ROUTE, .what = what }, 0,
                     TWIST_BOTH);
    }
    for (uint8_t what = 0; what < MATRIX_HALVES; what++) {
        add_families(&l, (struct matrix_cell){ .kind = MATRIX_HALF, .what = what }, 0,
                     TWIST_BOTH);
    }
    add_rules(&l);
    add_families(&l, (struct matrix_cell){ .kind = MATRIX_METER }, 0, TWIST_BOTH);
    for (uint8_t what = 0; what < MATRIX_FIELDS; what++) {
        add_families(&l, (struct matrix_cell){ .kind = MATRIX_FIELD, .what = what },
                     fields[what].underlay, fields[what].inner);
    }
    for (uint8_t what = TWIST_NONE + 1; what < TWISTS; what++) {
        const struct twist_rule *rule = twist_rule_of(what);

        add_families(&l, (struct matrix_cell){ .kind = MATRIX_TWIST, .what = what },
                     rule->underlay, rule->inner);
    }
    return l.count;
}

/* ---- names ---- */

const char *matrix_reach_text(unsigned reach)
{
    static const char *const texts[MATRIX_REACHES] = {
        "not looked at",
        "covered",
        "no entry was found to lead there",
        "not among the entries that were followed",
        "the node has no address for it",
        "the underlay has no sources of that family",
        "the underlay takes any source",
        "nodes of this kind have no such",
        "no uplink's MTU is in a probe's reach",
        "the entries changed while it was probed",
    };

    return reach < MATRIX_REACHES ? texts[reach] : "unknown";
}

static const char *name_of(const struct matrix_cell *c)
{
    static const char *const routes[MATRIX_ROUTES] = { "a route inside another",
                                                       "a default route",
                                                       "a route to one address" };
    static const char *const halves[MATRIX_HALVES] = { "entries in half 0",
                                                       "entries in half 1",
                                                       "an even address in its half",
                                                       "an odd address in its half" };
    static const char *const rules[MATRIX_RULES] = { "a rule permits", "a rule denies",
                                                     "no rule matches" };

    switch (c->kind) {
    case MATRIX_WAY:
        return way_end_name(c->what);
    case MATRIX_ROUTE:
        return c->what < MATRIX_ROUTES ? routes[c->what] : "unknown";
    case MATRIX_HALF:
        return c->what < MATRIX_HALVES ? halves[c->what] : "unknown";
    case MATRIX_RULE:
        return c->what < MATRIX_RULES ? rules[c->what] : "unknown";
    case MATRIX_METER:
        return "a meter lets it pass";
    case MATRIX_FIELD:
        return c->what < MATRIX_FIELDS ? fields[c->what].name : "unknown";
    default:
        return twist_rule_of(c->what)->name;
    }
}

/* Appends, as far as there is room. */
static void put(char *to, size_t size, const char *before, const char *text,
                const char *after)
{
    size_t len = strlen(to);

    if (len < size) {
        snprintf(to + len, size - len, "%s%s%s", before, text, after);
    }
}

static const char *family_name(uint8_t family)
{
    return family == IP_V4 ? "IPv4" : "IPv6";
}

void matrix_cell_print(const struct matrix_cell *c, char *to, size_t size)
{
    static const char *const protos[MATRIX_PROTOS] = { "UDP", "TCP", "ICMP" };
    static const char *const hops[] = { "", ", 1 peer", ", 2 peers", ", 3 peers", "" };

    snprintf(to, size, "%s%s", name_of(c), hops[c->hops <= 4 ? c->hops : 4]);
    if (c->kind == MATRIX_RULE && c->proto < MATRIX_PROTOS) {
        put(to, size, ", ", protos[c->proto], "");
    }
    if (c->inner != IP_NONE) {
        put(to, size, ", ", family_name(c->inner), " inside");
    }
    if (c->underlay != IP_NONE) {
        put(to, size, ", over ", family_name(c->underlay), "");
    }
    if (c->out != IP_NONE) {
        put(to, size, ", to ", family_name(c->out), "");
    }
}
