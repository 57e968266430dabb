/* making: rows that follow from others, one by one, in slices. */
#include "controller/core/core_internal.h"

void making_begin(struct making *m, struct rows *from, struct rows *source,
                  making_visit *visit)
{
    m->made = rows_ref(from);
    m->source = rows_ref(source);
    m->it = rows_begin(source, m->table);
    m->visit = visit;
}

void making_differ(struct making *m, const struct row *row, const uint8_t *value,
                   uint8_t value_len)
{
    struct rows_step *step;

    if (m->is_count) {
        m->left_off += value_len == 0;
        return;
    }
    if (m->count == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 64;
        m->steps = core_need(realloc(m->steps, m->cap * sizeof(*m->steps)));
    }
    step = &m->steps[m->count++];
    step->row = *row;
    step->row.value = NULL;
    step->row.value_len = value_len;
    buf_add(&m->values, value, value_len);
}

void making_apply(struct making *m)
{
    struct rows *made = NULL;
    struct rows_change counts;
    size_t at = 0;

    core_must(!buf_failed(&m->values));
    for (uint32_t i = 0; i < m->count; i++) {
        struct row *row = &m->steps[i].row;

        if (row->value_len > 0) {
            row->value = m->values.data + at;
            at += row->value_len;
        }
    }
    if (m->count > 0) {
        core_must(
            !rows_edit(m->made, m->table, m->vni, m->steps, m->count, &made, &counts));
        rows_unref(m->made);
        m->made = made;
    }
    m->count = 0;
    buf_fini(&m->values);
}

bool making_work(struct making *m, uint32_t *units)
{
    bool is_over = false;

    while (!is_over && *units > 0) {
        uint32_t differed = m->count;
        struct row row;

        is_over = !m->source || !rows_next(&m->it, &row);
        if (!is_over) {
            m->visit(m, &row);
            units_spend(units, (row_peer(&row) ? 4 : 1) + 2 * (m->count - differed));
        }
    }
    making_apply(m);
    return is_over;
}

struct rows *making_take(struct making *m)
{
    struct rows *made;

    making_apply(m);
    made = m->made;
    m->made = NULL;
    making_fini(m);
    return made;
}

void making_fini(struct making *m)
{
    rows_unref(m->made);
    rows_unref(m->source);
    free(m->steps);
    buf_fini(&m->values);
    *m = (struct making){ 0 };
}
