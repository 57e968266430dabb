#include "proto/rpc/agent_codec.h"

#include <stdlib.h>
#include <string.h>

#include "proto/api/agent.pb-c.h"
#include "proto/rpc/agent_wire.h"
#include "proto/rpc/wire.h"

#define BEAT_MS_MAX 3600000u

/* Finds the one member of the message's oneof, all of which are fields with bytes whose
 * numbers are listed in `known`.  Fields we do not know are stepped over. */
static enum rc find_member(const void *bytes, size_t len, const uint8_t *known,
                           size_t known_count, struct wire_field *ret, struct err *err)
{
    struct reader r = reader_of(bytes, len);
    bool has_one = false;
    struct wire_field f;

    while (reader_left(&r) > 0) {
        if (!wire_next(&r, &f)) {
            return err_field(err, RC_INVALID, "message", "protobuf", "not protobuf");
        }
        if (f.number > UINT8_MAX || !memchr(known, (int)f.number, known_count)) {
            continue;
        }
        if (f.type != WIRE_BYTES || has_one) {
            return err_field(err, RC_INVALID, "message", "one_of",
                             "not exactly one message");
        }
        has_one = true;
        *ret = f;
    }
    if (!has_one) {
        return err_field(err, RC_INVALID, "message", "one_of", "an unknown message");
    }
    return RC_OK;
}

enum rc agent_wire_bad(struct err *err, const char *field)
{
    return err_field(err, RC_INVALID, field, "bounds", "%s: outside its bounds", field);
}

/* Null and `*rc` set when the bytes are no such message or are too many. */
static void *unpack(const ProtobufCMessageDescriptor *d, const struct wire_field *f,
                    size_t max, enum rc *rc, struct err *err)
{
    void *m = NULL;

    if (f->len > max) {
        *rc = err_field(err, RC_INVALID, d->short_name, "length",
                        "%s of %zu bytes: more than %zu", d->short_name, f->len, max);
        return NULL;
    }
    m = protobuf_c_message_unpack(d, NULL, f->len, f->bytes);
    if (!m) {
        *rc = err_field(err, RC_INVALID, d->short_name, "protobuf", "%s: not protobuf",
                        d->short_name);
    }
    return m;
}

/* Copies a text of at most `size` - 1 bytes without control characters. */
bool agent_wire_text(char *to, size_t size, const char *from)
{
    size_t len = strlen(from);

    if (len >= size) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)from[i] < 0x20 || from[i] == 0x7f) {
            return false;
        }
    }
    memset(to, 0, size);
    memcpy(to, from, len + 1);
    return true;
}

static enum rc take_hello(const Xgw__Agent__V1__Hello *w, struct agent_hello *h,
                          struct err *err)
{
    memset(h, 0, sizeof(*h));
    if (!agent_wire_text(h->device_id, sizeof(h->device_id), w->device_id) ||
        !h->device_id[0]) {
        return agent_wire_bad(err, "hello.device_id");
    }
    if (w->device_kind == 0 || w->device_kind > UINT8_MAX) {
        return agent_wire_bad(err, "hello.device_kind");
    }
    if (!agent_wire_text(h->version, sizeof(h->version), w->version)) {
        return agent_wire_bad(err, "hello.version");
    }
    if (w->n_root != TABLE_COUNT) {
        return agent_wire_bad(err, "hello.root");
    }
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        h->root[i].sum = w->root[i]->sum;
        h->root[i].count = w->root[i]->count;
    }
    h->device_kind = (uint8_t)w->device_kind;
    h->term_seen = w->term_seen;
    h->boot_id = w->boot_id;
    h->applied = w->applied;
    h->ready = w->ready;
    h->believed = w->believed;
    h->config_digest = w->config_digest;
    h->hello_id = w->hello_id;
    return RC_OK;
}

static bool take_query_item(const Xgw__Agent__V1__QueryItem *w, struct query_item *q)
{
    memset(q, 0, sizeof(*q));
    if (!w || w->table > UINT8_MAX || w->depth > UINT8_MAX ||
        w->bucket_depth > UINT8_MAX) {
        return false;
    }
    q->table = (uint8_t)w->table;
    q->node.depth = (uint8_t)w->depth;
    q->node.vni = w->vni;
    q->bucket.depth = (uint8_t)w->bucket_depth;
    q->bucket.path = w->bucket_path;
    return query_item_is_valid(q);
}

static bool take_children(const Xgw__Agent__V1__DigestsItem *w, struct digests_item *d)
{
    uint32_t max = query_item_child_max(&d->of);

    if (w->index.len > max || w->n_sum != w->index.len || w->n_count != w->index.len) {
        return false;
    }
    for (size_t i = 0; i < w->index.len; i++) {
        struct tree_child *c = &d->children[i];

        if (w->index.data[i] >= max || w->count[i] == 0 ||
            (i > 0 && w->index.data[i] <= w->index.data[i - 1])) {
            return false;
        }
        c->index = w->index.data[i];
        c->digest.sum = w->sum[i];
        c->digest.count = w->count[i];
    }
    d->child_count = (uint8_t)w->index.len;
    return true;
}

static enum rc take_digests(const Xgw__Agent__V1__Digests *w, struct agent_digests *d,
                            struct err *err)
{
    struct digests_item *items;

    if (w->n_items == 0 || w->n_items > QUERY_MAX) {
        return agent_wire_bad(err, "digests.items");
    }
    items = calloc(w->n_items, sizeof(*items));
    if (!items) {
        return err_set(err, RC_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < w->n_items; i++) {
        if (!take_query_item(w->items[i]->of, &items[i].of)) {
            free(items);
            return agent_wire_bad(err, "digests.items.of");
        }
        if (!take_children(w->items[i], &items[i])) {
            free(items);
            return agent_wire_bad(err, "digests.items.index");
        }
    }
    d->query_id = w->query_id;
    d->items = items;
    d->item_count = (uint32_t)w->n_items;
    return RC_OK;
}

static bool take_exception(const Xgw__Agent__V1__Exception *w, struct exception *e)
{
    memset(e, 0, sizeof(*e));
    if (w->reason < EXCEPTION_FULL || w->reason > EXCEPTION_UNKNOWN ||
        w->table >= TABLE_COUNT || w->vni < VNI_MIN || w->vni > VNI_MAX ||
        w->key.len > ENTRY_KEY_MAX) {
        return false;
    }
    e->reason = (uint8_t)w->reason;
    e->table = (uint8_t)w->table;
    e->vni = w->vni;
    e->key_len = (uint8_t)w->key.len;
    if (w->key.len > 0) {
        memcpy(e->key, w->key.data, w->key.len);
    }
    return true;
}

static enum rc take_ack(const Xgw__Agent__V1__Ack *w, struct agent_ack *a,
                        struct err *err)
{
    struct exception *list = NULL;

    if (w->n_exceptions > EXCEPTIONS_MAX) {
        return agent_wire_bad(err, "ack.exceptions");
    }
    if (w->standing > w->n_exceptions) {
        return agent_wire_bad(err, "ack.standing");
    }
    if (w->n_exceptions > 0) {
        list = calloc(w->n_exceptions, sizeof(*list));
        if (!list) {
            return err_set(err, RC_NO_MEMORY, "out of memory");
        }
    }
    for (size_t i = 0; i < w->n_exceptions; i++) {
        if (!take_exception(w->exceptions[i], &list[i])) {
            free(list);
            return agent_wire_bad(err, "ack.exceptions");
        }
    }
    a->seq = w->seq;
    a->applied = w->applied;
    a->ready = w->ready;
    a->exception_count = w->exception_count;
    a->exceptions = list;
    a->exception_listed = (uint32_t)w->n_exceptions;
    a->standing = w->standing;
    return RC_OK;
}

static void take_beat(const Xgw__Agent__V1__Beat *w, struct agent_beat *b)
{
    b->applied = w->applied;
    b->boot_id = w->boot_id;
    b->ready = w->ready;
    b->totals.rx_packets = w->rx_packets;
    b->totals.rx_bytes = w->rx_bytes;
    b->totals.tx_packets = w->tx_packets;
    b->totals.tx_bytes = w->tx_bytes;
    b->totals.drops = w->drops;
}

static const ProtobufCMessageDescriptor *const agent_bodies[] = {
    [AGENT_HELLO] = &xgw__agent__v1__hello__descriptor,
    [AGENT_DIGESTS] = &xgw__agent__v1__digests__descriptor,
    [AGENT_ACK] = &xgw__agent__v1__ack__descriptor,
    [AGENT_BEAT] = &xgw__agent__v1__beat__descriptor,
    [AGENT_AUDIT] = &xgw__agent__v1__audit__descriptor,
    [AGENT_TELEMETRY] = &xgw__agent__v1__telemetry__descriptor,
    [AGENT_COUNTERS] = &xgw__agent__v1__counters__descriptor,
    [AGENT_PROBE] = &xgw__agent__v1__probe__descriptor,
    [AGENT_ROWS] = &xgw__agent__v1__rows__descriptor,
};

static enum rc take_rows(const Xgw__Agent__V1__Rows *w, struct agent_rows *r,
                         struct err *err)
{
    if (w->code > RC_BUG) {
        return agent_wire_bad(err, "rows.code");
    }
    if (w->rows.len > BATCH_MAX_BYTES) {
        return agent_wire_bad(err, "rows.rows");
    }
    r->ask_id = w->ask_id;
    r->rc = (enum rc)w->code;
    if (w->rows.len > 0) {
        r->rows = blob_copy(w->rows.data, w->rows.len);
        if (!r->rows) {
            return err_set(err, RC_NO_MEMORY, "out of memory");
        }
    }
    return RC_OK;
}

static enum rc take_audit(const Xgw__Agent__V1__Audit *w, struct agent_audit *a,
                          struct err *err)
{
    if (w->code > RC_BUG) {
        return agent_wire_bad(err, "audit.code");
    }
    if (w->n_found > TABLE_COUNT) {
        return agent_wire_bad(err, "audit.found");
    }
    a->audit_id = w->audit_id;
    a->rc = (enum rc)w->code;
    for (size_t i = 0; i < w->n_found; i++) {
        a->found[i] = (struct digest){ w->found[i]->sum, w->found[i]->count };
    }
    return RC_OK;
}

static enum rc take_counters(const Xgw__Agent__V1__Counters *w,
                             struct agent_counters *c, struct err *err)
{
    if (w->code > RC_BUG) {
        return agent_wire_bad(err, "counters.code");
    }
    if (w->n_vni > COUNTERS_MAX || w->n_cell != w->n_vni || w->n_packets != w->n_vni ||
        w->n_bytes != w->n_vni || w->next_vni > VNI_MAX) {
        return agent_wire_bad(err, "counters.vni");
    }
    for (size_t i = 0; i < w->n_vni; i++) {
        /* What is told next lies behind it, so that asking comes to an end. */
        if (w->vni[i] < VNI_MIN || w->vni[i] > VNI_MAX ||
            (i > 0 && w->vni[i] <= w->vni[i - 1]) ||
            (w->next_vni != 0 && w->vni[i] >= w->next_vni)) {
            return agent_wire_bad(err, "counters.vni");
        }
    }
    c->items = w->n_vni > 0 ? calloc(w->n_vni, sizeof(*c->items)) : NULL;
    if (w->n_vni > 0 && !c->items) {
        return err_set(err, RC_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < w->n_vni; i++) {
        c->items[i] =
            (struct vni_counter){ w->vni[i], w->cell[i], w->packets[i], w->bytes[i] };
    }
    c->item_count = (uint32_t)w->n_vni;
    c->ask_id = w->ask_id;
    c->rc = (enum rc)w->code;
    c->next_vni = w->next_vni;
    c->rest_packets = w->rest_packets;
    c->rest_bytes = w->rest_bytes;
    return RC_OK;
}

static const uint8_t agent_members[] = { AGENT_HELLO,    AGENT_DIGESTS,   AGENT_ACK,
                                         AGENT_BEAT,     AGENT_TELEMETRY, AGENT_AUDIT,
                                         AGENT_COUNTERS, AGENT_PROBE,     AGENT_ROWS };

enum rc agent_msg_decode(const void *bytes, size_t len, struct agent_msg *ret,
                         struct err *err)
{
    struct wire_field f = { 0 };
    struct agent_msg m = { 0 };
    enum rc rc = find_member(bytes, len, agent_members, sizeof(agent_members), &f, err);
    void *body;

    if (rc != RC_OK) {
        return rc;
    }
    body = unpack(agent_bodies[f.number], &f, AGENT_MSG_WIRE_MAX, &rc, err);
    if (!body) {
        return rc;
    }
    m.kind = (enum agent_msg_kind)f.number;
    switch (m.kind) {
    case AGENT_HELLO:
        rc = take_hello(body, &m.hello, err);
        break;
    case AGENT_DIGESTS:
        rc = take_digests(body, &m.digests, err);
        break;
    case AGENT_ACK:
        rc = take_ack(body, &m.ack, err);
        break;
    case AGENT_BEAT:
        take_beat(body, &m.beat);
        break;
    case AGENT_AUDIT:
        rc = take_audit(body, &m.audit, err);
        break;
    case AGENT_TELEMETRY:
        rc = agent_telemetry_take(body, &m.telemetry, err);
        break;
    case AGENT_COUNTERS:
        rc = take_counters(body, &m.counters, err);
        break;
    case AGENT_PROBE:
        rc = agent_probe_take(body, &m.probe, err);
        break;
    case AGENT_ROWS:
        rc = take_rows(body, &m.rows, err);
        break;
    }
    protobuf_c_message_free_unpacked(body, NULL);
    if (rc == RC_OK) {
        *ret = m;
    }
    return rc;
}

static enum rc take_assign(const struct wire_field *f, struct ctl_assign *a,
                           struct err *err)
{
    enum rc rc = RC_OK;
    Xgw__Agent__V1__Assign *w =
        unpack(&xgw__agent__v1__assign__descriptor, f, CTL_CONFIG_MAX + 128, &rc, err);

    if (!w) {
        return rc;
    }
    if (!agent_wire_text(a->group, sizeof(a->group), w->group)) {
        rc = agent_wire_bad(err, "assign.group");
    } else if (w->beat_ms == 0 || w->beat_ms > BEAT_MS_MAX) {
        rc = agent_wire_bad(err, "assign.beat_ms");
    } else if (w->telemetry_ms > BEAT_MS_MAX) {
        rc = agent_wire_bad(err, "assign.telemetry_ms");
    } else if (w->config.len > CTL_CONFIG_MAX) {
        rc = agent_wire_bad(err, "assign.config");
    } else if (w->config.len > 0) {
        a->config = blob_copy(w->config.data, w->config.len);
        rc = a->config ? RC_OK : err_set(err, RC_NO_MEMORY, "out of memory");
    }
    a->term = w->term;
    a->beat_ms = w->beat_ms;
    a->hello_id = w->hello_id;
    a->telemetry_ms = w->telemetry_ms;
    xgw__agent__v1__assign__free_unpacked(w, NULL);
    return rc;
}

static enum rc take_query(const struct wire_field *f, struct ctl_query *q,
                          struct err *err)
{
    enum rc rc = RC_OK;
    Xgw__Agent__V1__Query *w =
        unpack(&xgw__agent__v1__query__descriptor, f, (size_t)QUERY_MAX * 64, &rc, err);

    if (!w) {
        return rc;
    }
    if (w->n_items == 0 || w->n_items > QUERY_MAX) {
        rc = agent_wire_bad(err, "query.items");
    }
    for (size_t i = 0; rc == RC_OK && i < w->n_items; i++) {
        if (!take_query_item(w->items[i], &q->items[i])) {
            rc = agent_wire_bad(err, "query.items");
        }
    }
    q->query_id = w->query_id;
    q->item_count = (uint32_t)w->n_items;
    xgw__agent__v1__query__free_unpacked(w, NULL);
    return rc;
}

static enum rc take_batch(const struct wire_field *in, struct ctl_batch *b,
                          struct err *err)
{
    struct reader r = reader_of(in->bytes, in->len);
    struct wire_field f;
    struct wire_field ops = { 0 };

    while (reader_left(&r) > 0) {
        if (!wire_next(&r, &f)) {
            return err_field(err, RC_INVALID, "batch", "protobuf", "not protobuf");
        }
        if (f.number == BATCH_OPS && f.type == WIRE_BYTES) {
            ops = f;
        } else if (f.number == BATCH_SEQ && f.type == WIRE_VARINT) {
            b->seq = f.value;
        } else if (f.number == BATCH_REVISION && f.type == WIRE_VARINT) {
            b->revision = f.value;
        } else if (f.number == BATCH_READY && f.type == WIRE_VARINT) {
            b->ready = f.value != 0;
        } else if (f.number <= BATCH_READY || f.number == BATCH_OPS) {
            return err_field(err, RC_INVALID, "batch", "protobuf", "a wrong wire type");
        }
    }
    if (b->seq == 0) {
        return agent_wire_bad(err, "batch.seq");
    }
    if (ops.len > BATCH_MAX_BYTES) {
        return agent_wire_bad(err, "batch.ops");
    }
    if (ops.len > 0) {
        b->ops = blob_copy(ops.bytes, ops.len);
        if (!b->ops) {
            return err_set(err, RC_NO_MEMORY, "out of memory");
        }
    }
    return RC_OK;
}

static enum rc take_redirect(const struct wire_field *f, char *to, size_t size,
                             struct err *err)
{
    if (f->len == 0 || f->len >= size) {
        return agent_wire_bad(err, "redirect");
    }
    for (size_t i = 0; i < f->len; i++) {
        if (f->bytes[i] <= 0x20 || f->bytes[i] >= 0x7f) {
            return agent_wire_bad(err, "redirect");
        }
    }
    memcpy(to, f->bytes, f->len);
    to[f->len] = '\0';
    return RC_OK;
}

static enum rc take_audit_request(const struct wire_field *f, struct ctl_audit *a,
                                  struct err *err)
{
    enum rc rc = RC_OK;
    Xgw__Agent__V1__AuditRequest *w =
        unpack(&xgw__agent__v1__audit_request__descriptor, f, 64, &rc, err);

    if (!w) {
        return rc;
    }
    a->audit_id = w->audit_id;
    a->vni = w->vni;
    xgw__agent__v1__audit_request__free_unpacked(w, NULL);
    return a->vni <= VNI_MAX ? RC_OK : agent_wire_bad(err, "audit.vni");
}

static enum rc take_rows_request(const struct wire_field *f, struct ctl_rows *r,
                                 struct err *err)
{
    enum rc rc = RC_OK;
    Xgw__Agent__V1__RowsRequest *w =
        unpack(&xgw__agent__v1__rows_request__descriptor, f, 128, &rc, err);

    if (!w) {
        return rc;
    }
    r->ask_id = w->ask_id;
    rc = take_query_item(w->of, &r->of) && r->of.node.depth == TREE_DEPTH
             ? RC_OK
             : agent_wire_bad(err, "rows.of");
    xgw__agent__v1__rows_request__free_unpacked(w, NULL);
    return rc;
}

static enum rc take_counters_request(const struct wire_field *f, struct ctl_counters *c,
                                     struct err *err)
{
    enum rc rc = RC_OK;
    Xgw__Agent__V1__CountersRequest *w =
        unpack(&xgw__agent__v1__counters_request__descriptor, f, 64, &rc, err);

    if (!w) {
        return rc;
    }
    c->ask_id = w->ask_id;
    c->from_vni = w->from_vni;
    xgw__agent__v1__counters_request__free_unpacked(w, NULL);
    return c->from_vni >= VNI_MIN && c->from_vni <= VNI_MAX
               ? RC_OK
               : agent_wire_bad(err, "counters.from_vni");
}

static enum rc copy_probe(const Xgw__Agent__V1__ProbeRequest *w, const char *field,
                          struct ctl_probe *p, struct err *err)
{
    if (w->frame.len < PROBE_FRAME_MIN || w->frame.len > PROBE_FRAME_MAX) {
        return agent_wire_bad(err, field);
    }
    p->probe_id = w->probe_id;
    p->frame = blob_copy(w->frame.data, w->frame.len);
    return p->frame ? RC_OK : err_set(err, RC_NO_MEMORY, "out of memory");
}

#define PROBE_REQUEST_MAX (PROBE_FRAME_MAX + 64)

static enum rc take_probe_request(const struct wire_field *f, struct ctl_probe *p,
                                  struct err *err)
{
    enum rc rc = RC_OK;
    Xgw__Agent__V1__ProbeRequest *w = unpack(&xgw__agent__v1__probe_request__descriptor,
                                             f, PROBE_REQUEST_MAX, &rc, err);

    if (!w) {
        return rc;
    }
    rc = copy_probe(w, "probe.frame", p, err);
    xgw__agent__v1__probe_request__free_unpacked(w, NULL);
    return rc;
}

static enum rc take_probes_request(const struct wire_field *f, struct ctl_probes *p,
                                   struct err *err)
{
    enum rc rc = RC_OK;
    Xgw__Agent__V1__ProbesRequest *w =
        unpack(&xgw__agent__v1__probes_request__descriptor, f,
               PROBES_BATCH_MAX * PROBE_REQUEST_MAX, &rc, err);

    if (!w) {
        return rc;
    }
    if (w->n_probes == 0 || w->n_probes > PROBES_BATCH_MAX) {
        rc = agent_wire_bad(err, "probes.probes");
    }
    for (size_t i = 0; rc == RC_OK && i < w->n_probes; i++) {
        rc = copy_probe(w->probes[i], "probes.frame", &p->at[i], err);
        p->count += rc == RC_OK;
    }
    xgw__agent__v1__probes_request__free_unpacked(w, NULL);
    return rc;
}

static const uint8_t ctl_members[] = { CTL_ASSIGN,   CTL_QUERY, CTL_BATCH,
                                       CTL_REDIRECT, CTL_AUDIT, CTL_COUNTERS,
                                       CTL_PROBE,    CTL_ROWS,  CTL_PROBES };

enum rc ctl_msg_decode(const void *bytes, size_t len, struct ctl_msg *ret,
                       struct err *err)
{
    struct wire_field f = { 0 };
    struct ctl_msg m = { 0 };
    enum rc rc = find_member(bytes, len, ctl_members, sizeof(ctl_members), &f, err);

    if (rc != RC_OK) {
        return rc;
    }
    m.kind = (enum ctl_msg_kind)f.number;
    switch (m.kind) {
    case CTL_ASSIGN:
        rc = take_assign(&f, &m.assign, err);
        break;
    case CTL_QUERY:
        rc = take_query(&f, &m.query, err);
        break;
    case CTL_BATCH:
        rc = take_batch(&f, &m.batch, err);
        break;
    case CTL_REDIRECT:
        rc = take_redirect(&f, m.redirect, sizeof(m.redirect), err);
        break;
    case CTL_AUDIT:
        rc = take_audit_request(&f, &m.audit, err);
        break;
    case CTL_COUNTERS:
        rc = take_counters_request(&f, &m.counters, err);
        break;
    case CTL_PROBE:
        rc = take_probe_request(&f, &m.probe, err);
        break;
    case CTL_ROWS:
        rc = take_rows_request(&f, &m.rows, err);
        break;
    case CTL_PROBES:
        rc = take_probes_request(&f, &m.probes, err);
        break;
    }
    if (rc == RC_OK) {
        *ret = m;
    } else {
        ctl_msg_fini(&m);
    }
    return rc;
}
