/*
 * Every size of the image, with the arithmetic that chose it.  The same numbers stand in
 * agent/xgwh/phys.c (phys_sizes_tofino); tests/p4/test_contract.py holds both together.
 *
 * Tofino 1: a pipe has 12 stages of 80 SRAM blocks (1,024 words of 128 bit) and 24 TCAM
 * blocks (512 rows of 44 bit).  What really fits is in README.md, "Fit".
 */
#ifndef XGW_SIZES_P4
#define XGW_SIZES_P4

/* --- pipes 1 and 3: routes, and VM-NC --- */

/* route_part: 8 stages of 18,432 slots.  A slot costs 2.5 words of key and mask (2 slots
 * in 5 words) and half a word of action: 8 x 54 of 960 blocks.  16 slots a partition:
 * 9,216 partitions, and as many rows of route_tcam: 18 groups of 512 rows x 4 blocks
 * (152 bit / 44) = 72 of 288 blocks. */
#define ROUTE_PARTITIONS      9216
#define ROUTE_PARTITION_BITS  14
#define ROUTE_PARTITION_SLOTS 16
#define ROUTE_SLOTS           (ROUTE_PARTITIONS * ROUTE_PARTITION_SLOTS)

/* vm_nc: 57 bit of key and 17 of action, 0.625 words: 131,072 a stage, so 4 stages.
 * Usable: 0.877 of it (cuckoo ways).  Conflicts: 2^32 keys, so among n = 500,000 v6
 * addresses of one VNI n^2 / 2^33 = 29 are expected; 8,192 is for many such VPCs. */
#define VM_NC_SIZE    524288
#define CONFLICT_SIZE 8192

/* --- pipes 0 and 2: everything that is the same for all, and what pipe 1 or 3 has no
 * room for --- */

#define VM_NC_SPILL_SIZE 393216 /* 3 stages of 131,072 */
#define VNI_SIZE         262144 /* 24 bit of key and 26 of action: half a word */
#define NC_SIZE          131072 /* all of the 17-bit index; 128 bit of address a row */
#define ACL_SIZE         1024   /* 321 bit: 2 groups of 8 blocks */
#define VTEP_SIZE        64
#define SOURCE_SIZE      512    /* 161 bit: 1 group of 4 blocks */
#define VNI_METERS       24576  /* a block each 1,024; index 0 is not metered */
#define FALLBACK_BUCKETS 4096   /* tenants, by hash of the VNI */
#define FALLBACK_SLOTS   2048   /* 1,024 of flow hash, for either outer family */
#define NEXT_HOP_SIZE    512    /* 256 of flow hash, for either outer family */
#define PORT_OUT_SIZE    1024   /* port x fallback or not x family */

#define DROP_COUNTERS 256 /* by drop reason, an octet */
#define PORT_COUNTERS 512 /* a port has 9 bits: 2 of the pipe, 7 of its own. 64 + 64 bit a
                           * cell, so half a block, twice: the spare bank */

#endif
