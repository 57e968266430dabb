#include "proto/model/telemetry.h"

bool telemetry_text_is_valid(const char *text)
{
    for (; *text; text++) {
        if (*text <= ' ' || *text >= 0x7f || *text == '"' || *text == '\\') {
            return false;
        }
    }
    return true;
}
