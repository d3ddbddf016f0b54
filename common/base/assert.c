#include "common/base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void
cadre_assert_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "cadre: bug: %s:%d: %s\n", file, line, condition);
    abort();
}
