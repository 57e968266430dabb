/*
 * store_sqlite_db - the SQLite side of store_sqlite: one connection, blocking calls.
 *
 * Used by the worker thread only (and by open, before the worker starts).
 */
#pragma once

#include "controller/store/store.h"

#include <sqlite3.h>

enum {
    DB_BEGIN,
    DB_COMMIT,
    DB_ROLLBACK,
    DB_SAVEPOINT,
    DB_RELEASE,
    DB_ROLLBACK_TO,
    DB_FIND,
    DB_PUT,
    DB_DELETE,
    DB_DELETE_RANGE,
    DB_RANGE,
    DB_SET_REVISION,
    DB_STATEMENTS
};

struct sqlite_db {
    sqlite3 *db;
    sqlite3_stmt *stmt[DB_STATEMENTS];
    uint64_t revision; /* of the last committed transaction */
    uint64_t term;
};

/* Key-values that an event or a range owns. */
struct kv_list {
    struct store_kv *at;
    uint32_t count;
    uint32_t cap;
};
void kv_list_fini(struct kv_list *l);

enum rc sqlite_db_open(struct sqlite_db *d, const char *path, struct err *err);
void sqlite_db_close(struct sqlite_db *d);

enum rc sqlite_db_begin(struct sqlite_db *d, struct err *err);
/* RC_OK: durable.  RC_TIMEOUT: the disk failed and does not say; else not done. */
enum rc sqlite_db_commit(struct sqlite_db *d, uint64_t revision, struct err *err);
void sqlite_db_rollback(struct sqlite_db *d);

/* One transaction of ours inside an open SQLite transaction, as `revision`: RC_STALE
 * when a compare does not hold; anything but RC_OK leaves no trace of it.  What it
 * changed is appended to `changed`. */
enum rc sqlite_db_apply(struct sqlite_db *d, const struct store_txn *txn,
                        uint64_t revision, struct kv_list *changed, struct err *err);

enum rc sqlite_db_range(struct sqlite_db *d, const struct store_key *from,
                        const struct store_key *end, uint32_t limit,
                        struct kv_list *ret, bool *ret_more, struct err *err);
