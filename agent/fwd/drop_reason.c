#include "agent/fwd/drop_reason.h"

#include <stddef.h>

static const char *const names[DROP_COUNT] = { [DROP_NONE] = "none",
#define X(id, name) [DROP_##id] = (name),
                                               DROP_REASONS(X)
#undef X
};

const char *drop_reason_name(unsigned reason)
{
    return reason < DROP_COUNT ? names[reason] : NULL;
}
