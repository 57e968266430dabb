/* The rows as the driver tells them. */
#include "agent/xgwh/xgwh_impl.h"

#define ROWS_BYTES (128u << 10)

static enum rc tell(struct batch_writer *w, xgwh_rows_fn *rows, void *ctx)
{
    struct blob *b = batch_writer_finish(w);

    if (!b) {
        return RC_NO_MEMORY;
    }
    if (b->len > 0) {
        rows(ctx, b->data, b->len);
    }
    blob_unref(b);
    return RC_OK;
}

/* Behind the rows: those that are not sound. */
static enum rc tell_unsound(const struct xgwh *x, struct batch_writer *w,
                            xgwh_rows_fn *rows, void *ctx)
{
    enum rc rc = RC_OK;

    for (uint32_t vni = x->unsound ? table_set_next(x->unsound, VNI_MIN, ~0u) : 0;
         rc == RC_OK && vni != 0;
         vni = vni == VNI_MAX ? 0 : table_set_next(x->unsound, vni + 1, ~0u)) {
        for (int t = 0; rc == RC_OK && t < TABLE_COUNT; t++) {
            struct rows_iter it = rows_begin(
                table_set_rows(x->unsound, vni, (enum table_id)t), (enum table_id)t);
            struct row row;

            while (rows_next(&it, &row)) {
                struct row key = { .key = row.key, .key_len = row.key_len };

                batch_add_row(w, BATCH_DELETE, (enum table_id)t, vni, &key);
            }
            if (batch_writer_bytes(w) >= ROWS_BYTES) {
                rc = tell(w, rows, ctx);
            }
        }
    }
    return rc == RC_OK ? tell(w, rows, ctx) : rc;
}

enum rc xgwh_rows(const struct xgwh *x, xgwh_rows_fn *rows, void *ctx)
{
    struct batch_writer w;
    enum rc rc = RC_OK;

    batch_writer_init(&w);
    for (uint32_t vni = table_set_next(x->rows, VNI_MIN, ~0u); rc == RC_OK && vni != 0;
         vni = vni == VNI_MAX ? 0 : table_set_next(x->rows, vni + 1, ~0u)) {
        for (int t = 0; rc == RC_OK && t < TABLE_COUNT; t++) {
            struct rows *set = table_set_rows(x->rows, vni, (enum table_id)t);

            for (uint32_t i = 0; rc == RC_OK && i < rows_page_count(set); i++) {
                struct rows_page page = rows_page_at(set, i);

                batch_add_rows(&w, BATCH_PUT, (enum table_id)t, vni, NULL, page.data,
                               page.bytes, page.count);
                if (batch_writer_bytes(&w) >= ROWS_BYTES) {
                    rc = tell(&w, rows, ctx);
                }
            }
        }
    }
    if (rc == RC_OK) {
        rc = tell(&w, rows, ctx);
    }
    if (rc == RC_OK) {
        rc = tell_unsound(x, &w, rows, ctx);
    }
    batch_writer_fini(&w);
    return rc;
}
