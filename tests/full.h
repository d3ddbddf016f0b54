/*
 * full - whether a test that has a short form runs in its full one: where CADRE_TEST_FULL is set,
 * as by `make check-all`, and so in continuous integration.
 */
#ifndef CADRE_TESTS_FULL_H
#define CADRE_TESTS_FULL_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool
test_is_full(void)
{
    return getenv("CADRE_TEST_FULL") != NULL;
}

#endif
