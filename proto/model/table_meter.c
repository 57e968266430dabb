/* meter: what a tenant may send (RFC 2698). */
#include "proto/model/table_type.h"

#include <stdio.h>

static enum rc check_rate(uint64_t bps, uint64_t min, const char *list,
                          const char *name, struct err *err)
{
    char field[64];

    if (bps >= min && bps <= METER_BPS_MAX) {
        return RC_OK;
    }
    snprintf(field, sizeof(field), "%s%s", list, name);
    return err_field(err, RC_RANGE, field, "meter_rate",
                     "%s %llu: not in %llu-%llu bit/s", field, (unsigned long long)bps,
                     (unsigned long long)min, (unsigned long long)METER_BPS_MAX);
}

static enum rc check_burst(uint32_t bytes, const char *list, const char *name,
                           struct err *err)
{
    char field[64];

    if (bytes >= METER_BURST_MIN && bytes <= METER_BURST_MAX) {
        return RC_OK;
    }
    snprintf(field, sizeof(field), "%s%s", list, name);
    return err_field(err, RC_RANGE, field, "meter_burst",
                     "%s %u: not in %u-%u bytes (a smaller bucket never passes the "
                     "largest frame)",
                     field, bytes, METER_BURST_MIN, METER_BURST_MAX);
}

static enum rc check_order(uint64_t committed, uint64_t peak, const char *list,
                           const char *name, struct err *err)
{
    char field[64];

    if (committed <= peak) {
        return RC_OK;
    }
    snprintf(field, sizeof(field), "%speak_%s", list, name);
    return err_field(err, RC_INVALID, field, "meter_order",
                     "%s %llu: below the committed one, %llu", field,
                     (unsigned long long)peak, (unsigned long long)committed);
}

enum rc check_meter(const struct meter *m, const char *list, struct err *err)
{
    enum rc rc = check_rate(m->committed_bps, 0, list, "committed_bps", err);

    rc = rc ? rc : check_rate(m->peak_bps, 1, list, "peak_bps", err);
    rc = rc ? rc : check_order(m->committed_bps, m->peak_bps, list, "bps", err);
    rc = rc ? rc : check_burst(m->committed_burst, list, "committed_burst", err);
    rc = rc ? rc : check_burst(m->peak_burst, list, "peak_burst", err);
    return rc ? rc : check_order(m->committed_burst, m->peak_burst, list, "burst", err);
}

static enum rc meter_check(const struct entry *e, struct err *err)
{
    return check_meter(&e->meter, "", err);
}

static void meter_pack(const struct entry *e, struct buf *to)
{
    buf_u64(to, e->meter.committed_bps);
    buf_u64(to, e->meter.peak_bps);
    buf_u32(to, e->meter.committed_burst);
    buf_u32(to, e->meter.peak_burst);
}

static bool meter_unpack(struct reader *from, struct entry *ret)
{
    ret->meter.committed_bps = read_u64(from);
    ret->meter.peak_bps = read_u64(from);
    ret->meter.committed_burst = read_u32(from);
    ret->meter.peak_burst = read_u32(from);
    return true;
}

static size_t meter_size(const uint8_t *p, size_t avail)
{
    (void)p;
    (void)avail;
    return 24;
}

static enum rc meter_read(const struct fields *f, struct entry *ret, struct err *err)
{
    struct meter *m = &ret->meter;
    enum rc rc = field_read_wide(f, FIELD_COMMITTED_BPS, &m->committed_bps, err);

    rc = rc ? rc : field_read_wide(f, FIELD_PEAK_BPS, &m->peak_bps, err);
    rc = rc ? rc : field_read_u32(f, FIELD_COMMITTED_BURST, &m->committed_burst, err);
    return rc ? rc : field_read_u32(f, FIELD_PEAK_BURST, &m->peak_burst, err);
}

static void meter_print(const struct entry *e, struct buf *to)
{
    field_print_number(FIELD_COMMITTED_BPS, e->meter.committed_bps, to);
    field_print_number(FIELD_PEAK_BPS, e->meter.peak_bps, to);
    field_print_number(FIELD_COMMITTED_BURST, e->meter.committed_burst, to);
    field_print_number(FIELD_PEAK_BURST, e->meter.peak_burst, to);
}

const struct table_type table_meter = {
    .name = "meter",
    .check_key = no_key_check,
    .check_value = meter_check,
    .pack_key = no_key_pack,
    .pack_value = meter_pack,
    .unpack_key = no_key_unpack,
    .unpack_value = meter_unpack,
    .key_size = no_key_size,
    .value_size = meter_size,
    .value_fields = 1u << FIELD_COMMITTED_BPS | 1u << FIELD_PEAK_BPS |
                    1u << FIELD_COMMITTED_BURST | 1u << FIELD_PEAK_BURST,
    .read_key = no_key_read,
    .read_value = meter_read,
    .print_key = no_key_pack,
    .print_value = meter_print,
};
