/* Workers forward while the writer moves everything that one packet needs: partition,
 * VM-NC entry, NC index, each made before the old one is broken and the old NC index
 * given to somebody else.  Every packet has to reach its NC all the time. */
#include "tests/unit/unit.h"

#include "tests/unit/agent/fwdh/rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define OTHER 0xac100909u /* who gets its old index */

enum { READERS = 2, BURST = 32, FRAME = RIG_FRAME, ROOM = 32, ROUNDS = 3000 };

static struct hswitch *s;
static atomic_bool done;
static atomic_uint bursts;
static atomic_uint wrong;

static void *forward(void *arg)
{
    struct hworker *w = arg;
    uint8_t frame[FRAME];
    uint8_t buffer[BURST][ROOM + FRAME];
    struct fwd_packet p[BURST];

    rig_frame(frame);
    hworker_online(s, w);
    while (!atomic_load(&done)) {
        for (unsigned i = 0; i < BURST; i++) {
            memcpy(buffer[i] + ROOM, frame, FRAME);
            p[i] = (struct fwd_packet){ .data = buffer[i] + ROOM,
                                        .length = FRAME,
                                        .headroom = ROOM };
        }
        fwdh_burst(s, w, 1, p, BURST);
        for (unsigned i = 0; i < BURST; i++) {
            if (p[i].verdict != FWD_FORWARD || load_be32(p[i].data + 30) != RIG_NC) {
                atomic_fetch_add(&wrong, 1);
            }
        }
        atomic_fetch_add(&bursts, 1);
        hworker_quiescent(s, w);
    }
    hworker_offline(w);
    return NULL;
}

static void step(enum phys_op op, struct phys_entry e)
{
    rig_write(s, op, e);
    rig_publish(s); /* each a request of its own */
}

START_TEST(what_moves_step_by_step_is_never_missed_and_never_somebody_elses)
{
    const struct hswitch_port port = { .mtu = 1500 };
    pthread_t thread[READERS];
    unsigned part = 1;
    uint32_t index = 20;
    enum phys_table table = PHYS_VM_NC;

    s = rig_new(READERS, &port);
    for (unsigned i = 0; i < READERS; i++) {
        ck_assert_int_eq(pthread_create(&thread[i], NULL, forward, &s->workers[i]), 0);
    }
    for (unsigned round = 0; round < ROUNDS || atomic_load(&bursts) < 1000; round++) {
        unsigned to_part = 3 - part;
        uint32_t to_index = 41 - index;
        enum phys_table to_table = table == PHYS_VM_NC ? PHYS_VM_NC_SPILL : PHYS_VM_NC;

        step(PHYS_INSERT, rig_local(to_part));
        step(PHYS_MODIFY, rig_tcam(to_part));
        step(PHYS_DELETE, rig_local(part));
        step(PHYS_INSERT, rig_vm(to_table, index));
        step(PHYS_DELETE, rig_vm(table, index));
        step(PHYS_INSERT, rig_nc(to_index, RIG_NC));
        step(PHYS_MODIFY, rig_vm(to_table, to_index));
        step(PHYS_DELETE, rig_nc(index, 0));
        step(PHYS_INSERT, rig_nc(index, OTHER));
        step(PHYS_DELETE, rig_nc(index, 0));
        part = to_part;
        index = to_index;
        table = to_table;
    }
    atomic_store(&done, true);
    for (unsigned i = 0; i < READERS; i++) {
        pthread_join(thread[i], NULL);
    }
    ck_assert_uint_eq(atomic_load(&wrong), 0);
    (void)hswitch_reclaim(s);
    ck_assert(!hswitch_reclaim(s));
    hswitch_free(s);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("readers");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc,
                   what_moves_step_by_step_is_never_missed_and_never_somebody_elses);
    return unit_run("readers", tc);
}
