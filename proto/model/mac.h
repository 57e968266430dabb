/* mac - an Ethernet address: six bytes in wire order, "02:00:00:00:00:05" as text. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

#define MAC_TEXT_MAX 18 /* with the final zero */

/* Six pairs of hexadecimal digits with ':' between them; RC_INVALID with `field` and
 * rule "mac_syntax". */
enum rc mac_parse(const char *text, size_t len, const char *field, uint8_t ret[6],
                  struct err *err);

/* RC_INVALID with `field` and rule "mac_unicast" for a group address (IEEE 802: low
 * bit of the first byte) or all zeros. */
enum rc mac_check(const uint8_t mac[6], const char *field, struct err *err);

/* Lower case; MAC_TEXT_MAX bytes. */
void mac_print(const uint8_t mac[6], char *to);
