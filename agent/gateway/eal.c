#include "agent/gateway/eal.h"

#include "agent/gateway/dpdk.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ARGS_MAX 32
#define ARG_SIZE 320

struct args {
    char text[ARGS_MAX][ARG_SIZE];
    char *list[ARGS_MAX + 1];
    int count;
};

static void add(struct args *a, const char *arg)
{
    snprintf(a->text[a->count], ARG_SIZE, "%s", arg);
    a->list[a->count] = a->text[a->count];
    a->count++;
}

/* The kernel's word on huge pages of 2 MiB that are free. */
static unsigned long free_hugepages(void)
{
    FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
    unsigned long pages = 0;

    if (f) {
        if (fscanf(f, "%lu", &pages) != 1) {
            pages = 0;
        }
        fclose(f);
    }
    return pages;
}

static void add_memory(struct args *a, const struct options *o)
{
    char size[16];
    bool huge =
        o->hugepages == HUGEPAGES_ON ||
        (o->hugepages == HUGEPAGES_AUTO && free_hugepages() * 2 >= o->memory_mb + 2);

    snprintf(size, sizeof(size), "%u", o->memory_mb);
    add(a, huge ? "--in-memory" : "--no-huge");
    add(a, "-m");
    add(a, size);
}

/* "0@C" for the control thread, then one lcore a worker.  Without --cores the workers
 * take the last cores that the process may use, shared if there are too few. */
static enum rc add_cores(struct args *a, const struct options *o, struct err *err)
{
    int cores[CPU_SETSIZE];
    int count = 0;
    cpu_set_t set;
    char text[ARG_SIZE] = "";
    size_t used;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return err_set(err, RC_UNREACHABLE, "cannot read the process' cores");
    }
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &set)) {
            cores[count++] = core;
        }
    }
    used = (size_t)snprintf(text, sizeof(text), "0@%d", cores[0]);
    for (uint32_t w = 0; o->cores[0] == '\0' && w < o->workers; w++) {
        int core = cores[count - 1 - (int)(w % (unsigned)count)];

        used +=
            (size_t)snprintf(text + used, sizeof(text) - used, ",%u@%d", w + 1, core);
    }
    if (o->cores[0] != '\0') {
        used += (size_t)snprintf(text + used, sizeof(text) - used, ",(1-%u)@(%s)",
                                 o->workers, o->cores);
    }
    if (used >= sizeof(text)) {
        return err_field(err, RC_RANGE, "workers", "cores", "too many to name");
    }
    add(a, "--lcores");
    add(a, text);
    return RC_OK;
}

static enum rc add_devices(struct args *a, const struct port_spec *specs,
                           unsigned count, struct err *err)
{
    bool has_pci = false;

    for (unsigned i = 0; i < count; i++) {
        char arg[ARG_SIZE];
        enum rc rc = port_spec_eal(&specs[i], i, arg, sizeof(arg), err);

        if (rc != RC_OK) {
            return rc;
        }
        has_pci |= strncmp(arg, "--allow", 7) == 0;
        add(a, arg);
    }
    if (!has_pci) {
        add(a, "--no-pci");
    }
    return RC_OK;
}

enum rc eal_start(const struct options *o, const struct port_spec *specs,
                  unsigned count, struct err *err)
{
    struct args a = { .count = 0 };
    char prefix[ARG_SIZE];
    enum rc rc;

    add(&a, "xgw-gateway");
    add_memory(&a, o);
    add(&a, "--no-shconf");
    add(&a, "--no-telemetry");
    add(&a, "--log-level=lib.eal:warning");
    snprintf(prefix, sizeof(prefix), "--file-prefix=xgw%d", (int)getpid());
    add(&a, prefix);
    rc = add_cores(&a, o, err);
    rc = rc == RC_OK ? add_devices(&a, specs, count, err) : rc;
    if (rc != RC_OK) {
        return rc;
    }
    if (rte_eal_init(a.count, a.list) < 0) {
        return err_set(err, RC_UNREACHABLE,
                       "DPDK does not start: %s (its own lines above say more)",
                       rte_strerror(rte_errno));
    }
    return RC_OK;
}

void eal_stop(void)
{
    rte_eal_cleanup();
}
