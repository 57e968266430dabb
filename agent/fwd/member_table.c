#include "agent/fwd/member_table.h"

#include "agent/fwd/mix.h"

uint64_t member_seed(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, 64 bits */

    for (const char *p = name; *p; p++) {
        hash = (hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
    }
    return mix(hash ^ MIX_SALT_2, MIX_SALT_3);
}

void member_table_fill(struct member_table *t, const uint64_t seeds[], unsigned count)
{
    for (uint32_t slot = 0; slot < MEMBER_TABLE_SLOTS; slot++) {
        uint64_t place = mix(slot ^ MIX_SALT_0, MIX_SALT_1);
        uint64_t best = 0;
        unsigned pick = 0;

        for (unsigned i = 0; i < count; i++) {
            uint64_t score = mix(place ^ seeds[i], MIX_SALT_0);

            /* Of equal scores the greater seed's, so that the order does not matter. */
            if (i == 0 || score > best || (score == best && seeds[i] > seeds[pick])) {
                best = score;
                pick = i;
            }
        }
        t->slot[slot] = (uint8_t)pick;
    }
}
