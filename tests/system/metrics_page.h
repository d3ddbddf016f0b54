/*
 * metrics_page - what a task of a test answers over HTTP: where it listens, and figures of it.
 *
 * Owner:   a test.
 * Thread:  any.
 */
#ifndef CADRE_TESTS_SYSTEM_METRICS_PAGE_H
#define CADRE_TESTS_SYSTEM_METRICS_PAGE_H

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "tests/common/http_client.h"
#include "tests/system/scratch.h"

enum { PAGE_WAIT_MS = 100000 };

/* The number behind the last colon of the first word that begins with `before` in a file; waits for
 * it. */
static inline int
page_port(const char *path, const char *before)
{
    for (deadline_t deadline = deadline_in(PAGE_WAIT_MS);;) {
        cadre_auto(cadre_free) char *text = file_text(path);
        const char *at = strstr(text, before);
        const char *end = at ? strpbrk(at += strlen(before), "\" \n") : NULL;
        if (end) {
            cadre_auto(cadre_free) char *address = cadre_strndup(at, (size_t)(end - at));
            const char *port = strrchr(address, ':');
            cr_assert(port, "%s", address);
            return (int)strtol(port + 1, NULL, 10);
        }
        cr_assert(again(deadline), "%s says no \"%s\": %s", path, before, text);
    }
}

/* Where a task listens, as the log in this file says. */
static inline int
page_port_of_log(const char *path)
{
    return page_port(path, "\"http_listening\",\"address\":\"");
}

/* Waits until a file has these words in it. */
static inline void
page_wait_said(const char *path, const char *words)
{
    for (deadline_t deadline = deadline_in(PAGE_WAIT_MS);;) {
        cadre_auto(cadre_free) char *text = file_text(path);
        if (strstr(text, words)) {
            return;
        }
        cr_assert(again(deadline), "%s says no %s: %s", path, words, text);
    }
}

/* Answers of /readyz and /livez must be these. */
static inline void
page_expect(int port, const char *path, int code, const char *words)
{
    cadre_auto(http_answer_fini) http_answer_t answer = http_ask(port, "GET", path);
    cr_expect_eq(answer.code, code, "%s: %d %s", path, answer.code, answer.body);
    cr_expect(strstr(answer.body, words), "%s: \"%s\" is not \"%s\"", path, answer.body, words);
}

/* Waits until they are. */
static inline void
page_wait(int port, const char *path, int code, const char *words)
{
    for (deadline_t deadline = deadline_in(PAGE_WAIT_MS);;) {
        cadre_auto(http_answer_fini) http_answer_t answer = http_ask(port, "GET", path);
        if (answer.code == code && strstr(answer.body, words)) {
            return;
        }
        cr_assert(again(deadline), "%s stays %d \"%s\", not %d \"%s\"", path, answer.code,
                  answer.body, code, words);
    }
}

/* The figures, freed by the caller. */
static inline char *
page_metrics(int port)
{
    cadre_auto(http_answer_fini) http_answer_t answer = http_ask(port, "GET", "/metrics");
    cr_assert_eq(answer.code, 200, "%d", answer.code);
    return cadre_strdup(answer.body);
}

/* All samples of a family whose line has `part` in it, added up; it must have some. `family` ends
 * with a space or a brace. */
static inline double
page_sum(const char *text, const char *family, const char *part)
{
    double sum = 0;
    int count = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n') + 1) {
        cadre_auto(cadre_free) char *copy = cadre_strndup(line, strcspn(line, "\n"));
        if (strncmp(copy, family, strlen(family)) == 0 && strstr(copy, part)) {
            sum += strtod(strrchr(copy, ' '), NULL);
            count++;
        }
    }
    cr_assert_gt(count, 0, "%s...%s: %s", family, part, text);
    return sum;
}

static inline double
page_value(const char *text, const char *name)
{
    cadre_auto(cadre_free) char *family = cadre_asprintf("%s ", name);
    return page_sum(text, family, "");
}

#endif
