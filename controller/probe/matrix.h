/*
 * matrix - which probes a node's entries need, so that all that they can make of a
 * packet is seen at least once.
 *
 *   a group's rows ── matrix_work ──▶ picks ──┐
 *   a node's configuration ───────────────────┴─ matrix_probe, cell by cell ─▶ a probe,
 *                                                              or why there is none
 *
 * A cell is one thing that can become of a packet: an end of the way through the
 * entries, by so many peers, with that family inside, over that one, to an NC of that
 * one; a rule, a meter, a route inside another; something wrong with the frame.  Cells
 * are the same for every node and stand in one order (matrix_cell.h).
 *
 * A pick is an address of some tenant that takes a way of one kind; the first one is
 * kept, by VNI and then by row, so that the same rows make the same picks.  The walk
 * looks at each row once and keeps none: what it holds is some 10 KB, for a million
 * rows.  It is done in slices; what changes behind it is not looked at again, but a
 * probe is always made of the rows as they are then.
 *
 * One owner, one thread; the nodes of a group share one.
 */
#pragma once

#include "controller/probe/matrix_cell.h"
#include "controller/probe/probe.h"

struct matrix; /* opaque: matrix.c */

/* Of a group whose nodes are XGW-H or XGW-x86; of one VNI's rows, or with 0 of all.  Of
 * one VNI there is nothing wrong with any frame.  Null: no memory. */
struct matrix *matrix_new(bool is_h, uint32_t vni);
struct matrix *matrix_ref(struct matrix *m);
void matrix_unref(struct matrix *m); /* null is fine */

/* Goes on with the rows of `s`, until `*units` are used up: a row looked at or a key
 * looked up is one.  True: all were looked at. */
bool matrix_work(struct matrix *m, const struct table_set *s, uint32_t *units);
bool matrix_is_done(const struct matrix *m);

/* The probe of a cell, made of the node's rows as they are; MATRIX_COVERED, or why
 * there is none.  Of a matrix that is done. */
enum matrix_reach matrix_probe(const struct matrix *m, const struct matrix_cell *cell,
                               const struct probe_node *node, uint64_t number,
                               struct probe *ret);
