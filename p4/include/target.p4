/*
 * What differs between the two architectures, under one name each.  XGW_TNA chooses
 * Tofino; everything else in this folder is written once for both.
 */
#ifndef XGW_TARGET_P4
#define XGW_TARGET_P4

#include <core.p4>

#ifdef XGW_TNA
#include <tna.p4>

#define COUNTER(name, size, index) \
    Counter<bit<64>, bit<index>>(size, CounterType_t.PACKETS_AND_BYTES) name;
#define COUNT(name, index) name.count(index)

#define METER(name, size, index) Meter<bit<index>>(size, MeterType_t.BYTES) name;
#define METER_RUN(name, index, color) color = (bit<2>)name.execute(index)
#define METER_RED 3

#define HASH(name, algorithm, width) \
    Hash<bit<width>>(HashAlgorithm_t.algorithm) name;
#define HASH_RUN(name, result, algorithm, width, ...) result = name.get(__VA_ARGS__)

/* Header checksums are verified by the ingress parser; true is a wrong one. */
#define PARSER_CHECKSUM(name) Checksum() name;
#define PARSER_CHECKSUM_ADD(name, header) name.add(header)
#define PARSER_CHECKSUM_BAD(name, result) result = (bit<1>)name.verify()

#else
#include <v1model.p4>
#define CRC16 crc16
#define CRC32 crc32

#define COUNTER(name, size, index) counter(size, CounterType.packets_and_bytes) name;
#define COUNT(name, index) name.count((bit<32>)(index))

#define METER(name, size, index) meter(size, MeterType.bytes) name;
#define METER_RUN(name, index, color) name.execute_meter((bit<32>)(index), color)
#define METER_RED 2

#define HASH(name, algorithm, width)
#define HASH_RUN(name, result, algorithm, width, ...) \
    hash(result, HashAlgorithm.algorithm, (bit<width>)0, __VA_ARGS__, 65w1 << width)

/* v1model has no checksums in parsers: the top level works the same bits out. */
#define PARSER_CHECKSUM(name)
#define PARSER_CHECKSUM_ADD(name, header)
#define PARSER_CHECKSUM_BAD(name, result)
#endif

#endif
