/*
 * manifest - VARIABLES: how long a checkpoint of so many keeps another call waiting
 *
 * A call that only takes the lock is timed all through checkpoints, and as often without one.
 * Wanted of 10,000: no call waits for more than 100 ms.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "tests/scale/scale.h"

enum { SAVES = 3 };

static const double wait_max_s = 0.1;
static const double wait_max_short_s = 2; /* on a busy machine */

static void
create(scale_cluster_t *cluster, long count)
{
    cadre_variable_options_t options = cadre_variable_options();
    const int64_t shape[] = {1};
    cadre_auto(cadre_free) cadre_variable_definition_t *definitions =
        cadre_calloc((size_t)count, sizeof(*definitions));
    for (long i = 0; i < count; i++) {
        definitions[i] = (cadre_variable_definition_t){
            cadre_asprintf("model.encoder.layer_%ld.kernel", i), CADRE_F32, shape, 1, &options};
    }
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
    scale_check(cadre_variable_create_many(cluster->coordinator, definitions, (size_t)count, NULL),
                "variables");
    for (long i = 0; i < count; i++) {
        free((char *)definitions[i].name);
    }
}

static void *
save(void *argument)
{
    scale_cluster_t *cluster = argument;
    scale_check(cadre_checkpoint_save(cluster->coordinator, NULL, SCALE_WAIT_MS, NULL),
                "a checkpoint");
    return NULL;
}

/* The longest that a call waited until `checkpoints` were committed, or, with none, for `seconds`.
 */
static double
watch(scale_cluster_t *cluster, uint64_t checkpoints, double seconds)
{
    double longest = 0;
    double from = scale_now();
    for (bool ended = false; !ended;) {
        double now = scale_now();
        cadre_totals_t totals = cadre_coordinator_totals(cluster->coordinator);
        double after = scale_now();
        longest = after - now > longest ? after - now : longest;
        ended = checkpoints ? totals.checkpoints >= checkpoints : after - from >= seconds;
        poll(NULL, 0, 1); /* the lock is not fair: who asks all the time keeps it */
    }
    return longest;
}

int
main(int argc, char **argv)
{
    scale_arguments_t arguments = scale_arguments(argc, argv);
    long variables = scale_number(&arguments, 0, 10000, 2000);
    scale_cluster_t cluster;
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_auto(cadre_free) char *folder = scratch_path(&scratch, "checkpoints");
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.checkpoint_dir = folder;
    scale_cluster_open(&cluster, 1, &options);
    create(&cluster, variables);
    double least = 1e9;
    double from = scale_now();
    for (uint64_t i = 1; i <= SAVES; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, save, &cluster) == 0, "a thread");
        double longest = watch(&cluster, i, 0);
        pthread_join(thread, NULL);
        least = longest < least ? longest : least;
    }
    double took = scale_now() - from;
    double without = watch(&cluster, 0, took);
    double limit = arguments.is_short ? wait_max_short_s : wait_max_s;
    int status =
        scale_verdict(least <= limit,
                      "manifest %ld: the longest wait in each of %d checkpoints of %.2f s was at "
                      "least %.1f ms; without one %.1f ms",
                      variables, SAVES, took / SAVES, 1000 * least, 1000 * without);
    scale_cluster_close(&cluster);
    scratch_close(&scratch);
    return status;
}
