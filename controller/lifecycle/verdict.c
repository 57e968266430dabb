#include "controller/lifecycle/verdict.h"

#include <stdio.h>

enum verdict verdict_of(enum verdict v, const char *what, const char *why,
                        char ret_why[OPERATION_TEXT_MAX + 1])
{
    snprintf(ret_why, OPERATION_TEXT_MAX + 1, "%s%s%s", what, why ? ": " : "",
             why ? why : "");
    return v;
}

enum verdict verdict_of_gate(enum gate g, const char *waits, const char *failed,
                             const char *why, char ret_why[OPERATION_TEXT_MAX + 1])
{
    switch (g) {
    case GATE_PASSED:
        return verdict_of(VERDICT_GOES_ON, "", NULL, ret_why);
    case GATE_FAILED:
        return verdict_of(VERDICT_GOES_BACK, failed, why, ret_why);
    default:
        return verdict_of(VERDICT_STAYS, waits, why, ret_why);
    }
}
