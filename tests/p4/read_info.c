/* The driver takes the kept p4info for XGW-H's, with all the rows of the Tofino sizes.
 *   read_info FILE      1, and why, if not */
#include <stdio.h>

#include "agent/p4rt/p4rt_info.h"

int main(int argc, char **argv)
{
    static unsigned char bytes[1 << 16];
    struct p4rt_info info;
    struct err err = { 0 };
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    size_t len;

    if (!file) {
        fprintf(stderr, "read_info FILE\n");
        return 2;
    }
    len = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    if (p4rt_info_read(bytes, len, phys_sizes_tofino(), &info, &err) != RC_OK) {
        printf("%s: %s\n", argv[1], err.msg);
        return 1;
    }
    if (!info.packet_in_port || !info.packet_out_port) {
        printf("%s: no packet I/O\n", argv[1]);
        return 1;
    }
    return 0;
}
