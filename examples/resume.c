/*
 * resume - five thousand closures add their number to a variable, exactly once each, however often
 * this program, a worker or a ps is killed on the way:
 *
 *     cadre run --native build/release/bin/examples/resume_native.so --
 *         build/release/bin/examples/resume DIR
 *
 * Run it again with the same DIR, where its checkpoints are, and it goes on where the last one was
 * taken: it numbers its closures and asks the checkpoint which numbers are left. What it prints in
 * the end is 12502500 in any case.
 */
#include <cadre/coordinator.h>
#include <stdio.h>

enum { COUNT = 5000 };

/* Schedules what the checkpoint that was resumed does not hold; without one, everything. */
static int
schedule_all(cadre_coordinator_t *coordinator, const cadre_function_t *add)
{
    int s = 0;
    for (uint64_t i = cadre_checkpoint_next(coordinator, 1); i <= COUNT && !s;
         i = cadre_checkpoint_next(coordinator, i + 1)) {
        float number = (float)i;
        cadre_tensor_t value = cadre_tensor_view(CADRE_F32, &number, NULL, 0);
        cadre_argument_t argument = {"number", &value};
        cadre_call_t call = cadre_call_tensors(&argument, 1);
        call.sequence = i;
        s = cadre_coordinator_schedule(coordinator, add, &call, -1, NULL);
    }
    return s;
}

int
main(int count, char **arguments)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cadre_variable_options_t adds = cadre_variable_options();
    cadre_coordinator_t *coordinator = NULL;
    cadre_variable_t *total = NULL;
    cadre_function_t *add = NULL;
    double sum = 0;
    adds.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    options.checkpoint_dir = count > 1 ? arguments[1] : "resume-checkpoints";
    options.checkpoint_every_ms = 100;
    options.queue_capacity = 100;
    options.resume = CADRE_RESUME_AUTO;
    int s = cadre_coordinator_open(&options, &coordinator);
    s = s ? s : cadre_variable_create(coordinator, "total", CADRE_F64, NULL, 0, &adds, &total);
    s = s ? s : cadre_function_native(coordinator, "add_number", &add);
    if (!s) {
        printf("from %llu\n", (unsigned long long)cadre_checkpoint_next(coordinator, 1));
        fflush(stdout);
    }
    s = s ? s : schedule_all(coordinator, add);
    s = s ? s : cadre_coordinator_join(coordinator, -1);
    s = s ? s : cadre_variable_read_number(total, &sum, -1);
    s ? fprintf(stderr, "%s: %s\n", cadre_status_text(s), cadre_error_text())
      : printf("%.0f\n", sum);
    cadre_coordinator_close(&coordinator);
    return s != 0;
}
