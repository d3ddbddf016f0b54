#include "common/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"

/* status.h makes these names macros for the static analyzer; here the functions are defined. */
#undef cadre_fail
#undef cadre_fail_within

static _Thread_local char error_text[CADRE_ERROR_TEXT_SIZE];

/* Returns the text of a status, from the list of all statuses (CADRE_STATUS_LIST). */
const char *
cadre_status_text(int status)
{
    switch (status) {
#define CASE(name, number, text)                                                                   \
    case number:                                                                                   \
        return text;
        CADRE_STATUS_LIST(CASE)
#undef CASE
    }
    return "unknown status";
}

/* Returns a status as the name of its constant, such as "CADRE_EINVALID". */
const char *
cadre_status_name(int status)
{
    switch (status) {
#define CASE(name, number, text)                                                                   \
    case number:                                                                                   \
        return #name;
        CADRE_STATUS_LIST(CASE)
#undef CASE
    }
    return "CADRE_E?";
}

const char *
cadre_error_text(void)
{
    return error_text;
}

/* Keeps a text as this thread's error text, cut and cleaned to valid UTF-8 without control
 * characters. */
static void
keep(const char *text)
{
    cadre_utf8_clean(text, sizeof(error_text) - 1, error_text);
}

/* Keeps the formatted text as this thread's error text, and returns `status`. */
int
cadre_fail(int status, const char *format, ...)
{
    char text[CADRE_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    keep(text);
    return status;
}

/* Puts a formatted prefix and ": " before this thread's error text, and returns `status`. */
int
cadre_fail_within(int status, const char *format, ...)
{
    char text[2 * CADRE_ERROR_TEXT_SIZE];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(text, CADRE_ERROR_TEXT_SIZE, format, arguments);
    va_end(arguments);
    if (length < 0) {
        length = 0;
    }

    size_t at = (size_t)length < CADRE_ERROR_TEXT_SIZE ? (size_t)length : CADRE_ERROR_TEXT_SIZE - 1;
    snprintf(text + at, sizeof(text) - at, ": %s", error_text);
    keep(text);
    return status;
}
