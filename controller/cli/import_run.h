/*
 * import_run - carries an input to the controller: asks where to go on, sends batches
 * ahead, counts the answers, and comes back after a lost connection.
 *
 * Batches that were sent are kept until they are answered.  When the connection breaks,
 * the controller is asked how far it came (GetImport); what it has is struck off, the
 * rest is sent again.  So every batch is applied once, whoever was killed.  One event
 * loop, made and ended inside import_run().
 */
#pragma once

#include "controller/cli/import_input.h"
#include "proto/rpc/rpc_tls.h"

struct import_options {
    const char *address;       /* "host:port" */
    const struct rpc_tls *tls; /* null: plain text */
    const char *token;         /* "": none */
    bool confirm;
    bool create_only;
    bool restart;         /* although the controller has seen this input */
    uint32_t patience_ms; /* after a loss; tries to come back until then */
};

struct import_result {
    uint64_t entries; /* applied, by this call */
    uint64_t added;
    uint64_t changed;
    uint64_t deleted;
    uint64_t unchanged;
    uint64_t unanswered; /* of `entries`: applied, but the answer was lost */
    uint64_t revision;   /* 0: not known */
    uint64_t from_line;  /* where it began; above 1 when it resumed */
    uint64_t next_line;  /* behind the last line that is applied */
    uint64_t bad_line;   /* of the input, when a line was refused; else 0 */
    uint64_t bad_first;  /* with bad_line: the batch of which nothing was applied */
    uint64_t bad_next;   /* behind it; 0: not known */
    uint32_t reconnects;
    size_t bytes_done; /* of the input, for progress */
};

/* Called some five times a second while it runs. */
typedef void import_progress_fn(const struct import_result *so_far, void *arg);

/* `*ret` is filled in any case.  RC_UNREACHABLE: the controller does not answer; any
 * other failure is about a line (bad_line) or the whole, in `err`. */
enum rc import_run(const struct import_input *in, const struct import_options *options,
                   import_progress_fn *progress, void *arg, struct import_result *ret,
                   struct err *err);
