#include "agent/fwd/lines.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

/*
 * Pages form runs.  A free run carries its length at both ends, so that neighbours
 * merge, and hangs in the bin of its size's logarithm.  A slab is a run of 16 pages
 * that is cut into objects of one size.
 */
enum {
    PAGE_BYTES = 4096,
    LINES_A_PAGE = PAGE_BYTES / LINE_BYTES,
    SLAB_PAGES = 16,
    SLAB_LINES = SLAB_PAGES * LINES_A_PAGE,
    FIT_TRIES = 16, /* runs of one bin that are looked at before a larger bin is */
};

#define HUGE_BYTES (UINT64_C(2) << 20)

enum { PAGE_USED = 0, PAGE_FREE_END, PAGE_SLAB };

struct lines_page {
    uint32_t len;  /* free run: pages, at its first and last page */
    uint32_t next; /* free run: bin; slab: slabs with room of its class; 0 ends */
    uint32_t prev;
    uint32_t free_head; /* slab: first free object (line index), 0 if none */
    uint32_t slab;      /* first page of the slab that this page belongs to */
    uint16_t live;      /* slab: objects handed out */
    uint16_t carved;    /* slab: objects cut off so far */
    uint8_t state;
    uint8_t size_class;
};

static const uint8_t class_lines[LINES_CLASSES] = {
    1,  2,  3,  4,  5,  6,  7,  8,  10, 12, 14,  16,
    20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128,
};

static unsigned class_of(uint32_t count)
{
    unsigned c = count <= 8 ? count - 1 : 7;

    while (class_lines[c] < count) {
        c++;
    }
    return c;
}

void *lines_reserve(uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED) {
        return NULL;
    }
    if (bytes >= HUGE_BYTES) {
        /* Only a wish: without huge pages all works, 5 to 15 % slower. */
        (void)madvise(at, bytes, MADV_HUGEPAGE);
    }
    return at;
}

void lines_unreserve(void *at, uint64_t bytes)
{
    if (at) {
        munmap(at, bytes);
    }
}

int lines_init(struct lines *l, uint64_t bytes)
{
    uint64_t rounded = (bytes + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
    uint8_t *raw;
    uint64_t skip;

    *l = (struct lines){ 0 };
    if (rounded > UINT64_C(1) << 38) { /* 2^32 lines */
        rounded = UINT64_C(1) << 38;
    }
    raw = mmap(NULL, rounded + HUGE_BYTES, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) {
        return -1;
    }
    skip = (HUGE_BYTES - ((uintptr_t)raw & (HUGE_BYTES - 1))) & (HUGE_BYTES - 1);
    if (skip) {
        munmap(raw, skip);
    }
    munmap(raw + skip + rounded, HUGE_BYTES - skip);
    l->base = raw + skip;
    (void)madvise(l->base, rounded, MADV_HUGEPAGE);
    l->page_count = (uint32_t)(rounded / PAGE_BYTES);
    l->page =
        mmap(NULL, (size_t)l->page_count * sizeof *l->page, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (l->page == MAP_FAILED) {
        l->page = NULL;
        lines_fini(l);
        return -1;
    }
    l->page_top = 1; /* index 0 means none */
    return 0;
}

void lines_fini(struct lines *l)
{
    lines_unreserve(l->base, (uint64_t)l->page_count * PAGE_BYTES);
    lines_unreserve(l->page, (uint64_t)l->page_count * sizeof *l->page);
    *l = (struct lines){ 0 };
}

uint64_t lines_memory(const struct lines *l)
{
    return (uint64_t)l->page_top * (PAGE_BYTES + sizeof *l->page);
}

/* ---- runs of pages ---- */

static unsigned bin_of(uint32_t pages)
{
    return 31u - (unsigned)__builtin_clz(pages);
}

static void list_add(struct lines *l, uint32_t *head, uint32_t at)
{
    l->page[at].prev = 0;
    l->page[at].next = *head;
    if (*head) {
        l->page[*head].prev = at;
    }
    *head = at;
}

static void list_del(struct lines *l, uint32_t *head, uint32_t at)
{
    struct lines_page *p = &l->page[at];

    if (p->prev) {
        l->page[p->prev].next = p->next;
    } else {
        *head = p->next;
    }
    if (p->next) {
        l->page[p->next].prev = p->prev;
    }
}

static void run_add(struct lines *l, uint32_t at, uint32_t len)
{
    l->page[at].len = l->page[at + len - 1].len = len;
    l->page[at].state = l->page[at + len - 1].state = PAGE_FREE_END;
    list_add(l, &l->bin[bin_of(len)], at);
}

static void run_del(struct lines *l, uint32_t at, uint32_t len)
{
    list_del(l, &l->bin[bin_of(len)], at);
    l->page[at].state = l->page[at + len - 1].state = PAGE_USED;
}

static uint32_t run_find(struct lines *l, uint32_t pages)
{
    for (unsigned b = bin_of(pages); b < LINES_BINS; b++) {
        uint32_t at = l->bin[b];

        for (unsigned i = 0; at && i < FIT_TRIES; i++, at = l->page[at].next) {
            if (l->page[at].len >= pages) {
                return at;
            }
        }
    }
    return 0;
}

static uint32_t run_alloc(struct lines *l, uint32_t pages)
{
    uint32_t at = run_find(l, pages);

    if (at) {
        uint32_t len = l->page[at].len;

        run_del(l, at, len);
        if (len > pages) {
            run_add(l, at + pages, len - pages);
        }
        return at;
    }
    if (pages > l->page_count - l->page_top) {
        return 0;
    }
    at = l->page_top;
    l->page_top += pages;
    return at;
}

static void run_free(struct lines *l, uint32_t at, uint32_t len)
{
    if (l->page[at - 1].state == PAGE_FREE_END) {
        uint32_t before = l->page[at - 1].len;

        run_del(l, at - before, before);
        at -= before;
        len += before;
    }
    if (at + len < l->page_top && l->page[at + len].state == PAGE_FREE_END) {
        uint32_t after = l->page[at + len].len;

        run_del(l, at + len, after);
        len += after;
    }
    run_add(l, at, len);
}

/* ---- slabs ---- */

static uint32_t slab_new(struct lines *l, unsigned size_class)
{
    uint32_t at = run_alloc(l, SLAB_PAGES);

    if (!at) {
        return 0;
    }
    for (uint32_t i = 0; i < SLAB_PAGES; i++) {
        l->page[at + i].state = PAGE_SLAB;
        l->page[at + i].slab = at;
    }
    l->page[at].live = 0;
    l->page[at].carved = 0;
    l->page[at].free_head = 0;
    l->page[at].size_class = (uint8_t)size_class;
    list_add(l, &l->slab[size_class], at);
    return at;
}

static uint32_t slab_alloc(struct lines *l, unsigned size_class)
{
    uint32_t at = l->slab[size_class];
    uint32_t size = class_lines[size_class];
    struct lines_page *slab;
    uint32_t object;

    if (!at && !(at = slab_new(l, size_class))) {
        return 0;
    }
    slab = &l->page[at];
    if (slab->free_head) {
        object = slab->free_head;
        memcpy(&slab->free_head, lines_at(l, object), sizeof slab->free_head);
    } else {
        object = at * LINES_A_PAGE + slab->carved++ * size;
    }
    slab->live++;
    if (!slab->free_head && slab->carved == SLAB_LINES / size) {
        list_del(l, &l->slab[size_class], at);
    }
    return object;
}

static void slab_free(struct lines *l, uint32_t object)
{
    uint32_t at = l->page[object / LINES_A_PAGE].slab;
    struct lines_page *slab = &l->page[at];
    uint32_t *head = &l->slab[slab->size_class];
    bool was_full =
        !slab->free_head && slab->carved == SLAB_LINES / class_lines[slab->size_class];

    assert(slab->live > 0);
    memcpy(lines_at(l, object), &slab->free_head, sizeof slab->free_head);
    slab->free_head = object;
    slab->live--;
    if (was_full) {
        list_add(l, head, at);
    }
    /* One empty slab a class is kept, so that a lone object does not thrash. */
    if (slab->live == 0 && (slab->next || slab->prev)) {
        list_del(l, head, at);
        for (uint32_t i = 0; i < SLAB_PAGES; i++) {
            l->page[at + i].state = PAGE_USED;
        }
        run_free(l, at, SLAB_PAGES);
    }
}

static uint32_t pages_of(uint32_t count)
{
    return (count + LINES_A_PAGE - 1) / LINES_A_PAGE;
}

uint32_t lines_alloc(struct lines *l, uint32_t count)
{
    uint32_t index;

    assert(count > 0);
    if (count <= class_lines[LINES_CLASSES - 1]) {
        unsigned c = class_of(count);

        index = slab_alloc(l, c);
        l->in_use_bytes += index ? (uint64_t)class_lines[c] * LINE_BYTES : 0;
        return index;
    }
    index = run_alloc(l, pages_of(count)) * LINES_A_PAGE;
    l->in_use_bytes += index ? (uint64_t)pages_of(count) * PAGE_BYTES : 0;
    return index;
}

void lines_free(struct lines *l, uint32_t index, uint32_t count)
{
    if (!index) {
        return;
    }
    l->frees++;
    if (count <= class_lines[LINES_CLASSES - 1]) {
        l->in_use_bytes -= (uint64_t)class_lines[class_of(count)] * LINE_BYTES;
        slab_free(l, index);
        return;
    }
    l->in_use_bytes -= (uint64_t)pages_of(count) * PAGE_BYTES;
    run_free(l, index / LINES_A_PAGE, pages_of(count));
}
