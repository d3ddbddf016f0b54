#include "common/base/whole_number.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/status.h"

/* Reads a decimal number from `least` to `most` that is all of `text`; CADRE_EINVALID for anything
 * else. */
int
cadre_whole_number_parse(const char *text, int64_t least, int64_t most, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most) {
        return cadre_fail(CADRE_EINVALID,
                          "\"%.64s\" is not a whole number from %" PRId64 " to %" PRId64, text,
                          least, most);
    }

    *out = value;
    return 0;
}

bool
cadre_whole_number_scan_key(const char *text, uint64_t *key, const char **end)
{
    const bool is_negative = *text == '-';
    const char *digits = text + is_negative;
    if (*digits < '0' || *digits > '9') {
        return false;
    }
    char *behind = NULL;
    errno = 0;
    const uint64_t number =
        is_negative ? (uint64_t)strtoll(text, &behind, 10) : strtoull(text, &behind, 10);
    if (errno) {
        return false;
    }
    *key = number;
    *end = behind;
    return true;
}
