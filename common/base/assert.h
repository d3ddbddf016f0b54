/*
 * assert - for our own bugs, on in every build. Never on bytes from the wire, disk, command line or
 * environment.
 */
#ifndef CADRE_COMMON_BASE_ASSERT_H
#define CADRE_COMMON_BASE_ASSERT_H

#define cadre_assert(condition)                                                                    \
    ((condition) ? (void)0 : cadre_assert_failed(#condition, __FILE__, __LINE__))

/* Prints the condition and its place to stderr and aborts. */
_Noreturn void cadre_assert_failed(const char *condition, const char *file, int line);

#endif
