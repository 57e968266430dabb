/* judge: whether what came out is what must have come out. */
#include "controller/probe/probe.h"

#include <stdio.h>
#include <string.h>

/* What says that the node could not just then, and nothing of its entries. */
static bool is_passing(const char *reason)
{
    static const char *const reasons[] = { "not_ready",        "no_buffer",
                                           "no_uplink",        "next_hop_unresolved",
                                           "meter_red",        "fallback_service_red",
                                           "fallback_miss_red" };

    for (unsigned i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (strcmp(reason, reasons[i]) == 0) {
            return true;
        }
    }
    return false;
}

void probe_print_want(const struct probe_want *w, char to[PROBE_TEXT_MAX + 1])
{
    char dst[IP_TEXT_MAX];

    if (w->outcome != PROBE_FORWARDED) {
        snprintf(to, PROBE_TEXT_MAX + 1, "drop %s", w->reason);
    } else if (w->is_fallback) {
        snprintf(to, PROBE_TEXT_MAX + 1, "fallback");
    } else {
        ip_print(&w->packet.outer_dst, dst);
        snprintf(to, PROBE_TEXT_MAX + 1, "a packet to %s", dst);
    }
}

/* "" when the frame is the one that must have come out. */
static void compare_frame(const struct probe_want *w, const struct blob *frame,
                          char *to, size_t size)
{
    struct vxlan_packet want = w->packet;
    struct vxlan_packet got;
    struct err err = { 0 };

    to[0] = '\0';
    if (vxlan_packet_parse(frame->data, frame->len, &got, &err)) {
        snprintf(to, size, "%s", err.msg);
        return;
    }
    for (unsigned i = 0; i < w->member_count; i++) {
        if (ip_compare(&got.outer_dst, &w->members[i]) == 0) {
            want.outer_dst = w->members[i];
        }
    }
    (void)vxlan_packet_differs(&got, &want, to, size);
}

/* "" when it is what must have come of it. */
static void compare(const struct probe_want *w, const struct probe_result *found,
                    char to[PROBE_TEXT_MAX + 1])
{
    to[0] = '\0';
    switch (found->outcome) {
    case PROBE_FORWARDED:
        if (w->outcome == PROBE_FORWARDED) {
            compare_frame(w, found->frame, to, PROBE_TEXT_MAX + 1);
        } else {
            snprintf(to, PROBE_TEXT_MAX + 1, "a packet");
        }
        break;
    case PROBE_DROPPED:
        if (w->outcome != PROBE_DROPPED || strcmp(w->reason, found->reason) != 0) {
            snprintf(to, PROBE_TEXT_MAX + 1, "drop %s", found->reason);
        }
        break;
    default:
        snprintf(to, PROBE_TEXT_MAX + 1, "kept by the node's control");
    }
}

void probe_print_found(const struct probe *p, const struct probe_result *found,
                       char to[PROBE_TEXT_MAX + 1])
{
    struct vxlan_packet got;
    char dst[IP_TEXT_MAX];

    if (found->rc != RC_OK) {
        snprintf(to, PROBE_TEXT_MAX + 1, "%s", found->error);
        return;
    }
    compare(&p->want, found, to);
    if (to[0]) {
        return;
    }
    probe_print_want(&p->want, to);
    if (p->want.is_fallback && vxlan_packet_parse(found->frame->data, found->frame->len,
                                                  &got, NULL) == RC_OK) {
        ip_print(&got.outer_dst, dst);
        snprintf(to, PROBE_TEXT_MAX + 1, "fallback to %s", dst);
    }
}

enum probe_verdict probe_judge(const struct probe *p, const struct probe_result *found,
                               char why[PROBE_WHY_MAX + 1])
{
    char dst[IP_TEXT_MAX];
    char want[PROBE_TEXT_MAX + 1];
    char what[PROBE_TEXT_MAX + 1];

    why[0] = '\0';
    ip_print(&p->sent.dst, dst);
    if (found->rc != RC_OK) {
        snprintf(why, PROBE_WHY_MAX + 1, "vni %u to %s: %s", p->sent.vni, dst,
                 found->error);
        /* A device that takes none will never take one. */
        return found->rc == RC_NOT_FOUND ? PROBE_DIFFERS : PROBE_SAYS_NOTHING;
    }
    compare(&p->want, found, what);
    if (!what[0]) {
        return PROBE_AGREES;
    }
    probe_print_want(&p->want, want);
    snprintf(why, PROBE_WHY_MAX + 1, "vni %u to %s: expected %s, found %s", p->sent.vni,
             dst, want, what);
    return found->outcome == PROBE_DROPPED && is_passing(found->reason)
               ? PROBE_SAYS_NOTHING
               : PROBE_DIFFERS;
}
