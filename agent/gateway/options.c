#include "agent/gateway/options.h"

#include "proto/base/log.h"

#include <string.h>

static const char *const pipelines[] = { "x86", NULL };
static const char *const hugepages[] = { "auto", "on", "off", NULL };

static const struct config_key keys[] = {
    { CONFIG_ENUM(struct options, pipeline), .name = "pipeline", .choices = pipelines,
      .def = "x86", .what = "What the gateway is: x86 is XGW-x86." },
    { CONFIG_PATH(struct options, control), .name = "control",
      .def = "unix:/run/xgw/gateway.sock",
      .what = "Address of the control socket that the agent dials." },
    { CONFIG_TEXT(struct options, ports), .name = "ports", .def = NULL,
      .what = "Ports, separated by spaces, each NAME=KIND[:ARGS]: "
              "up0=af_packet:veth0, up0=pcap:in.pcap,out.pcap, up0=null, "
              "up0=pci:0000:3b:00.0 or up0=vdev:STRING." },
    { CONFIG_U32(struct options, workers), .name = "workers", .min = 1, .max = 64,
      .unit = "threads", .def = "1", .what = "Threads that forward packets." },
    { CONFIG_TEXT(struct options, cores), .name = "cores", .def = "",
      .what = "Cores of the workers (\"2,3\" or \"2-5\"); empty: the last ones of "
              "those the process may use." },
    { CONFIG_BOOL(struct options, busy_poll), .name = "busy-poll", .def = "false",
      .what = "Never let a worker sleep: lowest latency, one whole core each." },
    { CONFIG_BOOL(struct options, taps), .name = "taps", .def = "false",
      .what = "Make a tap interface xgw-PORT for each port and hand BGP, BFD and ICMP "
              "to the kernel through it." },
    { CONFIG_BOOL(struct options, wait_ready), .name = "wait-ready", .def = "false",
      .what = "Read no packet before the tables are ready, instead of dropping it "
              "counted: for ports that are files. A NIC would overflow, uncounted." },
    { CONFIG_U32(struct options, icmp_rate), .name = "icmp-rate", .min = 0,
      .max = 1000000, .unit = "packets/s", .def = "1000",
      .what = "Most ICMP errors sent, all workers together; 0 = no limit." },
    { CONFIG_ENUM(struct options, hugepages), .name = "hugepages", .choices = hugepages,
      .def = "auto",
      .what = "Packet buffers in huge pages; auto: where the kernel has enough." },
    { CONFIG_U32(struct options, memory_mb), .name = "memory", .min = 16, .max = 65536,
      .unit = "MiB", .def = "64", .what = "Memory for packet buffers and DPDK." },
    { CONFIG_U32(struct options, mbufs), .name = "buffers", .min = 1023, .max = 1048575,
      .def = "8191", .what = "Packet buffers; a power of two less one wastes least." },
    { CONFIG_U32(struct options, mbuf_bytes), .name = "buffer-bytes", .min = 1664,
      .max = 65280, .unit = "bytes", .def = "2176",
      .what = "Room for one frame; 9728 for jumbo frames. A port of files may hold "
              "larger ones." },
    { CONFIG_U32(struct options, max_routes), .name = "max-routes", .min = 1,
      .max = 1u << 28, .unit = "entries", .def = "4194304",
      .what = "Most VXLAN routes." },
    { CONFIG_U32(struct options, max_vm_nc), .name = "max-vm-nc", .min = 1,
      .max = 1u << 28, .unit = "entries", .def = "4194304",
      .what = "Most VM-NC entries." },
    { CONFIG_U32(struct options, max_vnis), .name = "max-vnis", .min = 1,
      .max = 1u << 24, .unit = "entries", .def = "1048576", .what = "Most VNIs." },
    { CONFIG_ENUM(struct options, log_level), .name = "log-level",
      .choices = log_level_names, .def = "info", .reloadable = true,
      .what = "Least level that is logged." },
};

const struct config_table options_table = CONFIG_TABLE(
    "xgw-gateway", "The DPDK data plane: forwards VXLAN between VMs, IDCs and regions.",
    struct options, keys);

enum rc options_ports(const struct options *o, struct port_spec specs[PORTS_MAX],
                      unsigned *ret_count, struct err *err)
{
    char text[sizeof(o->ports)];
    char *rest = text;
    char *word;
    unsigned count = 0;

    memcpy(text, o->ports, sizeof(text));
    while ((word = strsep(&rest, " ")) != NULL) {
        enum rc rc;

        if (*word == '\0') {
            continue;
        }
        if (count == PORTS_MAX) {
            return err_field(err, RC_RANGE, "ports", "ports_max", "more than %d ports",
                             PORTS_MAX);
        }
        rc = port_spec_parse(word, &specs[count], err);
        if (rc != RC_OK) {
            return rc;
        }
        count++;
    }
    if (count == 0) {
        return err_field(err, RC_INVALID, "ports", "ports_min", "no port");
    }
    *ret_count = count;
    return RC_OK;
}
