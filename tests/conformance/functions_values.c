/* Native functions of the conformance tests for what stays on workers and what goes from one
 * closure to another: see functions.h. */
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/conformance/functions_invocation.h"

/* --- what stays on a worker --- */

typedef struct {
    int64_t index;
    int64_t count;
} place_t;

/* Gives a whole number as a result. */
static int
give_number(cadre_invocation_t *invocation, const char *name, int64_t number)
{
    cadre_tensor_t value = {.dtype = CADRE_I64, .rank = 0, .data = &number};
    return cadre_invocation_set_result(invocation, name, &value);
}

static int
build_place(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    place_t *place = malloc(sizeof(*place));
    if (!place) {
        return CADRE_EFUNCTION;
    }
    place->index = cadre_invocation_worker_index(invocation);
    place->count = cadre_invocation_worker_count(invocation);
    return cadre_invocation_set_resource(invocation, place, free);
}

static int
tell_place(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const place_t *place = cadre_invocation_resource(invocation, "place");
    if (!place || cadre_invocation_set_resource(invocation, NULL, NULL) != CADRE_ESTATE) {
        return cadre_invocation_fail(invocation, CADRE_EINVALID, "no place");
    }
    int status = give_number(invocation, "built_index", place->index);
    if (status == 0) {
        status = give_number(invocation, "built_count", place->count);
    }
    if (status == 0) {
        status = give_number(invocation, "index", cadre_invocation_worker_index(invocation));
    }
    return status == 0 ? give_number(invocation, "count", cadre_invocation_worker_count(invocation))
                       : status;
}

static int
build_counter(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    _Atomic int64_t *counter = malloc(sizeof(*counter));
    if (!counter) {
        return CADRE_EFUNCTION;
    }
    atomic_init(counter, 0);
    return cadre_invocation_set_resource(invocation, counter, free);
}

static int
count_up(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    _Atomic int64_t *counter = cadre_invocation_resource(invocation, "counter");
    if (!counter) {
        return cadre_invocation_fail(invocation, CADRE_EINVALID, "no counter");
    }
    atomic_fetch_add(counter, 1);
    return give_number(invocation, "index", cadre_invocation_worker_index(invocation));
}

static int
tell_counter(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    _Atomic int64_t *counter = cadre_invocation_resource(invocation, "counter");
    return counter ? give_number(invocation, "count", atomic_load(counter))
                   : cadre_invocation_fail(invocation, CADRE_EINVALID, "no counter");
}

/* Kills the worker unless "started" has more lines than argument "deaths" says. */
static void
die_often(cadre_invocation_t *invocation, const char *started)
{
    const cadre_tensor_t *deaths = cadre_invocation_argument(invocation, "deaths");
    FILE *file = deaths ? fopen(started, "re") : NULL;
    int64_t lines = 0;
    for (int letter = 0; file && (letter = fgetc(file)) != EOF;) {
        lines += letter == '\n';
    }
    if (file) {
        fclose(file);
    }
    if (deaths && lines <= *(const int64_t *)deaths->data) {
        abort();
    }
}

static int
build(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    char path[PATH_MAX];
    float ones[WIDE_ROWS];
    for (int i = 0; i < WIDE_ROWS; i++) {
        ones[i] = 1;
    }
    cadre_tensor_t value = {.dtype = CADRE_F32, .rank = 1, .shape = {WIDE_ROWS}, .data = ones};
    int status = 0;
    if (cadre_invocation_argument(invocation, "started")) {
        find_text(invocation, "started", path);
        status = tell_started(invocation, path);
        die_often(invocation, path);
    }
    if (status == 0 && cadre_invocation_argument(invocation, "release")) {
        find_text(invocation, "release", path);
        while (access(path, F_OK) != 0 && !cadre_invocation_is_cancelled(invocation)) {
            poll(NULL, 0, LOOK_AGAIN_MS);
        }
    }
    return status == 0 ? cadre_invocation_set_result(invocation, "value", &value) : status;
}

static int
push_built(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *ones = NULL;
    int status = find(invocation, "ones.value", &ones);
    return status == 0 ? cadre_invocation_push(invocation, "wide", ones) : status;
}

static int
tell_ones(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *ones = NULL;
    int status = find(invocation, "ones.value", &ones);
    return status == 0 ? give_number(invocation, "count", cadre_tensor_count(ones)) : status;
}

/* --- what stays on a slot, and in the worker --- */

static char remembered[PATH_MAX]; /* the file that is written to at exit */

static void
append(const char *path, const char *line)
{
    int fd = *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    ssize_t written = fd < 0 ? 0 : write(fd, line, strlen(line));
    (void)written; /* the test sees that it is missing */
    if (fd >= 0) {
        close(fd);
    }
}

static void
forget_slot(void *pointer)
{
    int64_t *calls = pointer;
    char line[32];
    snprintf(line, sizeof(line), "slot %d\n", (int)*calls);
    append(remembered, line);
    free(calls);
}

static void
forget_worker(void *pointer)
{
    append(pointer, "worker\n");
}

static int
remember(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    int64_t *calls = cadre_invocation_slot_state(invocation);
    if (!calls) {
        calls = calloc(1, sizeof(*calls));
        cadre_invocation_set_slot_state(invocation, calls, forget_slot);
    }
    (*calls)++;
    return find_text(invocation, "path", remembered);
}

/* --- results of others --- */

static int
echo_when(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    int status = wait_for_release(invocation, true);
    return status == 0 ? give(invocation, "value", "value") : status;
}

static int
push_when(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *gradient = NULL;
    int status = wait_for_release(invocation, true);
    status = status == 0 ? find(invocation, "gradient", &gradient) : status;
    return status == 0 ? cadre_invocation_push(invocation, "wide", gradient) : status;
}

/* --- what an invocation says of itself --- */

static int
tell_seed(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    int status = give_number(invocation, "seed", (int64_t)cadre_invocation_seed(invocation));
    int64_t id = (int64_t)cadre_invocation_closure_id(invocation);
    return status == 0 ? give_number(invocation, "closure", id) : status;
}

int
functions_register_values(cadre_registry_t *registry)
{
    static const struct {
        const char *name;
        cadre_native_t function;
    } functions[] = {
        {"remember", remember},   {"build_place", build_place},   {"tell_place", tell_place},
        {"build", build},         {"push_built", push_built},     {"echo_when", echo_when},
        {"push_when", push_when}, {"tell_ones", tell_ones},       {"build_counter", build_counter},
        {"count_up", count_up},   {"tell_counter", tell_counter}, {"tell_seed", tell_seed},
    };
    int status = cadre_registry_at_exit(registry, forget_worker, remembered);
    for (size_t i = 0; status == 0 && i < sizeof(functions) / sizeof(functions[0]); i++) {
        status = cadre_registry_add(registry, functions[i].name, functions[i].function, NULL);
    }
    return status;
}
