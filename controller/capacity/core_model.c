#include "controller/capacity/core_model.h"

#include <math.h>
#include <string.h>

const struct core_params core_published = {
    .io = 84,
    .base = 62, /* 146 with minimal parse and deparse */
    .table = 57,
    .dram = 203, /* exact match: the packet rate halves once the table outgrows L3 */
    .l2_bytes = 256 << 10,
    .l3_bytes = 20 << 20,
    .entry_bytes = 95.3, /* 220,000 entries of 16 + 64 bytes fill its L3 */
    .hz = 2e9,
};

/* --- the model -------------------------------------------------------------------- */

static double beyond(double cache_bytes, double bytes)
{
    return bytes > cache_bytes ? 1 - cache_bytes / bytes : 0;
}

/* Coefficients that are fitted, in the order of their features. */
enum { BASE, TABLE, REWRITE, CALL, L3, DRAM, WAIT, FEATURES };

static void features(const struct core_params *p, const struct core_config *c,
                     double x[FEATURES])
{
    double bytes = c->entries * p->entry_bytes;
    double out2 = c->tables * beyond(p->l2_bytes, bytes);

    x[BASE] = 1;
    x[TABLE] = c->tables;
    x[REWRITE] = c->changes_vni;
    x[CALL] = 1 / c->burst;
    x[L3] = out2;
    x[DRAM] = c->tables * beyond(p->l3_bytes, bytes);
    x[WAIT] = out2 / c->burst;
}

static const size_t places[FEATURES] = {
    offsetof(struct core_params, base),    offsetof(struct core_params, table),
    offsetof(struct core_params, rewrite), offsetof(struct core_params, call),
    offsetof(struct core_params, l3),      offsetof(struct core_params, dram),
    offsetof(struct core_params, wait),
};

static double *coefficient(struct core_params *p, unsigned i)
{
    return (double *)((char *)p + places[i]);
}

double core_cycles(const struct core_params *p, const struct core_config *c)
{
    struct core_params copy = *p;
    double x[FEATURES];
    double cycles = p->io;

    features(p, c, x);
    for (unsigned i = 0; i < FEATURES; i++) {
        cycles += x[i] * *coefficient(&copy, i);
    }
    return cycles;
}

double core_pps(const struct core_params *p, const struct core_config *c)
{
    return p->hz / core_cycles(p, c);
}

/* --- the fit ---------------------------------------------------------------------- */

/* Sums of the least squares: A^T A and A^T y over the features in use. */
struct normal {
    double a[FEATURES][FEATURES + 1];
};

/* Rows are divided by what was measured, so that errors are relative. */
static void sum_up(const struct core_point *points, size_t count,
                   const struct core_params *p, struct normal *n)
{
    memset(n, 0, sizeof(*n));
    for (size_t i = 0; i < count; i++) {
        double x[FEATURES + 1];

        features(p, &points[i].config, x);
        x[FEATURES] = points[i].cycles;
        for (unsigned r = 0; r < FEATURES; r++) {
            for (unsigned c = 0; c <= FEATURES; c++) {
                n->a[r][c] += x[r] * x[c] / (points[i].cycles * points[i].cycles);
            }
        }
    }
}

/* Gauss with pivots over the features in `use`; what the points do not tell apart gets
 * 0. */
static void solve(struct normal n, unsigned use, double ret[FEATURES])
{
    bool done[FEATURES] = { false };

    memset(ret, 0, FEATURES * sizeof(*ret));
    for (unsigned k = 0; k < FEATURES; k++) {
        double scale = n.a[k][k];

        /* Diagonal pivots suffice: the matrix is positive semidefinite. */
        if (!(use & 1u << k) || scale <= 1e-12) {
            continue;
        }
        done[k] = true;
        for (unsigned r = 0; r < FEATURES; r++) {
            double by = r != k && use & 1u << r ? n.a[r][k] / scale : 0;

            for (unsigned c = k; by != 0 && c <= FEATURES; c++) {
                n.a[r][c] -= by * n.a[k][c];
            }
        }
    }
    for (unsigned k = 0; k < FEATURES; k++) {
        ret[k] = done[k] ? n.a[k][FEATURES] / n.a[k][k] : 0;
    }
}

/* Leaves out what comes out negative, the worst first, until nothing does. */
static void solve_positive(const struct normal *n, double ret[FEATURES])
{
    unsigned use = (1u << FEATURES) - 1;

    for (;;) {
        unsigned worst = FEATURES;

        solve(*n, use, ret);
        for (unsigned k = 0; k < FEATURES; k++) {
            if (ret[k] < 0 && (worst == FEATURES || ret[k] < ret[worst])) {
                worst = k;
            }
        }
        if (worst == FEATURES) {
            return;
        }
        use &= ~(1u << worst);
    }
}

static void errors(const struct core_point *points, size_t count, struct core_fit *f)
{
    double sum = 0;

    f->worst_error = 0;
    for (size_t i = 0; i < count; i++) {
        double e = (core_cycles(&f->params, &points[i].config) - f->params.io) /
                       points[i].cycles -
                   1;

        sum += e * e;
        f->worst_error = fmax(f->worst_error, fabs(e));
    }
    f->rms_error = sqrt(sum / (double)count);
}

/* One try: the coefficients for given cache sizes. */
static void fit_caches(const struct core_point *points, size_t count,
                       const struct core_params *p, struct core_fit *ret)
{
    struct normal n;
    double x[FEATURES];

    ret->params = *p;
    sum_up(points, count, p, &n);
    solve_positive(&n, x);
    for (unsigned i = 0; i < FEATURES; i++) {
        *coefficient(&ret->params, i) = x[i];
    }
    errors(points, count, ret);
}

enum rc core_fit(const struct core_point *points, size_t count,
                 const struct core_params *given, struct core_fit *ret, struct err *err)
{
    struct core_fit best = { .rms_error = INFINITY };
    unsigned tables = 0;
    unsigned bursts = 0;

    if (count < CORE_POINTS_MIN) {
        return err_field(err, RC_INVALID, "points", "point_count",
                         "%zu points: a fit needs %d", count, CORE_POINTS_MIN);
    }
    for (size_t i = 0; i < count; i++) {
        if (!(points[i].cycles > 0) || !(points[i].config.burst >= 1)) {
            return err_field(err, RC_INVALID, "points", "point_range",
                             "point %zu: cycles or burst out of range", i);
        }
        tables += points[i].config.tables != points[0].config.tables;
        bursts += points[i].config.burst != points[0].config.burst;
    }
    if (tables == 0 || bursts == 0) {
        return err_field(err, RC_INVALID, "points", "point_variety",
                         "the points do not tell tables and bursts apart");
    }
    /* What of its caches a core gets on a shared machine is tried out, in octaves. */
    for (double l2 = given->l2_bytes; l2 >= given->l2_bytes / 8; l2 /= 2) {
        for (double l3 = given->l3_bytes; l3 >= 2 * l2; l3 /= 2) {
            struct core_params p = *given;
            struct core_fit f;

            p.l2_bytes = l2;
            p.l3_bytes = l3;
            fit_caches(points, count, &p, &f);
            if (f.rms_error < best.rms_error * 0.999) {
                best = f;
            }
        }
    }
    if (isinf(best.rms_error)) {
        return err_field(err, RC_INVALID, "l3_bytes", "cache_range",
                         "an L3 cache of %.0f bytes is not above L2's %.0f",
                         given->l3_bytes, given->l2_bytes);
    }
    *ret = best;
    return RC_OK;
}
