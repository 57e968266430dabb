#include "controller/cli/capacity_history.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/capacity/growth.h"
#include "controller/cli/cli_number.h"
#include "controller/cli/cli_print.h"
#include "proto/model/entry.h"
#include "proto/model/name.h"

#define LINE_MAX_BYTES 256
#define LINES_MAX      1000000
#define AMOUNT_MAX     1e18

struct sample {
    char cluster[CLUSTER_NAME_MAX + 1];
    bool is_reservation;
    double day;
    double amount;
    double capacity;
};

struct samples {
    struct sample *at;
    size_t count;
    size_t room;
};

/* ---- lines ---- */

static enum rc fail_line(struct err *err, size_t line, const char *field,
                         const char *rule, const char *what)
{
    return err_field(err, RC_INVALID, field, rule, "line %zu: %s: %s", line, field,
                     what);
}

static enum rc read_amount(const char *field, const char *text, size_t line,
                           double least, double *ret, struct err *err)
{
    enum rc rc = cli_number(field, text, least, AMOUNT_MAX, ret, err);

    return rc == RC_OK ? RC_OK : err_wrap(err, rc, "line %zu", line);
}

/* `text` is one line without its end; it is cut into its fields. */
static enum rc parse_line(char *text, size_t line, struct sample *ret, struct err *err)
{
    char *fields[5] = { NULL };
    unsigned count = 0;
    enum rc rc;

    for (char *rest = text; rest && count < 5;) {
        fields[count++] = strsep(&rest, ",");
    }
    if (count < 3) {
        return fail_line(err, line, "line", "field_count",
                         "not cluster,date,amount,capacity or cluster,reserved,amount");
    }
    rc = name_check(fields[0], CLUSTER_NAME_MAX, "cluster", err);
    if (rc != RC_OK) {
        return err_wrap(err, rc, "line %zu", line);
    }
    memset(ret, 0, sizeof(*ret));
    strcpy(ret->cluster, fields[0]);
    ret->is_reservation = strcmp(fields[1], "reserved") == 0;
    if (count != (ret->is_reservation ? 3u : 4u)) {
        return fail_line(err, line, "line", "field_count",
                         "not cluster,date,amount,capacity or cluster,reserved,amount");
    }
    if (!ret->is_reservation &&
        !growth_parse_date(fields[1], strlen(fields[1]), &ret->day)) {
        return fail_line(err, line, "date", "date_syntax",
                         "not a date such as 2026-11-30");
    }
    rc = read_amount("amount", fields[2], line, 0, &ret->amount, err);
    return rc != RC_OK || ret->is_reservation
               ? rc
               : read_amount("capacity", fields[3], line, 1e-9, &ret->capacity, err);
}

static enum rc add(struct samples *all, const struct sample *s, struct err *err)
{
    if (all->count == LINES_MAX) {
        return err_field(err, RC_RANGE, "line", "line_count", "more than %d lines",
                         LINES_MAX);
    }
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 256;
        struct sample *at = realloc(all->at, room * sizeof(*at));

        if (!at) {
            return err_set(err, RC_NO_MEMORY, "no memory for %zu lines", room);
        }
        all->at = at;
        all->room = room;
    }
    all->at[all->count++] = *s;
    return RC_OK;
}

/* The next line without its end; its length, or -1 at the end of the file, or -2 for
 * one that is too long or no text. */
static int read_line(FILE *f, char to[LINE_MAX_BYTES])
{
    int len = 0;
    int c = getc(f);

    if (c == EOF) {
        return -1;
    }
    for (; c != EOF && c != '\n'; c = getc(f)) {
        if (len + 1 == LINE_MAX_BYTES || c == '\0') {
            return -2;
        }
        to[len++] = (char)c;
    }
    len -= len > 0 && to[len - 1] == '\r';
    to[len] = '\0';
    return len;
}

static enum rc read_lines(FILE *f, struct samples *all, struct err *err)
{
    char text[LINE_MAX_BYTES];
    enum rc rc = RC_OK;
    int len = 0;

    for (size_t line = 1; rc == RC_OK && (len = read_line(f, text)) != -1; line++) {
        struct sample s;

        if (len == -2) {
            return fail_line(err, line, "line", "line_form",
                             "no text of up to 255 bytes");
        }
        if (len == 0 || text[0] == '#') {
            continue;
        }
        rc = parse_line(text, line, &s, err);
        rc = rc == RC_OK ? add(all, &s, err) : rc;
    }
    return rc == RC_OK && ferror(f)
               ? err_field(err, RC_INVALID, "history", "file", "%s", strerror(errno))
               : rc;
}

/* ---- clusters ---- */

static int compare(const void *a, const void *b)
{
    const struct sample *x = a;
    const struct sample *y = b;
    int order = strcmp(x->cluster, y->cluster);

    return order ? order : (x->day > y->day) - (x->day < y->day);
}

/* What is known of one cluster: its samples, oldest first, reservations before them. */
static enum rc cluster_json(const struct sample *at, size_t count, double safe_pct,
                            json_t *clusters, struct err *err)
{
    struct growth_point *points = malloc(count * sizeof(*points));
    double capacity = at[count - 1].capacity;
    double reserved = 0;
    size_t n = 0;
    struct growth g;
    enum growth_when when;
    double day = 0;
    char date[GROWTH_DATE_SIZE];
    json_t *crosses;

    if (!points) {
        return err_set(err, RC_NO_MEMORY, "no memory for %zu points", count);
    }
    for (size_t i = 0; i < count; i++) {
        if (at[i].is_reservation) {
            reserved += at[i].amount;
        } else {
            points[n++] = (struct growth_point){ at[i].day, at[i].amount };
        }
    }
    if (!growth_fit(points, n, &g)) {
        free(points);
        return err_field(err, RC_INVALID, "date", "two_days",
                         "cluster %s: a line needs measurements of two days",
                         at->cluster);
    }
    free(points);
    when = growth_crossing(&g, capacity * safe_pct / 100, reserved, &day);
    growth_print_date(when == GROWTH_NOW ? g.last_day : day, date);
    crosses = when == GROWTH_NEVER ? json_null() : json_string(date);
    json_array_append_new(
        clusters,
        json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:o, s:f}", "cluster",
                  at->cluster, "points", (json_int_t)n, "now", cli_round(g.at_last, 3),
                  "reserved", reserved, "capacity", capacity, "level_pct",
                  cli_round(100 * (g.at_last + reserved) / capacity, 2), "per_day",
                  cli_round(g.per_day, 3), "safe_pct", safe_pct, "is_over",
                  when == GROWTH_NOW, "crosses", crosses, "r2", cli_round(g.r2, 4)));
    return RC_OK;
}

static enum rc work_out(struct samples *all, double safe_pct, json_t *clusters,
                        struct err *err)
{
    enum rc rc = RC_OK;

    qsort(all->at, all->count, sizeof(*all->at), compare);
    for (size_t i = 0; rc == RC_OK && i < all->count;) {
        size_t end = i + 1;

        while (end < all->count &&
               strcmp(all->at[i].cluster, all->at[end].cluster) == 0) {
            end++;
        }
        rc = cluster_json(&all->at[i], end - i, safe_pct, clusters, err);
        i = end;
    }
    return rc;
}

enum rc capacity_history_read(FILE *f, double safe_pct, json_t **ret, struct err *err)
{
    struct samples all = { 0 };
    json_t *clusters = json_array();
    enum rc rc = read_lines(f, &all, err);

    if (rc == RC_OK && all.count == 0) {
        rc = err_field(err, RC_INVALID, "history", "empty", "no measurements");
    }
    rc = rc == RC_OK ? work_out(&all, safe_pct, clusters, err) : rc;
    free(all.at);
    if (rc != RC_OK) {
        json_decref(clusters);
        return rc;
    }
    *ret = clusters;
    return RC_OK;
}

/* From a file by name; "-" is stdin. */
static enum rc read_path(const char *path, double safe_pct, json_t **ret,
                         struct err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "re");
    enum rc rc;

    if (!f) {
        return err_field(err, RC_INVALID, "history", "file", "%s: %s", path,
                         strerror(errno));
    }
    rc = capacity_history_read(f, safe_pct, ret, err);
    if (!is_stdin) {
        fclose(f);
    }
    return rc == RC_OK ? RC_OK : err_wrap(err, rc, "%s", path);
}

enum cli_exit capacity_history_print(const struct cli *cli)
{
    static const struct cli_column columns[] = { { "CLUSTER", "cluster" },
                                                 { "NOW", "now" },
                                                 { "RESERVED", "reserved" },
                                                 { "CAPACITY", "capacity" },
                                                 { "LEVEL %", "level_pct" },
                                                 { "A DAY", "per_day" },
                                                 { "SAFE %", "safe_pct" },
                                                 { "CROSSES IT", "crosses" },
                                                 { "OVER", "is_over" },
                                                 { "R2", "r2" },
                                                 { NULL, NULL } };
    json_t *clusters = NULL;
    struct err err = { 0 };
    double safe = 80; /* CONTROL.md, Water levels */
    struct buf text = BUF_INIT;

    if (cli_option_percent(cli, "safe", 1, 100, &safe, &err) != RC_OK ||
        read_path(cli_option(cli, "history"), safe, &clusters, &err) != RC_OK) {
        return cli_fail(&err);
    }
    if (cli->settings.output == CLI_TABLE) {
        cli_table(clusters, columns, &text);
        cli_print_buf(&text);
        json_decref(clusters);
    } else {
        json_t *json = json_pack("{s:o}", "clusters", clusters);

        cli_print_json(json, (enum cli_output)cli->settings.output);
        json_decref(json);
    }
    return CLI_OK;
}
