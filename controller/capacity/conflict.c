#include "controller/capacity/conflict.h"

#include <math.h>

#define KEYS 4294967296.0 /* of CRC32 */

double conflict_expected(double n)
{
    /* n - K(1 - (1 - 1/K)^n); the difference of nearly equal numbers is lost in
     * doubles below some ten thousand addresses, the series is not. */
    if (n < 2) {
        return 0;
    }
    if (n < 1e6) {
        return n * (n - 1) / (2 * KEYS) * (1 - (n - 2) / (3 * KEYS));
    }
    return n + KEYS * expm1(n * log1p(-1 / KEYS));
}

uint64_t conflict_worst(uint64_t n)
{
    return n > 0 ? n - 1 : 0;
}

uint64_t conflict_bound(double expected, double risk)
{
    double term;
    double above;
    uint64_t c = 0;

    if (expected <= 0) {
        return 0;
    }
    if (expected > 600) {
        /* exp(-600) is near the end of doubles; the normal tail does there.  Solves
         * erfc(x / sqrt 2) / 2 = risk by halving. */
        double low = 0;
        double high = 40;

        for (int i = 0; i < 60; i++) {
            double x = (low + high) / 2;

            *(erfc(x / M_SQRT2) / 2 > risk ? &low : &high) = x;
        }
        return (uint64_t)ceil(expected + high * sqrt(expected) + high * high / 6);
    }
    term = exp(-expected);
    above = 1 - term;
    while (above > risk && term > 0) {
        c++;
        term *= expected / (double)c;
        above -= term;
        /* Past the mode the rest is below a geometric series of its next term. */
        if ((double)c > expected) {
            double next = expected / (double)(c + 1);
            double rest = term * next / (1 - next);

            above = above < rest && above > 0 ? above : rest;
        }
    }
    return c;
}

double conflict_addresses(uint64_t entries, double risk)
{
    double low = 1;
    double high = KEYS;

    for (int i = 0; i < 64; i++) {
        double n = (low + high) / 2;

        *(conflict_bound(conflict_expected(n), risk) <= entries ? &low : &high) = n;
    }
    return low;
}
