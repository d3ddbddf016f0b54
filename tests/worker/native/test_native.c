/* Native functions for tests: a shared object as a worker's operator would load. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cadre/worker.h>

/* A file that does not come back while it is loaded, when the test asks for that. */
static void __attribute__((constructor)) hang_while_loading(void)
{
    if (getenv("CADRE_TEST_NATIVE_HANGS")) {
        (void)!write(1, "hangs", 5);
        for (;;) {
            poll(NULL, 0, 1000);
        }
    }
}

static float ones_data[] = {1, 1, 1, 1};
static const cadre_tensor_t ones = {.dtype = CADRE_F32, .rank = 1, .shape = {4}, .data = ones_data};

/* Adds 1 to every element of w. */
static int
add_one(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    return cadre_invocation_push(invocation, "w", &ones);
}

/* Three steps; result "seen": the first element of w as pulled before each. */
static int
three_steps(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    float seen[3] = {-1, -1, -1};
    for (int i = 0; i < 3; i++) {
        const cadre_tensor_t *w = NULL;
        int status = cadre_invocation_pull(invocation, "w", &w);
        if (status < 0) {
            return status;
        }
        seen[i] = ((const float *)w->data)[0];
        status = cadre_invocation_push(invocation, "w", &ones);
        status = status < 0 ? status : cadre_invocation_flush(invocation);
        if (status < 0) {
            return cadre_invocation_fail(invocation, status, "step %d failed", i);
        }
    }
    cadre_tensor_t result = {.dtype = CADRE_F32, .rank = 1, .shape = {3}, .data = seen};
    return cadre_invocation_set_result(invocation, "seen", &result);
}

/* One step more than it was scheduled with, and success whatever happened. */
static int
hides_a_failed_push(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        cadre_invocation_push(invocation, "w", &ones);
        cadre_invocation_flush(invocation);
    }
    return 0;
}

static int
fails(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    cadre_invocation_push(invocation, "w", &ones); /* must not arrive */
    return cadre_invocation_fail(invocation, CADRE_EFUNCTION, "reason %d", 7);
}

/* Until it is cancelled. */
static int
waits(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    while (!cadre_invocation_is_cancelled(invocation)) {
        poll(NULL, 0, 1);
    }
    return CADRE_ECANCELLED;
}

/* For a while, whether it is cancelled or not; then adds 1 to every element of w. */
static int
slow(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    poll(NULL, 0, 300);
    return cadre_invocation_push(invocation, "w", &ones);
}

/* Never ends. */
static int
hangs(cadre_invocation_t *invocation, void *state)
{
    (void)invocation, (void)state;
    while (poll(NULL, 0, 1000) == 0) {
    }
    return CADRE_EFUNCTION;
}

/* Argument "a" as result "a"; worker index and closure id as result "who". */
static int
echoes(cadre_invocation_t *invocation, void *state)
{
    const cadre_tensor_t *a = cadre_invocation_argument(invocation, "a");
    if (!a || cadre_invocation_argument(invocation, "b") || strcmp(state, "state") != 0) {
        return cadre_invocation_fail(invocation, CADRE_EINVALID, "wrong arguments");
    }
    uint64_t data[] = {cadre_invocation_worker_index(invocation),
                       cadre_invocation_closure_id(invocation), cadre_invocation_seed(invocation)};
    cadre_tensor_t who = {.dtype = CADRE_U64, .rank = 1, .shape = {3}, .data = data};
    int status = cadre_invocation_set_result(invocation, "who", &who);
    status = status < 0 ? status : cadre_invocation_set_result(invocation, "a", &who);
    return status < 0 ? status
                      : cadre_invocation_set_result(invocation, "a", a); /* takes its place */
}

/* Every mistake gets its status, and none of them spoils the update. */
static int
mistakes(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *w = NULL;
    cadre_tensor_t bad = ones;
    bad.shape[0] = 3;
    if (cadre_invocation_push(invocation, "w", &bad) != CADRE_ESHAPE) {
        return cadre_invocation_fail(invocation, CADRE_EFUNCTION, "shape");
    }
    bad = ones;
    bad.dtype = CADRE_I32;
    if (cadre_invocation_push(invocation, "w", &bad) != CADRE_EDTYPE) {
        return cadre_invocation_fail(invocation, CADRE_EFUNCTION, "dtype");
    }
    if (cadre_invocation_push(invocation, "v", &ones) != CADRE_ENOTFOUND ||
        cadre_invocation_pull(invocation, "v", &w) != CADRE_ENOTFOUND) {
        return cadre_invocation_fail(invocation, CADRE_EFUNCTION, "unknown variable");
    }
    if (cadre_invocation_push(invocation, "w", &ones) != 0 ||
        cadre_invocation_push(invocation, "w", &ones) != CADRE_EEXISTS) {
        return cadre_invocation_fail(invocation, CADRE_EFUNCTION, "twice");
    }
    if (cadre_invocation_set_result(invocation, "", &ones) != CADRE_EINVALID ||
        cadre_invocation_set_result(invocation, "r", NULL) != CADRE_EINVALID) {
        return cadre_invocation_fail(invocation, CADRE_EFUNCTION, "result");
    }
    return 0;
}

int
cadre_native_register(cadre_registry_t *registry)
{
    static char state[] = "state";
    int status = cadre_registry_add(registry, "test.add_one", add_one, NULL);
    status = status < 0 ? status : cadre_registry_add(registry, "test.steps", three_steps, NULL);
    status =
        status < 0 ? status : cadre_registry_add(registry, "test.hides", hides_a_failed_push, NULL);
    status = status < 0 ? status : cadre_registry_add(registry, "test.fails", fails, NULL);
    status = status < 0 ? status : cadre_registry_add(registry, "test.waits", waits, NULL);
    status = status < 0 ? status : cadre_registry_add(registry, "test.echoes", echoes, state);
    status = status < 0 ? status : cadre_registry_add(registry, "test.slow", slow, NULL);
    status = status < 0 ? status : cadre_registry_add(registry, "test.hangs", hangs, NULL);
    return status < 0 ? status : cadre_registry_add(registry, "test.mistakes", mistakes, NULL);
}
