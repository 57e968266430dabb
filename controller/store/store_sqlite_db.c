#include "controller/store/store_sqlite_db.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANGE_MAX_BYTES (4u << 20)
#define RANGE_MAX_KEYS  8192

static const char *const statement_sql[DB_STATEMENTS] = {
    [DB_BEGIN] = "BEGIN IMMEDIATE",
    [DB_COMMIT] = "COMMIT",
    [DB_ROLLBACK] = "ROLLBACK",
    [DB_SAVEPOINT] = "SAVEPOINT txn",
    [DB_RELEASE] = "RELEASE txn",
    [DB_ROLLBACK_TO] = "ROLLBACK TO txn",
    [DB_FIND] = "SELECT create_revision, mod_revision FROM kv WHERE key = ?1",
    [DB_PUT] = "INSERT INTO kv VALUES (?1, ?2, ?3, ?3) ON CONFLICT (key) DO UPDATE "
               "SET value = excluded.value, mod_revision = excluded.mod_revision "
               "RETURNING create_revision",
    [DB_DELETE] = "DELETE FROM kv WHERE key = ?1 RETURNING key, create_revision",
    [DB_DELETE_RANGE] = "DELETE FROM kv WHERE key >= ?1 AND key < ?2 "
                        "RETURNING key, create_revision",
    [DB_RANGE] = "SELECT key, value, create_revision, mod_revision FROM kv "
                 "WHERE key >= ?1 AND key < ?2 ORDER BY key",
    [DB_SET_REVISION] = "UPDATE meta SET revision = ?1",
};

/* 0x58475731 is "XGW1": another program's file is refused, not overwritten. */
/* With row ids: in a table without, each step of a search compares whole rows, and a
 * row here has up to a MiB; of a checkpoint's time that was 45 %. */
static const char schema_sql[] =
    "PRAGMA application_id = 1481069361;"
    "CREATE TABLE kv (key BLOB PRIMARY KEY, value BLOB NOT NULL, "
    "  create_revision INTEGER NOT NULL, mod_revision INTEGER NOT NULL);"
    "CREATE TABLE meta (version INTEGER NOT NULL, revision INTEGER NOT NULL, "
    "  term INTEGER NOT NULL);"
    "INSERT INTO meta VALUES (1, 0, 0);";

#define APPLICATION_ID 1481069361

void kv_list_fini(struct kv_list *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        blob_unref(l->at[i].value);
    }
    free(l->at);
    memset(l, 0, sizeof(*l));
}

static struct store_kv *kv_list_add(struct kv_list *l)
{
    if (l->count == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 8;
        struct store_kv *at = realloc(l->at, cap * sizeof(*at));

        if (!at) {
            return NULL;
        }
        l->at = at;
        l->cap = cap;
    }
    memset(&l->at[l->count], 0, sizeof(*l->at));
    return &l->at[l->count++];
}

/* What SQLite says, as one of our codes. */
static enum rc fail(struct sqlite_db *d, struct err *err, const char *doing)
{
    int code = sqlite3_errcode(d->db);
    enum rc rc = code == SQLITE_FULL                               ? RC_FULL
                 : code == SQLITE_NOMEM                            ? RC_NO_MEMORY
                 : code == SQLITE_BUSY || code == SQLITE_LOCKED    ? RC_EXISTS
                 : code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? RC_INVALID
                                                                   : RC_UNREACHABLE;

    return err_set(err, rc, "store: %s: %s", doing, sqlite3_errmsg(d->db));
}

static enum rc run(struct sqlite_db *d, int which, struct err *err)
{
    sqlite3_stmt *stmt = d->stmt[which];
    enum rc rc = RC_OK;

    if (sqlite3_step(stmt) != SQLITE_DONE) {
        rc = fail(d, err, statement_sql[which]);
    }
    sqlite3_reset(stmt);
    return rc;
}

static enum rc exec(struct sqlite_db *d, const char *sql, struct err *err)
{
    if (sqlite3_exec(d->db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        return fail(d, err, "open");
    }
    return RC_OK;
}

/* A pragma's or query's first column; `otherwise` when there is no row. */
static enum rc query_int(struct sqlite_db *d, const char *sql, int64_t *ret,
                         struct err *err)
{
    sqlite3_stmt *stmt;
    int step;

    if (sqlite3_prepare_v2(d->db, sql, -1, &stmt, NULL) != SQLITE_OK) {
        return fail(d, err, "open");
    }
    step = sqlite3_step(stmt);
    if (step == SQLITE_ROW) {
        *ret = sqlite3_column_int64(stmt, 0);
    }
    sqlite3_finalize(stmt);
    return step == SQLITE_ROW ? RC_OK : fail(d, err, "open");
}

/* Makes `fresh` a store without content.  It is whole on disk when this returns. */
static enum rc write_empty_store(const char *fresh, struct err *err)
{
    struct sqlite_db d = { 0 };
    enum rc rc;

    unlink(fresh); /* of a start that was killed here */
    if (sqlite3_open_v2(fresh, &d.db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                            SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK) {
        rc = err_set(err, RC_UNREACHABLE, "%s",
                     d.db ? sqlite3_errmsg(d.db) : "no memory");
    } else {
        rc =
            exec(&d, "PRAGMA page_size = 8192; PRAGMA synchronous = FULL; BEGIN;", err);
        rc = rc == RC_OK ? exec(&d, schema_sql, err) : rc;
        rc = rc == RC_OK ? exec(&d, "COMMIT;", err) : rc;
    }
    sqlite3_close(d.db);
    return rc;
}

static enum rc sync_folder(const char *path, struct err *err)
{
    char copy[PATH_MAX];
    int fd;
    int done;

    snprintf(copy, sizeof(copy), "%s", path);
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    done = fd >= 0 ? fsync(fd) : -1;
    if (fd >= 0) {
        close(fd);
    }
    return done == 0 ? RC_OK : err_set(err, RC_UNREACHABLE, "%s", strerror(errno));
}

/* A store gets its name once it is one.  So a file of that name without a schema never
 * is a start that was cut short, but a store that lost its content. */
static enum rc create_store(const char *path, struct err *err)
{
    char fresh[PATH_MAX];
    enum rc rc;

    if ((size_t)snprintf(fresh, sizeof(fresh), "%s.new", path) >= sizeof(fresh)) {
        return err_set(err, RC_RANGE, "store: the path is too long");
    }
    rc = write_empty_store(fresh, err);
    if (rc == RC_OK && link(fresh, path) != 0 && errno != EEXIST) {
        rc = err_set(err, RC_UNREACHABLE, "%s", strerror(errno));
    }
    rc = rc == RC_OK ? sync_folder(path, err) : rc;
    unlink(fresh);
    return rc == RC_OK ? rc : err_wrap(err, rc, "store: %s: create", path);
}

/* Refuses files of others, and one that was emptied: starting from it would tell every
 * device to forget its tenants. */
static enum rc check_schema(struct sqlite_db *d, struct err *err)
{
    int64_t tables;
    int64_t id;
    int64_t version;
    enum rc rc = query_int(d, "SELECT count(*) FROM sqlite_schema", &tables, err);

    if (rc == RC_OK && tables == 0) {
        return err_set(err, RC_INVALID,
                       "store: the file is there but holds nothing: restore it from a "
                       "backup, or remove it to begin with an empty region");
    }
    if (rc != RC_OK ||
        (rc = query_int(d, "PRAGMA application_id", &id, err)) != RC_OK) {
        return rc;
    }
    if (id != APPLICATION_ID) {
        return err_set(err, RC_INVALID, "store: not a store of xgw-controller");
    }
    rc = query_int(d, "SELECT version FROM meta", &version, err);
    if (rc == RC_OK && version != 1) {
        return err_set(err, RC_INVALID, "store: version %lld; this program reads 1",
                       (long long)version);
    }
    return rc;
}

static enum rc raise_term(struct sqlite_db *d, struct err *err)
{
    int64_t value;
    enum rc rc = exec(d, "UPDATE meta SET term = term + 1", err);

    rc = rc == RC_OK ? query_int(d, "SELECT term FROM meta", &value, err) : rc;
    if (rc != RC_OK) {
        return rc;
    }
    d->term = (uint64_t)value;
    rc = query_int(d, "SELECT revision FROM meta", &value, err);
    if (rc == RC_OK) {
        d->revision = (uint64_t)value;
    }
    return rc;
}

enum rc sqlite_db_open(struct sqlite_db *d, const char *path, struct err *err)
{
    enum rc rc;

    memset(d, 0, sizeof(*d));
    if (access(path, F_OK) != 0 && errno == ENOENT &&
        (rc = create_store(path, err)) != RC_OK) {
        return rc;
    }
    if (sqlite3_open_v2(path, &d->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK) {
        rc = err_set(err, RC_UNREACHABLE, "store: %s: %s", path,
                     d->db ? sqlite3_errmsg(d->db) : "no memory");
        sqlite_db_close(d);
        return rc;
    }
    sqlite3_extended_result_codes(d->db, 0);
    /* EXCLUSIVE first: it locks out a second process and needs no shared memory. */
    rc = exec(d,
              "PRAGMA locking_mode = EXCLUSIVE;"
              "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
              "PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000;"
              "PRAGMA journal_size_limit = 67108864;",
              err);
    rc = rc == RC_OK ? check_schema(d, err) : rc;
    rc = rc == RC_OK ? raise_term(d, err) : rc;
    for (int i = 0; rc == RC_OK && i < DB_STATEMENTS; i++) {
        if (sqlite3_prepare_v3(d->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &d->stmt[i], NULL) != SQLITE_OK) {
            rc = fail(d, err, "open");
        }
    }
    if (rc != RC_OK) {
        if (rc == RC_EXISTS) {
            err_set(err, rc, "another process has it open");
        }
        err_wrap(err, rc, "%s", path);
        sqlite_db_close(d);
    }
    return rc;
}

void sqlite_db_close(struct sqlite_db *d)
{
    for (int i = 0; i < DB_STATEMENTS; i++) {
        sqlite3_finalize(d->stmt[i]);
    }
    sqlite3_close(d->db);
    memset(d, 0, sizeof(*d));
}

enum rc sqlite_db_begin(struct sqlite_db *d, struct err *err)
{
    return run(d, DB_BEGIN, err);
}

void sqlite_db_rollback(struct sqlite_db *d)
{
    if (!sqlite3_get_autocommit(d->db)) {
        run(d, DB_ROLLBACK, NULL);
    }
}

/* A failed COMMIT is rolled back by SQLite or by us, but where the disk failed in the
 * middle only the file can say what it holds. */
static enum rc commit_outcome(struct sqlite_db *d, uint64_t revision, enum rc rc,
                              struct err *err)
{
    int64_t stored;

    sqlite_db_rollback(d);
    if (query_int(d, "SELECT revision FROM meta", &stored, NULL) != RC_OK) {
        err_wrap(err, rc, "outcome unknown");
        if (err) {
            err->code = RC_TIMEOUT;
        }
        return RC_TIMEOUT;
    }
    if ((uint64_t)stored == revision) {
        d->revision = revision;
        return RC_OK;
    }
    return rc;
}

enum rc sqlite_db_commit(struct sqlite_db *d, uint64_t revision, struct err *err)
{
    enum rc rc;

    sqlite3_bind_int64(d->stmt[DB_SET_REVISION], 1, (sqlite3_int64)revision);
    rc = run(d, DB_SET_REVISION, err);
    if (rc != RC_OK) {
        sqlite_db_rollback(d);
        return rc;
    }
    rc = run(d, DB_COMMIT, err);
    if (rc != RC_OK) {
        return commit_outcome(d, revision, rc, err);
    }
    d->revision = revision;
    return RC_OK;
}

static void bind_key(sqlite3_stmt *stmt, int at, const struct store_key *key)
{
    sqlite3_bind_blob(stmt, at, key->bytes, key->len, SQLITE_STATIC);
}

static struct store_key column_key(sqlite3_stmt *stmt, int at)
{
    struct store_key key = { 0 };
    int len = sqlite3_column_bytes(stmt, at);

    key.len = (uint8_t)(len > STORE_KEY_MAX ? STORE_KEY_MAX : len);
    memcpy(key.bytes, sqlite3_column_blob(stmt, at), key.len);
    return key;
}

static enum rc compares_hold(struct sqlite_db *d, const struct store_txn *txn,
                             struct err *err)
{
    sqlite3_stmt *stmt = d->stmt[DB_FIND];

    for (uint32_t i = 0; i < txn->compare_count; i++) {
        const struct store_compare *c = &txn->compares[i];
        uint64_t revision = 0;
        int step;

        bind_key(stmt, 1, &c->key);
        step = sqlite3_step(stmt);
        if (step == SQLITE_ROW) {
            revision = (uint64_t)sqlite3_column_int64(
                stmt, c->target == STORE_CREATE_REVISION ? 0 : 1);
        }
        sqlite3_reset(stmt);
        if (step != SQLITE_ROW && step != SQLITE_DONE) {
            return fail(d, err, "compare");
        }
        if (revision != c->revision) {
            return err_set(err, RC_STALE, "store: a compare did not hold");
        }
    }
    return RC_OK;
}

static enum rc op_put(struct sqlite_db *d, const struct store_op *op, uint64_t revision,
                      struct kv_list *changed, struct err *err)
{
    sqlite3_stmt *stmt = d->stmt[DB_PUT];
    struct store_kv *kv = kv_list_add(changed);
    enum rc rc = RC_OK;

    if (!kv) {
        return err_set(err, RC_NO_MEMORY, "store: no memory");
    }
    bind_key(stmt, 1, &op->key);
    sqlite3_bind_blob(stmt, 2, op->value->data, (int)op->value->len, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 3, (sqlite3_int64)revision);
    if (sqlite3_step(stmt) == SQLITE_ROW) {
        kv->key = op->key;
        kv->value = blob_ref(op->value);
        kv->create_revision = (uint64_t)sqlite3_column_int64(stmt, 0);
        kv->mod_revision = revision;
    } else {
        rc = fail(d, err, "put");
    }
    sqlite3_reset(stmt);
    return rc;
}

static enum rc op_delete(struct sqlite_db *d, const struct store_op *op,
                         uint64_t revision, struct kv_list *changed, struct err *err)
{
    bool is_range = op->kind == STORE_DELETE_RANGE;
    sqlite3_stmt *stmt = d->stmt[is_range ? DB_DELETE_RANGE : DB_DELETE];
    enum rc rc = RC_OK;
    int step;

    bind_key(stmt, 1, &op->key);
    if (is_range) {
        bind_key(stmt, 2, &op->end);
    }
    while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct store_kv *kv = kv_list_add(changed);

        if (!kv) {
            rc = err_set(err, RC_NO_MEMORY, "store: no memory");
            break;
        }
        kv->key = column_key(stmt, 0);
        kv->create_revision = (uint64_t)sqlite3_column_int64(stmt, 1);
        kv->mod_revision = revision;
    }
    if (rc == RC_OK && step != SQLITE_DONE) {
        rc = fail(d, err, "delete");
    }
    sqlite3_reset(stmt);
    return rc;
}

/* Events list keys in order, whatever order the deletes found them in. */
static int by_key(const void *a, const void *b)
{
    return store_key_compare(&((const struct store_kv *)a)->key,
                             &((const struct store_kv *)b)->key);
}

enum rc sqlite_db_apply(struct sqlite_db *d, const struct store_txn *txn,
                        uint64_t revision, struct kv_list *changed, struct err *err)
{
    enum rc rc = compares_hold(d, txn, err);

    if (rc != RC_OK) {
        return rc;
    }
    rc = run(d, DB_SAVEPOINT, err);
    for (uint32_t i = 0; rc == RC_OK && i < txn->op_count; i++) {
        const struct store_op *op = &txn->ops[i];
        uint32_t first = changed->count;

        rc = op->kind == STORE_PUT ? op_put(d, op, revision, changed, err)
                                   : op_delete(d, op, revision, changed, err);
        if (changed->count > first + 1) {
            qsort(changed->at + first, changed->count - first, sizeof(*changed->at),
                  by_key);
        }
    }
    /* A full disk or a lost disk may have ended the whole transaction already. */
    if (rc != RC_OK && !sqlite3_get_autocommit(d->db)) {
        run(d, DB_ROLLBACK_TO, NULL);
    }
    if (!sqlite3_get_autocommit(d->db)) {
        enum rc released = run(d, DB_RELEASE, rc == RC_OK ? err : NULL);

        rc = rc == RC_OK ? released : rc;
    }
    return rc;
}

enum rc sqlite_db_range(struct sqlite_db *d, const struct store_key *from,
                        const struct store_key *end, uint32_t limit,
                        struct kv_list *ret, bool *ret_more, struct err *err)
{
    sqlite3_stmt *stmt = d->stmt[DB_RANGE];
    size_t bytes = 0;
    enum rc rc = RC_OK;
    int step;

    if (limit > RANGE_MAX_KEYS) {
        limit = RANGE_MAX_KEYS;
    }
    bind_key(stmt, 1, from);
    bind_key(stmt, 2, end);
    *ret_more = false;
    while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct store_kv *kv;

        if (ret->count >= limit || bytes >= RANGE_MAX_BYTES) {
            *ret_more = true;
            break;
        }
        kv = kv_list_add(ret);
        if (kv) {
            kv->value = blob_copy(sqlite3_column_blob(stmt, 1),
                                  (size_t)sqlite3_column_bytes(stmt, 1));
        }
        if (!kv || !kv->value) {
            rc = err_set(err, RC_NO_MEMORY, "store: no memory");
            break;
        }
        kv->key = column_key(stmt, 0);
        kv->create_revision = (uint64_t)sqlite3_column_int64(stmt, 2);
        kv->mod_revision = (uint64_t)sqlite3_column_int64(stmt, 3);
        bytes += kv->value->len;
    }
    if (rc == RC_OK && step != SQLITE_ROW && step != SQLITE_DONE) {
        rc = fail(d, err, "range");
    }
    sqlite3_reset(stmt);
    return rc;
}
