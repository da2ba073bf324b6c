// SPDX-License-Identifier: Apache-2.0
/* How every suite runs, also of a program with a main of its own. */
#include <stdlib.h>

#include "support/cuda.h"

/* Check's own limit is four seconds by the clock, which runs on while a test waits for a processor. Cases
 * read it when they are made, before test_main. */
__attribute__((constructor)) static void be_patient(void)
{
    (void)setenv("CK_DEFAULT_TIMEOUT", "60", 0);
}

int test_main(SRunner *runner)
{
    int failed;

    test_forget_statuses();
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
