/*
 * dpdk - every rte_ header that this folder uses, in one place.
 *
 * <rte_ip.h> brings in <netinet/ip.h>, whose header is called `struct ip` as our
 * address is (proto/base/ip.h).  Inside these headers it goes by another name; we use
 * neither.
 */
#pragma once

#define ip netinet_ip
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_spinlock.h>
#undef ip
