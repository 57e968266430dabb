/*
 * gen_prefixes - two lists of distinct announced prefixes, IPv4 and IPv6: read from a
 * full table, or made up with a full table's lengths.
 */
#pragma once

#include "proto/base/err.h"
#include "proto/base/ip.h"

struct prefix_list {
    struct prefix *at;
    uint32_t count;
    uint32_t cap;
};

struct gen_prefixes {
    struct prefix_list v4;
    struct prefix_list v6;
};

void gen_prefixes_fini(struct gen_prefixes *p);

/* Reads DIR/prefixes/bart-tier1-fulltable.prefixes.txt.gz, a prefix a line.  Leaves out
 * what no route may have.  RC_NOT_FOUND when that is no such file. */
enum rc gen_prefixes_read(const char *dir, struct gen_prefixes *ret, struct err *err);

/* Makes up at least `count` of each family. */
enum rc gen_prefixes_make(uint64_t seed, uint32_t count, struct gen_prefixes *ret,
                          struct err *err);
