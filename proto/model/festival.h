/*
 * festival - a window of time with more load than usual, planned ahead.
 *
 * While it lasts its marks are in force in the place of lower ones (fewer alarms, more
 * throughput is let be), and its temporary tenants exist; when it ends both go by
 * themselves.  Values only; any thread.
 */
#pragma once

#include "proto/model/levels.h"

#define FESTIVALS_MAX        16
#define FESTIVAL_TENANTS_MAX 64
#define FESTIVAL_GROWTH_MAX  1000 /* percent */
#define FESTIVAL_LONGEST_S   (90u * 86400)

struct festival {
    char name[REGION_NAME_MAX + 1]; /* as other names */
    uint64_t starts_s;              /* since 1970 */
    uint64_t ends_s;                /* without it */
    uint16_t growth_percent;        /* load against what was seen; 100 = as much */
    struct level_marks marks;
    uint8_t tenant_count;
    uint32_t tenants[FESTIVAL_TENANTS_MAX]; /* VNIs, ascending, each once */
    bool is_over; /* its end is done with: set by the controller alone */
};

/* The default: 100 %, and levels 10 points above the default ones. */
void festival_default(struct festival *f);

/* RC_INVALID or RC_RANGE with field and rule. */
enum rc festival_check(const struct festival *f, struct err *err);

void festival_pack(const struct festival *f, struct buf *to);
enum rc festival_unpack(const void *bytes, size_t len, struct festival *ret,
                        struct err *err);
