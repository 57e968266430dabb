#include "agent/gateway/worker.h"

#define PROBE_BURST 8 /* a turn */

#include <limits.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

/* One worker's part of a rate, rounded up; 0 stays 0. */
static uint32_t share(uint32_t rate, unsigned workers)
{
    return rate / workers + (rate % workers > 0);
}

void worker_init(struct worker *w, const struct worker_config *config)
{
    const struct ports *ports = config->ports;
    unsigned index = config->index;

    memset(w, 0, sizeof(*w));
    w->config = *config;
    w->tsc_hz = rte_get_tsc_hz();
    if (config->reader) {
        atomic_init(&config->reader->epoch, UINT64_MAX);
    }
    for (uint16_t i = 0; i < FWD_UPLINK_MAX; i++) {
        w->port_of[i] = i;
    }
    fwd_worker_init(&w->fwd, share(config->icmp_rate, config->workers), FWD_ICMP_BURST);
    fwd_worker_init(&w->probed, 0, 0);
    for (unsigned i = 0; i < ports->count; i++) {
        /* A port with one queue is polled by one worker. */
        bool has_own = ports->at[i].rx_queues > index;

        if (ports->at[i].rx_queues > 1 ? has_own : i % config->workers == index) {
            w->queues[w->queue_count].port = (uint16_t)i;
            w->queues[w->queue_count].queue =
                (uint16_t)(ports->at[i].rx_queues > 1 ? index : 0);
            w->queue_count++;
        }
    }
}

/* TSC to nanoseconds without overflow for a few centuries. */
uint64_t worker_now_ns(const struct worker *w)
{
    return (uint64_t)((__uint128_t)rte_rdtsc() * 1000000000u / w->tsc_hz);
}

static void count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter,
                          atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* Fills the stock of blank buffers for ICMP errors.  Short of memory it stays short:
 * answers are then not made, and counted. */
static void restock(struct worker *w)
{
    while (w->answer_stock < WORKER_ANSWERS) {
        struct rte_mbuf *m = rte_pktmbuf_alloc(w->config.ports->pool);

        if (!m) {
            return;
        }
        w->answers[w->answer_stock] = m;
        w->answer_at[w->answer_stock].data = rte_pktmbuf_mtod(m, uint8_t *);
        w->answer_stock++;
    }
}

static uint8_t rx_flags(const struct rte_mbuf *m)
{
    uint64_t ip = m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
    uint64_t l4 = m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;

    if ((ip | l4) == 0) {
        return 0; /* a port that looks at nothing */
    }
    return (uint8_t)((ip == RTE_MBUF_F_RX_IP_CKSUM_GOOD ? FWD_RX_IP_CSUM_GOOD : 0) |
                     (ip == RTE_MBUF_F_RX_IP_CKSUM_BAD ? FWD_RX_IP_CSUM_BAD : 0) |
                     (l4 == RTE_MBUF_F_RX_L4_CKSUM_BAD ? FWD_RX_L4_CSUM_BAD : 0));
}

/* Takes a received burst as fwd sees it; frames that cannot be made contiguous are
 * counted and freed.  Returns how many are left. */
static unsigned take(struct worker *w, struct rte_mbuf *m[], unsigned n, uint16_t port,
                     struct fwd_packet packets[])
{
    unsigned kept = 0;

    for (unsigned i = 0; i < n; i++) {
        if (m[i]->nb_segs > 1 && rte_pktmbuf_linearize(m[i]) != 0) {
            rte_pktmbuf_free(m[i]);
            count(&w->no_buffer, 1);
            continue;
        }
        m[kept] = m[i];
        packets[kept].data = rte_pktmbuf_mtod(m[i], uint8_t *);
        packets[kept].length = m[i]->data_len;
        packets[kept].headroom = rte_pktmbuf_headroom(m[i]);
        packets[kept].port = port;
        packets[kept].rx_flags = rx_flags(m[i]);
        rte_prefetch0(packets[kept].data);
        rte_prefetch0(packets[kept].data + RTE_CACHE_LINE_SIZE);
        kept++;
    }
    return kept;
}

/* Where the frame now begins and ends; the headroom was checked by fwd. */
static void resize(struct rte_mbuf *m, const struct fwd_packet *p)
{
    m->data_off = (uint16_t)(p->data - (uint8_t *)m->buf_addr);
    m->data_len = (uint16_t)p->length;
    m->pkt_len = p->length;
    m->ol_flags = 0; /* nothing is left to the NIC: checksums are complete */
}

static void queue_frame(struct worker *w, unsigned uplink, struct rte_mbuf *m)
{
    struct worker_tx *tx = &w->tx[w->port_of[uplink]];

    tx->frames[tx->count++] = m;
}

static void hand_over(struct worker *w, struct rte_mbuf *m, uint16_t port)
{
    m->port = port;
    if (rte_ring_enqueue(w->config.to_control, m) != 0) {
        count(&w->local_lost, 1);
        rte_pktmbuf_free(m);
    } else if (rte_ring_count(w->config.to_control) == 1) {
        eventfd_write(w->config.wake_fd, 1); /* rare frames; a tick drains leftovers */
    }
}

static void flush(struct worker *w)
{
    for (unsigned i = 0; i < w->config.ports->count; i++) {
        if (w->tx[i].count > 0) {
            port_send(&w->config.ports->at[i], w->config.index, w->tx[i].frames,
                      w->tx[i].count);
            w->tx[i].count = 0;
        }
    }
}

/* Frames for the same uplink come in runs. */
static void dispatch(struct worker *w, struct rte_mbuf *m[],
                     const struct fwd_packet packets[], unsigned n)
{
    struct worker_tx *tx = w->tx;
    struct rte_mbuf **to = tx->frames + tx->count;
    unsigned uplink = UINT_MAX;

    for (unsigned i = 0; i < n; i++) {
        const struct fwd_packet *p = &packets[i];

        if (p->verdict == FWD_FORWARD) {
            if (p->uplink != uplink) {
                uplink = p->uplink;
                tx->count = (uint16_t)(to - tx->frames);
                tx = &w->tx[w->port_of[uplink]];
                to = tx->frames + tx->count;
            }
            resize(m[i], p);
            *to++ = m[i];
        } else if (p->verdict == FWD_LOCAL) {
            hand_over(w, m[i], p->port);
        } else {
            rte_pktmbuf_free(m[i]);
        }
    }
    tx->count = (uint16_t)(to - tx->frames);
}

/* Sends the answers that were made; the buffers that were lent and not used stay in
 * stock. */
static void send_answers(struct worker *w, const struct fwd_answers *answers)
{
    for (unsigned i = 0; i < answers->count; i++) {
        struct rte_mbuf *m = w->answers[i];

        m->data_len = (uint16_t)answers->at[i].length;
        m->pkt_len = answers->at[i].length;
        queue_frame(w, answers->at[i].uplink, m);
    }
    /* The last ones move to the places that became free. */
    for (unsigned i = 0; i < answers->count && i + answers->count < w->answer_stock;
         i++) {
        w->answers[i] = w->answers[w->answer_stock - 1 - i];
        w->answer_at[i].data = w->answer_at[w->answer_stock - 1 - i].data;
    }
    w->answer_stock -= answers->count;
}

static unsigned poll_queue(struct worker *w, const struct worker_queue *q)
{
    struct rte_mbuf *m[WORKER_BURST];
    struct fwd_packet packets[WORKER_BURST];
    struct fwd_answers answers = { w->answer_at, 0, 0 };
    unsigned received =
        rte_eth_rx_burst(w->config.ports->at[q->port].id, q->queue, m, WORKER_BURST);
    unsigned n;

    if (received == 0) {
        return 0;
    }
    n = take(w, m, received, q->port, packets);
    restock(w);
    answers.room = w->answer_stock;
    w->config.pipeline->burst(w, &w->fwd, packets, n, &answers);
    dispatch(w, m, packets, n);
    send_answers(w, &answers);
    flush(w);
    return received;
}

/* What comes out goes back to where it came from, never to a port. */
static void probe(struct worker *w, struct probe_frame *f)
{
    struct fwd_answers none = { NULL, 0, 0 };
    struct fwd_packet packet;

    (void)take(w, &f->frame, 1, f->port, &packet); /* it is in one buffer */
    w->config.pipeline->burst(w, &w->probed, &packet, 1, &none);
    f->verdict = packet.verdict;
    f->reason = packet.reason;
    if (packet.verdict == FWD_FORWARD) {
        resize(f->frame, &packet);
        f->port = w->port_of[packet.uplink];
    }
    probe_port_give(w->config.probes, f);
}

static void take_probes(struct worker *w)
{
    struct probe_frame *probes[PROBE_BURST];
    unsigned n = probe_port_take(w->config.probes, probes, PROBE_BURST);

    for (unsigned i = 0; i < n; i++) {
        probe(w, probes[i]);
    }
}

/* Sequentially consistent: the loads of this turn's pointers must not pass it, or the
 * control thread could free what the turn still reads. */
static void turns_add(struct worker *w, unsigned n)
{
    atomic_store(&w->turns, atomic_load_explicit(&w->turns, memory_order_relaxed) + n);
}

unsigned worker_turn(struct worker *w)
{
    unsigned received = 0;

    turns_add(w, 2);
    for (unsigned i = 0; i < w->queue_count; i++) {
        received += poll_queue(w, &w->queues[i]);
    }
    if (w->config.probes) {
        take_probes(w);
    }
    w->config.pipeline->quiescent(w);
    return received;
}

static void rest(struct worker *w)
{
    unsigned us = (w->idle_turns - WORKER_SPIN) * 10;
    struct timespec pause = { 0,
                              (us < WORKER_SLEEP_US ? us : WORKER_SLEEP_US) * 1000L };

    w->config.pipeline->offline(w);
    turns_add(w, 1); /* even: nothing is held */
    nanosleep(&pause, NULL);
    turns_add(w, 1);
    w->config.pipeline->online(w);
}

static bool may_receive(const struct worker *w)
{
    return !w->config.wait_ready || w->config.pipeline->is_ready(w);
}

int worker_main(void *arg)
{
    struct worker *w = arg;
    uint64_t at = rte_rdtsc();

    w->config.pipeline->online(w);
    turns_add(w, 1);
    while (!atomic_load_explicit(&w->stop, memory_order_relaxed)) {
        uint64_t from = at;

        if (may_receive(w) && worker_turn(w) > 0) {
            w->idle_turns = 0;
            at = rte_rdtsc();
            count(&w->busy_cycles, at - from);
            continue;
        }
        if (!w->config.busy_poll && ++w->idle_turns > WORKER_SPIN) {
            rest(w);
        }
        at = rte_rdtsc();
    }
    w->config.pipeline->offline(w);
    turns_add(w, 1);
    return 0;
}

uint64_t worker_busy_ns(const struct worker *w)
{
    unsigned __int128 ns = atomic_load(&w->busy_cycles);

    return (uint64_t)(ns * 1000000000u / w->tsc_hz);
}

void worker_fini(struct worker *w)
{
    rte_pktmbuf_free_bulk(w->answers, w->answer_stock);
    w->answer_stock = 0;
}

uint64_t worker_ticket(const struct worker *w)
{
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load(&w->turns);
}

bool worker_has_passed(const struct worker *w, uint64_t ticket)
{
    return (ticket & 1) == 0 || atomic_load(&w->turns) != ticket;
}
