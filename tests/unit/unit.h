/* unit - the few lines that every libcheck program here shares. */
#pragma once

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Runs one case and ends with the exit code that ctest reads.  CK_FORK and CK_RUN_CASE
 * work as libcheck documents them. */
static inline int unit_run(const char *name, TCase *tc)
{
    Suite *suite = suite_create(name);
    SRunner *runner = srunner_create(suite);
    int failed;

    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
