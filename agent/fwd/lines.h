/*
 * lines - memory in 64-byte cache lines, named by 32-bit indexes.
 *
 * One contiguous reservation of address space, asked as huge pages, so that a lookup
 * structure can say where its next node is in four bytes and costs few TLB entries.
 * Sizes up to 8 KiB come from slabs of one size each, larger ones from runs of pages.
 * Memory is touched only as far as it has been needed.
 *
 * The writer's thread allocates and frees; any thread reads through lines_at().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define LINE_BYTES 64

enum { LINES_BINS = 32, LINES_CLASSES = 24 };

struct lines_page; /* lines.c */

struct lines {
    uint8_t *base;           /* aligned to 2 MiB */
    struct lines_page *page; /* of each 4 KiB page */
    uint64_t in_use_bytes;   /* allocated, rounded to size classes */
    uint64_t frees;          /* calls of lines_free(): after a refusal, try again when
                                it has moved */
    uint32_t page_count;     /* reserved */
    uint32_t page_top;       /* pages from here on were never touched */
    uint32_t bin[LINES_BINS];
    uint32_t slab[LINES_CLASSES]; /* slabs of a class with room */
};

/* Reserves `bytes` of address space.  Returns 0, or -1 when that is refused. */
int lines_init(struct lines *l, uint64_t bytes);
void lines_fini(struct lines *l);

/* An index, or 0 when memory is out.  Contents undefined. */
uint32_t lines_alloc(struct lines *l, uint32_t count);
/* `count` as it was allocated; index 0 is fine. */
void lines_free(struct lines *l, uint32_t index, uint32_t count);

/* Bytes touched so far, our own tables included. */
uint64_t lines_memory(const struct lines *l);

static inline void *lines_at(const struct lines *l, uint32_t index)
{
    return l->base + (uint64_t)index * LINE_BYTES;
}

/* Reserves `bytes` of zeroed address space, asked as huge pages where it is large;
 * null when refused. */
void *lines_reserve(uint64_t bytes);
void lines_unreserve(void *at, uint64_t bytes);
