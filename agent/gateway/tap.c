#include "agent/gateway/tap.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_MAX    9234
#define FRAMES_A_RUN 32 /* then the loop's other work */

struct tap {
    int fd;
    struct event *event;
    unsigned port;
    tap_frame_fn *on_frame;
    void *arg;
};

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct tap *t = arg;
    uint8_t frame[FRAME_MAX];

    (void)what;
    for (int i = 0; i < FRAMES_A_RUN; i++) {
        ssize_t len = read(fd, frame, sizeof(frame));

        if (len <= 0) {
            return;
        }
        t->on_frame(t->arg, t->port, frame, (size_t)len);
    }
}

/* The interface has the port's MAC, so that what is addressed to the port is its. */
static int bring_up(const char *name, const uint8_t mac[6])
{
    struct ifreq req = { 0 };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int rc = fd < 0 ? -1 : 0;

    snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
    if (rc == 0) {
        req.ifr_hwaddr.sa_family = ARPHRD_ETHER;
        memcpy(req.ifr_hwaddr.sa_data, mac, 6);
        rc = ioctl(fd, SIOCSIFHWADDR, &req);
    }
    if (rc == 0) {
        rc = ioctl(fd, SIOCGIFFLAGS, &req);
    }
    if (rc == 0) {
        req.ifr_flags = (short)(req.ifr_flags | IFF_UP);
        rc = ioctl(fd, SIOCSIFFLAGS, &req);
    }
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

enum rc tap_new(struct event_base *base, const char *name, const uint8_t mac[6],
                unsigned port, tap_frame_fn *on_frame, void *arg, struct tap **ret,
                struct err *err)
{
    struct ifreq req = { 0 };
    struct tap *t = calloc(1, sizeof(*t));

    if (!t) {
        return err_set(err, RC_NO_MEMORY, "tap %s: no memory", name);
    }
    t->port = port;
    t->on_frame = on_frame;
    t->arg = arg;
    req.ifr_flags = IFF_TAP | IFF_NO_PI;
    snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
    t->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (t->fd < 0 || ioctl(t->fd, TUNSETIFF, &req) != 0 || bring_up(name, mac) != 0) {
        err_set(err, RC_UNREACHABLE, "tap %s: %s", name, strerror(errno));
        tap_free(t);
        return RC_UNREACHABLE;
    }
    t->event = event_new(base, t->fd, EV_READ | EV_PERSIST, on_readable, t);
    if (!t->event || event_add(t->event, NULL) != 0) {
        tap_free(t);
        return err_set(err, RC_NO_MEMORY, "tap %s: no memory", name);
    }
    *ret = t;
    return RC_OK;
}

void tap_free(struct tap *t)
{
    if (!t) {
        return;
    }
    if (t->event) {
        event_free(t->event);
    }
    if (t->fd >= 0) {
        close(t->fd);
    }
    free(t);
}

void tap_send(struct tap *t, const uint8_t *frame, size_t len)
{
    ssize_t written = write(t->fd, frame, len);

    (void)written;
}
