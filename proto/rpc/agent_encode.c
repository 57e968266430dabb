#include "proto/rpc/agent_codec.h"

#include <stdlib.h>

#include "proto/api/agent.pb-c.h"
#include "proto/rpc/agent_wire.h"
#include "proto/rpc/wire.h"

static void put_varint(struct buf *to, uint64_t v)
{
    uint8_t bytes[WIRE_VARINT_MAX];

    buf_add(to, bytes, wire_varint(bytes, v));
}

static void put_head(struct buf *to, uint32_t field, uint64_t len)
{
    uint8_t bytes[2 * WIRE_VARINT_MAX];

    buf_add(to, bytes, wire_head(bytes, field, len));
}

static void put_number(struct buf *to, unsigned field, uint64_t v)
{
    if (v != 0) {
        put_varint(to, field << 3 | WIRE_VARINT);
        put_varint(to, v);
    }
}

enum rc agent_wire_pack(const ProtobufCMessage *m, struct buf *to)
{
    size_t len = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(len + 1);

    if (!bytes) {
        return RC_NO_MEMORY;
    }
    protobuf_c_message_pack(m, bytes);
    buf_add(to, bytes, len);
    free(bytes);
    return buf_failed(to) ? RC_NO_MEMORY : RC_OK;
}

static enum rc put_agent(struct buf *to, Xgw__Agent__V1__AgentMessage__MCase kind,
                         void *body)
{
    Xgw__Agent__V1__AgentMessage wire = XGW__AGENT__V1__AGENT_MESSAGE__INIT;

    wire.m_case = kind;
    wire.hello = body; /* the union's members are pointers alike */
    return agent_wire_pack(&wire.base, to);
}

static enum rc put_hello(const struct agent_hello *h, struct buf *to)
{
    Xgw__Agent__V1__Hello wire = XGW__AGENT__V1__HELLO__INIT;
    Xgw__Agent__V1__Digest digests[TABLE_COUNT];
    Xgw__Agent__V1__Digest *roots[TABLE_COUNT];

    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        xgw__agent__v1__digest__init(&digests[i]);
        digests[i].sum = h->root[i].sum;
        digests[i].count = h->root[i].count;
        roots[i] = &digests[i];
    }
    wire.device_id = (char *)h->device_id;
    wire.device_kind = h->device_kind;
    wire.term_seen = h->term_seen;
    wire.boot_id = h->boot_id;
    wire.applied = h->applied;
    wire.ready = h->ready;
    wire.believed = h->believed;
    wire.config_digest = h->config_digest;
    wire.n_root = TABLE_COUNT;
    wire.root = roots;
    wire.version = (char *)h->version;
    wire.hello_id = h->hello_id;
    return put_agent(to, XGW__AGENT__V1__AGENT_MESSAGE__M_HELLO, &wire);
}

static void fill_query_item(Xgw__Agent__V1__QueryItem *wire, const struct query_item *q)
{
    xgw__agent__v1__query_item__init(wire);
    wire->table = q->table;
    wire->depth = q->node.depth;
    wire->vni = q->node.vni;
    wire->bucket_depth = q->bucket.depth;
    wire->bucket_path = q->bucket.path;
}

/* The arrays of one DIGESTS message on their way out; some 80 KiB. */
struct digests_wire {
    Xgw__Agent__V1__DigestsItem items[QUERY_MAX];
    Xgw__Agent__V1__DigestsItem *pointers[QUERY_MAX];
    Xgw__Agent__V1__QueryItem of[QUERY_MAX];
    uint8_t index[QUERY_MAX][64];
    uint64_t sum[QUERY_MAX][64];
    uint64_t count[QUERY_MAX][64];
};

static enum rc put_digests(const struct agent_digests *d, struct buf *to)
{
    Xgw__Agent__V1__Digests wire = XGW__AGENT__V1__DIGESTS__INIT;
    struct digests_wire *w;
    enum rc rc;

    if (d->item_count > QUERY_MAX) {
        return RC_RANGE;
    }
    w = malloc(sizeof(*w));
    if (!w) {
        return RC_NO_MEMORY;
    }
    for (uint32_t i = 0; i < d->item_count; i++) {
        const struct digests_item *from = &d->items[i];
        Xgw__Agent__V1__DigestsItem *item = &w->items[i];

        xgw__agent__v1__digests_item__init(item);
        fill_query_item(&w->of[i], &from->of);
        for (unsigned c = 0; c < from->child_count; c++) {
            w->index[i][c] = from->children[c].index;
            w->sum[i][c] = from->children[c].digest.sum;
            w->count[i][c] = from->children[c].digest.count;
        }
        item->of = &w->of[i];
        item->index.data = w->index[i];
        item->index.len = from->child_count;
        item->n_sum = item->n_count = from->child_count;
        item->sum = w->sum[i];
        item->count = w->count[i];
        w->pointers[i] = item;
    }
    wire.query_id = d->query_id;
    wire.n_items = d->item_count;
    wire.items = w->pointers;
    rc = put_agent(to, XGW__AGENT__V1__AGENT_MESSAGE__M_DIGESTS, &wire);
    free(w);
    return rc;
}

static enum rc put_ack(const struct agent_ack *a, struct buf *to)
{
    Xgw__Agent__V1__Ack wire = XGW__AGENT__V1__ACK__INIT;
    Xgw__Agent__V1__Exception *list = NULL;
    Xgw__Agent__V1__Exception **pointers = NULL;
    enum rc rc = RC_NO_MEMORY;

    if (a->exception_listed > EXCEPTIONS_MAX) {
        return RC_RANGE;
    }
    list = malloc((a->exception_listed + 1) * sizeof(*list));
    pointers = malloc((a->exception_listed + 1) *
                      sizeof(Xgw__Agent__V1__Exception *)); /* NOLINT: pointers */
    if (list && pointers) {
        for (uint32_t i = 0; i < a->exception_listed; i++) {
            xgw__agent__v1__exception__init(&list[i]);
            list[i].reason = a->exceptions[i].reason;
            list[i].table = a->exceptions[i].table;
            list[i].vni = a->exceptions[i].vni;
            list[i].key.data = a->exceptions[i].key;
            list[i].key.len = a->exceptions[i].key_len;
            pointers[i] = &list[i];
        }
        wire.seq = a->seq;
        wire.applied = a->applied;
        wire.ready = a->ready;
        wire.exception_count = a->exception_count;
        wire.n_exceptions = a->exception_listed;
        wire.exceptions = pointers;
        wire.standing = a->standing;
        rc = put_agent(to, XGW__AGENT__V1__AGENT_MESSAGE__M_ACK, &wire);
    }
    free(list);
    free(pointers);
    return rc;
}

static enum rc put_beat(const struct agent_beat *b, struct buf *to)
{
    Xgw__Agent__V1__Beat wire = XGW__AGENT__V1__BEAT__INIT;

    wire.applied = b->applied;
    wire.boot_id = b->boot_id;
    wire.ready = b->ready;
    wire.rx_packets = b->totals.rx_packets;
    wire.rx_bytes = b->totals.rx_bytes;
    wire.tx_packets = b->totals.tx_packets;
    wire.tx_bytes = b->totals.tx_bytes;
    wire.drops = b->totals.drops;
    return put_agent(to, XGW__AGENT__V1__AGENT_MESSAGE__M_BEAT, &wire);
}

static enum rc put_audit(const struct agent_audit *a, struct buf *to)
{
    Xgw__Agent__V1__Audit wire = XGW__AGENT__V1__AUDIT__INIT;
    Xgw__Agent__V1__Digest digests[TABLE_COUNT];
    Xgw__Agent__V1__Digest *found[TABLE_COUNT];

    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        xgw__agent__v1__digest__init(&digests[i]);
        digests[i].sum = a->found[i].sum;
        digests[i].count = a->found[i].count;
        found[i] = &digests[i];
    }
    wire.audit_id = a->audit_id;
    wire.code = (uint32_t)a->rc;
    wire.n_found = TABLE_COUNT;
    wire.found = found;
    return put_agent(to, XGW__AGENT__V1__AGENT_MESSAGE__M_AUDIT, &wire);
}

static enum rc put_counters(const struct agent_counters *c, struct buf *to)
{
    Xgw__Agent__V1__Counters wire = XGW__AGENT__V1__COUNTERS__INIT;
    struct {
        uint32_t vni[COUNTERS_MAX], cell[COUNTERS_MAX];
        uint64_t packets[COUNTERS_MAX], bytes[COUNTERS_MAX];
    } * w;
    enum rc rc;

    if (c->item_count > COUNTERS_MAX) {
        return RC_RANGE;
    }
    w = malloc(sizeof(*w));
    if (!w) {
        return RC_NO_MEMORY;
    }
    for (uint32_t i = 0; i < c->item_count; i++) {
        w->vni[i] = c->items[i].vni;
        w->cell[i] = c->items[i].cell;
        w->packets[i] = c->items[i].packets;
        w->bytes[i] = c->items[i].bytes;
    }
    wire.ask_id = c->ask_id;
    wire.code = (uint32_t)c->rc;
    wire.n_vni = wire.n_cell = wire.n_packets = wire.n_bytes = c->item_count;
    wire.vni = w->vni;
    wire.cell = w->cell;
    wire.packets = w->packets;
    wire.bytes = w->bytes;
    wire.next_vni = c->next_vni;
    wire.rest_packets = c->rest_packets;
    wire.rest_bytes = c->rest_bytes;
    rc = put_agent(to, XGW__AGENT__V1__AGENT_MESSAGE__M_COUNTERS, &wire);
    free(w);
    return rc;
}

static enum rc put_probe(const struct agent_probe *p, struct buf *to)
{
    Xgw__Agent__V1__Probe wire = XGW__AGENT__V1__PROBE__INIT;
    const struct probe_result *r = &p->result;

    wire.probe_id = p->probe_id;
    wire.code = (uint32_t)r->rc;
    wire.error = (char *)r->error;
    wire.outcome = r->outcome;
    wire.reason = (char *)r->reason;
    wire.port = (char *)r->port;
    if (r->frame) {
        wire.frame = (ProtobufCBinaryData){ r->frame->len, r->frame->data };
    }
    return put_agent(to, XGW__AGENT__V1__AGENT_MESSAGE__M_PROBE, &wire);
}

static enum rc put_rows(const struct agent_rows *r, struct buf *to)
{
    Xgw__Agent__V1__Rows wire = XGW__AGENT__V1__ROWS__INIT;

    wire.ask_id = r->ask_id;
    wire.code = (uint32_t)r->rc;
    if (r->rows) {
        wire.rows.data = r->rows->data;
        wire.rows.len = r->rows->len;
    }
    return put_agent(to, XGW__AGENT__V1__AGENT_MESSAGE__M_ROWS, &wire);
}

enum rc agent_msg_encode(const struct agent_msg *m, struct buf *to)
{
    switch (m->kind) {
    case AGENT_HELLO:
        return put_hello(&m->hello, to);
    case AGENT_DIGESTS:
        return put_digests(&m->digests, to);
    case AGENT_ACK:
        return put_ack(&m->ack, to);
    case AGENT_BEAT:
        return put_beat(&m->beat, to);
    case AGENT_AUDIT:
        return put_audit(&m->audit, to);
    case AGENT_TELEMETRY:
        return agent_telemetry_encode(m->telemetry, to);
    case AGENT_COUNTERS:
        return put_counters(&m->counters, to);
    case AGENT_PROBE:
        return put_probe(&m->probe, to);
    case AGENT_ROWS:
        return put_rows(&m->rows, to);
    }
    return RC_BUG;
}

static enum rc put_ctl(struct buf *to, Xgw__Agent__V1__ControllerMessage__MCase kind,
                       void *body)
{
    Xgw__Agent__V1__ControllerMessage wire = XGW__AGENT__V1__CONTROLLER_MESSAGE__INIT;

    wire.m_case = kind;
    wire.assign = body;
    return agent_wire_pack(&wire.base, to);
}

static enum rc put_assign(const struct ctl_assign *a, struct buf *to)
{
    Xgw__Agent__V1__Assign wire = XGW__AGENT__V1__ASSIGN__INIT;

    wire.term = a->term;
    wire.group = (char *)a->group;
    wire.beat_ms = a->beat_ms;
    wire.hello_id = a->hello_id;
    wire.telemetry_ms = a->telemetry_ms;
    if (a->config) {
        wire.config.data = a->config->data;
        wire.config.len = a->config->len;
    }
    return put_ctl(to, XGW__AGENT__V1__CONTROLLER_MESSAGE__M_ASSIGN, &wire);
}

static enum rc put_query(const struct ctl_query *q, struct buf *to)
{
    Xgw__Agent__V1__Query wire = XGW__AGENT__V1__QUERY__INIT;
    Xgw__Agent__V1__QueryItem items[QUERY_MAX];
    Xgw__Agent__V1__QueryItem *pointers[QUERY_MAX];

    if (q->item_count > QUERY_MAX) {
        return RC_RANGE;
    }
    for (uint32_t i = 0; i < q->item_count; i++) {
        fill_query_item(&items[i], &q->items[i]);
        pointers[i] = &items[i];
    }
    wire.query_id = q->query_id;
    wire.n_items = q->item_count;
    wire.items = pointers;
    return put_ctl(to, XGW__AGENT__V1__CONTROLLER_MESSAGE__M_QUERY, &wire);
}

/* Everything in front of the bytes of `ops`. */
static enum rc put_batch(const struct ctl_batch *b, struct buf *to)
{
    uint32_t ops_len = b->ops ? b->ops->len : 0;
    struct buf body = BUF_INIT;
    enum rc rc = RC_NO_MEMORY;

    put_number(&body, BATCH_SEQ, b->seq);
    put_number(&body, BATCH_REVISION, b->revision);
    put_number(&body, BATCH_READY, b->ready);
    if (ops_len > 0) {
        put_head(&body, BATCH_OPS, ops_len);
    }
    if (!buf_failed(&body)) {
        put_head(to, CTL_BATCH, body.len + ops_len);
        buf_add(to, body.data, body.len);
        rc = buf_failed(to) ? RC_NO_MEMORY : RC_OK;
    }
    buf_fini(&body);
    return rc;
}

static enum rc put_audit_request(const struct ctl_audit *a, struct buf *to)
{
    Xgw__Agent__V1__AuditRequest wire = XGW__AGENT__V1__AUDIT_REQUEST__INIT;

    wire.audit_id = a->audit_id;
    wire.vni = a->vni;
    return put_ctl(to, XGW__AGENT__V1__CONTROLLER_MESSAGE__M_AUDIT, &wire);
}

static enum rc put_counters_request(const struct ctl_counters *c, struct buf *to)
{
    Xgw__Agent__V1__CountersRequest wire = XGW__AGENT__V1__COUNTERS_REQUEST__INIT;

    wire.ask_id = c->ask_id;
    wire.from_vni = c->from_vni;
    return put_ctl(to, XGW__AGENT__V1__CONTROLLER_MESSAGE__M_COUNTERS, &wire);
}

static enum rc put_probe_request(const struct ctl_probe *p, struct buf *to)
{
    Xgw__Agent__V1__ProbeRequest wire = XGW__AGENT__V1__PROBE_REQUEST__INIT;

    wire.probe_id = p->probe_id;
    wire.frame = (ProtobufCBinaryData){ p->frame->len, p->frame->data };
    return put_ctl(to, XGW__AGENT__V1__CONTROLLER_MESSAGE__M_PROBE, &wire);
}

static enum rc put_probes_request(const struct ctl_probes *p, struct buf *to)
{
    Xgw__Agent__V1__ProbesRequest wire = XGW__AGENT__V1__PROBES_REQUEST__INIT;
    Xgw__Agent__V1__ProbeRequest at[PROBES_BATCH_MAX];
    Xgw__Agent__V1__ProbeRequest *list[PROBES_BATCH_MAX];

    for (uint32_t i = 0; i < p->count; i++) {
        xgw__agent__v1__probe_request__init(&at[i]);
        at[i].probe_id = p->at[i].probe_id;
        at[i].frame =
            (ProtobufCBinaryData){ p->at[i].frame->len, p->at[i].frame->data };
        list[i] = &at[i];
    }
    wire.n_probes = p->count;
    wire.probes = list;
    return put_ctl(to, XGW__AGENT__V1__CONTROLLER_MESSAGE__M_PROBES, &wire);
}

static enum rc put_rows_request(const struct ctl_rows *r, struct buf *to)
{
    Xgw__Agent__V1__RowsRequest wire = XGW__AGENT__V1__ROWS_REQUEST__INIT;
    Xgw__Agent__V1__QueryItem of;

    fill_query_item(&of, &r->of);
    wire.ask_id = r->ask_id;
    wire.of = &of;
    return put_ctl(to, XGW__AGENT__V1__CONTROLLER_MESSAGE__M_ROWS, &wire);
}

enum rc ctl_msg_encode(const struct ctl_msg *m, struct buf *to, struct blob **ret_tail)
{
    *ret_tail = NULL;
    switch (m->kind) {
    case CTL_ASSIGN:
        return put_assign(&m->assign, to);
    case CTL_QUERY:
        return put_query(&m->query, to);
    case CTL_BATCH:
        if (m->batch.ops && m->batch.ops->len > 0) {
            *ret_tail = m->batch.ops;
        }
        return put_batch(&m->batch, to);
    case CTL_REDIRECT:
        return put_ctl(to, XGW__AGENT__V1__CONTROLLER_MESSAGE__M_REDIRECT,
                       (void *)m->redirect);
    case CTL_AUDIT:
        return put_audit_request(&m->audit, to);
    case CTL_COUNTERS:
        return put_counters_request(&m->counters, to);
    case CTL_PROBE:
        return put_probe_request(&m->probe, to);
    case CTL_ROWS:
        return put_rows_request(&m->rows, to);
    case CTL_PROBES:
        return put_probes_request(&m->probes, to);
    }
    return RC_BUG;
}
