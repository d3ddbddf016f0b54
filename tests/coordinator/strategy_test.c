#include "coordinator/strategy.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

static void
setup(void)
{
    unsetenv("CADRE_STRATEGY");
}

TestSuite(strategy, .timeout = 240, .init = setup);

static cadre_coordinator_options_t
options_of(cadre_strategy_t strategy)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.strategy = strategy;
    return options;
}

static int
follow(cadre_coordinator_options_t *options, uint32_t ps, uint32_t workers)
{
    const cadre_cluster_shape_t shape = {.ps = ps, .workers = workers};
    return cadre_coordinator_follow_strategy(options, &shape);
}

Test(strategy, none_leaves_the_options_as_they_are)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.consistency = CADRE_BOUNDED;
    options.step_closures = 7;
    cr_assert_eq(follow(&options, 3, 5), 0, "%s", cadre_error_text());
    cr_expect_eq(options.strategy, CADRE_STRATEGY_PARAMETER_SERVER);
    cr_expect_eq(options.consistency, CADRE_BOUNDED);
    cr_expect_eq(options.step_closures, 7);
}

Test(strategy, makes_steps_of_as_many_closures_as_there_are_workers)
{
    static const struct {
        cadre_strategy_t strategy;
        uint32_t ps;
        uint32_t workers; /* that are listed */
        uint32_t given;   /* step_closures */
        uint32_t step;
    } cases[] = {
        {CADRE_STRATEGY_MULTI_WORKER, 3, 3, 0, 3}, {CADRE_STRATEGY_MULTI_WORKER, 3, 3, 3, 3},
        {CADRE_STRATEGY_MULTI_WORKER, 4, 0, 4, 4}, {CADRE_STRATEGY_MIRRORED, 2, 2, 0, 2},
        {CADRE_STRATEGY_CENTRAL, 1, 4, 0, 4},      {CADRE_STRATEGY_CENTRAL, 1, 0, 4, 4},
        {CADRE_STRATEGY_LOCAL, 1, 1, 0, 1},        {CADRE_STRATEGY_LOCAL, 1, 0, 0, 1},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_coordinator_options_t options = options_of(cases[i].strategy);
        options.step_closures = cases[i].given;
        cr_expect_eq(follow(&options, cases[i].ps, cases[i].workers), 0, "%zu: %s", i,
                     cadre_error_text());
        cr_expect_eq(options.consistency, CADRE_SYNC);
        cr_expect_eq(options.step_closures, cases[i].step, "%zu", i);
    }
}

static void
expect_refused(const cadre_coordinator_options_t *given, uint32_t ps, uint32_t workers,
               const char *text)
{
    cadre_coordinator_options_t options = *given;
    cr_expect_eq(follow(&options, ps, workers), CADRE_ECONFIG, "%s", text);
    cr_expect_not_null(strstr(cadre_error_text(), text), "%s is not in: %s", text,
                       cadre_error_text());
}

Test(strategy, S4_refuses_what_contradicts_it_and_names_both)
{
    cadre_coordinator_options_t options = options_of(CADRE_STRATEGY_MIRRORED);
    options.consistency = CADRE_BOUNDED;
    expect_refused(&options, 2, 2, "consistency is bounded, but strategy mirrored is synchronous");
    options = options_of(CADRE_STRATEGY_MULTI_WORKER);
    options.step_closures = 3;
    expect_refused(&options, 2, 2, "step_closures is 3, but a step of strategy multi_worker");
    options = options_of(CADRE_STRATEGY_LOCAL);
    options.step_closures = 2;
    expect_refused(&options, 1, 0, "step_closures is 2, but a step of strategy local");
}

Test(strategy, of_one_process_has_a_slot_for_each_worker_and_one_shard)
{
    static const struct {
        cadre_strategy_t strategy;
        uint32_t slots;
        uint32_t step;
    } cases[] = {{CADRE_STRATEGY_MIRRORED, 3, 3},
                 {CADRE_STRATEGY_CENTRAL, 2, 2},
                 {CADRE_STRATEGY_LOCAL, 2, 1},
                 {CADRE_STRATEGY_MIRRORED, 0, 1}};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        const cadre_cluster_shape_t shape = {.ps = 1, .workers = 1, .slots = cases[i].slots};
        cadre_coordinator_options_t options = options_of(cases[i].strategy);
        cr_expect_eq(cadre_coordinator_follow_strategy(&options, &shape), 0, "%zu: %s", i,
                     cadre_error_text());
        cr_expect_eq(options.step_closures, cases[i].step, "%zu", i);
    }
}

Test(strategy, of_one_process_takes_a_step_of_workers_with_as_many_slots_each)
{
    const cadre_cluster_shape_t shape = {.ps = 1, .workers = 1, .slots = 4};
    static const cadre_strategy_t strategies[] = {CADRE_STRATEGY_MIRRORED, CADRE_STRATEGY_CENTRAL};
    for (size_t i = 0; i < CADRE_COUNT_OF(strategies); i++) {
        cadre_coordinator_options_t options = options_of(strategies[i]);
        options.step_closures = 2;
        cr_expect_eq(cadre_coordinator_follow_strategy(&options, &shape), 0, "%s",
                     cadre_error_text());
        cr_expect_eq(options.step_closures, 2, "two workers of two slots");
        options.step_closures = 3;
        cr_expect_eq(cadre_coordinator_follow_strategy(&options, &shape), CADRE_ECONFIG);
        cr_expect(strstr(cadre_error_text(), "step_closures is 3"), "%s", cadre_error_text());
    }
}

Test(strategy, refuses_a_cluster_of_another_shape)
{
    cadre_coordinator_options_t options = options_of(CADRE_STRATEGY_MULTI_WORKER);
    expect_refused(&options, 1, 2, "as many ps as workers, but the cluster has 1 ps and 2 workers");
    expect_refused(&options, 1, 0, "no description of the cluster lists them: set step_closures");
    options = options_of(CADRE_STRATEGY_CENTRAL);
    expect_refused(&options, 2, 2, "strategy central has one ps, but the cluster has 2");
    options = options_of(CADRE_STRATEGY_LOCAL);
    expect_refused(&options, 2, 1, "strategy local has one ps, but the cluster has 2");
    expect_refused(&options, 1, 2, "strategy local has one worker, but the cluster has 2");
    options = options_of((cadre_strategy_t)6);
    expect_refused(&options, 1, 1, "strategy 6 is not one of cadre_strategy_t");
}

Test(strategy, of_the_environment_counts_where_the_options_name_none)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    setenv("CADRE_STRATEGY", "central", 1);
    cr_assert_eq(follow(&options, 1, 3), 0, "%s", cadre_error_text());
    cr_expect_eq(options.strategy, CADRE_STRATEGY_CENTRAL);
    cr_expect_eq(options.step_closures, 3);

    options = options_of(CADRE_STRATEGY_PARAMETER_SERVER);
    cr_assert_eq(follow(&options, 2, 3), 0, "%s", cadre_error_text());
    cr_expect_eq(options.consistency, CADRE_ASYNC);

    options = cadre_coordinator_options();
    setenv("CADRE_STRATEGY", "centre", 1);
    expect_refused(&options, 1, 1, "CADRE_STRATEGY: strategy \"centre\" is none of ");
    setenv("CADRE_STRATEGY", "", 1);
    cr_expect_eq(follow(&options, 5, 1), 0);
}

Test(strategy, of_a_cluster_of_workers_alone_is_multi_worker_unless_another_is_named)
{
    const cadre_cluster_shape_t shape = {.ps = 3, .workers = 3, .has_shards_beside_workers = true};
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cr_assert_eq(cadre_coordinator_follow_strategy(&options, &shape), 0, "%s", cadre_error_text());
    cr_expect_eq(options.strategy, CADRE_STRATEGY_MULTI_WORKER);
    cr_expect_eq(options.step_closures, 3);
    options = options_of(CADRE_STRATEGY_PARAMETER_SERVER);
    cr_assert_eq(cadre_coordinator_follow_strategy(&options, &shape), 0, "%s", cadre_error_text());
    cr_expect_eq(options.consistency, CADRE_ASYNC);
}
