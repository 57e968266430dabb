/* hserver_read - ReadRequests, answered in turns. */
#include "agent/gateway/hserver.h"

#include <stdio.h>
#include <string.h>

#define TURN_PLACES 2048 /* of a table; 512 partitions count as much */
#define TURN_PARTS  128
#define TURN_CELLS  2048

static void say(struct hanswer *ret, enum rpc_code code, const char *message)
{
    ret->code = code;
    snprintf(ret->message, sizeof(ret->message), "%s", message);
}

void hread_start(const struct hserver *s, struct blob *request, struct hread *r,
                 struct hanswer *ret)
{
    uint64_t device;
    struct err err = { 0 };
    int half;

    *ret = (struct hanswer){ .code = RPC_OK };
    *r = (struct hread){ 0 };
    if (p4rt_read_open(request->data, request->len, &device, &r->queries, &err) !=
        RC_OK) {
        say(ret, rpc_code_of_rc(err.code), err.msg);
        return;
    }
    half = hserver_half(device);
    if (half < 0) {
        say(ret, RPC_NOT_FOUND, "no such device: 1 and 2 are the halves");
    } else if (!s->device[half].running.config) {
        say(ret, RPC_FAILED_PRECONDITION, "no pipeline yet");
    } else {
        r->half = (uint8_t)half;
        r->request = blob_ref(request);
    }
}

void hread_fini(struct hread *r)
{
    if (r->request) {
        blob_unref(r->request);
    }
    r->request = NULL;
}

/* ---- tables ---- */

/* As packets get it.  Where our own records contradict that, twice in a row: nothing in
 * P4Runtime says it otherwise, and who does not know us sees the same entry again. */
static void tell(struct buf *to, const struct phys_entry *e, bool is_sound)
{
    p4rt_response_entry(to, e);
    if (!is_sound) {
        p4rt_response_entry(to, e);
    }
}

/* Some places of one table; true when it is through. */
static bool tell_table(const struct hserver *s, struct hread *r, enum phys_table table,
                       struct buf *to)
{
    uint32_t budget = table == PHYS_ROUTE_PART ? TURN_PARTS : TURN_PLACES;
    struct phys_entry e;
    bool is_sound;

    while (hswitch_next(s->tables, r->half, table, &r->at, &budget, &e, &is_sound)) {
        tell(to, &e, is_sound);
    }
    if (budget == 0) {
        return false;
    }
    r->at = (struct hcursor){ .at = 0 };
    return true;
}

static bool tell_tables(const struct hserver *s, struct hread *r, struct buf *to)
{
    if (r->query.id != 0) {
        return tell_table(s, r, (enum phys_table)r->query.entry.table, to);
    }
    if (tell_table(s, r, (enum phys_table)r->table, to)) {
        r->table++;
    }
    return r->table == PHYS_TABLES;
}

static bool tell_entry(const struct hserver *s, const struct hread *r, struct buf *to)
{
    struct phys_entry e;
    bool is_sound;

    if (hswitch_find(s->tables, r->half, &r->query.entry, &e, &is_sound)) {
        tell(to, &e, is_sound);
    }
    return true;
}

/* ---- meters and counters ---- */

static void tell_cell(const struct hserver *s, const struct hread *r, unsigned which,
                      uint32_t index, struct buf *to)
{
    const struct p4rt_info *info = &s->device[r->half].running.info;
    struct p4rt_entity cell = { .kind = r->query.kind,
                                .has_index = true,
                                .index = index };
    struct hcount count;

    if (cell.kind == P4RT_METER) {
        cell.id = info->meter_id[which];
        hswitch_get_meter(s->tables, r->half, (enum phys_meter)which, index,
                          &cell.config);
        cell.has_config = (cell.config.cir | cell.config.cburst | cell.config.pir |
                           cell.config.pburst) != 0;
    } else {
        cell.id = info->counter_id[which][0]; /* its only part, or the first */
        hswitch_get_counter(s->tables, r->half, (enum phys_counter)which, index,
                            &count);
        cell.packets = count.packets;
        cell.bytes = count.bytes;
    }
    p4rt_response_cell(to, &cell);
}

/* Some cells; true when all that were asked for are told. */
static bool tell_cells(const struct hserver *s, struct hread *r, struct buf *to,
                       struct hanswer *ret)
{
    const struct p4rt_info *info = &s->device[r->half].running.info;
    bool is_meter = r->query.kind == P4RT_METER;
    uint32_t kinds = is_meter ? (uint32_t)PHYS_METERS : (uint32_t)PHYS_COUNTERS;

    for (unsigned turn = 0; r->cell_kind < kinds; r->cell_kind++, r->cell = 0) {
        uint32_t count =
            is_meter
                ? hswitch_meter_count(s->tables, (enum phys_meter)r->cell_kind)
                : hswitch_counter_count(s->tables, (enum phys_counter)r->cell_kind);

        if (r->query.id != 0 &&
            r->query.id != (is_meter ? info->meter_id[r->cell_kind]
                                     : info->counter_id[r->cell_kind][0])) {
            continue; /* further parts of a counter count nothing here */
        }
        if (r->query.has_index) {
            if (r->query.index >= count) {
                say(ret, RPC_INVALID_ARGUMENT, "no such index");
                return true;
            }
            tell_cell(s, r, r->cell_kind, (uint32_t)r->query.index, to);
            continue;
        }
        for (; r->cell < count; r->cell++) {
            if (turn++ == TURN_CELLS) {
                return false;
            }
            tell_cell(s, r, r->cell_kind, r->cell, to);
        }
    }
    return true;
}

/* ---- turns ---- */

static bool is_known(const struct hserver *s, const struct hread *r)
{
    const struct p4rt_info *info = &s->device[r->half].running.info;

    if (r->query.kind == P4RT_TABLE || r->query.id == 0) {
        return true; /* the codec knows tables */
    }
    if (r->query.kind == P4RT_COUNTER) {
        return p4rt_info_counter(info, r->query.id) >= 0;
    }
    for (unsigned i = 0; i < PHYS_METERS; i++) {
        if (info->meter_id[i] == r->query.id) {
            return true;
        }
    }
    return false;
}

/* The next query; false at the end or when it is refused. */
static bool next_query(const struct hserver *s, struct hread *r, struct hanswer *ret)
{
    struct p4rt_piece piece;
    struct err err = { 0 };

    if (!p4rt_next(&r->queries, &piece)) {
        return false;
    }
    if (p4rt_query_decode(piece, &r->query, &err) != RC_OK) {
        say(ret, rpc_code_of_rc(err.code), err.msg);
        return false;
    }
    if (!is_known(s, r)) {
        say(ret, RPC_NOT_FOUND, "no meter or counter of this id");
        return false;
    }
    if (r->query.is_default) {
        say(ret, RPC_UNIMPLEMENTED, "default actions are constant: see the p4info");
        return false;
    }
    r->has_query = true;
    r->table = 0;
    r->at = (struct hcursor){ .at = 0 };
    r->cell_kind = r->cell = 0;
    return true;
}

bool hread_turn(const struct hserver *s, struct hread *r, struct buf *to,
                struct hanswer *ret)
{
    bool done;

    if (!r->has_query && !next_query(s, r, ret)) {
        return false;
    }
    done = r->query.kind != P4RT_TABLE ? tell_cells(s, r, to, ret)
           : r->query.has_key          ? tell_entry(s, r, to)
                                       : tell_tables(s, r, to);
    r->has_query = !done;
    return ret->code == RPC_OK;
}
