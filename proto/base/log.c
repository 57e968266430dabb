#include "proto/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 4096, /* PIPE_BUF on Linux: one write stays one piece */
    LINES_PER_SECOND = 10,
};

/* What a call site remembers.  Races between threads cost a line more or less. */
struct log_site {
    _Atomic uint64_t second; /* monotonic; the window that `printed` counts */
    atomic_uint printed;
    atomic_uint dropped; /* since the last line that got through */
};

_Static_assert(sizeof(struct log_site) <= LOG_SITE_SIZE, "fits the call site");

static _Atomic int least_level = LOG_INFO;
const char *const log_level_names[] = { "debug", "info", "warn", "error", NULL };

void log_set_level(enum log_level level)
{
    least_level = (int)level;
}

/* May this line go out?  Takes over what was dropped before it. */
static bool admit(struct log_site *site, unsigned *ret_dropped)
{
    struct timespec now;

    *ret_dropped = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (atomic_exchange(&site->second, (uint64_t)now.tv_sec) != (uint64_t)now.tv_sec) {
        atomic_store(&site->printed, 0);
    }
    if (atomic_fetch_add(&site->printed, 1) >= LINES_PER_SECOND) {
        atomic_fetch_add(&site->dropped, 1);
        return false;
    }
    *ret_dropped = atomic_exchange(&site->dropped, 0);
    return true;
}

static size_t print_head(char *to, size_t size, enum log_level level, const char *event)
{
    struct timespec now;
    struct tm utc;
    char date[24];
    int n;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
    n = snprintf(to, size, "ts=%s.%03dZ level=%s msg=\"%s\"", date,
                 (int)(now.tv_nsec / 1000000), log_level_names[level], event);
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

/* One event stays one line, whatever a peer put into a value. */
static void strip_control(char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = ' ';
        }
    }
}

void log_line(void *site, enum log_level level, const char *event, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    const size_t room = sizeof(line) - 32; /* leaves space for " dropped=…\n" */
    unsigned dropped;
    va_list args;
    size_t len;
    int n;

    if ((int)level < least_level || !admit(site, &dropped)) {
        return;
    }
    len = print_head(line, room, level, event);
    line[len++] = ' ';
    va_start(args, fmt);
    n = vsnprintf(line + len, room - len, fmt, args);
    va_end(args);
    if (n > 0) {
        len += (size_t)n < room - len ? (size_t)n : room - len - 1;
    } else {
        len--; /* nothing to say: no trailing space */
    }
    if (dropped > 0) {
        len += (size_t)snprintf(line + len, sizeof(line) - len, " dropped=%u", dropped);
    }
    strip_control(line, len);
    line[len++] = '\n';
    for (size_t at = 0; at < len;) {
        ssize_t done = write(STDERR_FILENO, line + at, len - at);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return; /* nowhere to complain */
        }
        at += (size_t)done;
    }
}
