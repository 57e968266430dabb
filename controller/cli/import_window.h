/*
 * import_window - the batches that were read and are not answered yet, oldest first; of
 * them, the first `sent` are on their way.  A value that holds references to their
 * bytes.
 */
#pragma once

#include "controller/cli/import_lines.h"

#define IMPORT_WINDOW 32 /* twice what the server takes up at once */

struct import_window {
    struct import_batch ring[IMPORT_WINDOW];
    unsigned head;
    unsigned count;
    unsigned sent; /* at most `count` */
};

/* Number `i` from the oldest; with i = count, where the next one goes. */
struct import_batch *import_window_at(struct import_window *w, unsigned i);
/* Takes the oldest out. */
void import_window_drop(struct import_window *w);
void import_window_fini(struct import_window *w);
