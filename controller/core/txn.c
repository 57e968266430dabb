/* txn: what one command writes to the store (record.h). */
#include "controller/core/core_internal.h"

uint64_t tag_new(struct core *c, enum tag_kind kind)
{
    return ++c->next_tag << 3 | kind;
}

struct store_txn *txn_new(struct core *c, uint64_t tag)
{
    struct store_txn *txn = store_txn_new(tag);

    if (txn &&
        store_txn_compare(txn, STORE_MOD_REVISION, record_key_meta("term"), c->fence)) {
        store_txn_free(txn);
        return NULL;
    }
    return txn;
}

void txn_submit(struct core *c, struct store_txn *txn)
{
    struct core_effect *e = effect_add(c, CORE_TXN);

    e->txn = txn;
}

enum rc txn_put(struct store_txn *txn, struct store_key key, struct blob *value)
{
    enum rc rc = value ? store_txn_put(txn, key, value) : RC_NO_MEMORY;

    blob_unref(value);
    return rc;
}

static enum rc add_audit(struct core *c, struct store_txn *txn, const struct pending *p)
{
    const struct command *cmd = &p->command;
    struct audit a = { .unix_ms = c->unix_ms, .counts = p->reply.counts };
    static const char *const verbs[] = {
        [COMMAND_ENTRIES] = "entries",
        [COMMAND_PUT_REGION] = "put region",
        [COMMAND_PUT_CLUSTER] = "put cluster",
        [COMMAND_DELETE_CLUSTER] = "delete cluster",
        [COMMAND_PUT_NODE] = "put node",
        [COMMAND_DELETE_NODE] = "delete node",
        [COMMAND_PUT_POLICY] = "put policy",
        [COMMAND_MOVE] = "move",
        [COMMAND_CANCEL] = "cancel operation",
        [COMMAND_STEP] = "operation step",
        [COMMAND_FORGET] = "forget operation",
        [COMMAND_PUT_LEVELS] = "put levels",
        [COMMAND_PUT_FESTIVAL] = "put festival",
        [COMMAND_DELETE_FESTIVAL] = "delete festival",
        [COMMAND_ACK] = "acknowledge alarm",
        [COMMAND_FORGET_ACK] = "forget acknowledgement",
        [COMMAND_PUT_CONSUMER] = "put consumer",
        [COMMAND_DELETE_CONSUMER] = "delete consumer",
        [COMMAND_PROCEED] = "proceed without consumers",
        [COMMAND_BUILD] = "build cluster",
        [COMMAND_DRAIN] = "drain cluster",
        [COMMAND_RETIRE] = "retire cluster",
    };

    memcpy(a.what, verbs[cmd->kind], strlen(verbs[cmd->kind]));
    memcpy(a.who, cmd->who, strnlen(cmd->who, sizeof(a.who) - 1));
    memcpy(a.request_id, cmd->request_id,
           strnlen(cmd->request_id, sizeof(a.request_id) - 1));
    if (cmd->kind != COMMAND_ENTRIES) {
        const char *name = object_change_name(&p->object);

        memcpy(a.name, name, strnlen(name, sizeof(a.name) - 1));
    } else if (command_is_import(cmd)) {
        a.import_next_line = cmd->entries.import_next_line;
    }
    return txn_put(txn, record_key_seq('a', p->seq), record_pack_audit(&a));
}

static enum rc add_freed(struct core *c, struct store_txn *txn, const struct pending *p)
{
    struct buf freed = BUF_INIT;
    enum rc rc = RC_OK;

    for (uint32_t i = 0; c->config.vni_quarantine_ms && i < p->changes.count; i++) {
        if (p->changes.at[i].table == TABLE_TENANT && !p->changes.at[i].after) {
            if (freed.len == 0) {
                buf_u64(&freed, c->unix_ms);
            }
            buf_u24(&freed, p->changes.at[i].vni);
        }
    }
    if (buf_failed(&freed)) {
        rc = RC_NO_MEMORY;
    } else if (freed.len > 0) {
        rc =
            txn_put(txn, record_key_seq('f', p->seq), blob_copy(freed.data, freed.len));
    }
    buf_fini(&freed);
    return rc;
}

static enum rc add_chain(struct core *c, struct store_txn *txn, uint64_t seq)
{
    enum rc rc =
        store_txn_compare(txn, STORE_CREATE_REVISION, record_key_ticket(seq), 0);

    (void)c;
    rc = rc ? rc : txn_put(txn, record_key_ticket(seq), blob_copy("", 0));
    return rc ? rc : store_txn_delete(txn, record_key_ticket(seq + 1));
}

static enum rc add_results(struct core *c, struct store_txn *txn,
                           const struct pending *p)
{
    const struct command *cmd = &p->command;
    enum rc rc = results_expire(c, txn);

    if (!rc && cmd->request_id[0]) {
        struct result res = { c->unix_ms, p->reply.counts };

        rc = txn_put(txn, record_key_result(cmd->request_id), record_pack_result(&res));
    }
    if (!rc && command_is_import(cmd)) {
        rc = txn_put(txn, record_key_import(cmd->entries.import_digest),
                     record_pack_u64_pair(cmd->entries.import_next_line, c->unix_ms));
    }
    return rc;
}

enum rc pending_submit(struct core *c, struct pending *p, struct blob *object)
{
    struct store_txn *txn;
    struct blob *ops = p->ops;
    enum rc rc = RC_NO_MEMORY;

    p->seq = c->next_seq;
    p->tag = tag_new(c, TAG_COMMAND);
    txn = txn_new(c, p->tag);
    if (txn) {
        rc = add_chain(c, txn, p->seq);
        rc = rc ? rc
                : txn_put(txn, record_key_seq('j', p->seq),
                          ops ? blob_ref(ops) : blob_copy("", 0));
        rc = rc ? rc : add_audit(c, txn, p);
        rc = rc ? rc : add_freed(c, txn, p);
        rc = rc ? rc : add_results(c, txn, p);
    }
    if (!rc && p->object.kind != COMMAND_ENTRIES) {
        struct store_key key = record_key_object(object_kind(p->object.kind),
                                                 object_change_name(&p->object));

        rc = object ? store_txn_put(txn, key, object) : store_txn_delete(txn, key);
    }
    if (rc) {
        store_txn_free(txn);
        return err_set(&p->reply.err, RC_NO_MEMORY, "out of memory");
    }
    txn_submit(c, txn);
    c->next_seq++;
    c->queue.flying++;
    c->queue.answers++;
    p->state = PENDING_FLYING;
    return RC_OK;
}
