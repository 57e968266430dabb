/*
 * log - one line on stderr, one event: logfmt with a level, a fixed verb phrase and
 * key=value pairs.
 *
 *   log_warn("session lost", "agent=%s cause=\"%s\"", id, err.msg);
 *   → ts=2026-12-04T03:12:09.120Z level=warn msg="session lost" agent=gw-7a cause="…"
 *
 * Rate-limited per call site (10 a second, then a count of what was dropped).  Pure
 * modules (model, core, sync, session, fwd) do not log: they return errors and effects.
 * Any thread; one write(2) a line.
 */
#pragma once

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct log_site; /* per call site; opaque */
#define LOG_SITE_SIZE 32

/* Below this level nothing is printed.  Default LOG_INFO. */
void log_set_level(enum log_level level);

/* "debug", "info", "warn", "error", null: the choices of a setting. */
extern const char *const log_level_names[];

void log_line(void *site, enum log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The per-site memory is the one static that the rate limit needs. */
#define LOG_AT(level, event, ...)                                                      \
    do {                                                                               \
        static _Alignas(8) unsigned char log_site_[LOG_SITE_SIZE];                     \
        log_line(log_site_, (level), (event), __VA_ARGS__);                            \
    } while (0)

#define log_debug(event, ...) LOG_AT(LOG_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...)  LOG_AT(LOG_INFO, event, __VA_ARGS__)
#define log_warn(event, ...)  LOG_AT(LOG_WARN, event, __VA_ARGS__)
#define log_error(event, ...) LOG_AT(LOG_ERROR, event, __VA_ARGS__)
