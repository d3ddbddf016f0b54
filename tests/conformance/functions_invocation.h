/*
 * functions_invocation - what native functions of the conformance tests begin and end with.
 *
 * Thread: that of the function.
 */
#ifndef CADRE_TESTS_CONFORMANCE_FUNCTIONS_INVOCATION_H
#define CADRE_TESTS_CONFORMANCE_FUNCTIONS_INVOCATION_H

#include <cadre/worker.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/conformance/functions.h"

enum { LOOK_AGAIN_MS = 2 };

static inline int
push_all(cadre_invocation_t *invocation, float value)
{
    float values[WIDE_ROWS];
    for (int i = 0; i < WIDE_ROWS; i++) {
        values[i] = value;
    }
    cadre_tensor_t gradient = {.dtype = CADRE_F32, .rank = 1, .shape = {WIDE_ROWS}, .data = values};
    return cadre_invocation_push(invocation, "wide", &gradient);
}

/* The argument `name`, or a failure that says that it is missing. */
static inline int
find(cadre_invocation_t *invocation, const char *name, const cadre_tensor_t **argument)
{
    *argument = cadre_invocation_argument(invocation, name);
    return *argument ? 0
                     : cadre_invocation_fail(invocation, CADRE_EINVALID, "no argument %s", name);
}

/* The text of the u8 argument `name`, cut to PATH_MAX - 1 characters. */
static inline int
find_text(cadre_invocation_t *invocation, const char *name, char text[PATH_MAX])
{
    const cadre_tensor_t *argument = NULL;
    int status = find(invocation, name, &argument);
    if (status == 0) {
        snprintf(text, PATH_MAX, "%.*s", (int)cadre_tensor_count(argument),
                 (const char *)argument->data);
    }
    return status;
}

static inline int
tell_started(cadre_invocation_t *invocation, const char *path)
{
    char line[32];
    int length =
        snprintf(line, sizeof(line), "worker %u\n", cadre_invocation_worker_index(invocation));
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)length) != length) {
        return cadre_invocation_fail(invocation, CADRE_EIO, "%s cannot be written", path);
    }
    close(fd);
    return 0;
}

/* Writes a line to the file named by "started" and waits for the one named by "release". */
static inline int
wait_for_release(cadre_invocation_t *invocation, bool heeds_cancellation)
{
    char started[PATH_MAX];
    char release[PATH_MAX];
    int status = find_text(invocation, "started", started);
    if (status == 0) {
        status = find_text(invocation, "release", release);
    }
    if (status == 0) {
        status = tell_started(invocation, started);
    }
    while (status == 0 && access(release, F_OK) != 0) {
        if (heeds_cancellation && cadre_invocation_is_cancelled(invocation)) {
            return CADRE_ECANCELLED;
        }
        poll(NULL, 0, LOOK_AGAIN_MS);
    }
    return status;
}

/* Gives the argument back as a result. */
static inline int
give(cadre_invocation_t *invocation, const char *argument, const char *result)
{
    const cadre_tensor_t *value = NULL;
    int status = find(invocation, argument, &value);
    return status == 0 ? cadre_invocation_set_result(invocation, result, value) : status;
}

/* Registers the functions of functions_values.c. */
int functions_register_values(cadre_registry_t *registry);

#endif
