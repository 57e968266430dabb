#include "controller/cli/capacity_points.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/buf.h"

#define PROGRAM    "xgw-calibrate"
#define OUTPUT_MAX (1u << 20)
#define RUNS_MAX   25

extern char **environ;

/* ---- configurations ---- */

enum rc points_config_parse(const char *text, struct points_config *ret,
                            struct err *err)
{
    struct points_config c;
    int end = -1;

    /* %u alone would take signs and spaces. */
    if (strspn(text, "0123456789:") != strlen(text) || strlen(text) > 20 ||
        sscanf(text, "%7u:%1u:%2u%n", &c.entries, &c.hops, &c.burst, &end) != 3 ||
        text[end] != '\0' || c.entries == 0 || c.hops > 3 || c.burst == 0 ||
        c.burst > 64) {
        return err_field(err, RC_INVALID, "predict", "config_syntax",
                         "'%s': not ENTRIES:HOPS:BURST such as 250000:1:32, with up to "
                         "3 hops and 64 packets",
                         text);
    }
    *ret = c;
    return RC_OK;
}

struct core_config points_core_config(const struct points_config *c)
{
    /* A route lookup for each hop and the last one, then VM-NC. */
    return (struct core_config){ .entries = c->entries,
                                 .tables = c->hops + 2,
                                 .changes_vni = c->hops > 0,
                                 .burst = c->burst };
}

/* ---- running the program ---- */

/* The path of a program beside this one, or its bare name for PATH. */
static void beside(char *to, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", to, size - sizeof(PROGRAM) - 1);
    char *slash;

    to[n > 0 ? n : 0] = '\0';
    slash = strrchr(to, '/');
    strcpy(slash ? slash + 1 : to, PROGRAM);
    if (access(to, X_OK) != 0) {
        strcpy(to, PROGRAM);
    }
}

static enum rc read_all(int fd, struct buf *to, struct err *err)
{
    char part[4096];
    ssize_t n;

    while ((n = read(fd, part, sizeof(part))) != 0) {
        if (n < 0 && errno != EINTR) {
            return err_set(err, RC_INVALID, "%s: %s", PROGRAM, strerror(errno));
        }
        if (n > 0) {
            buf_add(to, part, (size_t)n);
        }
        if (to->len > OUTPUT_MAX) {
            return err_set(err, RC_INVALID, "%s: more than 1 MiB of output", PROGRAM);
        }
    }
    return buf_failed(to) ? err_set(err, RC_NO_MEMORY, "no memory for the output")
                          : RC_OK;
}

/* Starts it with its output on `*ret_fd`. */
static enum rc start(const char *program, char **argv, pid_t *ret_pid, int *ret_fd,
                     struct err *err)
{
    posix_spawn_file_actions_t actions;
    int fds[2];
    int code;

    if (pipe2(fds, O_CLOEXEC) != 0) {
        return err_set(err, RC_INVALID, "pipe: %s", strerror(errno));
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    code = posix_spawnp(ret_pid, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    if (code != 0) {
        close(fds[0]);
        return err_field(err, code == ENOENT ? RC_NOT_FOUND : RC_INVALID, "program",
                         "program", "%s: %s", program, strerror(code));
    }
    *ret_fd = fds[0];
    return RC_OK;
}

enum rc points_measure(const char *program, unsigned runs,
                       const struct points_config *configs, unsigned count,
                       json_t **ret, struct err *err)
{
    char path[4096];
    char texts[POINTS_MAX][24];
    char runs_text[16];
    char *argv[POINTS_MAX + 4] = { (char *)PROGRAM, (char *)"--runs", runs_text };
    struct buf output = BUF_INIT;
    json_error_t where;
    int status = 0;
    pid_t pid;
    int fd = -1;
    enum rc rc;

    beside(path, sizeof(path));
    snprintf(runs_text, sizeof(runs_text), "%u", runs);
    for (unsigned i = 0; i < count; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%u:%u:%u", configs[i].entries,
                 configs[i].hops, configs[i].burst);
        argv[3 + i] = texts[i];
    }
    rc = start(program ? program : path, argv, &pid, &fd, err);
    if (rc != RC_OK) {
        return rc;
    }
    rc = read_all(fd, &output, err);
    close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (rc == RC_OK && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
        rc = err_field(err, RC_INVALID, "program", "program", "%s failed (%s %d)",
                       program ? program : path, WIFEXITED(status) ? "exit" : "signal",
                       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
    if (rc == RC_OK) {
        *ret = json_loadb((const char *)output.data, output.len, 0, &where);
        if (!*ret) {
            rc = err_field(err, RC_INVALID, "points", "points_form", "%s: %s", PROGRAM,
                           where.text);
        }
    }
    buf_fini(&output);
    return rc;
}

/* ---- reading ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of an array of positive numbers, or 0 if it is none. */
static double median(const json_t *runs)
{
    double at[RUNS_MAX];
    size_t count = json_array_size(runs);

    if (count == 0 || count > RUNS_MAX) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        at[i] = json_number_value(json_array_get(runs, i));
        if (!(at[i] > 0)) {
            return 0;
        }
    }
    qsort(at, count, sizeof(*at), compare);
    return count % 2 ? at[count / 2] : (at[count / 2 - 1] + at[count / 2]) / 2;
}

static uint32_t whole(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));

    return value > 0 && value <= UINT32_MAX ? (uint32_t)value : 0;
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

enum rc points_read(const json_t *json, struct points *ret, struct err *err)
{
    const json_t *array = json_object_get(json, "points");
    const json_t *gaps = json_object_get(json, "gaps");
    struct points p = { .tsc_hz = number(json, "tsc_hz"),
                        .l2_bytes = number(json, "l2_bytes"),
                        .l3_bytes = number(json, "l3_bytes"),
                        .gaps_per_s = number(gaps, "per_s"),
                        .gap_ns = number(gaps, "mean_ns"),
                        .gap_max_ns = number(gaps, "longest_ns") };
    uint32_t most = 0;
    const json_t *item;
    size_t i;

    if (!(p.tsc_hz > 0) || json_array_size(array) == 0 ||
        json_array_size(array) > POINTS_MAX) {
        return err_field(err, RC_INVALID, "points", "points_form",
                         "not what %s prints: tsc_hz and 1 to %d points", PROGRAM,
                         POINTS_MAX);
    }
    json_array_foreach(array, i, item)
    {
        struct points_config *c = &p.at[i].config;

        *c = (struct points_config){ whole(item, "entries"), whole(item, "hops"),
                                     whole(item, "burst") };
        p.at[i].cycles = median(json_object_get(item, "cycles"));
        if (c->entries == 0 || c->burst == 0 || !(p.at[i].cycles > 0)) {
            return err_field(err, RC_INVALID, "points", "points_form",
                             "point %zu: entries, burst or cycles are missing", i);
        }
        if (c->entries > most) {
            most = c->entries;
            p.entry_bytes = number(item, "bytes") / most;
        }
    }
    p.count = (unsigned)i;
    *ret = p;
    return RC_OK;
}

/* ---- parameters ---- */

static const struct {
    const char *name;
    size_t offset;
} params[] = {
    { "io_cycles", offsetof(struct core_params, io) },
    { "base_cycles", offsetof(struct core_params, base) },
    { "table_cycles", offsetof(struct core_params, table) },
    { "rewrite_cycles", offsetof(struct core_params, rewrite) },
    { "call_cycles", offsetof(struct core_params, call) },
    { "l3_cycles", offsetof(struct core_params, l3) },
    { "dram_cycles", offsetof(struct core_params, dram) },
    { "wait_cycles", offsetof(struct core_params, wait) },
    { "l2_bytes", offsetof(struct core_params, l2_bytes) },
    { "l3_bytes", offsetof(struct core_params, l3_bytes) },
    { "entry_bytes", offsetof(struct core_params, entry_bytes) },
    { "hz", offsetof(struct core_params, hz) },
};
#define PARAMS (sizeof(params) / sizeof(params[0]))

json_t *points_params_json(const struct core_params *p)
{
    json_t *json = json_object();

    for (size_t i = 0; i < PARAMS; i++) {
        double value;

        memcpy(&value, (const char *)p + params[i].offset, sizeof(value));
        json_object_set_new(json, params[i].name, json_real(value));
    }
    return json;
}

enum rc points_params_read(const json_t *json, struct core_params *ret, struct err *err)
{
    struct core_params p;

    for (size_t i = 0; i < PARAMS; i++) {
        const json_t *item = json_object_get(json, params[i].name);
        double value = json_number_value(item);

        if (!json_is_number(item) || !(value >= 0)) {
            return err_field(err, RC_INVALID, params[i].name, "parameter",
                             "%s: not a number of 0 or more", params[i].name);
        }
        memcpy((char *)&p + params[i].offset, &value, sizeof(value));
    }
    if (!(p.hz > 0)) {
        return err_field(err, RC_INVALID, "hz", "parameter", "hz: not above 0");
    }
    *ret = p;
    return RC_OK;
}
