/*
 * count - ten thousand closures add 1 to a variable, on whatever workers there are:
 *
 *     cadre run --native build/release/bin/examples/count_native.so --
 *         build/release/bin/examples/count
 */
#include <cadre/coordinator.h>
#include <stdio.h>

int
main(void)
{
    cadre_variable_options_t adds = cadre_variable_options();
    cadre_coordinator_t *coordinator = NULL;
    cadre_variable_t *total = NULL;
    cadre_function_t *add_one = NULL;
    double sum = 0;
    adds.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    int s = cadre_coordinator_open(NULL, &coordinator);
    s = s ? s : cadre_variable_create(coordinator, "total", CADRE_F32, NULL, 0, &adds, &total);
    s = s ? s : cadre_function_native(coordinator, "add_one", &add_one);
    for (int i = 0; i < 10000 && !s; i++) {
        s = cadre_coordinator_schedule(coordinator, add_one, NULL, -1, NULL);
    }
    s = s ? s : cadre_coordinator_join(coordinator, -1);
    s = s ? s : cadre_variable_read_number(total, &sum, -1);
    s ? fprintf(stderr, "%s: %s\n", cadre_status_text(s), cadre_error_text())
      : printf("%.0f\n", sum);
    cadre_coordinator_close(&coordinator);
    return s != 0;
}
