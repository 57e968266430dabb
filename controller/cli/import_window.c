#include "controller/cli/import_window.h"

#include <stddef.h>

struct import_batch *import_window_at(struct import_window *w, unsigned i)
{
    return &w->ring[(w->head + i) % IMPORT_WINDOW];
}

void import_window_drop(struct import_window *w)
{
    struct import_batch *b = import_window_at(w, 0);

    blob_unref(b->ops);
    b->ops = NULL;
    w->head = (w->head + 1) % IMPORT_WINDOW;
    w->count--;
    w->sent -= w->sent > 0;
}

void import_window_fini(struct import_window *w)
{
    while (w->count > 0) {
        import_window_drop(w);
    }
}
