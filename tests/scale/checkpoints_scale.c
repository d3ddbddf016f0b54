/*
 * checkpoints - CLOSURE_MS EVERY_MS SECONDS STRAGGLE: what checkpoints take of the slots' time
 *
 * 4 workers with 4 slots run closures that sleep for CLOSURE_MS on average, one in 50 of them
 * STRAGGLE times as long, for so many seconds without checkpoints, then with one every EVERY_MS.
 * Wanted: 97 % of the closures as without, of 5 s with a checkpoint every 10 s, and of 200 ms with
 * one in 50 taking 10 s; and that checkpoints commit where closures of 20 s run with one every 2 s.
 * The small forms are ten times as short, and their bound is looser: a tenth of the time is left
 * for a machine that is late.
 */

#include "common/memory.h"
#include "tests/scale/scale.h"

enum { WORKERS = 4, SLOTS = 4, AHEAD = 64, STRAGGLER_OF = 50, PERCENT = 97, PERCENT_SHORT = 50 };

typedef struct {
    long closure_ms;
    long every_ms;
    long seconds;
    long straggle; /* 1: none */
} load_t;

static int64_t
duration_ms(const load_t *load, uint64_t number)
{
    if (load->straggle > 1) {
        return number % STRAGGLER_OF == STRAGGLER_OF - 1 ? load->closure_ms * load->straggle
                                                         : load->closure_ms;
    }
    return load->closure_ms / 10 + load->closure_ms * 18 / 10 * (int64_t)(number * 7 % 11) / 10;
}

/* Runs the load for its time, with checkpoints or without; what has finished, and how many were
 * committed. */
static uint64_t
run(const load_t *load, bool with_checkpoints, uint64_t *committed)
{
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_auto(cadre_free) char *directory = scratch_path(&scratch, "checkpoints");
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.checkpoint_dir = with_checkpoints ? directory : NULL;
    options.checkpoint_every_ms = with_checkpoints ? load->every_ms : 0;
    scale_cluster_t cluster;
    scale_cluster_open(&cluster, 1, &options);
    cluster.native = "../tests/scale_functions.so";
    scale_cluster_add_processes(&cluster, WORKERS, SLOTS);
    scale_check(cadre_coordinator_wait_ready(cluster.coordinator, WORKERS, SCALE_WAIT_MS),
                "the workers");
    cadre_variable_options_t adds = cadre_variable_options();
    adds.optimizer = "add";
    cadre_variable_t *total = NULL;
    scale_check(
        cadre_variable_create(cluster.coordinator, "total", CADRE_F32, NULL, 0, &adds, &total),
        "total");
    cadre_function_t *function = NULL;
    scale_check(cadre_function_native(cluster.coordinator, "sleep_add", &function), "a function");
    double from = scale_now();
    for (uint64_t number = 0; scale_now() - from < (double)load->seconds;) {
        if (cadre_totals(cluster.coordinator).queued >= AHEAD) {
            again(deadline_in(SCALE_WAIT_MS));
            continue;
        }
        int64_t ms = duration_ms(load, number++);
        cadre_tensor_t value = {.dtype = CADRE_I64, .rank = 0, .data = &ms};
        cadre_argument_t argument = {"ms", &value};
        cadre_call_t call = {.tensors = &argument, .tensor_count = 1};
        scale_check(cadre_schedule(cluster.coordinator, function, &call, SCALE_WAIT_MS, NULL),
                    "a closure");
    }
    cadre_totals_t totals = cadre_totals(cluster.coordinator);
    *committed = totals.checkpoints;
    scale_cluster_close(&cluster);
    scratch_close(&scratch);
    return totals.finished;
}

static int
measure(const load_t *load, int percent)
{
    uint64_t committed = 0;
    uint64_t without = run(load, false, &committed);
    uint64_t with = run(load, true, &committed);
    return scale_verdict(100 * with >= (uint64_t)percent * without && committed > 0,
                         "checkpoints every %ld ms, closures of %ld ms, one in %d x %ld: %llu of "
                         "%llu closures in %ld s (%.1f %%), %llu checkpoints committed",
                         load->every_ms, load->closure_ms, STRAGGLER_OF, load->straggle,
                         (unsigned long long)with, (unsigned long long)without, load->seconds,
                         100.0 * (double)with / (double)(without ? without : 1),
                         (unsigned long long)committed);
}

int
main(int argc, char **argv)
{
    static const load_t full[] = {{5000, 10000, 60, 1}, {200, 10000, 60, 50}, {20000, 2000, 90, 1}};
    static const load_t small[] = {{500, 1000, 6, 1}, {20, 1000, 6, 50}, {2000, 200, 9, 1}};
    scale_arguments_t arguments = scale_arguments(argc, argv);
    int percent = arguments.is_short ? PERCENT_SHORT : PERCENT;
    int status = 0;
    for (size_t i = 0; arguments.count == 0 && i < CADRE_COUNT_OF(full); i++) {
        status |= measure(arguments.is_short ? &small[i] : &full[i], percent);
    }
    if (arguments.count > 0) {
        const load_t asked = {.closure_ms = scale_number(&arguments, 0, 5000, 500),
                              .every_ms = scale_number(&arguments, 1, 10000, 1000),
                              .seconds = scale_number(&arguments, 2, 60, 6),
                              .straggle = scale_number(&arguments, 3, 1, 1)};
        status = measure(&asked, percent);
    }
    return status;
}
