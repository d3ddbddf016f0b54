/* cadre-gpu-native DEVICE: a coordinator program that calls the function of gpu_native.c many times
 * and looks at what comes back. On a GPU there must be a stream, on the CPU none. */
#include <cadre/coordinator.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { CALLS = 50, SIZE = 100000, WAIT_MS = 60000 };

static float values[SIZE];

/* One call: 0 when the result is right. */
static int
call_once(cadre_coordinator_t *coordinator, const cadre_function_t *function, float has_stream)
{
    const cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 1, .shape = {SIZE}, .data = values};
    const cadre_argument_t argument = {.name = "x", .tensor = &x};
    const cadre_call_t call = cadre_call_tensors(&argument, 1);
    cadre_future_t *future = NULL;
    cadre_tensor_t y = {.data = NULL};
    cadre_tensor_t flag = {.data = NULL};
    int s = cadre_coordinator_schedule(coordinator, function, &call, WAIT_MS, &future);
    s = s ? s : cadre_future_fetch(future, "y", &y, WAIT_MS);
    s = s ? s : cadre_future_fetch(future, "has_stream", &flag, WAIT_MS);
    bool right = !s && *(const float *)flag.data == has_stream && y.shape[0] == SIZE;
    for (int i = 0; i < SIZE && right; i++) {
        right = ((const float *)y.data)[i] == (i < SIZE / 2 ? 0 : values[i]);
    }
    if (!s && !right) {
        fprintf(stderr, "the result is wrong; the stream is %g\n",
                (double)*(const float *)flag.data);
        s = CADRE_EDATA;
    }
    cadre_tensor_fini(&y);
    cadre_tensor_fini(&flag);
    cadre_future_destroy(&future);
    return s;
}

int
main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "cadre-gpu-native DEVICE\n");
        return 2;
    }
    for (int i = 0; i < SIZE; i++) {
        values[i] = (float)(i + 1);
    }
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cadre_coordinator_t *coordinator = NULL;
    cadre_function_t *function = NULL;
    int s = cadre_coordinator_open(&options, &coordinator);
    s = s ? s : cadre_function_native(coordinator, "clear_half", &function);
    for (int i = 0; i < CALLS && !s; i++) {
        s = call_once(coordinator, function, strncmp(argv[1], "cuda", 4) == 0);
    }
    s ? fprintf(stderr, "%s: %s\n", cadre_status_text(s), cadre_error_text())
      : printf("native: %d calls on %s are right\n", CALLS, argv[1]);
    cadre_coordinator_close(&coordinator);
    return s != 0;
}
