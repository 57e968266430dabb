/*
 * levels - the settings of water levels: how full is too full, for each kind of
 * cluster.
 *
 *   sale      the cluster takes no new tenants
 *   safe      alarm: plan a new cluster
 *   critical  the node goes, or, for tables, no further entries are taken
 *
 * Each is left `clear_bp` below where it was entered, so that what sits at a mark does
 * not flap.  Values only; any thread.
 */
#pragma once

#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/model/object.h"

#define LEVEL_FULL_BP 10000

/* Basis points (1/100 %) of what there is: 0 < sale < safe < critical <= 10,000, and
 * clear below sale. */
struct level_marks {
    uint16_t sale_bp;
    uint16_t safe_bp;
    uint16_t critical_bp;
    uint16_t clear_bp;
};

struct level_kind {
    struct level_marks marks;
    uint32_t drop_ppb; /* packets lost of 10^9 received; above is an alarm */
};

#define LEVEL_KINDS 4 /* by enum cluster_kind; [0] is not used */
struct level_settings {
    struct level_kind of[LEVEL_KINDS];
};

/* CONTROL.md: 70, 80, 90 %, cleared 10 points lower; loss of 1e-9 on XGW-H, 1e-5 on
 * XGW-x86. */
void level_settings_default(struct level_settings *s);

/* RC_RANGE with field (below `prefix`) and rule. */
enum rc level_marks_check(const struct level_marks *m, const char *prefix,
                          struct err *err);
enum rc level_settings_check(const struct level_settings *s, struct err *err);

void level_marks_pack(const struct level_marks *m, struct buf *to);
struct level_marks level_marks_read(struct reader *r);

/* As object.h says. */
void level_settings_pack(const struct level_settings *s, struct buf *to);
enum rc level_settings_unpack(const void *bytes, size_t len, struct level_settings *ret,
                              struct err *err);
