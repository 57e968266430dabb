#include "tests/unit/controller/core/fake_device.h"

#include "agent/driver/memory_probe.h"

void device_init(struct device *d, struct rig *r, const char *id)
{
    memset(d, 0, sizeof(*d));
    d->rig = r;
    rig_copy(d->id, id);
    d->kind = DEVICE_X86;
    d->boot_id = 0xb001;
    d->tables = table_set_new();
}

void device_fini(struct device *d)
{
    blob_unref(d->assign.config);
    table_set_free(d->tables);
}

void device_say(struct device *d, const struct agent_msg *msg)
{
    struct core_in in = { .kind = CORE_SESSION_MSG };

    in.session.id = d->session;
    in.session.device_id = d->id;
    in.session.msg = msg;
    rig_input(d->rig, &in);
}

struct agent_msg device_hello_of(struct device *d)
{
    struct agent_msg m = { .kind = AGENT_HELLO };
    const struct tree_node root = { 0 };

    rig_copy(m.hello.device_id, d->id);
    m.hello.device_kind = d->kind;
    m.hello.boot_id = d->boot_id;
    m.hello.applied = d->applied;
    m.hello.ready = d->ready;
    m.hello.hello_id = ++d->hello_id;
    for (int t = TABLE_VNI; t < TABLE_COUNT; t++) {
        m.hello.root[t] = table_set_digest(d->tables, (enum table_id)t, root);
    }
    return m;
}

void device_dial(struct device *d)
{
    static uint64_t next_session = 100;
    struct core_in in = { .kind = CORE_SESSION_OPEN };

    d->session = ++next_session;
    in.session.id = d->session;
    in.session.device_id = d->id;
    rig_input(d->rig, &in);
}

void device_hello(struct device *d)
{
    struct agent_msg m = device_hello_of(d);

    device_say(d, &m);
}

void device_hang_up(struct device *d)
{
    struct core_in in = { .kind = CORE_SESSION_CLOSED };

    in.session.id = d->session;
    in.session.device_id = d->id;
    rig_input(d->rig, &in);
}

static void answer_query(struct device *d, const struct ctl_query *q)
{
    struct agent_msg m = { .kind = AGENT_DIGESTS };

    m.digests.query_id = q->query_id;
    m.digests.item_count = q->item_count;
    m.digests.items = calloc(q->item_count, sizeof(*m.digests.items));
    for (uint32_t i = 0; i < q->item_count; i++) {
        struct digests_item *item = &m.digests.items[i];
        const struct query_item *of = &q->items[i];
        struct digest sub[16];

        item->of = *of;
        if (of->node.depth < TREE_DEPTH) {
            item->child_count = (uint8_t)table_set_children(
                d->tables, (enum table_id)of->table, of->node, item->children);
            continue;
        }
        rows_bucket_digests(
            table_set_rows(d->tables, of->node.vni, (enum table_id)of->table),
            (enum table_id)of->table, of->node.vni, of->bucket, sub);
        for (uint8_t k = 0; k < 16; k++) {
            if (sub[k].count) {
                item->children[item->child_count++] = (struct tree_child){ k, sub[k] };
            }
        }
    }
    device_say(d, &m);
    free(m.digests.items);
}

static void answer_batch(struct device *d, const struct ctl_batch *b)
{
    struct agent_msg m = { .kind = AGENT_ACK };
    struct exception bad[EXCEPTIONS_MAX];

    /* As many as there are, each of another VM. */
    for (uint32_t i = 0; i < d->exceptions; i++) {
        bad[i] = (struct exception){ EXCEPTION_FULL,
                                     TABLE_VM_NC,
                                     100,
                                     5,
                                     { 4, 10, (uint8_t)d->exception_from,
                                       (uint8_t)(i >> 8), (uint8_t)i } };
    }

    if (b->ops) {
        ck_assert(
            !table_set_apply(d->tables, b->ops->data, b->ops->len, NULL, NULL, NULL));
    }
    d->applied = b->revision ? b->revision : d->applied;
    d->ready = d->ready || b->ready;
    m.ack.seq = b->seq;
    m.ack.applied = d->applied;
    m.ack.ready = d->ready;
    m.ack.exception_count = d->exceptions + d->more_exceptions;
    m.ack.exception_listed = d->exceptions;
    m.ack.standing = d->standing;
    m.ack.exceptions = d->exceptions ? bad : NULL;
    device_say(d, &m);
}

static void answer_audit(struct device *d, const struct ctl_audit *a)
{
    struct agent_msg m = { .kind = AGENT_AUDIT };
    const struct tree_node node = { .depth = a->vni ? TREE_DEPTH : 0, .vni = a->vni };

    if (a->vni == 0 && d->forgets_vni) {
        ck_assert(!table_set_put(d->tables, d->forgets_vni, TABLE_VM_NC, NULL));
        d->forgets_vni = 0;
    }
    d->lies = d->lies || (a->vni == 0 && d->turns_liar);
    d->audits++;
    m.audit.audit_id = a->audit_id;
    m.audit.rc = d->audit_rc;
    for (int t = 0; t < TABLE_COUNT; t++) {
        if (t != 0 && t == d->loses_table) {
            continue;
        }
        m.audit.found[t] = table_set_digest(d->tables, (enum table_id)t, node);
    }
    device_say(d, &m);
}

static void answer_rows(struct device *d, const struct ctl_rows *r)
{
    struct agent_msg m = { .kind = AGENT_ROWS };
    enum table_id table = (enum table_id)r->of.table;
    uint32_t vni = r->of.node.vni;
    struct buf rows = BUF_INIT;
    struct batch_writer w;
    uint32_t count = rows_bucket_pack(table_set_rows(d->tables, vni, table), table,
                                      r->of.bucket, &rows);

    m.rows.ask_id = r->ask_id;
    batch_writer_init(&w);
    if (count > 0) {
        batch_add_rows(&w, BATCH_PUT, table, vni, NULL, rows.data, (uint32_t)rows.len,
                       count);
        m.rows.rows = batch_writer_finish(&w);
    }
    device_say(d, &m);
    blob_unref(m.rows.rows);
    batch_writer_fini(&w);
    buf_fini(&rows);
}

static void answer_probe(struct device *d, const struct ctl_probe *p)
{
    struct agent_msg m = { .kind = AGENT_PROBE };
    struct device_config *config = calloc(1, sizeof(*config));
    struct memory_probe_view view = { d->tables, config, d->ready };

    ck_assert(!device_config_unpack(d->assign.config->data, d->assign.config->len,
                                    config, NULL));
    d->probes++;
    m.probe.probe_id = p->probe_id;
    m.probe.result.rc = d->probe_rc;
    if (d->probe_rc == RC_OK) {
        memory_probe(&view, p->frame, &m.probe.result);
    }
    if (d->lies && m.probe.result.frame) {
        memory_probe_spoil(&m.probe.result);
    }
    device_say(d, &m);
    blob_unref(m.probe.result.frame);
    free(config);
}

static void answer_counters(struct device *d, const struct ctl_counters *c)
{
    struct agent_msg m = { .kind = AGENT_COUNTERS };
    struct vni_counter items[ARRAY_LEN(d->counters)];
    uint32_t most = d->counter_piece ? d->counter_piece : d->counter_count;
    uint32_t i = 0;

    d->counter_asks++;
    m.counters.ask_id = c->ask_id;
    m.counters.rc = d->counters_rc;
    m.counters.items = items;
    for (; i < d->counter_count && m.counters.item_count < most; i++) {
        if (d->counters[i].vni >= c->from_vni) {
            items[m.counters.item_count++] = d->counters[i];
        }
    }
    m.counters.next_vni = i < d->counter_count ? d->counters[i].vni : 0;
    m.counters.rest_bytes = i < d->counter_count ? 0 : d->rest_bytes;
    if (d->counters_rc != RC_OK) {
        m.counters =
            (struct agent_counters){ .ask_id = c->ask_id, .rc = d->counters_rc };
    }
    device_say(d, &m);
}

static void take(struct device *d, const struct ctl_msg *m)
{
    switch (m->kind) {
    case CTL_ASSIGN:
        blob_unref(d->assign.config);
        d->assign = m->assign;
        blob_ref(d->assign.config);
        d->assigns++;
        break;
    case CTL_QUERY:
        if (!d->is_mute) {
            answer_query(d, &m->query);
        }
        break;
    case CTL_BATCH:
        if (!d->is_mute) {
            answer_batch(d, &m->batch);
        }
        break;
    case CTL_AUDIT:
        if (!d->is_mute) {
            answer_audit(d, &m->audit);
        }
        break;
    case CTL_PROBE:
        if (!d->is_mute) {
            answer_probe(d, &m->probe);
        }
        break;
    case CTL_ROWS:
        if (!d->is_mute) {
            answer_rows(d, &m->rows);
        }
        break;
    case CTL_PROBES:
        for (uint32_t i = 0; !d->is_mute && i < m->probes.count; i++) {
            answer_probe(d, &m->probes.at[i]);
        }
        break;
    case CTL_COUNTERS:
        if (!d->is_mute && !d->keeps_counters) {
            answer_counters(d, &m->counters);
        }
        break;
    default:
        break;
    }
}

void devices_settle(struct device *at, unsigned count)
{
    struct rig *r = at->rig;

    rig_run(r);
    while (r->sent_count > 0) {
        struct ctl_msg m = r->sent[0];
        uint64_t to = r->sent_to[0];

        r->sent_count--;
        memmove(&r->sent[0], &r->sent[1], r->sent_count * sizeof(r->sent[0]));
        memmove(&r->sent_to[0], &r->sent_to[1], r->sent_count * sizeof(uint64_t));
        for (unsigned i = 0; i < count; i++) {
            if (to == at[i].session) {
                take(&at[i], &m);
            }
        }
        ctl_msg_fini(&m);
        rig_run(r);
    }
}
