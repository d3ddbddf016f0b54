#include "coordinator/strategy.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/status.h"
#include "common/spec/strategy_spec.h"

/* Sets the strategy of a caller who names none: from CADRE_STRATEGY, or from the shape of the
 * cluster. A job of one process (options->local) does not read the environment. */
static int
choose(cadre_coordinator_options_t *options, const cadre_cluster_shape_t *shape)
{
    const char *word = options->local ? NULL : getenv("CADRE_STRATEGY");
    options->strategy = shape->has_shards_beside_workers ? CADRE_STRATEGY_MULTI_WORKER
                                                         : CADRE_STRATEGY_PARAMETER_SERVER;
    if (!word || !*word) {
        return 0;
    }
    if (cadre_strategy_parse(word, &options->strategy) < 0) {
        cadre_fail_within(CADRE_ECONFIG, "CADRE_STRATEGY");
        return CADRE_ECONFIG;
    }
    return 0;
}

/* Returns how many workers are listed, 0 where that is not known. The strategy local has one,
 * whether the cluster lists it or not; in one process each slot stands for a worker otherwise. */
static uint32_t
count_workers(const cadre_strategy_spec_t *spec, const cadre_cluster_shape_t *shape)
{
    if (spec->workers != CADRE_STRATEGY_TASKS_ONE) {
        return shape->slots > 0 ? shape->slots : shape->workers;
    }
    return shape->workers > 0 ? shape->workers : 1;
}

/* Returns whether `step` closures are a step of `listed` workers. In one process a worker may have
 * several slots, as many each: there the step is any number that divides the slots. */
static bool
is_step_of(const cadre_strategy_spec_t *spec, const cadre_cluster_shape_t *shape, uint32_t listed,
           uint32_t step)
{
    const bool has_slots = shape->slots > 0 && spec->workers != CADRE_STRATEGY_TASKS_ONE;
    return has_slots ? listed % step == 0 : listed == step;
}

/* Checks that the cluster has as many ps and workers as the strategy has; with 0 `workers` their
 * number is not known and not checked. A job in one process has one of each. */
static int
check_tasks(const cadre_strategy_spec_t *spec, const cadre_cluster_shape_t *shape, uint32_t workers)
{
    uint32_t ps = shape->ps;
    if (shape->slots > 0) {
        return 0;
    }

    if (spec->ps == CADRE_STRATEGY_TASKS_ONE && ps != 1) {
        return cadre_fail(CADRE_ECONFIG, "strategy %s has one ps, but the cluster has %" PRIu32,
                          spec->word, ps);
    }

    if (spec->workers == CADRE_STRATEGY_TASKS_ONE && workers > 1) {
        return cadre_fail(CADRE_ECONFIG, "strategy %s has one worker, but the cluster has %" PRIu32,
                          spec->word, workers);
    }

    if (spec->ps == CADRE_STRATEGY_TASKS_LIKE_WORKERS && workers > 0 && ps != workers) {
        return cadre_fail(CADRE_ECONFIG,
                          "strategy %s has as many ps as workers, but the cluster has %" PRIu32
                          " ps and %" PRIu32 " workers",
                          spec->word, ps, workers);
    }

    return 0;
}

/* Finds the strategy of the job and puts what it implies into the options. parameter_server, which
 * is not synchronous, implies nothing. */
int
cadre_coordinator_follow_strategy(cadre_coordinator_options_t *options,
                                  const cadre_cluster_shape_t *shape)
{
    int status = options->strategy ? 0 : choose(options, shape);
    if (status < 0) {
        return status;
    }

    const cadre_strategy_spec_t *spec = cadre_strategy_spec((int64_t)options->strategy);
    if (!spec) {
        return cadre_fail(CADRE_ECONFIG, "options: strategy %d is not one of cadre_strategy_t",
                          (int)options->strategy);
    }
    if (!spec->is_synchronous) {
        return 0;
    }

    if (options->consistency == CADRE_BOUNDED) {
        return cadre_fail(CADRE_ECONFIG,
                          "options: consistency is bounded, but strategy %s is synchronous: leave "
                          "consistency out",
                          spec->word);
    }

    uint32_t listed = count_workers(spec, shape);
    const uint32_t given = options->step_closures;
    if (listed > 0 && given > 0 && !is_step_of(spec, shape, listed, given)) {
        return cadre_fail(CADRE_ECONFIG,
                          "options: step_closures is %" PRIu32 ", but a step of strategy %s has as "
                          "many closures as there are workers, %" PRIu32
                          ": leave step_closures out",
                          given, spec->word, listed);
    }

    uint32_t count = given > 0 ? given : listed;
    if (count == 0) {
        return cadre_fail(CADRE_ECONFIG,
                          "options: a step of strategy %s has as many closures as there are "
                          "workers, and no description of the cluster lists them: set "
                          "step_closures, or start the program by `cadre run --strategy %s`",
                          spec->word, spec->word);
    }

    options->consistency = CADRE_SYNC;
    options->step_closures = count;
    return check_tasks(spec, shape, count);
}
