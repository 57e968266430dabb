#include "proto/base/ip.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct ip) == 17, "compared as bytes: no padding");

/* How much of a bad text an error quotes. */
enum { QUOTE_MAX = 60 };

/* A copy fit for a one-line message. */
static const char *quote(const char *text, size_t len, char to[QUOTE_MAX + 1])
{
    size_t n = len < QUOTE_MAX ? len : QUOTE_MAX;

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];

        to[i] = c < 0x20 || c >= 0x7f ? '?' : (char)c;
    }
    to[n] = '\0';
    return to;
}

struct ip ip_v4(uint32_t host_order)
{
    return (struct ip){ .family = IP_V4,
                        .b = { (uint8_t)(host_order >> 24), (uint8_t)(host_order >> 16),
                               (uint8_t)(host_order >> 8), (uint8_t)host_order } };
}

struct ip ip_v6(const uint8_t bytes[16])
{
    struct ip ip = { .family = IP_V6 };

    memcpy(ip.b, bytes, 16);
    return ip;
}

/* Decimal up to `max` without leading zeros; null when it is not that. */
static const char *read_decimal(const char *p, const char *end, unsigned max,
                                unsigned *ret)
{
    const char *start = p;
    unsigned v = 0;

    while (p < end && *p >= '0' && *p <= '9') {
        v = v * 10 + (unsigned)(*p - '0');
        p++;
        if (v > max || p - start > 3) {
            return NULL;
        }
    }
    if (p == start || (*start == '0' && p - start > 1)) {
        return NULL;
    }
    *ret = v;
    return p;
}

static bool parse_v4(const char *p, const char *end, uint8_t to[4])
{
    for (int i = 0; i < 4; i++) {
        unsigned v;

        if (i > 0 && (p >= end || *p++ != '.')) {
            return false;
        }
        p = read_decimal(p, end, 255, &v);
        if (!p) {
            return false;
        }
        to[i] = (uint8_t)v;
    }
    return p == end;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* RFC 4291, section 2.2: forms 1 to 3.  `gap` is where "::" stood. */
static bool parse_v6(const char *p, const char *end, uint8_t to[16])
{
    uint8_t out[16] = { 0 };
    int n = 0;
    int gap = -1;

    if (end - p >= 2 && p[0] == ':' && p[1] == ':') {
        gap = 0;
        p += 2;
    }
    while (p < end) {
        const char *start = p;
        unsigned v = 0;

        for (int h; p < end && p - start < 5 && (h = hex_value(*p)) >= 0; p++) {
            v = v << 4 | (unsigned)h;
        }
        if (p < end && *p == '.') { /* the last 32 bits as IPv4 */
            if (n > 12 || !parse_v4(start, end, out + n)) {
                return false;
            }
            n += 4;
            break;
        }
        if (p == start || p - start > 4 || n > 14) {
            return false;
        }
        out[n++] = (uint8_t)(v >> 8);
        out[n++] = (uint8_t)v;
        if (p == end) {
            break;
        }
        if (*p++ != ':' || p == end) {
            return false;
        }
        if (*p == ':') {
            if (gap >= 0) {
                return false;
            }
            gap = n;
            p++;
        }
    }
    if (gap < 0 ? n != 16 : n > 14) { /* "::" stands for one group or more */
        return false;
    }
    memset(to, 0, 16);
    if (gap < 0) {
        gap = n;
    }
    memcpy(to, out, (size_t)gap);
    memcpy(to + 16 - (n - gap), out + gap, (size_t)(n - gap));
    return true;
}

static bool parse(const char *text, size_t len, struct ip *ret)
{
    struct ip ip = { 0 };

    if (len >= IP_TEXT_MAX) {
        return false;
    }
    if (memchr(text, ':', len)) {
        ip.family = IP_V6;
        if (!parse_v6(text, text + len, ip.b)) {
            return false;
        }
    } else {
        ip.family = IP_V4;
        if (!parse_v4(text, text + len, ip.b)) {
            return false;
        }
    }
    *ret = ip;
    return true;
}

enum rc ip_parse(const char *text, size_t len, struct ip *ret, struct err *err)
{
    char shown[QUOTE_MAX + 1];

    if (!parse(text, len, ret)) {
        return err_field(err, RC_INVALID, "", "ip_syntax",
                         "'%s' is not an IPv4 or IPv6 address",
                         quote(text, len, shown));
    }
    return RC_OK;
}

enum rc prefix_parse(const char *text, size_t len, struct prefix *ret, struct err *err)
{
    const char *end = text + len;
    const char *slash = memchr(text, '/', len);
    char shown[QUOTE_MAX + 1];
    struct prefix p;
    unsigned bits;

    if (!slash || !parse(text, (size_t)(slash - text), &p.addr) || slash + 1 == end) {
        goto bad_syntax;
    }
    for (const char *c = slash + 1; c < end; c++) {
        if (*c < '0' || *c > '9') {
            goto bad_syntax;
        }
    }
    if (slash[1] == '0' && end - slash > 2) {
        goto bad_syntax; /* a leading zero */
    }
    if (!read_decimal(slash + 1, end, ip_size(&p.addr) * 8, &bits)) {
        return err_field(err, RC_RANGE, "", "prefix_length",
                         "'%s': prefix length is not in 0-%u", quote(text, len, shown),
                         ip_size(&p.addr) * 8);
    }
    p.len = (uint8_t)bits;
    if (prefix_has_host_bits(&p)) {
        char canonical[PREFIX_TEXT_MAX];

        prefix_mask(&p);
        prefix_print(&p, canonical);
        return err_field(err, RC_INVALID, "", "host_bits",
                         "'%s' has host bits set; the prefix is %s",
                         quote(text, len, shown), canonical);
    }
    *ret = p;
    return RC_OK;

bad_syntax:
    return err_field(err, RC_INVALID, "", "prefix_syntax", "'%s' is not ADDRESS/LENGTH",
                     quote(text, len, shown));
}

static char *print_decimal(char *to, unsigned v)
{
    if (v >= 100) {
        *to++ = (char)('0' + v / 100);
    }
    if (v >= 10) {
        *to++ = (char)('0' + v / 10 % 10);
    }
    *to++ = (char)('0' + v % 10);
    return to;
}

static char *print_v4(char *to, const uint8_t b[4])
{
    for (int i = 0; i < 4; i++) {
        if (i > 0) {
            *to++ = '.';
        }
        to = print_decimal(to, b[i]);
    }
    return to;
}

static char *print_hex16(char *to, unsigned v)
{
    bool started = false;

    for (int shift = 12; shift >= 0; shift -= 4) {
        unsigned digit = v >> shift & 15;

        started = started || digit || shift == 0;
        if (started) {
            *to++ = "0123456789abcdef"[digit];
        }
    }
    return to;
}

static unsigned group_at(const uint8_t b[16], int group)
{
    const size_t i = 2 * (size_t)group;

    return (unsigned)b[i] << 8 | b[i + 1];
}

/* The first of the longest runs of two or more zero groups (RFC 5952, 4.2). */
static int longest_zero_run(const uint8_t b[16], int *ret_len)
{
    int best = -1;
    int best_len = 1;

    for (int i = 0; i < 8; i++) {
        int len = 0;

        while (i + len < 8 && group_at(b, i + len) == 0) {
            len++;
        }
        if (len > best_len) {
            best = i;
            best_len = len;
        }
        i += len;
    }
    *ret_len = best < 0 ? 0 : best_len;
    return best;
}

/* RFC 5952; section 5 asks for mixed notation under the well-known ::ffff:0:0/96. */
static char *print_v6(char *to, const uint8_t b[16])
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    int gap_len;
    int gap = longest_zero_run(b, &gap_len);

    if (memcmp(b, mapped, 12) == 0) {
        return print_v4(stpcpy(to, "::ffff:"), b + 12);
    }
    for (int i = 0; i < 8; i++) {
        if (i == gap) {
            *to++ = ':';
            i += gap_len - 1;
            if (i == 7) {
                *to++ = ':';
            }
            continue;
        }
        if (i > 0) {
            *to++ = ':';
        }
        to = print_hex16(to, group_at(b, i));
    }
    return to;
}

size_t ip_print(const struct ip *ip, char *to)
{
    char *end = to;

    if (ip->family == IP_V4) {
        end = print_v4(to, ip->b);
    } else if (ip->family == IP_V6) {
        end = print_v6(to, ip->b);
    } else {
        *end++ = '-';
    }
    *end = '\0';
    return (size_t)(end - to);
}

size_t prefix_print(const struct prefix *p, char *to)
{
    char *end = to + ip_print(&p->addr, to);

    if (p->addr.family != IP_NONE) {
        *end++ = '/';
        end = print_decimal(end, p->len);
        *end = '\0';
    }
    return (size_t)(end - to);
}

int ip_compare(const struct ip *a, const struct ip *b)
{
    return memcmp(a, b, sizeof(*a));
}

int prefix_compare(const struct prefix *a, const struct prefix *b)
{
    int order = ip_compare(&a->addr, &b->addr);

    return order ? order : (int)a->len - (int)b->len;
}

/* The bits of byte `i` that lie within the first `len` bits. */
static uint8_t byte_mask(unsigned i, unsigned len)
{
    if (len >= 8 * i + 8) {
        return 0xff;
    }
    return len <= 8 * i ? 0 : (uint8_t)(0xff00u >> (len - 8 * i));
}

bool prefix_has_host_bits(const struct prefix *p)
{
    for (unsigned i = p->len / 8; i < ip_size(&p->addr); i++) {
        if (p->addr.b[i] & (uint8_t)~byte_mask(i, p->len)) {
            return true;
        }
    }
    return false;
}

void prefix_mask(struct prefix *p)
{
    for (unsigned i = p->len / 8; i < ip_size(&p->addr); i++) {
        p->addr.b[i] &= byte_mask(i, p->len);
    }
}

bool prefix_contains(const struct prefix *p, const struct ip *ip)
{
    unsigned whole = p->len / 8;

    if (p->addr.family != ip->family || p->addr.family == IP_NONE) {
        return false;
    }
    if (memcmp(p->addr.b, ip->b, whole) != 0) {
        return false;
    }
    return p->len % 8 == 0 ||
           ((p->addr.b[whole] ^ ip->b[whole]) & byte_mask(whole, p->len)) == 0;
}

bool prefix_covers(const struct prefix *outer, const struct prefix *inner)
{
    return outer->len <= inner->len && prefix_contains(outer, &inner->addr);
}
