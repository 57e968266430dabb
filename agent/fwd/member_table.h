/*
 * member_table - which member of a cluster a flow goes to: one load of a table.
 *
 * As in Maglev (Eisenbud et al., NSDI 2016) a flow's hash picks a slot of a table that
 * is made from the members' names alone, so all load balancers agree without a word.
 * How the table is filled is not Maglev's: there a member that leaves moves some other
 * members' flows too (test_member_table measures that).  Here each slot goes to the
 * member with the highest score for it (rendezvous hashing, Thaler and Ravishankar
 * 1998): one that leaves moves its own slots only, one that comes takes slots and moves
 * none between others, whatever happened before, in any order.  The price is that
 * shares are even by chance and not by turns; the number of slots makes up for it.
 *
 * Plain values: nothing here allocates, locks or remembers.  Who fills a table
 * publishes it afterwards; readers only read.
 */
#pragma once

#include <stdint.h>

/* As many as routers take next hops (CAPACITY.md). */
#define MEMBER_TABLE_MEMBERS 64

/* A share's standard deviation, of the mean, is sqrt((members - 1) / slots): 0.5 % with
 * 8 members, 1.6 % with 64.  Filling takes some 2 ns a slot and member. */
#define MEMBER_TABLE_BITS  18
#define MEMBER_TABLE_SLOTS (1u << MEMBER_TABLE_BITS)

struct member_table {
    _Alignas(64) uint8_t slot[MEMBER_TABLE_SLOTS]; /* a place in the list of seeds */
};

/* What stands for a member in the scores; names that differ, differ here. */
uint64_t member_seed(const char *name);

/* From `count` (1 to MEMBER_TABLE_MEMBERS) seeds, each once.  Their order gives the
 * slots their numbers and changes nothing else. */
void member_table_fill(struct member_table *t, const uint64_t seeds[], unsigned count);

/* The place of the member that a flow of this hash goes to. */
static inline unsigned member_table_pick(const struct member_table *t,
                                         uint64_t flow_hash)
{
    return t->slot[flow_hash >> (64 - MEMBER_TABLE_BITS)];
}
