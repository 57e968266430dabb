#include "controller/store/store_sqlite.h"

#include "controller/store/store_sqlite_db.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum item_kind { ITEM_TXN, ITEM_RANGE };

/* A request on its way to the worker, and its answer on the way back. */
struct item {
    struct item *next;
    enum item_kind kind;
    struct store_txn *txn;
    struct store_key from;
    struct store_key end;
    uint32_t limit;

    uint64_t tag;
    enum rc rc;
    struct err err;
    uint64_t revision;
    struct kv_list kvs;
    bool more;
};

struct queue {
    struct item *head;
    struct item **tail;
};

struct sqlite_store {
    struct store store;
    struct sqlite_db db; /* the worker's */
    pthread_t worker;
    struct event *wake;
    int wake_fd;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work;
    struct queue in;
    struct queue out;
    bool is_closing;
};

static void queue_init(struct queue *q)
{
    q->head = NULL;
    q->tail = &q->head;
}

static void queue_push(struct queue *q, struct item *item)
{
    item->next = NULL;
    *q->tail = item;
    q->tail = &item->next;
}

static struct item *queue_take_all(struct queue *q)
{
    struct item *head = q->head;

    queue_init(q);
    return head;
}

static void item_free(struct item *item)
{
    store_txn_free(item->txn);
    kv_list_fini(&item->kvs);
    free(item);
}

/* ---- worker thread ---- */

static void work_range(struct sqlite_store *s, struct item *item)
{
    item->rc = sqlite_db_range(&s->db, &item->from, &item->end, item->limit, &item->kvs,
                               &item->more, &item->err);
    item->revision = s->db.revision;
}

static void fail_run(struct item *first, struct item *end, enum rc rc,
                     const struct err *err)
{
    for (struct item *i = first; i != end; i = i->next) {
        i->rc = rc;
        i->err = *err;
        kv_list_fini(&i->kvs);
    }
}

/* One group commit: a run of transactions [first, end).  When the disk fails, all of
 * them fail alike: nothing of the group is there. */
static void work_txns(struct sqlite_store *s, struct item *first, struct item *end)
{
    uint64_t revision = s->db.revision;
    struct err err = { 0 };
    enum rc rc = sqlite_db_begin(&s->db, &err);

    for (struct item *i = first; rc == RC_OK && i != end; i = i->next) {
        i->rc = sqlite_db_apply(&s->db, i->txn, revision + 1, &i->kvs, &i->err);
        if (i->rc == RC_OK) {
            i->revision = ++revision;
        } else if (i->rc != RC_STALE) {
            rc = i->rc;
            err = i->err;
        } else {
            kv_list_fini(&i->kvs);
        }
    }
    if (rc == RC_OK && revision > s->db.revision) {
        rc = sqlite_db_commit(&s->db, revision, &err);
    } else {
        sqlite_db_rollback(&s->db);
    }
    if (rc != RC_OK) {
        fail_run(first, end, rc, &err);
    }
}

static void work(struct sqlite_store *s, struct item *list)
{
    while (list) {
        struct item *end = list;

        if (list->kind == ITEM_RANGE) {
            work_range(s, list);
            list = list->next;
            continue;
        }
        while (end && end->kind == ITEM_TXN) {
            end = end->next;
        }
        work_txns(s, list, end);
        list = end;
    }
}

static void *worker_main(void *arg)
{
    struct sqlite_store *s = arg;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct item *list;

        while (!s->in.head && !s->is_closing) {
            pthread_cond_wait(&s->work, &s->lock);
        }
        if (!s->in.head) {
            break;
        }
        list = queue_take_all(&s->in);
        pthread_mutex_unlock(&s->lock);
        work(s, list);
        pthread_mutex_lock(&s->lock);
        while (list) {
            struct item *next = list->next;

            queue_push(&s->out, list);
            list = next;
        }
        if (eventfd_write(s->wake_fd, 1) != 0) {
            assert(errno == EAGAIN); /* the counter is full: the loop will wake */
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- loop thread ---- */

static void answer(struct sqlite_store *s, struct item *item)
{
    if (item->kind == ITEM_RANGE) {
        struct store_range_reply reply = {
            .tag = item->tag,
            .rc = item->rc,
            .err = item->err,
            .revision = item->revision,
            .kvs = item->kvs.at,
            .kv_count = item->kvs.count,
            .more = item->more,
        };

        s->store.events->range(s->store.ctx, &reply);
    } else {
        struct store_done done = {
            .tag = item->tag,
            .rc = item->rc,
            .err = item->err,
            .revision = item->revision,
        };
        struct store_event event = {
            .revision = item->revision,
            .tag = item->tag,
            .kvs = item->kvs.at,
            .kv_count = item->kvs.count,
        };

        if (item->rc == RC_OK) {
            s->store.events->event(s->store.ctx, &event);
        }
        s->store.events->done(s->store.ctx, &done);
    }
    item_free(item);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct sqlite_store *s = arg;
    struct item *list;
    eventfd_t count;

    (void)what;
    eventfd_read(fd, &count);
    pthread_mutex_lock(&s->lock);
    list = queue_take_all(&s->out);
    pthread_mutex_unlock(&s->lock);
    while (list) {
        struct item *next = list->next;

        answer(s, list);
        list = next;
    }
}

static void submit_item(struct sqlite_store *s, struct item *item)
{
    pthread_mutex_lock(&s->lock);
    queue_push(&s->in, item);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

/* Out of memory is answered like any other failure, so a caller waits for one thing
 * only.  The item is made with the transaction in mind: small, and made first. */
static struct item *item_new(enum item_kind kind, uint64_t tag)
{
    struct item *item = calloc(1, sizeof(*item));

    if (!item) {
        abort(); /* a few hundred bytes: the process is past saving */
    }
    item->kind = kind;
    item->tag = tag;
    return item;
}

static void sqlite_submit(struct store *store, struct store_txn *txn)
{
    struct item *item = item_new(ITEM_TXN, txn->tag);

    item->txn = txn;
    submit_item((struct sqlite_store *)store, item);
}

static void sqlite_range(struct store *store, uint64_t tag, struct store_key from,
                         struct store_key end, uint32_t limit)
{
    struct item *item = item_new(ITEM_RANGE, tag);

    item->from = from;
    item->end = end;
    item->limit = limit;
    submit_item((struct sqlite_store *)store, item);
}

static void queue_free(struct queue *q)
{
    struct item *list = queue_take_all(q);

    while (list) {
        struct item *next = list->next;

        item_free(list);
        list = next;
    }
}

static void store_free(struct sqlite_store *s)
{
    if (s->wake) {
        event_free(s->wake);
    }
    if (s->wake_fd >= 0) {
        close(s->wake_fd);
    }
    queue_free(&s->in);
    queue_free(&s->out);
    sqlite_db_close(&s->db);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static void sqlite_close(struct store *store)
{
    struct sqlite_store *s = (struct sqlite_store *)store;

    pthread_mutex_lock(&s->lock);
    s->is_closing = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->worker, NULL);
    store_free(s);
}

static const struct store_class sqlite_class = {
    .name = "sqlite",
    .submit = sqlite_submit,
    .range = sqlite_range,
    .close = sqlite_close,
};

static enum rc start_worker(struct sqlite_store *s, struct event_base *base,
                            struct err *err)
{
    s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    s->wake = s->wake_fd < 0
                  ? NULL
                  : event_new(base, s->wake_fd, EV_READ | EV_PERSIST, on_wake, s);
    if (!s->wake || event_add(s->wake, NULL) != 0 ||
        pthread_create(&s->worker, NULL, worker_main, s) != 0) {
        return err_set(err, RC_NO_MEMORY, "store: cannot start its worker");
    }
    return RC_OK;
}

enum rc store_sqlite_open(const char *path, struct event_base *base,
                          const struct store_events *events, void *ctx,
                          struct store **ret, struct err *err)
{
    struct sqlite_store *s = calloc(1, sizeof(*s));
    enum rc rc;

    if (!s) {
        return err_set(err, RC_NO_MEMORY, "store: no memory");
    }
    s->store.cls = &sqlite_class;
    s->store.events = events;
    s->store.ctx = ctx;
    s->wake_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    queue_init(&s->in);
    queue_init(&s->out);
    rc = sqlite_db_open(&s->db, path, err);
    if (rc == RC_OK) {
        s->store.term = s->db.term;
        rc = start_worker(s, base, err);
    }
    if (rc != RC_OK) {
        store_free(s);
        return rc;
    }
    *ret = &s->store;
    return RC_OK;
}
