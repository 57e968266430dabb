/* bench_xgwh_map - the mapping's part of bench_xgwh. */
#pragma once

#include <stdint.h>

/* Prints
 *   map_rows_per_s       rows through xgwh_apply(), batches of 10,000, empty sink
 *   map_writes_per_row   and what they became
 *   map_barriers_per_batch
 *   map_bytes_per_row    memory of the mapping, logical rows and routes included
 *   readback_seconds_2m  entries of the switch in, in the order of its tables, rows
 * out; scaled to 2 million rows; *_anew: without the rows of before
 */
void bench_map(uint32_t routes, const char *data);
