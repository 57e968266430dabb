/*
 * json_scan - reads the tokens of one small JSON text (RFC 8259) in place.
 *
 * No tree, no allocation: the caller says what it expects next.  Strings are borrowed
 * from the text, or from `scratch` where an escape had to be undone.  After a failure
 * `problem` says what was expected and `p` stands where.  Internal to proto/model.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_scan {
    const char *start;
    const char *p;
    const char *end;
    char *scratch; /* room for every string: as long as the text */
    const char *problem;
};

struct json_text {
    const char *p;
    uint32_t len;
};

struct json_scan json_scan_of(const char *text, size_t len, char *scratch);

/* Skips space, then takes `c`; false (and no problem noted) when it is not there. */
bool json_scan_take(struct json_scan *s, char c);
/* As json_scan_take(), but notes `problem`. */
bool json_scan_expect(struct json_scan *s, char c, const char *problem);

/* Skips space and reads a string with its quotes.  False with `problem`. */
bool json_scan_string(struct json_scan *s, struct json_text *ret);

/* Skips space and takes every character that can be part of a number: the caller judges
 * the text, which is empty where something else stands. */
struct json_text json_scan_number(struct json_scan *s);

/* Nothing but space is left. */
bool json_scan_end(struct json_scan *s);
