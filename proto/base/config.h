/*
 * config - a program's settings: one table says name, type, unit, bounds, default,
 * whether a reload may change it, and what it is for in one sentence.
 *
 *   struct gw_config { bool busy_poll; uint32_t workers; char listen[128]; };
 *   static const struct config_key keys[] = {
 *       { CONFIG_BOOL(struct gw_config, busy_poll), .name = "busy-poll", .def =
 * "false", .what = "Poll without ever sleeping." }, { CONFIG_U32(struct gw_config,
 * workers), .name = "workers", .min = 1, .max = 64, .def = "1", .unit = "threads",
 * .what = "Packet workers." }, …
 *   };
 *   static const struct config_table table = CONFIG_TABLE("xgw-gateway",
 *       "The data plane.", struct gw_config, keys);
 *
 *   int main(int argc, char **argv)
 *   {
 *       struct gw_config config;
 *       int code = config_start(&table, argc, argv, &config);
 *       if (code >= 0) { return code; }
 *
 * From the table come the parser, --help, the effective values, the sample file and the
 * reference page.  A file has `key = value` lines; a line that starts with '#' is a
 * comment.  A command line has `--key value` or `--key=value`, and `--key` alone for a
 * boolean; it wins over the file.  An unknown key, a repeated one and a bad value fail
 * with file and line.
 *
 * The values are a plain struct of the program's own: copied, compared, handed to the
 * modules that need them.  No state here.  One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

enum config_type {
    CONFIG_TYPE_BOOL,     /* bool: true, false */
    CONFIG_TYPE_U32,      /* uint32_t */
    CONFIG_TYPE_DURATION, /* uint32_t, ms: "250ms", "3s", "10m", "1h"; bounds in ms */
    CONFIG_TYPE_ENUM,     /* uint32_t: index of the word in `choices` */
    CONFIG_TYPE_TEXT,     /* char[]: printable characters; "" if the default is "" */
    CONFIG_TYPE_PATH,     /* char[]: the same, of a file or directory */
};

struct config_key {
    const char *name; /* "busy-poll": lower-case letters, digits, '-' */
    enum config_type type;
    size_t offset; /* of the member, and its size */
    size_t size;
    uint32_t min; /* U32 and DURATION, both inclusive */
    uint32_t max;
    const char *const *choices; /* ENUM: the words, then null */
    const char *unit;           /* of a U32; null if it is a mere number */
    const char *def;            /* as a person would write it; null: must be given */
    bool reloadable;
    const char *what; /* one sentence, with its full stop */
};

#define CONFIG_MEMBER(type_, struct_, member)                                          \
    .type = (type_), .offset = offsetof(struct_, member),                              \
    .size = sizeof(((struct_ *)0)->member)
#define CONFIG_BOOL(struct_, member) CONFIG_MEMBER(CONFIG_TYPE_BOOL, struct_, member)
#define CONFIG_U32(struct_, member)  CONFIG_MEMBER(CONFIG_TYPE_U32, struct_, member)
#define CONFIG_DURATION(struct_, member)                                               \
    CONFIG_MEMBER(CONFIG_TYPE_DURATION, struct_, member)
#define CONFIG_ENUM(struct_, member) CONFIG_MEMBER(CONFIG_TYPE_ENUM, struct_, member)
#define CONFIG_TEXT(struct_, member) CONFIG_MEMBER(CONFIG_TYPE_TEXT, struct_, member)
#define CONFIG_PATH(struct_, member) CONFIG_MEMBER(CONFIG_TYPE_PATH, struct_, member)

#define CONFIG_KEYS_MAX 128
#define CONFIG_LINE_MAX 1024
#define CONFIG_FILE_MAX (1u << 20)

struct config_table {
    const char *program; /* "xgw-gateway" */
    const char *summary; /* one sentence */
    const struct config_key *keys;
    size_t count;
    size_t values_size;
    /* Rules between settings; may be null.  Fails as config_load() does. */
    enum rc (*check)(const void *values, struct err *err);
};

#define CONFIG_TABLE(program_, summary_, struct_, keys_)                               \
    {                                                                                  \
        .program = (program_), .summary = (summary_), .keys = (keys_),                 \
        .count = sizeof(keys_) / sizeof((keys_)[0]), .values_size = sizeof(struct_)    \
    }

/* What a command line asks for beside settings. */
enum config_action {
    CONFIG_RUN,
    CONFIG_HELP,      /* --help, -h */
    CONFIG_VERSION,   /* --version */
    CONFIG_VALUES,    /* --print-config: the effective values, as a file */
    CONFIG_SAMPLE,    /* --print-sample: a commented file with the defaults */
    CONFIG_REFERENCE, /* --print-reference: Markdown */
};

/* Defaults, then the file of `--config FILE`, then the command line; then the table's
 * check.  Fills `*ret_values` (values_size bytes) and `*ret_action`; on failure both
 * are untouched and `err` has the key as field and "FILE:LINE: " or "--KEY: " in front
 * of the message.  RC_INVALID or RC_RANGE; RC_NOT_FOUND for a file that is not there.
 */
enum rc config_load(const struct config_table *t, int argc, char *const *argv,
                    void *ret_values, enum config_action *ret_action, struct err *err);

/* The same from the text of one file, without a command line.  `name` stands in the
 * messages. */
enum rc config_parse(const struct config_table *t, const char *name, const char *text,
                     size_t len, void *ret_values, struct err *err);

/* config_load() for main(): prints what was asked for to stdout, or the error to
 * stderr, and returns the exit code (0, 2); -1 means go on and run. */
int config_start(const struct config_table *t, int argc, char *const *argv,
                 void *ret_values);

/* May a running program go from `before` to `after`?  Appends "key: old -> new\n" for
 * each change to `changes` (may be null).  RC_CONFLICT (rule "reloadable") names the
 * first key that needs a restart. */
enum rc config_check_reload(const struct config_table *t, const void *before,
                            const void *after, struct buf *changes, struct err *err);

void config_print_help(const struct config_table *t, struct buf *to);
void config_print_values(const struct config_table *t, const void *values,
                         struct buf *to);
void config_print_sample(const struct config_table *t, struct buf *to);
void config_print_reference(const struct config_table *t, struct buf *to);

/* One value as a file would have it. */
void config_print_value(const struct config_key *key, const void *values,
                        struct buf *to);

/* Is the table itself sound: names unique and well formed, defaults within bounds,
 * sizes right?  For the program's unit test. */
enum rc config_table_check(const struct config_table *t, struct err *err);
