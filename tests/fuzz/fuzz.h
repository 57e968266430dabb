/* fuzz - what every fuzz target here shares. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A claim about the code under test: a fuzzer stops at abort() and keeps the input. */
#define FUZZ_CLAIM(claim)                                                              \
    do {                                                                               \
        if (!(claim)) {                                                                \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #claim); \
            abort();                                                                   \
        }                                                                              \
    } while (0)
