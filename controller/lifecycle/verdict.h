/*
 * verdict - a verdict with its sentence, for the rules of this folder alone.
 */
#pragma once

#include "controller/lifecycle/operation.h"

/* `ret_why` becomes "what: why"; null `why`: "what". */
enum verdict verdict_of(enum verdict v, const char *what, const char *why,
                        char ret_why[OPERATION_TEXT_MAX + 1]);
/* On where the gate was passed, back where it failed. */
enum verdict verdict_of_gate(enum gate g, const char *waits, const char *failed,
                             const char *why, char ret_why[OPERATION_TEXT_MAX + 1]);
