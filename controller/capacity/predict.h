/*
 * predict - what a set of entries takes of the chip: TCAM rows, SRAM words, table by
 * table, before anything is written.
 *
 * What agent/xgwh allocates for the same entries is within 3 % of it in rows and words,
 * after a bulk build or when re-packing has caught up (a test holds both against each
 * other); right after many single changes it may be a sixth more rows.  To get there
 * the routes are counted with alpm_counter; counts alone give an estimate that is up to
 * a tenth off in rows.
 *
 * Values only; any thread.
 */
#pragma once

#include "controller/capacity/alpm.h"
#include "controller/capacity/layout.h"
#include "proto/model/rows.h"

/* What one half holds. */
struct half_counts {
    uint64_t vnis;
    uint64_t routes;     /* guards included */
    uint64_t route_rows; /* as counted; 0: estimated from `routes` */
    uint64_t vms;        /* both families */
    double conflicts;    /* of them, v6 ones whose key is taken; expected */
};

/* What both halves hold alike. */
struct node_counts {
    uint64_t vnis; /* of both halves */
    uint64_t ncs_v4;
    uint64_t ncs_v6;
    uint64_t acl_rules;
    uint64_t meters;
};

/* Counts one half's entries as they are walked.  Open. */
struct half_counter {
    struct half_counts counts;
    struct alpm_counter alpm;
};

void half_counter_init(struct half_counter *c, const struct layout *l);

/* A VNI with its routes and VMs (borrowed; null is none); VNIs in ascending order,
 * false for one that is not.  A v6 route over the pooled IPv4 space takes a guard in
 * front of it, as on the chip, unless the VNI has an IPv4 default. */
bool half_counter_vni(struct half_counter *c, uint32_t vni, const struct rows *routes,
                      const struct rows *vms);

/* The sums so far; more may follow. */
struct half_counts half_counter_sum(const struct half_counter *c);

#define PREDICT_TABLES_MAX 32

struct physical_use {
    double entries[2][PREDICT_TABLES_MAX]; /* by half and place in layout->tables;
                                              equal where halves do not differ */
    double tcam_rows;  /* of all tables, both halves; what is not halved counts once */
    double sram_words; /* the same; of partitions, all slots */
    double fullest;    /* share of the fullest table's usable entries */
    unsigned fullest_table;
};

/* Fills in `ret`.  More than fits is no error: `fullest` is then above 1. */
void capacity_predict(const struct layout *l, const struct chip *c,
                      const struct half_counts half[2], const struct node_counts *node,
                      struct physical_use *ret);
