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

    if (w->outcome == PROBE_KEPT) {
        snprintf(to, PROBE_TEXT_MAX + 1, "kept by the node's control");
    } else if (w->outcome != PROBE_FORWARDED) {
        snprintf(to, PROBE_TEXT_MAX + 1, "drop %s", w->reason);
    } else if (w->is_fallback) {
        snprintf(to, PROBE_TEXT_MAX + 1, "fallback");
    } else {
        ip_print(&w->packet.outer_dst, dst);
        snprintf(to, PROBE_TEXT_MAX + 1, "a packet to %s", dst);
    }
}

/* In which field, where both are packets of ours; else at which byte. */
static void tell_difference(const uint8_t *want, size_t want_len,
                            const struct blob *found, char to[PROBE_TEXT_MAX + 1])
{
    size_t at = VXLAN_PACKET_IP; /* what is before is the link's affair */
    struct vxlan_packet a;
    struct vxlan_packet b;
    struct err err = { 0 };

    if (!vxlan_packet_parse(want, want_len, &a, NULL)) {
        if (vxlan_packet_parse(found->data, found->len, &b, &err)) {
            snprintf(to, PROBE_TEXT_MAX + 1, "%s", err.msg);
            return;
        }
        if (vxlan_packet_differs(&b, &a, to, PROBE_TEXT_MAX + 1)) {
            return;
        }
    }
    while (at < want_len && at < found->len && want[at] == found->data[at]) {
        at++;
    }
    if (at == want_len || at == found->len) {
        snprintf(to, PROBE_TEXT_MAX + 1, "%u bytes, not %zu", found->len, want_len);
    } else {
        snprintf(to, PROBE_TEXT_MAX + 1, "byte %zu is 0x%02x, not 0x%02x", at,
                 found->data[at], want[at]);
    }
}

/* "" when the frame is one that must have come out: of several the first is named. */
static void compare_frame(const struct probe *p, const struct blob *frame,
                          char to[PROBE_TEXT_MAX + 1])
{
    const struct probe_want *w = &p->want;
    uint8_t want[PROBE_FRAME_MAX];

    to[0] = '\0';
    for (unsigned i = w->member_count > 0 ? w->member_count : 1; i > 0; i--) {
        const struct ip *dst =
            w->member_count > 0 ? &w->members[i - 1] : &w->packet.outer_dst;
        size_t len = probe_frame_out(p, dst, want);

        if (len == frame->len && len > VXLAN_PACKET_IP &&
            memcmp(want + VXLAN_PACKET_IP, frame->data + VXLAN_PACKET_IP,
                   len - VXLAN_PACKET_IP) == 0) {
            to[0] = '\0';
            return;
        }
        tell_difference(want, len, frame, to);
    }
}

/* "" when it is what must have come of it. */
static void compare(const struct probe *p, const struct probe_result *found,
                    char to[PROBE_TEXT_MAX + 1])
{
    const struct probe_want *w = &p->want;

    to[0] = '\0';
    switch (found->outcome) {
    case PROBE_FORWARDED:
        if (w->outcome == PROBE_FORWARDED) {
            compare_frame(p, found->frame, to);
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
        if (w->outcome != PROBE_KEPT) {
            snprintf(to, PROBE_TEXT_MAX + 1, "kept by the node's control");
        }
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
    compare(p, found, to);
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

static void print_which(const struct probe *p, char *to, size_t size)
{
    char dst[IP_TEXT_MAX];

    ip_print(&p->sent.dst, dst);
    snprintf(to, size, "vni %u to %s%s%s", p->sent.vni, dst,
             p->twist != TWIST_NONE ? ", " : "",
             p->twist != TWIST_NONE ? twist_rule_of(p->twist)->name : "");
}

enum probe_verdict probe_judge(const struct probe *p, const struct probe_result *found,
                               char why[PROBE_WHY_MAX + 1])
{
    char which[112];
    char want[PROBE_TEXT_MAX + 1];
    char what[PROBE_TEXT_MAX + 1];

    why[0] = '\0';
    print_which(p, which, sizeof(which));
    if (found->rc != RC_OK) {
        snprintf(why, PROBE_WHY_MAX + 1, "%s: %s", which, found->error);
        /* A device that takes none will never take one. */
        return found->rc == RC_NOT_FOUND ? PROBE_DIFFERS : PROBE_SAYS_NOTHING;
    }
    compare(p, found, what);
    if (!what[0]) {
        return PROBE_AGREES;
    }
    probe_print_want(&p->want, want);
    snprintf(why, PROBE_WHY_MAX + 1, "%s: expected %s, found %s", which, want, what);
    return found->outcome == PROBE_DROPPED && is_passing(found->reason)
               ? PROBE_SAYS_NOTHING
               : PROBE_DIFFERS;
}
