/*
 * ip - IPv4 and IPv6 addresses and prefixes as plain values.
 *
 * Bytes are in network order.  Parsing is strict: no leading zeros in IPv4, no zone
 * ids, no surrounding space, no host bits in a prefix.  Values only; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

enum { IP_NONE = 0, IP_V4 = 4, IP_V6 = 6 };

#define IP_TEXT_MAX     46 /* INET6_ADDRSTRLEN, with the final zero */
#define PREFIX_TEXT_MAX 50

/* All-zero is "no address".  Bytes past the family's length are zero, so two equal
 * addresses are equal bytes. */
struct ip {
    uint8_t family; /* IP_NONE, IP_V4, IP_V6 */
    uint8_t b[16];  /* network order; IPv4 in b[0..3] */
};

/* Holds: no bit set behind the first `len`. */
struct prefix {
    struct ip addr;
    uint8_t len; /* 0-32, 0-128 */
};

/* 4, 16, or 0 for "no address". */
static inline unsigned ip_size(const struct ip *ip)
{
    return ip->family == IP_V4 ? 4 : ip->family == IP_V6 ? 16 : 0;
}

struct ip ip_v4(uint32_t host_order);
struct ip ip_v6(const uint8_t bytes[16]);

/* Reads exactly `len` characters at `text`.  RC_INVALID with the text in `err`. */
enum rc ip_parse(const char *text, size_t len, struct ip *ret, struct err *err);

/* RC_INVALID (rule "prefix_syntax"), RC_RANGE (length; rule "prefix_length"), or
 * RC_INVALID with rule "host_bits" and the canonical prefix in the message. */
enum rc prefix_parse(const char *text, size_t len, struct prefix *ret, struct err *err);

/* Writes canonical text (RFC 5952 for IPv6) with a final zero into `to`, at least
 * IP_TEXT_MAX or PREFIX_TEXT_MAX bytes; returns its length.  "-" for no address. */
size_t ip_print(const struct ip *ip, char *to);
size_t prefix_print(const struct prefix *p, char *to);

/* Family first, then bytes (then length). */
int ip_compare(const struct ip *a, const struct ip *b);
int prefix_compare(const struct prefix *a, const struct prefix *b);

bool prefix_has_host_bits(const struct prefix *p);
void prefix_mask(struct prefix *p); /* clears what lies behind `len` */
bool prefix_contains(const struct prefix *p, const struct ip *ip);
bool prefix_covers(const struct prefix *outer, const struct prefix *inner);
