/* The mapping of one job at a time on a thread of its own: a batch of 10,000 rows takes
 * it some 30 ms, in which the loop sends what barriers let go on and answers.
 *
 * `xgwh` belongs to the thread from when a job is given until it is done, else to the
 * loop's thread, which waits for that wherever it looks at it. */
#include "agent/driver/p4runtime_impl.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/driver/p4runtime_config.h"

struct p4runtime_map {
    struct p4runtime *p;
    struct event *wake;
    int wake_fd;
    pthread_t thread;
    bool has_thread;
    struct job *job; /* the loop's: the one that was given; null: none */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t moved;
    bool is_asked;
    bool is_done;
    bool is_ending;

    /* Whose turn it is has them. */
    struct p4rt_requests requests;
    struct xgwh_state state; /* behind the job's writes */
    bool must_sweep;
    bool lacks_config;
};

/* ---- the thread ---- */

static void sink_write(void *ctx, const struct phys_write *w)
{
    p4rt_requests_entry(ctx, w);
}

static void sink_meter(void *ctx, const struct phys_meter_write *w)
{
    p4rt_requests_meter(ctx, w);
}

static enum rc do_ops(struct p4runtime_map *m, struct job *j,
                      const struct xgwh_sink *sink)
{
    struct xgwh *x = m->p->xgwh;
    struct xgwh_cost cost = { 0 };
    enum rc rc = RC_OK;

    if (j->ops) {
        rc = xgwh_apply(x, j->ops->data, j->ops->len, sink, &j->exceptions, &cost,
                        &j->err);
    }
    if (rc == RC_OK && j->exceptions.unlisted > 0) {
        rc = err_set(&j->err, RC_TIMEOUT, "no memory to list what was refused");
    }
    if (rc == RC_OK && j->ready && !xgwh_is_ready(x)) {
        rc = xgwh_set_ready(x, sink, &cost, &j->err);
        m->lacks_config = rc == RC_CONFLICT && xgwh_state(x).config_digest != 0;
    }
    if (rc == RC_OK && j->revision != 0 && m->must_sweep) {
        rc = xgwh_sweep(x, sink, &cost, &j->err);
        m->must_sweep = rc != RC_OK;
    }
    return rc;
}

static enum rc do_config(struct p4runtime_map *m, struct job *j,
                         const struct xgwh_sink *sink)
{
    struct xgwh_cost cost = { 0 };
    struct device_config *d = malloc(sizeof(*d)); /* too big for a stack */
    struct xgwh_config c;
    enum rc rc = RC_NO_MEMORY;

    m->state.config_digest = device_config_bytes_digest(j->ops->data, j->ops->len);
    if (d) {
        rc = device_config_unpack(j->ops->data, j->ops->len, d, &j->err);
        rc = rc == RC_OK ? p4runtime_config_of(d, m->state.config_digest, &c, &j->err)
                         : rc;
        rc = rc == RC_OK ? xgwh_configure(m->p->xgwh, &c, sink, &cost, &j->err) : rc;
    }
    free(d);
    return rc;
}

/* Its writes, and behind them what the switch remembers of it. */
static void map(struct p4runtime_map *m, struct job *j)
{
    struct xgwh_sink sink = { sink_write, sink_meter, &m->requests };

    m->state = xgwh_state(m->p->xgwh);
    if (j->kind == JOB_CONFIGURE) {
        j->rc = do_config(m, j, &sink);
        m->lacks_config &= j->rc != RC_OK;
    } else {
        j->rc = do_ops(m, j, &sink);
        m->state.applied = j->revision != 0 ? j->revision : m->state.applied;
    }
    if (j->rc == RC_OK) {
        p4rt_requests_barrier(&m->requests);
        j->rc = xgwh_put_state(m->p->xgwh, &m->state, &sink, &j->err);
    }
}

static void *thread_main(void *arg)
{
    struct p4runtime_map *m = arg;

    pthread_mutex_lock(&m->lock);
    while (!m->is_ending) {
        if (!m->is_asked) {
            pthread_cond_wait(&m->moved, &m->lock);
            continue;
        }
        pthread_mutex_unlock(&m->lock);
        map(m, m->job);
        pthread_mutex_lock(&m->lock);
        m->is_asked = false;
        m->is_done = true;
        pthread_cond_signal(&m->moved);
        eventfd_write(m->wake_fd, 1);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ---- the loop ---- */

bool p4runtime_map_is_busy(const struct p4runtime *p)
{
    return p->map->job != NULL;
}

void p4runtime_map_give(struct p4runtime *p, struct job *j)
{
    struct p4runtime_map *m = p->map;
    struct p4rt_requests_options packing = p4rt_writer_packing(p->writer);

    p4rt_requests_init(&m->requests, &packing);
    m->must_sweep = p->must_sweep;
    m->lacks_config = p->lacks_config;
    m->job = j;
    pthread_mutex_lock(&m->lock);
    m->is_asked = true;
    pthread_cond_signal(&m->moved);
    pthread_mutex_unlock(&m->lock);
}

/* The job is mapped: what came of it is the loop's again. */
static struct job *take_back(struct p4runtime_map *m)
{
    struct job *j = m->job;

    m->job = NULL;
    m->is_done = false;
    m->p->must_sweep = m->must_sweep;
    m->p->lacks_config = m->lacks_config;
    return j;
}

static void wait_until_done(struct p4runtime_map *m)
{
    pthread_mutex_lock(&m->lock);
    while (!m->is_done) {
        pthread_cond_wait(&m->moved, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
}

struct xgwh *p4runtime_belief(const struct p4runtime *p)
{
    if (p->map->job) {
        wait_until_done(p->map);
    }
    return p->xgwh;
}

void p4runtime_settle(struct p4runtime *p)
{
    if (p->map->job) {
        struct job *j;

        wait_until_done(p->map);
        j = take_back(p->map);
        p4runtime_give_repairs(p);
        p4rt_writer_take(p->writer, &p->map->requests);
        p4runtime_mapped(p, j);
    }
}

void p4runtime_map_drop(struct p4runtime *p)
{
    if (p->map && p->map->job) {
        wait_until_done(p->map);
        take_back(p->map);
        p4rt_requests_clear(&p->map->requests);
        p->is_void = true;
    }
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct p4runtime_map *m = arg;
    eventfd_t count;
    bool is_done;

    (void)what;
    (void)eventfd_read(fd, &count);
    pthread_mutex_lock(&m->lock);
    is_done = m->is_done; /* else it was settled, and may be at the next one */
    pthread_mutex_unlock(&m->lock);
    if (is_done) {
        p4runtime_settle(m->p);
    }
}

/* ---- life ---- */

/* The thread must not take the program's signals. */
static bool start_thread(struct p4runtime_map *m)
{
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    m->has_thread = pthread_create(&m->thread, NULL, thread_main, m) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return m->has_thread;
}

void p4runtime_map_free(struct p4runtime_map *m)
{
    if (!m) {
        return;
    }
    if (m->has_thread) {
        pthread_mutex_lock(&m->lock);
        m->is_ending = true;
        pthread_cond_signal(&m->moved);
        pthread_mutex_unlock(&m->lock);
        pthread_join(m->thread, NULL);
    }
    if (m->wake) {
        event_free(m->wake);
    }
    if (m->wake_fd >= 0) {
        close(m->wake_fd);
    }
    pthread_cond_destroy(&m->moved);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

struct p4runtime_map *p4runtime_map_new(struct p4runtime *p, struct event_base *base)
{
    struct p4runtime_map *m = calloc(1, sizeof(*m));

    if (!m) {
        return NULL;
    }
    m->p = p;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->moved, NULL);
    m->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    m->wake = m->wake_fd < 0
                  ? NULL
                  : event_new(base, m->wake_fd, EV_READ | EV_PERSIST, on_wake, m);
    if (!m->wake || event_add(m->wake, NULL) != 0 || !start_thread(m)) {
        p4runtime_map_free(m);
        return NULL;
    }
    return m;
}
