#include "agent/gateway/options.h"

#include "proto/base/log.h"

#include <string.h>

const char *const options_pipelines[] = { "x86", "h", "lb", NULL };
static const char *const profiles[] = { "tofino", "bench", NULL };
static const char *const hugepages[] = { "auto", "on", "off", NULL };

static const struct config_key keys[] = {
    { CONFIG_ENUM(struct options, pipeline), .name = "pipeline",
      .choices = options_pipelines, .def = "x86",
      .what =
          "What the gateway is: x86 is XGW-x86 and lb a load balancer in front of the "
          "clusters, both driven by xgw-agent's own protocol; h is XGW-H in software, "
          "driven by P4Runtime." },
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
      .max = 1u << 24, .unit = "entries", .def = "1048576",
      .what = "Most VNIs; of a load balancer, most rows of vni_cluster." },
    { CONFIG_BOOL(struct options, tamper), .name = "tamper", .def = "false",
      .what = "For tests only: whoever reaches the control socket may corrupt the "
              "tables of --pipeline x86 and lb (the call Tamper)." },
    { CONFIG_ENUM(struct options, log_level), .name = "log-level",
      .choices = log_level_names, .def = "info", .reloadable = true,
      .what = "Least level that is logged." },
    { CONFIG_ENUM(struct options, profile), .name = "profile", .choices = profiles,
      .def = "tofino",
      .what = "Limits of --pipeline h: the Tofino image's, or eight times its rows for "
              "benches." },
    { CONFIG_TEXT(struct options, addresses), .name = "addresses", .def = "",
      .what = "For --pipeline h, what a switch's own system knows of its ports, "
              "separated by spaces: PORT=ADDRESS>NEXT_HOP, one a family. The address "
              "answers ARP and ND, the next hop is resolved." },
    { CONFIG_U32(struct options, mtu), .name = "mtu", .min = FWD_MTU_MIN,
      .max = FWD_MTU_MAX, .unit = "bytes", .def = "1500",
      .what = "For --pipeline h: the longest outer IP packet that leaves by a port." },
    { CONFIG_BOOL(struct options, udp6_zero_csum), .name = "udp6-zero-csum",
      .def = "false",
      .what = "For --pipeline h: accept UDP checksum 0 over IPv6 (RFC 6935)." },
    { CONFIG_PATH(struct options, tls_ca), .name = "tls-ca", .def = "",
      .what = "For --pipeline h: whose certificates controllers show (PEM); with "
              "tls-cert and tls-key the socket speaks TLS." },
    { CONFIG_PATH(struct options, tls_cert), .name = "tls-cert", .def = "",
      .what = "The switch's certificate (PEM)." },
    { CONFIG_PATH(struct options, tls_key), .name = "tls-key", .def = "",
      .what = "The key to it (PEM)." },
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

/* PORT=ADDRESS>NEXT_HOP, both of one family. */
static enum rc read_address(char *word, const struct ports *ports,
                            struct hswitch_options *to, struct err *err)
{
    char *address = strchr(word, '=');
    char *next_hop = address ? strchr(address, '>') : NULL;
    struct ip ip;
    struct ip hop;
    unsigned port;

    if (!next_hop) {
        return err_field(err, RC_INVALID, "addresses", "form",
                         "'%s' is not PORT=ADDRESS>NEXT_HOP", word);
    }
    *address++ = '\0';
    *next_hop++ = '\0';
    port = ports_find(ports, word);
    if (port >= to->port_count) {
        return err_field(err, RC_NOT_FOUND, "addresses", "port", "no port %s", word);
    }
    if (ip_parse(address, strlen(address), &ip, err) != RC_OK ||
        ip_parse(next_hop, strlen(next_hop), &hop, err) != RC_OK) {
        return err_wrap(err, RC_INVALID, "addresses");
    }
    if (ip.family != hop.family) {
        return err_field(err, RC_INVALID, "addresses", "family",
                         "%s: address and next hop are of two families", word);
    }
    to->ports[port].address[ip.family == IP_V6] = ip;
    to->ports[port].next_hop[ip.family == IP_V6] = hop;
    return RC_OK;
}

enum rc options_switch(const struct options *o, const struct ports *ports,
                       struct hswitch_options *ret, struct err *err)
{
    char text[sizeof(o->addresses)];
    char *rest = text;
    char *word;
    enum rc rc = RC_OK;

    ret->sizes = o->profile == PROFILE_BENCH ? phys_sizes_bench() : phys_sizes_tofino();
    ret->workers = o->workers;
    ret->port_count = ports->count;
    ret->udp6_zero_csum = o->udp6_zero_csum;
    for (unsigned i = 0; i < ports->count; i++) {
        memcpy(ret->ports[i].mac, ports->at[i].mac, 6);
        ret->ports[i].mtu = o->mtu;
    }
    memcpy(text, o->addresses, sizeof(text));
    while (rc == RC_OK && (word = strsep(&rest, " ")) != NULL) {
        rc = *word == '\0' ? RC_OK : read_address(word, ports, ret, err);
    }
    return rc;
}
