/*
 * sources - a set of VNIs, each with how often it was added, in order of VNI.
 *
 * Made for many small sets and a few of 100,000: a small one is one array, a large one
 * an array of leaves, so that adding to it moves no more than a leaf.  Null is the
 * empty set.  Running out of memory ends the process (core_internal.h).
 */
#pragma once

#include <stdint.h>

struct sources; /* opaque: sources.c */

void sources_add(struct sources **s, uint32_t vni);
/* Once less; it is there. */
void sources_drop(struct sources **s, uint32_t vni);
void sources_free(struct sources *s);

uint32_t sources_count(const struct sources *s); /* VNIs */
/* The first VNI that is not below `from`; 0: there is none. */
uint32_t sources_next(const struct sources *s, uint32_t from);
