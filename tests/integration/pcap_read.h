/*
 * pcap_read - the packets of a classic pcap file, one after the other.
 *
 * Both byte orders, micro- and nanoseconds, link type Ethernet (1); no pcapng.  Format:
 * https://www.tcpdump.org/manpages/pcap-savefile.5.html.  A record that lies about its
 * length is an error, not a read past the end.  One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

/* Longest packet that is read: snap length of tcpdump. */
#define PCAP_PACKET_MAX (256u << 10)

struct pcap_reader {
    uint8_t *file; /* whole; ours */
    size_t size;
    size_t at;
    bool is_swapped; /* the file is big-endian */
};

/* RC_NOT_FOUND, RC_NO_MEMORY, RC_INVALID (no pcap, another link type). */
enum rc pcap_open(struct pcap_reader *r, const char *path, struct err *err);
/* RC_OK and the bytes, borrowed until pcap_close(); RC_NOT_FOUND at the end;
 * RC_INVALID when the record is cut or too long. */
enum rc pcap_next(struct pcap_reader *r, const uint8_t **ret, uint32_t *ret_size,
                  struct err *err);
void pcap_close(struct pcap_reader *r);
