#include "controller/store/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct store_key store_key_of(const void *bytes, size_t len)
{
    struct store_key key = { 0 };

    assert(len > 0 && len <= STORE_KEY_MAX);
    key.len = (uint8_t)len;
    memcpy(key.bytes, bytes, len);
    return key;
}

struct store_key store_key_after_prefix(const void *prefix, size_t len)
{
    struct store_key key = store_key_of(prefix, len);

    while (key.len > 0 && key.bytes[key.len - 1] == 0xff) {
        key.bytes[--key.len] = 0;
    }
    assert(key.len > 0); /* no prefix of ours is all ones */
    key.bytes[key.len - 1]++;
    return key;
}

struct store_key store_key_after(const struct store_key *key)
{
    struct store_key next = *key;

    if (next.len == STORE_KEY_MAX) { /* nothing longer comes between */
        return store_key_after_prefix(next.bytes, next.len);
    }
    next.bytes[next.len++] = 0;
    return next;
}

int store_key_compare(const struct store_key *a, const struct store_key *b)
{
    size_t len = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->bytes, b->bytes, len);

    return order != 0 ? order : (int)a->len - (int)b->len;
}

struct store_txn *store_txn_new(uint64_t tag)
{
    struct store_txn *txn = calloc(1, sizeof(*txn));

    if (txn) {
        txn->tag = tag;
    }
    return txn;
}

void store_txn_free(struct store_txn *txn)
{
    if (!txn) {
        return;
    }
    for (uint32_t i = 0; i < txn->op_count; i++) {
        blob_unref(txn->ops[i].value);
    }
    free(txn->ops);
    free(txn->compares);
    free(txn);
}

/* A zeroed slot at the end of the operations; null when memory is out. */
static struct store_op *op_append(struct store_txn *txn)
{
    if (txn->op_count == txn->op_cap) {
        uint32_t cap = txn->op_cap ? txn->op_cap * 2 : 4;
        struct store_op *ops = realloc(txn->ops, cap * sizeof(*ops));

        if (!ops) {
            return NULL;
        }
        txn->ops = ops;
        txn->op_cap = cap;
    }
    memset(&txn->ops[txn->op_count], 0, sizeof(*txn->ops));
    return &txn->ops[txn->op_count++];
}

enum rc store_txn_put(struct store_txn *txn, struct store_key key, struct blob *value)
{
    struct store_op *op = op_append(txn);

    if (!op) {
        return RC_NO_MEMORY;
    }
    op->kind = STORE_PUT;
    op->key = key;
    op->value = blob_ref(value);
    return RC_OK;
}

enum rc store_txn_delete(struct store_txn *txn, struct store_key key)
{
    struct store_op *op = op_append(txn);

    if (!op) {
        return RC_NO_MEMORY;
    }
    op->kind = STORE_DELETE;
    op->key = key;
    return RC_OK;
}

enum rc store_txn_delete_range(struct store_txn *txn, struct store_key from,
                               struct store_key end)
{
    struct store_op *op = op_append(txn);

    if (!op) {
        return RC_NO_MEMORY;
    }
    op->kind = STORE_DELETE_RANGE;
    op->key = from;
    op->end = end;
    return RC_OK;
}

enum rc store_txn_compare(struct store_txn *txn, enum store_target target,
                          struct store_key key, uint64_t revision)
{
    uint32_t count = txn->compare_count;
    struct store_compare *compares =
        realloc(txn->compares, (count + 1) * sizeof(*compares));

    if (!compares) {
        return RC_NO_MEMORY;
    }
    txn->compares = compares;
    compares[count].target = target;
    compares[count].key = key;
    compares[count].revision = revision;
    txn->compare_count = count + 1;
    return RC_OK;
}
