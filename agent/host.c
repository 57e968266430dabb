#include "agent/host.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define KIB 1024u

static struct device_reading *add(struct host *h)
{
    return h->count < HOST_READINGS_MAX ? &h->readings[h->count++] : NULL;
}

static void add_load(struct host *h, const char *resource, uint64_t used, uint64_t all)
{
    struct device_reading *r = add(h);

    if (r) {
        *r = (struct device_reading){ .part = "",
                                      .resource = resource,
                                      .kind = READING_LOAD,
                                      .value = used,
                                      .capacity = all };
    }
}

static void read_memory(struct host *h)
{
    FILE *f = fopen("/proc/meminfo", "re");
    uint64_t total = 0;
    uint64_t available = 0;
    char line[128];

    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "MemTotal: %" SCNu64, &total) != 1) {
            sscanf(line, "MemAvailable: %" SCNu64, &available);
        }
    }
    if (f) {
        fclose(f);
    }
    if (total > 0 && available <= total) {
        add_load(h, "memory", (total - available) * KIB, total * KIB);
    }
}

static void read_disk(struct host *h)
{
    struct statvfs fs;

    if (statvfs("/", &fs) == 0 && fs.f_blocks > 0) {
        /* As df reckons: what is kept for root is not there for us. */
        uint64_t used = fs.f_blocks - fs.f_bfree;

        add_load(h, "disk", used * fs.f_frsize, (used + fs.f_bavail) * fs.f_frsize);
    }
}

/* proc(5): user nice system idle iowait irq softirq steal, in ticks. */
static void read_core(struct host *h, const char *line, uint64_t tick_ns)
{
    uint64_t t[8] = { 0 };
    struct device_reading *r;
    unsigned core;
    char *name;

    if (sscanf(line,
               "cpu%u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %" SCNu64 " %" SCNu64,
               &core, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) < 5 ||
        core >= HOST_CORES_MAX) {
        return;
    }
    name = h->cores[core];
    snprintf(name, sizeof(h->cores[0]), "core/cpu%u", core);
    r = add(h);
    if (r) {
        *r = (struct device_reading){
            .part = name,
            .resource = "busy",
            .kind = READING_FIGURE,
            .is_counter = true,
            .value = (t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) * tick_ns,
            .capacity = 1000000000u
        };
    }
}

static void read_cores(struct host *h)
{
    FILE *f = fopen("/proc/stat", "re");
    uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
    char line[256];

    while (f && fgets(line, sizeof(line), f)) {
        read_core(h, line, tick_ns);
    }
    if (f) {
        fclose(f);
    }
}

void host_read(struct host *h, bool with_cores)
{
    h->count = 0;
    read_memory(h);
    read_disk(h);
    if (with_cores) {
        read_cores(h);
    }
}
