/*
 * status - failing with a text.
 *
 * Thread: the text is thread-local, the one thread-local variable of the project: the public call
 *         cadre_error_text() promises it.
 */
#ifndef CADRE_COMMON_BASE_STATUS_H
#define CADRE_COMMON_BASE_STATUS_H

#include <cadre/status.h>

enum { CADRE_ERROR_TEXT_SIZE = 1024 };

/* Keeps the formatted text (cut at CADRE_ERROR_TEXT_SIZE - 1 bytes) as this thread's error text and
 * returns `status`, so that a failing function ends with `return cadre_fail(CADRE_ESHAPE, "...",
 * ...)`. Line breaks become spaces. */
int cadre_fail(int status, const char *format, ...) CADRE_PRINTF(2, 3);

/* Puts a formatted prefix and ": " before this thread's error text and returns `status`: for
 * callers that know something the callee did not, such as the name of the file. */
int cadre_fail_within(int status, const char *format, ...) CADRE_PRINTF(2, 3);

#ifdef __clang_analyzer__
/* clang's analyzer sees one file at a time, and would assume that these functions may return 0. */
#define cadre_fail(status, ...)        (cadre_fail(status, __VA_ARGS__), (status))
#define cadre_fail_within(status, ...) (cadre_fail_within(status, __VA_ARGS__), (status))
#endif

#endif
