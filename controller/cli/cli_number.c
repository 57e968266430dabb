#include "controller/cli/cli_number.h"

#include <math.h>
#include <string.h>

/* Digits, at most one point among them; no sign, exponent, space or locale. */
static const char *read_decimal(const char *p, double *ret)
{
    const char *start = p;
    double value = 0;
    double unit = 1;
    bool has_point = false;

    for (; (*p >= '0' && *p <= '9') || (*p == '.' && !has_point); p++) {
        if (*p == '.') {
            has_point = true;
        } else if (has_point) {
            unit *= 10;
            value = value * 10 + (*p - '0');
        } else {
            value = value * 10 + (*p - '0');
        }
    }
    *ret = value / unit;
    return p - start > has_point && p[-1] != '.' && *start != '.' ? p : NULL;
}

static enum rc read_number(const char *option, const char *text, const char *end,
                           const char *rest, const char *form, double value, double min,
                           double max, double *ret, struct err *err)
{
    if (!end || *rest) {
        return err_field(err, RC_INVALID, option, "amount_syntax", "--%s '%s': not %s",
                         option, text, form);
    }
    if (!(value >= min && value <= max)) {
        return err_field(err, RC_RANGE, option, "amount_range",
                         "--%s %s: not from %g to %g", option, text, min, max);
    }
    *ret = value;
    return RC_OK;
}

enum rc cli_number(const char *option, const char *text, double min, double max,
                   double *ret, struct err *err)
{
    static const char suffixes[] = "kMGT";
    double value = 0;
    const char *end = read_decimal(text, &value);
    const char *suffix = end && *end ? strchr(suffixes, *end) : NULL;

    if (suffix) {
        value *= pow(1000, (double)(suffix - suffixes + 1));
    }
    return read_number(option, text, end,
                       suffix ? end + 1
                       : end  ? end
                              : text,
                       "a number such as 250000, 1.5M or 3.2T", value, min, max, ret,
                       err);
}

enum rc cli_option_number(const struct cli *cli, const char *option, double min,
                          double max, double *ret, struct err *err)
{
    const char *text = cli_option(cli, option);

    return text ? cli_number(option, text, min, max, ret, err) : RC_OK;
}

enum rc cli_option_whole(const struct cli *cli, const char *option, uint32_t min,
                         uint32_t max, uint32_t *ret, struct err *err)
{
    double value = *ret;
    enum rc rc = cli_option_number(cli, option, min, max, &value, err);

    if (rc == RC_OK && value != floor(value)) {
        return err_field(err, RC_INVALID, option, "whole_number",
                         "--%s %g: not a whole number", option, value);
    }
    if (rc == RC_OK) {
        *ret = (uint32_t)value;
    }
    return rc;
}

enum rc cli_option_percent(const struct cli *cli, const char *option, double min,
                           double max, double *ret, struct err *err)
{
    const char *text = cli_option(cli, option);
    double value = 0;
    const char *end;

    if (!text) {
        return RC_OK;
    }
    end = read_decimal(text, &value);
    return read_number(option, text, end, end ? end + (*end == '%') : text,
                       "a percentage such as 50 or 93.75%", value, min, max, ret, err);
}

double cli_round(double value, unsigned decimals)
{
    double unit = pow(10, decimals);

    return round(value * unit) / unit;
}
