#include "agent/gateway/ports.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define RX_DESCRIPTORS 1024
#define TX_DESCRIPTORS 1024
#define POOL_CACHE     256
#define HUGE_BYTES     ((size_t)2 << 20)

enum rc port_spec_parse(const char *text, struct port_spec *ret, struct err *err)
{
    const char *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : 0;

    if (len == 0 || len > PORT_NAME_MAX || equals[1] == '\0' ||
        strlen(equals + 1) >= sizeof(ret->device)) {
        return err_field(err, RC_INVALID, "port", "port_syntax",
                         "port '%s': not NAME=KIND[:ARGS]", text);
    }
    memcpy(ret->name, text, len);
    ret->name[len] = '\0';
    strcpy(ret->device, equals + 1);
    return RC_OK;
}

/* The text behind "KIND:" if `device` is of that kind, else null. */
static const char *args_of(const char *device, const char *kind)
{
    size_t len = strlen(kind);

    return strncmp(device, kind, len) == 0 && device[len] == ':' ? device + len + 1
                                                                 : NULL;
}

static int eal_of(const struct port_spec *spec, unsigned index, char *to, size_t size)
{
    const char *args;

    if ((args = args_of(spec->device, "af_packet"))) {
        return snprintf(to, size,
                        "--vdev=net_af_packet%u,iface=%s,blocksz=65536,framesz=2048,"
                        "framecnt=1024",
                        index, args);
    }
    if ((args = args_of(spec->device, "pcap"))) {
        const char *comma = strchr(args, ',');

        if (!comma) {
            return -1;
        }
        return snprintf(to, size, "--vdev=net_pcap%u,rx_pcap=%.*s,tx_pcap=%s", index,
                        (int)(comma - args), args, comma + 1);
    }
    if (strcmp(spec->device, "null") == 0) {
        return snprintf(to, size, "--vdev=net_null%u", index);
    }
    if ((args = args_of(spec->device, "pci"))) {
        return snprintf(to, size, "--allow=%s", args);
    }
    if ((args = args_of(spec->device, "vdev"))) {
        return snprintf(to, size, "--vdev=%s", args);
    }
    return -1;
}

enum rc port_spec_eal(const struct port_spec *spec, unsigned index, char *to,
                      size_t size, struct err *err)
{
    int len = eal_of(spec, index, to, size);

    if (len < 0 || (size_t)len >= size) {
        return err_field(err, RC_INVALID, "port", "port_kind",
                         "port %s: '%s' is not af_packet:IFACE, pcap:IN,OUT, null, "
                         "pci:ADDRESS or vdev:STRING",
                         spec->name, spec->device);
    }
    return RC_OK;
}

/* DPDK's name of the device that a spec made. */
static void device_name(const struct port_spec *spec, unsigned index, char *to,
                        size_t size)
{
    const char *args;

    if (args_of(spec->device, "af_packet")) {
        snprintf(to, size, "net_af_packet%u", index);
    } else if (args_of(spec->device, "pcap")) {
        snprintf(to, size, "net_pcap%u", index);
    } else if ((args = args_of(spec->device, "pci"))) {
        snprintf(to, size, "%s", args);
    } else if ((args = args_of(spec->device, "vdev"))) {
        snprintf(to, size, "%.*s", (int)strcspn(args, ","), args);
    } else {
        snprintf(to, size, "net_null%u", index);
    }
}

static uint16_t at_most(unsigned want, uint16_t has)
{
    return (uint16_t)(want < has ? want : has);
}

/* Flows keep to one queue by the outer addresses and ports: the source port carries the
 * inner flow's entropy. */
static void rss_conf(struct rte_eth_conf *conf, const struct rte_eth_dev_info *info)
{
    uint64_t want = RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP;

    conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf->rx_adv_conf.rss_conf.rss_hf = want & info->flow_type_rss_offloads;
}

static enum rc start_queues(struct port *p, const struct rte_eth_dev_info *info,
                            struct rte_mempool *pool, struct err *err)
{
    uint16_t rx = RX_DESCRIPTORS;
    uint16_t tx = TX_DESCRIPTORS;
    int rc = rte_eth_dev_adjust_nb_rx_tx_desc(p->id, &rx, &tx);

    for (uint16_t q = 0; rc == 0 && q < p->rx_queues; q++) {
        rc = rte_eth_rx_queue_setup(p->id, q, rx, SOCKET_ID_ANY, &info->default_rxconf,
                                    pool);
    }
    for (uint16_t q = 0; rc == 0 && q < p->tx_queues; q++) {
        rc = rte_eth_tx_queue_setup(p->id, q, tx, SOCKET_ID_ANY, &info->default_txconf);
    }
    if (rc == 0) {
        rc = rte_eth_dev_start(p->id);
    }
    if (rc != 0) {
        return err_set(err, RC_UNREACHABLE, "port %s: %s", p->name, rte_strerror(-rc));
    }
    rte_eth_promiscuous_enable(p->id); /* VIPs may come to another MAC; not all can */
    return RC_OK;
}

static enum rc start_port(struct port *p, unsigned workers, struct rte_mempool *pool,
                          struct err *err)
{
    struct rte_eth_conf conf = { 0 };
    struct rte_eth_dev_info info;
    struct rte_ether_addr mac;
    int rc = rte_eth_dev_info_get(p->id, &info);

    if (rc == 0) {
        rc = rte_eth_macaddr_get(p->id, &mac);
    }
    if (rc == 0) {
        memcpy(p->mac, mac.addr_bytes, 6);
        p->rx_queues = at_most(workers, info.max_rx_queues);
        p->tx_queues = at_most(workers + 1, info.max_tx_queues);
        p->tx_is_shared = p->tx_queues < workers + 1;
        p->tx_queues = p->tx_is_shared ? 1 : p->tx_queues;
        p->rx_queues = p->rx_queues < workers ? 1 : p->rx_queues;
        conf.rxmode.offloads = info.rx_offload_capa & (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM |
                                                       RTE_ETH_RX_OFFLOAD_UDP_CKSUM);
        if (p->rx_queues > 1) {
            rss_conf(&conf, &info);
        }
        rc = rte_eth_dev_configure(p->id, p->rx_queues, p->tx_queues, &conf);
    }
    if (rc != 0) {
        return err_set(err, RC_UNREACHABLE, "port %s: %s", p->name, rte_strerror(-rc));
    }
    return start_queues(p, &info, pool, err);
}

static void unmap(struct rte_mempool_memhdr *memory, void *opaque)
{
    munmap(memory->addr, (size_t)(uintptr_t)opaque);
}

/* Memory for all objects of `pool`, as transparent huge pages if the system has them.
 */
static bool populate(struct rte_mempool *pool)
{
    size_t object = pool->header_size + pool->elt_size + pool->trailer_size;
    size_t bytes = RTE_ALIGN_CEIL((size_t)pool->size * object, HUGE_BYTES) + HUGE_BYTES;
    void *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int placed;

    if (at == MAP_FAILED) {
        return false;
    }
    (void)madvise(at, bytes, MADV_HUGEPAGE); /* only a wish */
    placed = rte_mempool_populate_virt(pool, at, bytes, HUGE_BYTES, unmap,
                                       (void *)(uintptr_t)bytes);
    if (placed <= 0) {
        munmap(at, bytes); /* else it is the pool's */
    }
    return placed == (int)pool->size;
}

struct rte_mempool *ports_pool_new(unsigned mbufs, uint16_t room)
{
    struct rte_pktmbuf_pool_private private = { .mbuf_data_room_size = room };
    struct rte_mempool *pool;

    if (rte_eal_has_hugepages()) {
        return rte_pktmbuf_pool_create("packets", mbufs, POOL_CACHE, 0, room,
                                       SOCKET_ID_ANY);
    }
    /* No device reads this memory by DMA, so a buffer may cross a page; else DPDK puts
     * one into each 4 KiB and does not find room for all. */
    pool = rte_mempool_create_empty("packets", mbufs, sizeof(struct rte_mbuf) + room,
                                    POOL_CACHE, sizeof(private), SOCKET_ID_ANY,
                                    RTE_MEMPOOL_F_NO_IOVA_CONTIG);
    if (!pool) {
        return NULL;
    }
    rte_pktmbuf_pool_init(pool, &private);
    /* Else the pool has the ops that happen to be linked first. */
    if (rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), NULL) != 0 ||
        !populate(pool)) {
        rte_mempool_free(pool);
        return NULL;
    }
    rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
    return pool;
}

enum rc ports_start(struct ports *p, const struct port_spec *specs, unsigned count,
                    unsigned workers, unsigned mbufs, unsigned mbuf_bytes,
                    struct err *err)
{
    memset(p, 0, sizeof(*p));
    p->pool = ports_pool_new(mbufs, (uint16_t)(mbuf_bytes + RTE_PKTMBUF_HEADROOM));
    if (!p->pool) {
        return err_set(err, RC_NO_MEMORY, "%u buffers of %u bytes: %s", mbufs,
                       mbuf_bytes, rte_strerror(rte_errno));
    }
    for (unsigned i = 0; i < count; i++) {
        struct port *port = &p->at[p->count];
        char name[RTE_ETH_NAME_MAX_LEN];
        enum rc rc;

        snprintf(port->name, sizeof(port->name), "%s", specs[i].name);
        if (ports_find(p, port->name) != UINT_MAX) {
            return err_field(err, RC_INVALID, "port", "port_name", "port %s: twice",
                             port->name);
        }
        device_name(&specs[i], i, name, sizeof(name));
        if (rte_eth_dev_get_port_by_name(name, &port->id) != 0) {
            return err_set(err, RC_NOT_FOUND, "port %s: no device %s", port->name,
                           name);
        }
        rte_spinlock_init(&port->tx_lock);
        rc = start_port(port, workers, p->pool, err);
        if (rc != RC_OK) {
            return rc;
        }
        p->count++;
    }
    return RC_OK;
}

enum rc ports_adopt(struct ports *p, const char *name, uint16_t id, unsigned workers,
                    struct err *err)
{
    struct port *port = &p->at[p->count];
    enum rc rc;

    if (p->count == PORTS_MAX) {
        return err_set(err, RC_FULL, "port %s: more than %d", name, PORTS_MAX);
    }
    memset(port, 0, sizeof(*port));
    snprintf(port->name, sizeof(port->name), "%s", name);
    port->id = id;
    rte_spinlock_init(&port->tx_lock);
    rc = start_port(port, workers, p->pool, err);
    p->count += rc == RC_OK;
    return rc;
}

void ports_stop(struct ports *p)
{
    for (unsigned i = 0; i < p->count; i++) {
        rte_eth_dev_stop(p->at[i].id);
        rte_eth_dev_close(p->at[i].id);
    }
    p->count = 0;
    rte_mempool_free(p->pool);
    p->pool = NULL;
}

unsigned ports_find(const struct ports *p, const char *name)
{
    for (unsigned i = 0; i < p->count; i++) {
        if (strcmp(p->at[i].name, name) == 0) {
            return i;
        }
    }
    return UINT_MAX;
}

void port_send(struct port *p, unsigned sender, struct rte_mbuf **frames,
               uint16_t count)
{
    uint16_t sent;

    if (p->tx_is_shared) {
        rte_spinlock_lock(&p->tx_lock);
        sent = rte_eth_tx_burst(p->id, 0, frames, count);
        rte_spinlock_unlock(&p->tx_lock);
    } else {
        sent = rte_eth_tx_burst(p->id, (uint16_t)sender, frames, count);
    }
    if (sent < count) {
        atomic_fetch_add_explicit(&p->tx_lost, count - sent, memory_order_relaxed);
        rte_pktmbuf_free_bulk(frames + sent, count - sent);
    }
}

uint64_t port_link_bps(const struct port *p)
{
    struct rte_eth_link link = { 0 };

    if (rte_eth_link_get_nowait(p->id, &link) != 0 ||
        link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN) {
        return 0;
    }
    return (uint64_t)link.link_speed * 1000000; /* it is in Mbit/s */
}
