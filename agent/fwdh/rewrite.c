#include "agent/fwdh/rewrite.h"

#include "agent/fwd/checksum.h"
#include "agent/fwd/rewrite.h"

/* Writes `now` over `old` and returns the change in the sum. */
static uint64_t replace(uint8_t *old, const uint8_t *now, size_t len)
{
    uint64_t delta = csum_change(0, old, now, len);

    memcpy(old, now, len);
    return delta;
}

static uint64_t replace_addresses(uint8_t *source_at, const uint8_t *source,
                                  const uint8_t *destination, size_t len)
{
    uint64_t delta = replace(source_at + len, destination, len);

    return source ? delta + replace(source_at, source, len) : delta;
}

void hrewrite_fallback(struct fwd_packet *p, const struct layers *l,
                       const uint8_t *source, const uint8_t *destination,
                       const uint8_t next_hop_mac[6], const uint8_t port_mac[6])
{
    uint8_t *ip = p->data + l->outer_l3;
    uint8_t *udp = p->data + l->udp;
    bool is_v4 = l->outer_family == IP_V4;
    uint64_t addresses;

    if (is_v4) {
        uint8_t ttl[2] = { (uint8_t)(ip[8] - 1), ip[9] };
        uint64_t rest = replace(ip + 8, ttl, 2);

        addresses = replace_addresses(ip + 12, source, destination, 4);
        csum_store(ip + 10, csum_update(csum_load(ip + 10), addresses + rest));
    } else {
        ip[7]--;
        addresses = replace_addresses(ip + 8, source, destination, 16);
    }
    csum_store(udp + 6, csum_update_udp(csum_load(udp + 6), addresses));
    p->data = ip - ETH_SIZE;
    p->headroom = (uint16_t)(p->headroom + l->outer_l3 - ETH_SIZE);
    p->length = ETH_SIZE + l->outer_size;
    write_ethernet(p->data, next_hop_mac, port_mac,
                   is_v4 ? ETHERTYPE_IP4 : ETHERTYPE_IP6);
}
