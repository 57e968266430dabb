#include "controller/cli/import_reader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AHEAD 8 /* batches; some 20 ms of reading, more than a turn of the loop */

struct import_reader {
    const struct import_input *in;
    struct import_lines lines;
    uint64_t from_line;
    pthread_t thread;
    int fd;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t has_room;
    struct import_batch queue[AHEAD];
    unsigned head;
    unsigned count;
    bool is_stopping;
    bool is_over;
    struct err err; /* of the reading, when it is over */
    uint64_t bad_line;
};

static void wake(const struct import_reader *r)
{
    uint64_t one = 1;

    /* Full means that the other side is awake already. */
    (void)!write(r->fd, &one, sizeof(one));
}

/* False: nobody wants it any more. */
static bool put(struct import_reader *r, const struct import_batch *b)
{
    bool is_wanted;

    pthread_mutex_lock(&r->lock);
    while (r->count == AHEAD && !r->is_stopping) {
        pthread_cond_wait(&r->has_room, &r->lock);
    }
    is_wanted = !r->is_stopping;
    if (is_wanted) {
        r->queue[(r->head + r->count++) % AHEAD] = *b;
    }
    pthread_mutex_unlock(&r->lock);
    if (is_wanted) {
        wake(r);
    }
    return is_wanted;
}

static void *run(void *arg)
{
    struct import_reader *r = arg;
    struct err err = { 0 };
    uint64_t bad_line = 0;
    struct import_batch b;
    enum rc rc = import_lines_seek(&r->lines, r->from_line, &bad_line, &err);

    while (rc == RC_OK) {
        rc = import_lines_next(&r->lines, &b, &bad_line, &err);
        if (rc != RC_OK || b.entry_count == 0) {
            break;
        }
        if (!put(r, &b)) {
            blob_unref(b.ops);
            return NULL;
        }
    }
    pthread_mutex_lock(&r->lock);
    r->is_over = true;
    r->err = err;
    r->bad_line = bad_line;
    pthread_mutex_unlock(&r->lock);
    wake(r);
    return NULL;
}

enum rc import_reader_new(const struct import_input *in, uint64_t line,
                          struct import_reader **ret, struct err *err)
{
    struct import_reader *r = calloc(1, sizeof(*r));

    if (!r) {
        return err_set(err, RC_NO_MEMORY, "no memory for a reader");
    }
    r->in = in;
    r->from_line = line;
    r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    import_lines_init(&r->lines, in->text, in->len, in->format);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->has_room, NULL);
    if (r->fd < 0 || pthread_create(&r->thread, NULL, run, r) != 0) {
        if (r->fd >= 0) {
            close(r->fd);
        }
        free(r);
        return err_set(err, RC_NO_MEMORY, "no thread for a reader");
    }
    *ret = r;
    return RC_OK;
}

void import_reader_free(struct import_reader *r)
{
    if (!r) {
        return;
    }
    pthread_mutex_lock(&r->lock);
    r->is_stopping = true;
    pthread_cond_signal(&r->has_room);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    while (r->count > 0) {
        blob_unref(r->queue[r->head].ops);
        r->head = (r->head + 1) % AHEAD;
        r->count--;
    }
    import_lines_fini(&r->lines);
    pthread_cond_destroy(&r->has_room);
    pthread_mutex_destroy(&r->lock);
    close(r->fd);
    free(r);
}

int import_reader_fd(const struct import_reader *r)
{
    return r->fd;
}

enum import_read import_reader_take(struct import_reader *r, struct import_batch *ret,
                                    uint64_t *ret_bad_line, struct err *err)
{
    enum import_read read = IMPORT_READ_NOT_YET;

    pthread_mutex_lock(&r->lock);
    if (r->count > 0) {
        *ret = r->queue[r->head];
        r->head = (r->head + 1) % AHEAD;
        r->count--;
        pthread_cond_signal(&r->has_room);
        read = IMPORT_READ_BATCH;
    } else if (r->is_over && r->err.code == RC_OK) {
        read = IMPORT_READ_END;
    } else if (r->is_over) {
        *ret_bad_line = r->bad_line;
        *err = r->err;
        read = IMPORT_READ_FAILED;
    }
    pthread_mutex_unlock(&r->lock);
    return read;
}
