#include "tests/unit/agent/p4rt/p4info_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/xgwh/phys.h"

/* Everything lives in one arena of its own and is forgotten as a whole. */
struct arena {
    uint8_t *bytes;
    size_t at, size;
};

static void *take(struct arena *a, size_t size)
{
    void *p = a->bytes + a->at;

    a->at += (size + 15) & ~(size_t)15;
    if (a->at > a->size) {
        abort();
    }
    return p;
}

static char *text(struct arena *a, const char *prefix, const char *name)
{
    char *s = take(a, 64);

    snprintf(s, 64, "%s%s", prefix, name);
    return s;
}

static P4__Config__V1__Preamble *preamble(struct arena *a, uint32_t id,
                                          const char *prefix, const char *name)
{
    P4__Config__V1__Preamble *p = take(a, sizeof(*p));

    p4__config__v1__preamble__init(p);
    p->id = id;
    p->name = text(a, prefix, name);
    p->alias = text(a, "", name);
    return p;
}

static P4__Config__V1__Table *table(struct arena *a, unsigned t)
{
    const struct phys_table_desc *d = phys_table_desc((enum phys_table)t);
    P4__Config__V1__Table *m = take(a, sizeof(*m));

    p4__config__v1__table__init(m);
    m->preamble = preamble(a, d->id, "IngressA.gateway.", d->name);
    m->size = phys_sizes_bench()->table[t];
    m->n_match_fields = d->field_count;
    m->match_fields = take(a, d->field_count * sizeof(void *));
    for (unsigned i = 0; i < d->field_count; i++) {
        P4__Config__V1__MatchField *f = m->match_fields[i] = take(a, sizeof(*f));

        p4__config__v1__match_field__init(f);
        f->id = d->fields[i].id;
        f->name = text(a, "", d->fields[i].name);
        f->bitwidth = d->fields[i].bits;
        f->match_case = P4__CONFIG__V1__MATCH_FIELD__MATCH_MATCH_TYPE;
        f->match_type = d->fields[i].match == PHYS_EXACT
                            ? P4__CONFIG__V1__MATCH_FIELD__MATCH_TYPE__EXACT
                            : P4__CONFIG__V1__MATCH_FIELD__MATCH_TYPE__TERNARY;
    }
    m->n_action_refs = d->action_count + 1u; /* and NoAction, as a default */
    m->action_refs = take(a, m->n_action_refs * sizeof(void *));
    for (unsigned i = 0; i <= d->action_count; i++) {
        P4__Config__V1__ActionRef *r = m->action_refs[i] = take(a, sizeof(*r));
        unsigned action = i < d->action_count ? d->actions[i] : PHYS_NO_ACTION;

        p4__config__v1__action_ref__init(r);
        r->id = phys_action_desc((enum phys_action)action)->id;
        r->scope = i < d->action_count ? 0 : 2;
    }
    return m;
}

static P4__Config__V1__Action *action(struct arena *a, unsigned n)
{
    const struct phys_action_desc *d = phys_action_desc((enum phys_action)n);
    P4__Config__V1__Action *m = take(a, sizeof(*m));

    p4__config__v1__action__init(m);
    m->preamble = preamble(a, d->id, "IngressA.", d->name);
    m->n_params = d->param_count;
    m->params = take(a, d->param_count * sizeof(void *));
    for (unsigned i = 0; i < d->param_count; i++) {
        P4__Config__V1__Action__Param *p = m->params[i] = take(a, sizeof(*p));

        p4__config__v1__action__param__init(p);
        p->id = d->params[i].id;
        p->name = text(a, "", d->params[i].name);
        p->bitwidth = d->params[i].bits;
    }
    return m;
}

static void cells(struct arena *a, P4__Config__V1__P4Info *info)
{
    info->n_meters = PHYS_METERS;
    info->meters = take(a, PHYS_METERS * sizeof(void *));
    for (unsigned i = 0; i < PHYS_METERS; i++) {
        P4__Config__V1__Meter *m = info->meters[i] = take(a, sizeof(*m));

        p4__config__v1__meter__init(m);
        m->preamble = preamble(a, 0x14000000 + 7 * i + 3, "EgressA.",
                               phys_meter_name((enum phys_meter)i));
        m->size = 4096;
    }
    info->n_counters = PHYS_COUNTERS;
    info->counters = take(a, PHYS_COUNTERS * sizeof(void *));
    for (unsigned i = 0; i < PHYS_COUNTERS; i++) {
        P4__Config__V1__Counter *m = info->counters[i] = take(a, sizeof(*m));

        p4__config__v1__counter__init(m);
        m->preamble = preamble(a, 0x12000000 + 5 * i + 9, "EgressA.",
                               phys_counter_name((enum phys_counter)i));
        m->size = 256;
    }
}

/* As p4/include/headers.p4 has them. */
static const struct {
    const char *packet;
    const char *field;
    uint32_t id;
    int32_t bits;
} packet_fields[] = {
    { "packet_in", "reason", 4, 8 },       { "packet_in", "probe", 3, 8 },
    { "packet_in", "ingress_port", 1, 9 }, { "packet_out", "probe", 3, 1 },
    { "packet_out", "egress_port", 1, 9 },
};

static void packet_metadata(struct arena *a, const char *name,
                            P4__Config__V1__ControllerPacketMetadata *m)
{
    m->metadata = take(a, 3 * sizeof(void *));
    for (unsigned i = 0; i < sizeof(packet_fields) / sizeof(packet_fields[0]); i++) {
        P4__Config__V1__ControllerPacketMetadata__Metadata *f;

        if (strcmp(packet_fields[i].packet, name) != 0) {
            continue;
        }
        f = take(a, sizeof(*f));
        p4__config__v1__controller_packet_metadata__metadata__init(f);
        f->id = packet_fields[i].id;
        f->name = text(a, "", packet_fields[i].field);
        f->bitwidth = packet_fields[i].bits;
        m->metadata[m->n_metadata++] = f;
    }
}

static void packets(struct arena *a, P4__Config__V1__P4Info *info)
{
    static const char *const names[] = { "packet_in", "packet_out" };

    info->n_controller_packet_metadata = 2;
    info->controller_packet_metadata = take(a, 2 * sizeof(void *));
    for (unsigned i = 0; i < 2; i++) {
        P4__Config__V1__ControllerPacketMetadata *m = take(a, sizeof(*m));

        info->controller_packet_metadata[i] = m;
        p4__config__v1__controller_packet_metadata__init(m);
        m->preamble = preamble(a, 0x04000000 + i, "", names[i]);
        packet_metadata(a, names[i], m);
    }
}

void p4info_split_drops(P4__Config__V1__P4Info *info, int parts)
{
    static char names[8][40];
    static P4__Config__V1__Preamble preambles[8];
    static P4__Config__V1__Counter more[8];
    static P4__Config__V1__Counter *counters[PHYS_COUNTERS + 8];

    memcpy(counters, info->counters, info->n_counters * sizeof(void *));
    for (int i = 1; i < parts; i++) {
        p4__config__v1__counter__init(&more[i]);
        p4__config__v1__preamble__init(&preambles[i]);
        snprintf(names[i], sizeof(names[i]), "Gress%d.drop_count.drop_reason", i);
        preambles[i].id = P4INFO_DROP_PART(i);
        preambles[i].name = names[i];
        more[i].preamble = &preambles[i];
        more[i].size = 256;
        counters[info->n_counters++] = &more[i];
    }
    info->counters = counters;
}

void p4info_make(struct buf *to, p4info_change *change, int arg)
{
    struct arena a = { .size = 1 << 18 };
    P4__Config__V1__P4Info info = P4__CONFIG__V1__P4_INFO__INIT;
    P4__Config__V1__PkgInfo pkg = P4__CONFIG__V1__PKG_INFO__INIT;
    uint8_t *packed;
    size_t len;

    a.bytes = calloc(1, a.size);
    if (!a.bytes) {
        abort();
    }
    pkg.name = text(&a, "", "xgw_h");
    info.pkg_info = &pkg;
    info.n_tables = PHYS_TABLES;
    info.tables = take(&a, PHYS_TABLES * sizeof(void *));
    for (unsigned i = 0; i < PHYS_TABLES; i++) {
        info.tables[i] = table(&a, i);
    }
    info.n_actions = PHYS_ACTIONS;
    info.actions = take(&a, PHYS_ACTIONS * sizeof(void *));
    for (unsigned i = 0; i < PHYS_ACTIONS; i++) {
        info.actions[i] = action(&a, i);
    }
    cells(&a, &info);
    packets(&a, &info);
    if (change) {
        change(&info, arg);
    }
    len = protobuf_c_message_get_packed_size(&info.base);
    packed = malloc(len);
    protobuf_c_message_pack(&info.base, packed);
    buf_add(to, packed, len);
    free(packed);
    free(a.bytes);
}
