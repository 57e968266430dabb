/*
 * err - how a call fails: a code that programs act on, a sentence that people read.
 *
 * A call that can fail returns `enum rc`.  One that can fail for a reason a person
 * must read also takes `struct err *`, last.  Outputs are untouched on failure.
 * Values only; any thread.
 */
#pragma once

enum rc {
    RC_OK = 0,
    RC_INVALID,     /* the request makes no sense: fix the request */
    RC_RANGE,       /* understood, but outside the allowed values */
    RC_NOT_FOUND,   /* no such object */
    RC_EXISTS,      /* already there, and different */
    RC_CONFLICT,    /* against a rule that other objects depend on */
    RC_DENIED,      /* not allowed: needs a confirmation or another role */
    RC_FULL,        /* a table or quota has no room left */
    RC_STALE,       /* the caller's revision or term is behind: read again */
    RC_UNREACHABLE, /* peer or store not answering: retry later */
    RC_TIMEOUT,     /* no answer in time: outcome unknown */
    RC_NO_MEMORY,   /* allocation failed */
    RC_BUG,         /* our own invariant broke */
};

struct err {
    enum rc code;
    char rule[32];  /* stable name of the rule that was broken, "" if none */
    char field[64]; /* the offending field as the caller wrote it, "" if none */
    char msg[256];  /* one sentence, no newline; empty while code is RC_OK */
};

/* Records and returns `code`, so failing is one line.  A null `err` is fine. */
enum rc err_set(struct err *err, enum rc code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As err_set, and names the field and the rule for the caller who sent them. */
enum rc err_field(struct err *err, enum rc code, const char *field, const char *rule,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Puts "context: " in front of the message as the error travels up; keeps code,
 * field and rule.  Returns the code that `err` holds (or `code` when err is null). */
enum rc err_wrap(struct err *err, enum rc code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* "not_found", "full", …: lower case, stable, for logs and the API. */
const char *rc_name(enum rc code);
