/*
 * alertmanager - tells Prometheus' Alertmanagers of alarms, by POST /api/v2/alerts.
 *
 * What is sent is the state, not the news: all alarms that were to be told and stand,
 * with an end that lies ahead, and those that are over, with their end.  It is sent
 * when something changed and again well before the ends are reached, so an Alertmanager
 * that was restarted knows all after a minute, one that hears nothing more (we are
 * dead) forgets after four, and nothing queues while one is away.
 *
 * One request at a time to each; failures are tried again with a growing pause.  The
 * loop's thread, on libcurl's multi interface.
 */
#pragma once

#include "controller/shell.h"

struct event_base;
struct alertmanager;

#define ALERTMANAGERS_MAX 8

struct alertmanager_config {
    struct event_base *base;
    struct shell *shell;
    const char *urls;    /* "http://127.0.0.1:9093,https://am-2:9093"; copied */
    const char *ca_file; /* null or "": the system's authorities */
    uint32_t resend_ms;
};

/* Begins to listen to the shell's alarms.  RC_INVALID: no such list. */
enum rc alertmanager_new(const struct alertmanager_config *config,
                         struct alertmanager **ret, struct err *err);
void alertmanager_free(struct alertmanager *a); /* null is fine */

struct alertmanager_stats {
    uint64_t posts;    /* answered with 2xx */
    uint64_t failures; /* anything else */
};
struct alertmanager_stats alertmanager_stats(const struct alertmanager *a);

/* RC_INVALID unless it is such a list; `*ret_count` URLs.  `needs_tls`: http only to
 * this machine. */
enum rc alertmanager_check_urls(const char *urls, bool needs_tls, struct err *err);
