#include "proto/model/mac.h"

#include <string.h>

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

enum rc mac_parse(const char *text, size_t len, const char *field, uint8_t ret[6],
                  struct err *err)
{
    uint8_t mac[6];

    if (len != MAC_TEXT_MAX - 1) {
        goto bad;
    }
    for (size_t i = 0; i < 6; i++) {
        int high = hex_value(text[3 * i]);
        int low = hex_value(text[3 * i + 1]);

        if (high < 0 || low < 0 || (i < 5 && text[3 * i + 2] != ':')) {
            goto bad;
        }
        mac[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(ret, mac, 6);
    return RC_OK;

bad:
    return err_field(err, RC_INVALID, field, "mac_syntax",
                     "%s: not six pairs of hexadecimal digits with ':' between", field);
}

enum rc mac_check(const uint8_t mac[6], const char *field, struct err *err)
{
    static const uint8_t zero[6];

    if (mac[0] & 1 || memcmp(mac, zero, 6) == 0) {
        return err_field(err, RC_INVALID, field, "mac_unicast",
                         "%s: a group or all-zero address is no machine's", field);
    }
    return RC_OK;
}

void mac_print(const uint8_t mac[6], char *to)
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < 6; i++) {
        *to++ = digits[mac[i] >> 4];
        *to++ = digits[mac[i] & 15];
        *to++ = i < 5 ? ':' : '\0';
    }
}
