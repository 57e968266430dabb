#include "controller/core/record.h"

#include "proto/base/buf.h"

#include <string.h>

/* A key under construction; STORE_KEY_MAX is above all we make. */
static void key_add(struct store_key *key, const void *bytes, size_t len)
{
    memcpy(key->bytes + key->len, bytes, len);
    key->len = (uint8_t)(key->len + len);
}

static struct store_key key_start(char kind)
{
    struct store_key key = { .len = 3, .bytes = { '/', (uint8_t)kind, '/' } };

    return key;
}

static void key_add_be(struct store_key *key, uint64_t value, unsigned size)
{
    while (size-- > 0) {
        key->bytes[key->len++] = (uint8_t)(value >> 8 * size);
    }
}

struct store_key record_key_seq(char kind, uint64_t seq)
{
    struct store_key key = key_start(kind);

    key_add_be(&key, seq, 8);
    return key;
}

struct store_key record_key_page(uint32_t vni, uint8_t table, const void *first_key,
                                 uint8_t len)
{
    struct store_key key = key_start('e');

    key_add_be(&key, vni, 3);
    key_add_be(&key, table, 1);
    if (len > 0) {
        key_add(&key, first_key, len);
    }
    return key;
}

struct store_key record_key_pages_end(uint32_t vni, uint8_t table)
{
    struct store_key key = record_key_page(vni, table, NULL, 0);

    return store_key_after_prefix(key.bytes, key.len);
}

struct store_key record_key_import(const uint8_t digest[16])
{
    struct store_key key = key_start('i');

    key_add(&key, digest, 16);
    return key;
}

static void key_add_text(struct store_key *key, const char *text)
{
    size_t room = sizeof(key->bytes) - key->len;

    key_add(key, text, strnlen(text, room));
}

struct store_key record_key_meta(const char *name)
{
    struct store_key key = key_start('m');

    key_add_text(&key, name);
    return key;
}

struct store_key record_key_object(const char *kind, const char *name)
{
    struct store_key key = key_start('o');

    key_add_text(&key, kind);
    if (name[0]) {
        key_add_text(&key, "/");
        key_add_text(&key, name);
    }
    return key;
}

struct store_key record_key_result(const char *request_id)
{
    struct store_key key = key_start('r');

    key_add_text(&key, request_id);
    return key;
}

struct store_key record_key_ticket(uint64_t seq)
{
    struct store_key key = key_start('t');

    key_add_be(&key, seq % CHAIN_SLOTS, 1);
    return key;
}

void record_load_range(struct store_key *ret_from, struct store_key *ret_end)
{
    *ret_from = store_key_of("/b", 2);
    *ret_end = store_key_of("/z", 2);
}

char record_kind(const struct store_key *key)
{
    if (key->len < 4 || key->bytes[0] != '/' || key->bytes[2] != '/') {
        return 0;
    }
    return (char)key->bytes[1];
}

bool record_seq(const struct store_key *key, uint64_t *ret_seq)
{
    struct reader r;

    if (key->len != 11) {
        return false;
    }
    r = reader_of(key->bytes + 3, 8);
    *ret_seq = read_u64(&r);
    return true;
}

static struct blob *blob_of_buf(struct buf *b)
{
    struct blob *blob = buf_failed(b) ? NULL : blob_copy(b->data, b->len);

    buf_fini(b);
    return blob;
}

static void pack_text(struct buf *b, const char *text)
{
    buf_u8(b, (uint8_t)strlen(text));
    buf_text(b, text);
}

static bool unpack_text(struct reader *r, char *to, size_t size)
{
    uint8_t len = read_u8(r);
    const uint8_t *bytes = read_bytes(r, len);

    if (!bytes || len >= size) {
        return false;
    }
    memcpy(to, bytes, len);
    to[len] = '\0';
    return true;
}

static void pack_counts(struct buf *b, const struct rows_change *n)
{
    buf_u32(b, n->added);
    buf_u32(b, n->changed);
    buf_u32(b, n->deleted);
    buf_u32(b, n->unchanged);
}

static struct rows_change unpack_counts(struct reader *r)
{
    struct rows_change n;

    n.added = read_u32(r);
    n.changed = read_u32(r);
    n.deleted = read_u32(r);
    n.unchanged = read_u32(r);
    return n;
}

struct blob *record_pack_audit(const struct audit *a)
{
    struct buf b = BUF_INIT;

    buf_u64(&b, a->unix_ms);
    pack_text(&b, a->what);
    pack_text(&b, a->who);
    pack_text(&b, a->name);
    pack_text(&b, a->request_id);
    pack_counts(&b, &a->counts);
    buf_u64(&b, a->import_next_line);
    return blob_of_buf(&b);
}

enum rc record_unpack_audit(const void *bytes, size_t len, struct audit *ret)
{
    struct reader r = reader_of(bytes, len);
    struct audit a = { .unix_ms = read_u64(&r) };

    if (!unpack_text(&r, a.what, sizeof(a.what)) ||
        !unpack_text(&r, a.who, sizeof(a.who)) ||
        !unpack_text(&r, a.name, sizeof(a.name)) ||
        !unpack_text(&r, a.request_id, sizeof(a.request_id))) {
        return RC_INVALID;
    }
    a.counts = unpack_counts(&r);
    a.import_next_line = read_u64(&r);
    if (r.failed || reader_left(&r) > 0) {
        return RC_INVALID;
    }
    *ret = a;
    return RC_OK;
}

struct blob *record_pack_result(const struct result *res)
{
    struct buf b = BUF_INIT;

    buf_u64(&b, res->unix_ms);
    pack_counts(&b, &res->counts);
    return blob_of_buf(&b);
}

enum rc record_unpack_result(const void *bytes, size_t len, struct result *ret)
{
    struct reader r = reader_of(bytes, len);
    struct result res = { .unix_ms = read_u64(&r) };

    res.counts = unpack_counts(&r);
    if (r.failed || reader_left(&r) > 0) {
        return RC_INVALID;
    }
    *ret = res;
    return RC_OK;
}

struct blob *record_pack_u64(uint64_t a)
{
    struct buf b = BUF_INIT;

    buf_u64(&b, a);
    return blob_of_buf(&b);
}

struct blob *record_pack_u64_pair(uint64_t first, uint64_t second)
{
    struct buf b = BUF_INIT;

    buf_u64(&b, first);
    buf_u64(&b, second);
    return blob_of_buf(&b);
}
