#include "controller/history_files.h"

#include "proto/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define FLUSH_S      60
#define FLUSH_SERIES 1000 /* of a turn of the loop: some 2 ms */
#define JOBS_MAX     4    /* minutes that wait for a slow disk; then one is left out */
#define FILE_MAX     (256u << 20)

static const uint32_t file_span_s[HISTORY_TIERS] = { 600, 86400, 30 * 86400 };

struct job {
    struct job *next;
    uint64_t now_s;
    struct buf bytes[HISTORY_TIERS];
};

struct history_files {
    struct history_files_config config;
    char dir[512];
    struct event *timer;
    struct event *loaded; /* by the thread, through `wake_fd` */
    int wake_fd;
    struct job *making; /* a flush in slices */
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t todo;
    struct job *jobs; /* oldest first */
    unsigned job_count;
    bool is_ending;
    struct history *read; /* by the thread, for the loop */

    /* the thread's */
    FILE *open[HISTORY_TIERS];
    uint64_t opened_s[HISTORY_TIERS];
};

static void job_free(struct job *j)
{
    for (unsigned t = 0; j && t < HISTORY_TIERS; t++) {
        buf_fini(&j->bytes[t]);
    }
    free(j);
}

/* ---- the folder ---- */

struct found {
    char name[64];
    unsigned tier;
    uint64_t begun_s;
    uint64_t size;
};

static bool parse_name(const char *name, struct found *ret)
{
    for (unsigned t = 0; t < HISTORY_TIERS; t++) {
        const char *tier = history_tier_name(t);
        size_t len = strlen(tier);
        char *end;

        if (strncmp(name, tier, len) == 0 && name[len] == '-' &&
            strlen(name) < sizeof(ret->name)) {
            ret->tier = t;
            ret->begun_s = strtoull(name + len + 1, &end, 10);
            snprintf(ret->name, sizeof(ret->name), "%s", name);
            return strcmp(end, ".xgwh") == 0;
        }
    }
    return false;
}

/* Coarse tiers first, then by age: the order of reading. */
static int found_compare(const void *a, const void *b)
{
    const struct found *x = a;
    const struct found *y = b;

    if (x->tier != y->tier) {
        return x->tier > y->tier ? -1 : 1;
    }
    return x->begun_s < y->begun_s ? -1 : x->begun_s > y->begun_s;
}

/* Gives the list. */
static size_t list_files(const struct history_files *f, struct found **ret)
{
    DIR *dir = opendir(f->dir);
    struct found *list = NULL;
    size_t count = 0;
    struct dirent *e;

    while (dir && (e = readdir(dir)) != NULL) {
        struct found *more;
        struct found one;
        struct stat st;

        if (!parse_name(e->d_name, &one) || fstatat(dirfd(dir), e->d_name, &st, 0)) {
            continue;
        }
        one.size = (uint64_t)st.st_size;
        more = realloc(list, (count + 1) * sizeof(*list));
        if (!more) {
            break;
        }
        list = more;
        list[count++] = one;
    }
    if (dir) {
        closedir(dir);
    }
    if (count > 0) {
        qsort(list, count, sizeof(*list), found_compare);
    }
    *ret = list;
    return count;
}

static void path_of(const struct history_files *f, const char *name, char ret[640])
{
    snprintf(ret, 640, "%s/%s", f->dir, name);
}

static void remove_file(const struct history_files *f, const struct found *x)
{
    char path[640];

    path_of(f, x->name, path);
    unlink(path);
}

/* Files that are too old, and the oldest of too many bytes, seconds before minutes. */
static void clean(const struct history_files *f, uint64_t now_s)
{
    struct found *list;
    size_t count = list_files(f, &list);
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++) {
        const struct found *x = &list[i];

        if (x->begun_s + file_span_s[x->tier] + history_keep_s(x->tier) < now_s) {
            remove_file(f, x);
            list[i].size = 0;
        }
        total += list[i].size;
    }
    for (unsigned tier = 0; tier < HISTORY_TIERS; tier++) {
        for (size_t i = 0; i < count && total > 2 * f->config.max_bytes; i++) {
            if (list[i].tier == tier && list[i].begun_s != f->opened_s[tier]) {
                remove_file(f, &list[i]);
                total -= list[i].size;
            }
        }
    }
    free(list);
}

/* ---- reading ---- */

static void read_file(const struct history_files *f, struct history *h,
                      const struct found *x, uint64_t now_s)
{
    struct err err = { 0 };
    char path[640];
    uint8_t *bytes = NULL;
    size_t len = 0;
    FILE *in;

    path_of(f, x->name, path);
    in = fopen(path, "re");
    if (in && x->size <= FILE_MAX) {
        bytes = malloc(x->size + 1);
        len = bytes ? fread(bytes, 1, x->size, in) : 0;
    }
    if (!in || !bytes || len != x->size) {
        log_warn("history not read", "file=%s cause=\"%s\"", path,
                 x->size > FILE_MAX ? "too large" : strerror(errno));
    } else if (history_load(h, bytes, len, now_s, &err) != RC_OK) {
        log_warn("history damaged", "file=%s cause=\"%s\" next=\"the rest is taken\"",
                 path, err.msg);
    }
    free(bytes);
    if (in) {
        fclose(in);
    }
}

static void read_all(struct history_files *f)
{
    struct history *h = history_new(f->config.max_bytes);
    uint64_t now_s = shell_unix_ms() / 1000;
    struct found *list;
    size_t count;

    if (h) {
        clean(f, now_s);
        count = list_files(f, &list);
        for (size_t i = 0; i < count; i++) {
            read_file(f, h, &list[i], now_s);
        }
        free(list);
    }
    pthread_mutex_lock(&f->lock);
    f->read = h;
    pthread_mutex_unlock(&f->lock);
    eventfd_write(f->wake_fd, 1);
}

/* ---- writing ---- */

/* Begins a file of the tier; never one that is there. */
static FILE *begin_file(struct history_files *f, unsigned tier, uint64_t now_s)
{
    for (unsigned i = 0; i < 10; i++) {
        char name[64];
        char path[640];
        int fd;

        snprintf(name, sizeof(name), "%s-%llu.xgwh", history_tier_name(tier),
                 (unsigned long long)(now_s + i));
        path_of(f, name, path);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
        if (fd >= 0) {
            f->opened_s[tier] = now_s + i;
            f->open[tier] = fdopen(fd, "w");
            if (f->open[tier]) {
                fwrite(HISTORY_MAGIC, 1, HISTORY_MAGIC_SIZE, f->open[tier]);
            }
            return f->open[tier];
        }
    }
    return NULL;
}

static void end_file(struct history_files *f, unsigned tier)
{
    if (f->open[tier]) {
        fclose(f->open[tier]);
        f->open[tier] = NULL;
    }
}

static void write_tier(struct history_files *f, unsigned tier, const struct buf *bytes,
                       uint64_t now_s)
{
    FILE *to;

    if (bytes->len == 0 || bytes->failed) {
        return;
    }
    if (f->open[tier] && f->opened_s[tier] + file_span_s[tier] <= now_s) {
        end_file(f, tier);
    }
    to = f->open[tier] ? f->open[tier] : begin_file(f, tier, now_s);
    if (!to || fwrite(bytes->data, 1, bytes->len, to) != bytes->len || fflush(to)) {
        log_warn("history not written", "dir=%s tier=%s cause=\"%s\"", f->dir,
                 history_tier_name(tier), strerror(errno));
        end_file(f, tier); /* what comes goes into a new one */
    }
}

static void *thread_main(void *arg)
{
    struct history_files *f = arg;
    struct job *j;

    read_all(f);
    pthread_mutex_lock(&f->lock);
    while (f->jobs || !f->is_ending) {
        j = f->jobs;
        if (!j) {
            pthread_cond_wait(&f->todo, &f->lock);
            continue;
        }
        f->jobs = j->next;
        f->job_count--;
        pthread_mutex_unlock(&f->lock);
        for (unsigned tier = 0; tier < HISTORY_TIERS; tier++) {
            write_tier(f, tier, &j->bytes[tier], j->now_s);
        }
        clean(f, j->now_s);
        job_free(j);
        pthread_mutex_lock(&f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* ---- the loop ---- */

static void on_loaded(evutil_socket_t fd, short what, void *arg)
{
    struct history_files *f = arg;
    struct history *h;
    eventfd_t count;

    (void)what;
    eventfd_read(fd, &count);
    pthread_mutex_lock(&f->lock);
    h = f->read;
    f->read = NULL;
    pthread_mutex_unlock(&f->lock);
    if (h) {
        log_info("history read", "series=%u bytes=%zu", history_stats(h).series,
                 history_stats(h).bytes);
        shell_set_history(f->config.shell, h);
    }
}

static void hand_over(struct history_files *f, struct job *j)
{
    struct job **end = &f->jobs;
    bool has_room;

    pthread_mutex_lock(&f->lock);
    has_room = f->job_count < JOBS_MAX;
    if (has_room) {
        while (*end) {
            end = &(*end)->next;
        }
        *end = j;
        f->job_count++;
        pthread_cond_signal(&f->todo);
    }
    pthread_mutex_unlock(&f->lock);
    if (!has_room) {
        log_warn("history not written", "dir=%s cause=\"the disk is slow\"", f->dir);
        job_free(j);
    }
}

/* One slice; true: the minute is complete and handed over. */
static bool flush(struct history_files *f)
{
    struct history *h = health_history(core_health(shell_core(f->config.shell)));
    uint64_t now_s = shell_unix_ms() / 1000;
    struct job *j = f->making ? f->making : h ? calloc(1, sizeof(*j)) : NULL;

    f->making = j;
    if (!j) {
        return true;
    }
    j->now_s = now_s;
    if (h && !history_flush(h, now_s, FLUSH_SERIES, j->bytes)) {
        return false;
    }
    f->making = NULL;
    hand_over(f, j);
    return true;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct history_files *f = arg;
    struct timeval soon = { 0, 0 };
    struct timeval minute = { FLUSH_S, 0 };

    (void)fd;
    (void)what;
    event_add(f->timer, flush(f) ? &minute : &soon);
}

/* ---- life ---- */

static enum rc start(struct history_files *f, struct err *err)
{
    struct event_base *base = f->config.base;
    struct timeval minute = { FLUSH_S, 0 };

    if (mkdir(f->dir, 0750) != 0 && errno != EEXIST) {
        return err_field(err, RC_INVALID, "history", "history_dir",
                         "history: the folder %s cannot be made: %s", f->dir,
                         strerror(errno));
    }
    f->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    f->timer = event_new(base, -1, 0, on_timer, f);
    f->loaded = f->wake_fd < 0
                    ? NULL
                    : event_new(base, f->wake_fd, EV_READ | EV_PERSIST, on_loaded, f);
    if (!f->timer || !f->loaded || event_add(f->timer, &minute) ||
        event_add(f->loaded, NULL) ||
        pthread_create(&f->thread, NULL, thread_main, f) != 0) {
        return err_set(err, RC_NO_MEMORY, "history: no memory");
    }
    f->has_thread = true;
    return RC_OK;
}

enum rc history_files_new(const struct history_files_config *config,
                          struct history_files **ret, struct err *err)
{
    struct history_files *f = calloc(1, sizeof(*f));
    enum rc rc;

    if (!f) {
        return err_set(err, RC_NO_MEMORY, "history: no memory");
    }
    f->config = *config;
    f->wake_fd = -1;
    snprintf(f->dir, sizeof(f->dir), "%s", config->dir);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->todo, NULL);
    rc = start(f, err);
    if (rc != RC_OK) {
        history_files_free(f);
        return rc;
    }
    *ret = f;
    return RC_OK;
}

static void end_thread(struct history_files *f)
{
    while (!flush(f)) {
    }
    pthread_mutex_lock(&f->lock);
    f->is_ending = true;
    pthread_cond_signal(&f->todo);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
}

void history_files_free(struct history_files *f)
{
    if (!f) {
        return;
    }
    if (f->has_thread) {
        end_thread(f);
    }
    if (f->timer) {
        event_free(f->timer);
    }
    if (f->loaded) {
        event_free(f->loaded);
    }
    if (f->wake_fd >= 0) {
        close(f->wake_fd);
    }
    for (unsigned tier = 0; tier < HISTORY_TIERS; tier++) {
        end_file(f, tier);
    }
    history_free(f->read);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->todo);
    free(f);
}
