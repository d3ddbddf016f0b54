/* What Criterion's own process leaks is no test's fault.
 *
 * Criterion starts every test as a process of its own, with BXFI_MAP in its environment; the
 * process that started it runs no code of Cadre's, and loses 48 bytes when a test takes long. The
 * leak check is left out of that process alone, so every leak in a test still counts. */

#include <stdlib.h>

/* LeakSanitizer's hook (sanitizer/lsan_interface.h): nonzero leaves the check out. Its library
 * finds the function only where the program exports it. */
#pragma GCC visibility push(default)
int __lsan_is_turned_off(void); /* NOLINT(bugprone-reserved-identifier) */
#pragma GCC visibility pop

int
__lsan_is_turned_off(void) /* NOLINT(bugprone-reserved-identifier) */
{
    return getenv("BXFI_MAP") == NULL;
}
