#include "controller/api/beats.h"

#include "controller/health/liveness.h"
#include "proto/base/log.h"
#include "proto/model/agent_msg.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct transition {
    struct transition *next;
    char device_id[DEVICE_ID_MAX + 1];
    bool is_silent;
};

struct beats {
    uint64_t (*now_ms)(void);
    beats_transition_fn *on_transition;
    void *arg;
    int efd; /* the loop is to look at `first` */
    struct event *told;
    bool has_thread;
    pthread_t thread;

    pthread_mutex_t lock; /* of what follows, and of all lines */
    pthread_cond_t stop;
    bool is_stopping;
    struct liveness *liveness;
    struct transition *first; /* oldest first */
    struct transition **end;
};

struct beats_line {
    struct beats *owner;
    char device_id[DEVICE_ID_MAX + 1]; /* "" until known */
    uint32_t waiting;                  /* arrived, and not taken */
};

/* ---- the detector's side ---- */

static void keep_transition(void *arg, const char *device_id, bool is_silent)
{
    struct beats *b = arg;
    struct transition *t = calloc(1, sizeof(*t));

    if (!t) {
        log_error("liveness lost", "device=%s cause=\"no memory\"", device_id);
        return;
    }
    memcpy(t->device_id, device_id, strnlen(device_id, DEVICE_ID_MAX));
    t->is_silent = is_silent;
    *b->end = t;
    b->end = &t->next;
}

void beats_check(struct beats *b)
{
    const uint64_t one = 1;
    bool has_news;

    pthread_mutex_lock(&b->lock);
    liveness_check(b->liveness, b->now_ms(), keep_transition, b);
    has_news = b->first != NULL;
    pthread_mutex_unlock(&b->lock);
    /* Cannot fail short of a closed descriptor: the counter is far from full. */
    while (has_news && write(b->efd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

static void *beats_main(void *arg)
{
    struct beats *b = arg;
    struct timespec at;

    pthread_mutex_lock(&b->lock);
    while (!b->is_stopping) {
        clock_gettime(CLOCK_MONOTONIC, &at);
        at.tv_nsec += LIVENESS_CHECK_MS * 1000000L;
        at.tv_sec += at.tv_nsec / 1000000000;
        at.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&b->stop, &b->lock, &at) == ETIMEDOUT) {
            pthread_mutex_unlock(&b->lock);
            beats_check(b);
            pthread_mutex_lock(&b->lock);
        }
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* ---- the loop's side ---- */

static struct transition *take_first(struct beats *b)
{
    struct transition *t;

    pthread_mutex_lock(&b->lock);
    t = b->first;
    if (t) {
        b->first = t->next;
        b->end = b->first ? b->end : &b->first;
    }
    pthread_mutex_unlock(&b->lock);
    return t;
}

static void on_told(evutil_socket_t fd, short what, void *arg)
{
    struct beats *b = arg;
    struct transition *t;
    uint64_t count;

    (void)what;
    if (read((int)fd, &count, sizeof(count)) < 0 && errno != EAGAIN) {
        log_error("liveness wake-up failed", "error=\"%s\"", strerror(errno));
    }
    while ((t = take_first(b))) {
        b->on_transition(b->arg, t->device_id, t->is_silent);
        free(t);
    }
}

struct beats_line *beats_open(struct beats *b)
{
    struct beats_line *line = calloc(1, sizeof(*line));

    if (line) {
        line->owner = b;
    }
    return line;
}

void beats_name(struct beats_line *line, const char *device_id)
{
    struct beats *b = line->owner;

    pthread_mutex_lock(&b->lock);
    if (line->device_id[0] == '\0') {
        memcpy(line->device_id, device_id, strnlen(device_id, DEVICE_ID_MAX));
        liveness_beat(b->liveness, line->device_id, b->now_ms());
        liveness_hold(b->liveness, line->device_id, line->waiting);
    }
    pthread_mutex_unlock(&b->lock);
}

void beats_arrived(struct beats_line *line)
{
    struct beats *b = line->owner;

    pthread_mutex_lock(&b->lock);
    line->waiting++;
    if (line->device_id[0]) {
        liveness_beat(b->liveness, line->device_id, b->now_ms());
        liveness_hold(b->liveness, line->device_id, 1);
    }
    pthread_mutex_unlock(&b->lock);
}

static void release(struct beats_line *line, uint32_t count)
{
    line->waiting -= count;
    if (line->device_id[0]) {
        liveness_release(line->owner->liveness, line->device_id, count,
                         line->owner->now_ms());
    }
}

void beats_taken(struct beats_line *line)
{
    pthread_mutex_lock(&line->owner->lock);
    release(line, 1);
    pthread_mutex_unlock(&line->owner->lock);
}

void beats_close(struct beats_line *line, bool is_forgotten)
{
    struct beats *b = line->owner;

    pthread_mutex_lock(&b->lock);
    release(line, line->waiting);
    if (is_forgotten) {
        liveness_forget(b->liveness, line->device_id);
    }
    pthread_mutex_unlock(&b->lock);
    free(line);
}

/* ---- life ---- */

/* The thread must not take the program's signals. */
static int start_thread(struct beats *b)
{
    sigset_t all;
    sigset_t before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&b->thread, NULL, beats_main, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static bool build(struct beats *b, const struct beats_config *config)
{
    pthread_condattr_t monotonic;

    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&b->stop, &monotonic);
    pthread_condattr_destroy(&monotonic);
    b->efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    b->liveness = liveness_new(LIVENESS_BEAT_MS, LIVENESS_MISSED, b->now_ms());
    if (b->efd < 0 || !b->liveness) {
        return false;
    }
    b->told = event_new(config->base, b->efd, EV_READ | EV_PERSIST, on_told, b);
    if (!b->told || event_add(b->told, NULL) != 0) {
        return false;
    }
    b->has_thread = config->has_thread && start_thread(b) == 0;
    return b->has_thread == config->has_thread;
}

enum rc beats_new(const struct beats_config *config, beats_transition_fn *on_transition,
                  void *arg, struct beats **ret, struct err *err)
{
    struct beats *b = calloc(1, sizeof(*b));

    if (!b) {
        return err_set(err, RC_NO_MEMORY, "liveness: no memory");
    }
    b->now_ms = config->now_ms;
    b->on_transition = on_transition;
    b->arg = arg;
    b->end = &b->first;
    if (!build(b, config)) {
        beats_free(b);
        return err_set(err, RC_NO_MEMORY, "liveness: no memory or descriptor");
    }
    *ret = b;
    return RC_OK;
}

void beats_free(struct beats *b)
{
    struct transition *t;

    if (!b) {
        return;
    }
    if (b->has_thread) {
        pthread_mutex_lock(&b->lock);
        b->is_stopping = true;
        pthread_cond_signal(&b->stop);
        pthread_mutex_unlock(&b->lock);
        pthread_join(b->thread, NULL);
    }
    while ((t = take_first(b))) {
        free(t);
    }
    if (b->told) {
        event_free(b->told);
    }
    if (b->efd >= 0) {
        close(b->efd);
    }
    liveness_free(b->liveness);
    pthread_cond_destroy(&b->stop);
    pthread_mutex_destroy(&b->lock);
    free(b);
}
