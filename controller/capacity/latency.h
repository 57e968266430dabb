/*
 * latency - how long a packet is under way in a software gateway.
 *
 * Three things make it.  *Batches*: a worker that sends only full batches waits until
 * one is full; at a fixed rate more cores mean less for each, so batches fill more
 * slowly and the median grows linearly with the number of cores.  *Flush*: a timer
 * sends what is there, so the wait has a plateau, which the p99 reaches first.
 * *Interrupts*: now and then the core is away, which is the tail.  A worker that sends
 * what it has (ours) has a batch of 1.
 *
 * Values only; any thread.
 */
#pragma once

struct latency_params {
    double fixed_ns;      /* wire, NIC, driver */
    double service_ns;    /* a packet's work: cycles ÷ Hz */
    double batch;         /* packets that a worker collects before it sends; 1: none */
    double flush_ns;      /* sends an unfinished batch; 0: never */
    double interrupts_hz; /* a core's, each of */
    double interrupt_ns;  /* mean length, exponentially distributed */
};

/* The latency below which a share `q` of the packets stays (0 <= q < 1), in ns, at
 * `rate_pps` over so many cores, evenly spread.  INFINITY at or above the cores'
 * capacity. */
double latency_quantile(const struct latency_params *p, double rate_pps, unsigned cores,
                        double q);
