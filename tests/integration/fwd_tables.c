#include "tests/integration/fwd_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/agent/fwd/naive_fib.h"

struct fwd_tables {
    struct entry *entries;
    unsigned count;
    struct fib *fib;
};

#define ENTRIES_MAX 1000000u

static enum rc add_line(struct fwd_tables *t, const char *line, size_t len,
                        struct err *err)
{
    enum entry_op op;

    if (t->count == ENTRIES_MAX) {
        return err_set(err, RC_FULL, "more than %u entries", ENTRIES_MAX);
    }
    if ((t->count & (t->count - 1)) == 0) {
        struct entry *more =
            realloc(t->entries, (t->count == 0 ? 1 : t->count * 2) * sizeof(*more));

        if (more == NULL) {
            return err_set(err, RC_NO_MEMORY, "no memory for entries");
        }
        t->entries = more;
    }
    if (entry_parse_json(line, len, &op, &t->entries[t->count], err) != RC_OK) {
        return RC_INVALID;
    }
    t->count++;
    return RC_OK;
}

enum rc fwd_tables_load(const char *path, struct fwd_tables **ret, struct err *err)
{
    struct fwd_tables *t = calloc(1, sizeof(*t));
    FILE *f = fopen(path, "r");
    char line[2048];
    unsigned number = 0;
    enum rc rc = RC_OK;

    if (t == NULL || f == NULL) {
        rc = err_set(err, RC_NOT_FOUND, "%s: cannot be opened", path);
    }
    while (rc == RC_OK && fgets(line, sizeof(line), f) != NULL) {
        number++;
        line[strcspn(line, "\n")] = '\0';
        rc = add_line(t, line, strlen(line), err);
        if (rc != RC_OK) {
            err_wrap(err, rc, "%s:%u", path, number);
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    if (rc == RC_OK) {
        t->fib = naive_fib_new(t->entries, t->count);
        *ret = t;
        return RC_OK;
    }
    fwd_tables_free(t);
    return rc;
}

void fwd_tables_free(struct fwd_tables *t)
{
    if (t == NULL) {
        return;
    }
    naive_fib_free(t->fib);
    free(t->entries);
    free(t);
}

const struct fib *fwd_tables_fib(const struct fwd_tables *t)
{
    return t->fib;
}
