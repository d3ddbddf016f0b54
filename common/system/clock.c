#include "common/system/clock.h"

#include <stdio.h>
#include <time.h>

#include "common/base/assert.h"

int64_t
cadre_clock_now_us(void)
{
    struct timespec now = {0};
    int rc = clock_gettime(CLOCK_MONOTONIC, &now);
    cadre_assert(rc == 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t
cadre_clock_now_ms(void)
{
    return cadre_clock_now_us() / 1000;
}

static struct timespec
wall(void)
{
    struct timespec now = {0};
    int rc = clock_gettime(CLOCK_REALTIME, &now);
    cadre_assert(rc == 0);
    return now;
}

/* Writes the wall clock as "2025-01-31T12:34:56.789Z"; returns `text`. */
const char *
cadre_clock_utc_text(char *text)
{
    struct timespec now = wall();
    struct tm date = {0};
    gmtime_r(&now.tv_sec, &date);
    size_t at = strftime(text, CADRE_CLOCK_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &date);
    snprintf(text + at, CADRE_CLOCK_TEXT_SIZE - at, ".%03dZ", (int)(now.tv_nsec / 1000000 % 1000));
    return text;
}

/* Writes the wall clock in the local time zone as "12:34:56.789"; returns `text`. */
const char *
cadre_clock_local_text(char *text)
{
    struct timespec now = wall();
    struct tm date = {0};
    localtime_r(&now.tv_sec, &date);
    size_t at = strftime(text, CADRE_CLOCK_TEXT_SIZE, "%H:%M:%S", &date);
    snprintf(text + at, CADRE_CLOCK_TEXT_SIZE - at, ".%03d", (int)(now.tv_nsec / 1000000 % 1000));
    return text;
}
