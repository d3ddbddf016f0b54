/*
 * count - ten thousand closures add 1 to a variable, on whatever workers there are:
 *
 *     cadre run --native build/release/bin/examples/count_native.so --
 * build/release/bin/examples/count
 */
#include <cadre/coordinator.h>
#include <stdio.h>

int
main(void)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cadre_variable_options_t add = {.size = sizeof(add),
                                    .optimizer = {.kind = CADRE_OPTIMIZER_ADD}};
    cadre_coordinator_t *coordinator = NULL;
    cadre_variable_t *total = NULL;
    cadre_function_t *add_one = NULL;
    cadre_tensor_t value = {.data = NULL};
    int s = cadre_coordinator_open(&options, &coordinator);
    s = s ? s : cadre_variable_create(coordinator, "total", CADRE_F32, NULL, 0, &add, &total);
    s = s ? s : cadre_function_native(coordinator, "add_one", &add_one);
    for (int i = 0; i < 10000 && !s; i++) {
        s = cadre_coordinator_schedule(coordinator, add_one, NULL, -1, NULL);
    }
    s = s ? s : cadre_coordinator_join(coordinator, -1);
    s = s ? s : cadre_variable_read(total, &value, -1);
    s ? fprintf(stderr, "%s: %s\n", cadre_status_text(s), cadre_error_text())
      : printf("%.0f\n", (double)*(const float *)value.data);
    cadre_tensor_fini(&value);
    cadre_coordinator_close(&coordinator);
    return s != 0;
}
