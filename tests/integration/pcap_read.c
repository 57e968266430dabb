#include "tests/integration/pcap_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_HEADER = 24, RECORD_HEADER = 16, LINK_ETHERNET = 1 };

static uint32_t read_u32_at(const struct pcap_reader *r, size_t at)
{
    uint32_t v;

    memcpy(&v, r->file + at, sizeof(v));
    return r->is_swapped ? __builtin_bswap32(v) : v;
}

/* Reads all of `f` into r->file. */
static enum rc read_all(struct pcap_reader *r, FILE *f, const char *path,
                        struct err *err)
{
    long size;

    if (fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0 ||
        fseek(f, 0, SEEK_SET) != 0) {
        return err_set(err, RC_INVALID, "%s: cannot be measured", path);
    }
    r->file = malloc((size_t)size + 1);
    if (r->file == NULL) {
        return err_set(err, RC_NO_MEMORY, "%s: no memory for %ld bytes", path, size);
    }
    r->size = fread(r->file, 1, (size_t)size, f);
    return RC_OK;
}

static enum rc check_header(struct pcap_reader *r, const char *path, struct err *err)
{
    uint32_t magic;

    if (r->size < FILE_HEADER) {
        return err_set(err, RC_INVALID, "%s: shorter than a pcap header", path);
    }
    magic = read_u32_at(r, 0);
    r->is_swapped = magic == 0xd4c3b2a1 || magic == 0x4d3cb2a1;
    if (!r->is_swapped && magic != 0xa1b2c3d4 && magic != 0xa1b23c4d) {
        return err_set(err, RC_INVALID, "%s: no classic pcap (magic %08x)", path,
                       magic);
    }
    if ((read_u32_at(r, 20) & 0xffff) != LINK_ETHERNET) {
        return err_set(err, RC_INVALID, "%s: link type %u is not Ethernet", path,
                       read_u32_at(r, 20));
    }
    r->at = FILE_HEADER;
    return RC_OK;
}

enum rc pcap_open(struct pcap_reader *r, const char *path, struct err *err)
{
    FILE *f = fopen(path, "rb");
    enum rc rc;

    *r = (struct pcap_reader){ 0 };
    if (f == NULL) {
        return err_set(err, RC_NOT_FOUND, "%s: cannot be opened", path);
    }
    rc = read_all(r, f, path, err);
    fclose(f);
    if (rc == RC_OK) {
        rc = check_header(r, path, err);
    }
    if (rc != RC_OK) {
        pcap_close(r);
    }
    return rc;
}

enum rc pcap_next(struct pcap_reader *r, const uint8_t **ret, uint32_t *ret_size,
                  struct err *err)
{
    uint32_t size;

    if (r->at == r->size) {
        return RC_NOT_FOUND;
    }
    if (r->size - r->at < RECORD_HEADER) {
        return err_set(err, RC_INVALID, "record header cut at byte %zu", r->at);
    }
    size = read_u32_at(r, r->at + 8);
    if (size > PCAP_PACKET_MAX || size > r->size - r->at - RECORD_HEADER) {
        return err_set(err, RC_INVALID, "record of %u bytes at byte %zu: too long",
                       size, r->at);
    }
    *ret = r->file + r->at + RECORD_HEADER;
    *ret_size = size;
    r->at += RECORD_HEADER + size;
    return RC_OK;
}

void pcap_close(struct pcap_reader *r)
{
    free(r->file);
    *r = (struct pcap_reader){ 0 };
}
