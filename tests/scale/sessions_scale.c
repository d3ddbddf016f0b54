/*
 * sessions - WORKERS CLOSURES: the coordinator's CPU per closure, beside that with 2 workers
 *
 * All workers have one slot. Also says what they cost while they do nothing but heartbeats. Wanted
 * of 1,000: at most 1.5 times the CPU per closure of 2.
 */
#include <float.h>
#include <poll.h>
#include <unistd.h>

#include "tests/scale/scale.h"

enum { FEW = 2, TURNS = 2, ROUNDS = 2, IDLE_S = 3, WARM_UP = 20 };

static const double ratio_max = 1.5;
static const double ratio_max_short = 4; /* of few closures, on a busy machine */

typedef struct {
    double us_per_closure; /* the lowest of the rounds */
    double closures_per_s; /* of the same */
    double idle_share;     /* of a core */
    long memory_mib;
} measured_t;

/* Brings `self` to the lowest of what it was and what is measured. */
static void
measure(int workers, int closures, measured_t *self)
{
    scale_cluster_t cluster;
    scale_cluster_open(&cluster, 1, NULL);
    scale_cluster_add_workers(&cluster, workers, 1);
    scale_check(cadre_coordinator_wait_ready(cluster.coordinator, workers, SCALE_WAIT_MS),
                "the workers");
    scale_cluster_run(&cluster, WARM_UP * workers);
    double cpu = scale_cpu();
    poll(NULL, 0, IDLE_S * 1000); /* nothing to do but heartbeats */
    self->idle_share = (scale_cpu() - cpu) / IDLE_S;
    for (int i = 0; i < ROUNDS; i++) {
        double from = scale_now();
        cpu = scale_cpu();
        scale_cluster_run(&cluster, closures);
        double us = (scale_cpu() - cpu) * 1e6 / closures;
        if (us < self->us_per_closure) {
            self->us_per_closure = us;
            self->closures_per_s = closures / (scale_now() - from);
        }
    }
    self->memory_mib = scale_memory_peak_mib(getpid());
    scale_cluster_close(&cluster);
}

int
main(int argc, char **argv)
{
    scale_arguments_t arguments = scale_arguments(argc, argv);
    int workers = (int)scale_number(&arguments, 0, 1000, 60);
    int closures = (int)scale_number(&arguments, 1, 200000, 5000);
    measured_t few = {.us_per_closure = DBL_MAX};
    measured_t many = {.us_per_closure = DBL_MAX};
    for (int i = 0; i < TURNS; i++) { /* a busy machine is no busier for the one than the other */
        measure(FEW, closures, &few);
        measure(workers, closures, &many);
    }
    double ratio = many.us_per_closure / few.us_per_closure;
    return scale_verdict(ratio <= (arguments.is_short ? ratio_max_short : ratio_max),
                         "sessions %d: %.1f us of CPU per closure (%.0f/s), with %d workers %.1f "
                         "us (%.0f/s): %.2f times; idle %.1f %% of a core; %ld MiB",
                         workers, many.us_per_closure, many.closures_per_s, FEW, few.us_per_closure,
                         few.closures_per_s, ratio, 100 * many.idle_share, many.memory_mib);
}
