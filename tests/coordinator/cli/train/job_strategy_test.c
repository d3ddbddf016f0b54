#include "coordinator/cli/train/job_strategy.h"

#include <cadre/coordinator.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/cli/train/job_file.h"

#define HEAD                                                                                       \
    "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a.csv\"}}, \"model\": {\"type\": "   \
    "\"mlp\", \"hidden\": [4]}"

TestSuite(job_strategy, .timeout = 240);

static void
read(cadre_job_t *job, const char *rest)
{
    cadre_auto(cadre_free) char *text = cadre_asprintf(HEAD "%s}", rest);
    cadre_job_init(job);
    cr_assert_eq(cadre_job_file_parse(job, "j.json", text), 0, "%s", cadre_error_text());
}

static void
flag(cadre_job_t *job, const char *setting, const char *text)
{
    cr_assert_eq(cadre_job_set(job, setting, text, CADRE_ORIGIN_FLAG, setting), 0);
}

typedef struct {
    const char *rest; /* of the file */
    const char *name; /* --strategy; NULL: the file's */
    cadre_job_places_t places;
    int64_t ps;
    int64_t workers;
    int64_t slots;
    int64_t step;
} example_t;

#define STRATEGY(word) ", \"strategy\": {\"type\": \"" word "\"}"
#define CLUSTER(keys)  ", \"cluster\": {" keys "}"

/* What each word means, for what the rest of the file leaves open. */
static const example_t examples[] = {
    {"", NULL, {.devices = 4}, 1, 2, 2, 1},
    {STRATEGY("parameter_server") CLUSTER("\"ps\": 3"), NULL, {.devices = 4}, 3, 2, 2, 1},
    {STRATEGY("multi_worker"), NULL, {.devices = 0}, 2, 2, 1, 2},
    {STRATEGY("multi_worker") CLUSTER("\"workers\": 3"), NULL, {.devices = 9}, 3, 3, 1, 3},
    {STRATEGY("mirrored"), NULL, {.devices = 4}, 4, 4, 1, 4},
    {STRATEGY("mirrored"), NULL, {.devices = 0}, 1, 1, 1, 1},
    {STRATEGY("mirrored") CLUSTER("\"workers\": 3"), NULL, {.devices = 0}, 3, 3, 1, 3},
    {STRATEGY("mirrored") CLUSTER("\"workers\": 3"),
     NULL,
     {.devices = 4, .is_choice = true},
     3,
     3,
     1,
     3},
    {STRATEGY("central"), NULL, {.devices = 4}, 1, 4, 1, 4},
    {STRATEGY("central") CLUSTER("\"slots\": 2"), NULL, {.devices = 2}, 1, 2, 2, 2},
    {STRATEGY("local"), NULL, {.devices = 4}, 1, 1, 1, 1},
    /* A flag has the higher rank. */
    {CLUSTER("\"ps\": 2, \"workers\": 2"), "local", {.devices = 0}, 1, 1, 1, 1},
    {CLUSTER("\"ps\": 2, \"workers\": 2"), "central", {.devices = 0}, 1, 2, 1, 2},
    {CLUSTER("\"ps\": 2, \"workers\": 2"), "mirrored", {.devices = 3}, 3, 3, 1, 3},
    {STRATEGY("local") CLUSTER("\"ps\": 1"), "mirrored", {.devices = 3}, 3, 3, 1, 3},
    /* What one file has for other strategies. */
    {STRATEGY("local") CLUSTER("\"ps\": 2, \"workers\": 2"), NULL, {.devices = 0}, 1, 1, 1, 1},
    {STRATEGY("central") CLUSTER("\"ps\": 2, \"workers\": 2"), NULL, {.devices = 0}, 1, 2, 1, 2},
    {STRATEGY("mirrored") CLUSTER("\"ps\": 3, \"workers\": 2"), NULL, {.devices = 3}, 3, 3, 1, 3},
    {STRATEGY("mirrored") CLUSTER("\"workers\": 4"),
     NULL,
     {.devices = 3, .is_choice = true},
     3,
     3,
     1,
     3},
    {STRATEGY("multi_worker") CLUSTER("\"ps\": 1, \"workers\": 3"),
     NULL,
     {.devices = 0},
     3,
     3,
     1,
     3},
    /* One process has one ps. */
    {STRATEGY("mirrored") CLUSTER("\"workers\": 3"), NULL, {.is_one_process = true}, 1, 3, 1, 3},
    {CLUSTER("\"ps\": 2, \"workers\": 2"), "mirrored", {.is_one_process = true}, 1, 2, 1, 2},
    /* A cluster that exists. */
    {"", "multi_worker", {.workers = 5}, 5, 5, 1, 5},
    {"", "central", {.workers = 5, .has_shards = true}, 1, 5, 1, 5},
    {CLUSTER("\"workers\": 2"),
     NULL,
     {.workers = 5, .has_shards_beside_workers = true},
     5,
     5,
     1,
     5},
    {"", "parameter_server", {.workers = 5, .has_shards_beside_workers = true}, 1, 2, 2, 1},
};

Test(job_strategy, means_tasks_consistency_and_step)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(examples); i++) {
        const example_t *example = &examples[i];
        cadre_auto(cadre_job_fini) cadre_job_t job;
        read(&job, example->rest);
        if (example->name) {
            flag(&job, "strategy.type", example->name);
        }
        cr_expect_eq(cadre_job_follow_strategy(&job, &example->places), 0, "%zu: %s", i,
                     cadre_error_text());
        cr_expect(job.ps == example->ps && job.workers == example->workers &&
                      job.slots == example->slots && job.step_closures == example->step,
                  "%zu: ps %lld, workers %lld, slots %lld, step_closures %lld", i,
                  (long long)job.ps, (long long)job.workers, (long long)job.slots,
                  (long long)job.step_closures);
        bool is_synchronous = cadre_job_strategy(&job) != CADRE_STRATEGY_PARAMETER_SERVER;
        cr_expect_eq(job.consistency, is_synchronous ? 2 : 0, "%zu", i);
    }
}

Test(job_strategy, asks_for_several_ps_where_they_are_said_as_loudly_as_the_strategy)
{
    static const struct {
        const char *rest;
        const char *name; /* --strategy */
        bool insists;
    } cases[] = {
        {STRATEGY("mirrored"), NULL, false},
        {STRATEGY("mirrored") CLUSTER("\"ps\": 1"), NULL, false},
        {STRATEGY("mirrored") CLUSTER("\"ps\": 2"), NULL, true},
        {STRATEGY("central") CLUSTER("\"ps\": 2"), NULL, false},
        {STRATEGY("local") CLUSTER("\"ps\": 2"), NULL, false},
        {STRATEGY("central") CLUSTER("\"ps\": 2"), "mirrored", false},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        read(&job, cases[i].rest);
        if (cases[i].name) {
            flag(&job, "strategy.type", cases[i].name);
        }
        cr_expect_eq(cadre_job_insists_on_shards(&job), cases[i].insists, "%zu", i);
    }
}

static void
expect_refused(const char *rest, const char *name, const cadre_job_places_t *places,
               const char *text)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    read(&job, rest);
    if (name) {
        flag(&job, "cluster.ps", name);
    }
    cr_expect_eq(cadre_job_follow_strategy(&job, places), CADRE_ECONFIG, "%s", rest);
    cr_expect_not_null(strstr(cadre_error_text(), text), "%s is not in: %s", text,
                       cadre_error_text());
}

Test(job_strategy, S4_refuses_a_setting_that_contradicts_it_and_names_both)
{
    static const cadre_job_places_t cpu = {.devices = 0};
    static const cadre_job_places_t four = {.workers = 4};
    expect_refused(STRATEGY("local"), "2", &cpu,
                   "--ps is 2, but j.json: strategy.type is local, which means 1");
    expect_refused(STRATEGY("central"), "2", &cpu,
                   "--ps is 2, but j.json: strategy.type is central, which means 1");
    expect_refused(STRATEGY("multi_worker") CLUSTER("\"workers\": 2"), "1", &cpu,
                   "--ps is 1, but j.json: strategy.type is multi_worker, which means 2");
    expect_refused(STRATEGY("local"), NULL, &four,
                   "j.json: strategy.type is local, which has one worker, but the cluster has 4");
    expect_refused(STRATEGY("local") ", \"training\": {\"consistency\": \"async\"}", NULL, &cpu,
                   "training.consistency is async, but j.json: strategy.type is local, which "
                   "means sync");
    expect_refused(STRATEGY("local") ", \"training\": {\"step_closures\": 4}", NULL, &cpu,
                   "training.step_closures is 4, but j.json: strategy.type is local, which means "
                   "1");
}

Test(job_strategy, replaces_the_counts_of_its_file_and_notes_which)
{
    static const cadre_job_places_t cpu = {.devices = 0};
    cadre_auto(cadre_job_fini) cadre_job_t job;
    read(&job, STRATEGY("local") CLUSTER("\"ps\": 2, \"workers\": 2"));
    cr_assert_eq(cadre_job_follow_strategy(&job, &cpu), 0);
    cr_expect_str_eq(job.overruled, "cluster.workers 2, cluster.ps 2");

    cadre_auto(cadre_job_fini) cadre_job_t same;
    read(&same, STRATEGY("multi_worker") CLUSTER("\"ps\": 2, \"workers\": 2"));
    cr_assert_eq(cadre_job_follow_strategy(&same, &cpu), 0);
    cr_expect_null(same.overruled);

    cadre_auto(cadre_job_fini) cadre_job_t flagged;
    read(&flagged, CLUSTER("\"ps\": 2, \"workers\": 2"));
    flag(&flagged, "strategy.type", "local");
    cr_assert_eq(cadre_job_follow_strategy(&flagged, &cpu), 0);
    cr_expect_str_eq(flagged.overruled, "cluster.workers 2, cluster.ps 2");

    cadre_auto(cadre_job_fini) cadre_job_t nothing;
    read(&nothing, "");
    flag(&nothing, "strategy.type", "local");
    cr_assert_eq(cadre_job_set(&nothing, "cluster.ps", "2", CADRE_ORIGIN_ENVIRONMENT, "it"), 0);
    cr_assert_eq(cadre_job_follow_strategy(&nothing, &cpu), 0);
    cr_expect_null(nothing.overruled, "the file says nothing");
}

#define TRAINING(keys) ", \"training\": {" keys "}"

/* A word that counts more than the file, as a flag does, leaves out what the file says for another
 * consistency. */
Test(job_strategy, leaves_out_what_its_file_says_for_another_consistency_and_notes_which)
{
    static const struct {
        const char *rest;
        const char *overruled;
    } cases[] = {
        {TRAINING("\"consistency\": \"async\""), "training.consistency async"},
        {TRAINING("\"consistency\": \"sync\", \"step_closures\": 7"), "training.step_closures 7"},
        {TRAINING("\"consistency\": \"bounded\", \"staleness_bound\": 4"),
         "training.consistency bounded, training.staleness_bound 4"},
        {TRAINING("\"delay_compensation\": 0.5"), "training.delay_compensation 0.5"},
        {CLUSTER("\"recovery\": \"relaxed\""), "cluster.recovery relaxed"},
        {CLUSTER("\"recovery\": \"rollback\""), NULL},
        {TRAINING("\"consistency\": \"sync\", \"step_closures\": 2, \"staleness_bound\": 0"), NULL},
    };
    static const char *const words[] = {"multi_worker", "mirrored", "central"};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases) * CADRE_COUNT_OF(words); i++) {
        const char *rest = cases[i / CADRE_COUNT_OF(words)].rest;
        const char *overruled = cases[i / CADRE_COUNT_OF(words)].overruled;
        cadre_auto(cadre_job_fini) cadre_job_t job;
        read(&job, rest);
        flag(&job, "strategy.type", words[i % CADRE_COUNT_OF(words)]);
        const cadre_job_places_t two = {.devices = 2};
        cr_assert_eq(cadre_job_follow_strategy(&job, &two), 0, "%s: %s", rest, cadre_error_text());
        cr_expect_str_eq(job.overruled ? job.overruled : "", overruled ? overruled : "", "%s",
                         rest);
        cr_expect(job.consistency == CADRE_SYNC && job.step_closures == 2, "%s", rest);
        cr_expect(job.staleness_bound == 0 && job.delay_compensation == 0, "%s", rest);
        cr_expect_eq(job.recovery, CADRE_RECOVERY_ROLLBACK, "%s", rest);
        cr_expect_eq(cadre_job_finish(&job), 0, "%s: %s", rest, cadre_error_text());
    }
}

/* Steps lose no update: a ps that was lost is rolled back, and nothing else may be asked for. */
Test(job_strategy, has_no_relaxed_recovery_of_synchronous_steps)
{
    static const cadre_job_places_t cpu = {.devices = 0};
    static const char relaxed[] = CLUSTER("\"recovery\": \"relaxed\"");
    cadre_auto(cadre_free) char *sync =
        cadre_asprintf(TRAINING("\"consistency\": \"sync\"") "%s", relaxed);
    cadre_auto(cadre_free) char *local = cadre_asprintf(STRATEGY("local") "%s", relaxed);
    expect_refused(sync, NULL, &cpu,
                   "j.json: cluster.recovery is relaxed, but j.json: training.consistency is sync, "
                   "which loses no update");
    expect_refused(local, NULL, &cpu,
                   "j.json: cluster.recovery is relaxed, but j.json: strategy.type is local, which "
                   "loses no update");

    cadre_auto(cadre_job_fini) cadre_job_t flagged;
    read(&flagged, "");
    flag(&flagged, "strategy.type", "local");
    flag(&flagged, "cluster.recovery", "relaxed");
    cr_expect_eq(cadre_job_follow_strategy(&flagged, &cpu), CADRE_ECONFIG, "of one rank");

    cadre_auto(cadre_job_fini) cadre_job_t asynchronous;
    read(&asynchronous, relaxed);
    cr_assert_eq(cadre_job_follow_strategy(&asynchronous, &cpu), 0, "%s", cadre_error_text());
    cr_expect_eq(asynchronous.recovery, CADRE_RECOVERY_RELAXED);

    cadre_auto(cadre_job_fini) cadre_job_t of_program;
    cadre_job_init(&of_program);
    flag(&of_program, "strategy.type", "local");
    flag(&of_program, "cluster.recovery", "relaxed");
    cr_expect_eq(cadre_job_follow_strategy(&of_program, &cpu), 0, "a program says both itself");
}

/* One worker takes the first of the devices that a file lists for the workers of other words. */
Test(job_strategy, of_one_worker_takes_the_first_device_of_its_file)
{
    static const char devices[] = CLUSTER("\"device\": [\"cuda:1\", \"cpu\"]");
    cadre_auto(cadre_free) char *local = cadre_asprintf(STRATEGY("local") "%s", devices);
    cadre_auto(cadre_job_fini) cadre_job_t job;
    read(&job, local);
    cr_assert_eq(cadre_job_choose_device(&job), 0, "%s", cadre_error_text());
    cr_expect_str_eq(job.device, "cuda:1");
    cr_expect_str_eq(job.overruled, "cluster.device cuda:1,cpu (but for the first)");

    cadre_auto(cadre_job_fini) cadre_job_t flagged;
    read(&flagged, devices);
    flag(&flagged, "strategy.type", "local");
    cr_assert_eq(cadre_job_choose_device(&flagged), 0, "%s", cadre_error_text());
    cr_expect_str_eq(flagged.device, "cuda:1");

    cadre_auto(cadre_job_fini) cadre_job_t contradicts;
    read(&contradicts, STRATEGY("local"));
    flag(&contradicts, "cluster.device", "cuda:1,cpu");
    cr_expect_eq(cadre_job_choose_device(&contradicts), CADRE_ECONFIG);
    cr_expect(strstr(cadre_error_text(), "lists 2 devices, but j.json: strategy.type is local, "
                                         "which has one worker: list one"),
              "%s", cadre_error_text());

    cadre_auto(cadre_job_fini) cadre_job_t central;
    read(&central, devices);
    flag(&central, "strategy.type", "central");
    cr_assert_eq(cadre_job_choose_device(&central), 0);
    cr_expect_str_eq(central.device, "cuda:1,cpu", "a worker for each");
}

Test(job_strategy, has_at_most_as_many_workers_as_ps_or_closures_of_a_step)
{
    static const cadre_job_places_t cpu = {.devices = 0};
    static const cadre_job_places_t process = {.is_one_process = true};
    expect_refused(STRATEGY("multi_worker") CLUSTER("\"workers\": 1025"), NULL, &cpu,
                   "j.json: cluster.workers is 1025, but j.json: strategy.type is multi_worker, "
                   "which has a ps for each worker: at most 1024");
    expect_refused(STRATEGY("central") CLUSTER("\"workers\": 2049"), NULL, &cpu,
                   "j.json: cluster.workers is 2049, but j.json: strategy.type is central, which "
                   "has a closure of each worker in a step: at most 2048");
    expect_refused(STRATEGY("mirrored") CLUSTER("\"workers\": 2049"), NULL, &process, "2048");

    cadre_auto(cadre_job_fini) cadre_job_t most;
    read(&most, STRATEGY("multi_worker") CLUSTER("\"workers\": 1024"));
    cr_expect_eq(cadre_job_follow_strategy(&most, &cpu), 0, "%s", cadre_error_text());
    cadre_auto(cadre_job_fini) cadre_job_t most_of_step;
    read(&most_of_step, STRATEGY("central") CLUSTER("\"workers\": 2048"));
    cr_expect_eq(cadre_job_follow_strategy(&most_of_step, &cpu), 0, "%s", cadre_error_text());
}

Test(job_strategy, refuses_what_is_for_another_consistency)
{
    static const cadre_job_places_t cpu = {.devices = 0};
    expect_refused(", \"training\": {\"staleness_bound\": 5}", NULL, &cpu,
                   "j.json: training.staleness_bound is for \"consistency\": \"bounded\", but "
                   "training.consistency is async");
    expect_refused(", \"training\": {\"consistency\": \"bounded\", \"step_closures\": 7}", NULL,
                   &cpu,
                   "j.json: training.step_closures is for \"consistency\": \"sync\", but "
                   "training.consistency is bounded");
    expect_refused(STRATEGY("local") ", \"training\": {\"staleness_bound\": 5}", NULL, &cpu,
                   "but training.consistency is sync");

    cadre_auto(cadre_job_fini) cadre_job_t job;
    read(&job, ", \"training\": {\"consistency\": \"sync\", \"step_closures\": 7}");
    flag(&job, "training.consistency", "async");
    cr_expect_eq(cadre_job_follow_strategy(&job, &cpu), 0, "the flag overrules the file");

    cadre_auto(cadre_job_fini) cadre_job_t flagged;
    read(&flagged, "");
    flag(&flagged, "training.step_closures", "4");
    cr_expect_eq(cadre_job_follow_strategy(&flagged, &cpu), CADRE_ECONFIG);
    cr_expect(strncmp(cadre_error_text(), "--step-closures is for", 22) == 0, "%s",
              cadre_error_text());

    /* A variable may be left from another job. */
    setenv("CADRE_STALENESS_BOUND", "4", 1);
    cadre_auto(cadre_job_fini) cadre_job_t surrounded;
    read(&surrounded, "");
    cr_assert_eq(cadre_job_set_environment(&surrounded), 0);
    cr_expect_eq(cadre_job_follow_strategy(&surrounded, &cpu), CADRE_ECONFIG);
    cr_expect_str_eq(cadre_error_text(),
                     "CADRE_STALENESS_BOUND is for \"consistency\": \"bounded\", but "
                     "training.consistency is async: unset this variable of the environment for "
                     "async");

    /* A program reads no such variable. */
    cadre_auto(cadre_job_fini) cadre_job_t of_program;
    cadre_job_init(&of_program);
    cr_assert_eq(cadre_job_set_environment(&of_program), 0);
    cr_expect_eq(of_program.staleness_bound, 4);
    cr_expect_eq(cadre_job_follow_strategy(&of_program, &cpu), 0, "%s", cadre_error_text());
}

/* Who asks for a consistency and gives no number is told that workers wait for one another. */
Test(job_strategy, warns_where_closures_run_one_after_the_other)
{
    static const struct {
        const char *rest;
        const char *warning; /* NULL: none */
    } cases[] = {
        {", \"training\": {\"consistency\": \"sync\"}",
         "consistency sync: closures run one after the other, as training.step_closures is 1; "
         "--step-closures 4 keeps 2 workers of 2 slots busy"},
        {", \"training\": {\"consistency\": \"bounded\"}" CLUSTER("\"workers\": 3"),
         "consistency bounded: closures run one after the other, as training.staleness_bound is 0; "
         "--staleness-bound 6 keeps 3 workers of 2 slots busy"},
        {", \"training\": {\"consistency\": \"sync\"}" CLUSTER("\"workers\": 1"), NULL},
        {", \"training\": {\"consistency\": \"sync\", \"step_closures\": 1}", NULL},
        {", \"training\": {\"consistency\": \"sync\", \"step_closures\": 4}", NULL},
        {", \"training\": {\"consistency\": \"bounded\", \"staleness_bound\": 0}", NULL},
        {STRATEGY("multi_worker"), NULL},
        {STRATEGY("mirrored") CLUSTER("\"workers\": 3"), NULL},
        {STRATEGY("local"), NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        read(&job, cases[i].rest);
        cr_assert_eq(cadre_job_follow_strategy(&job, &(cadre_job_places_t){.devices = 0}), 0);
        cadre_auto(cadre_free) char *warning = cadre_job_pace_warning(&job);
        cr_expect_str_eq(warning ? warning : "", cases[i].warning ? cases[i].warning : "", "%zu",
                         i);
    }
}

Test(job_strategy, says_of_what_it_has_set_where_that_is_from)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    read(&job, STRATEGY("mirrored") CLUSTER("\"ps\": 2"));
    cr_assert_eq(cadre_job_follow_strategy(&job, &(cadre_job_places_t){.devices = 2}), 0);
    size_t count = 0;
    size_t implied = 0;
    const cadre_setting_t *settings = cadre_job_settings(&count);
    for (size_t i = 0; i < count; i++) {
        implied += job.origins[i] == CADRE_ORIGIN_STRATEGY;
        if (strcmp(settings[i].name, "cluster.recovery") == 0) {
            cr_expect_eq(job.origins[i], CADRE_ORIGIN_CONSISTENCY);
        }
        if (strcmp(settings[i].name, "cluster.ps") == 0) {
            cr_expect_eq(job.origins[i], CADRE_ORIGIN_FILE, "what the file says is the file's");
        }
    }
    cr_expect_eq(implied, 4, "workers, slots, consistency, step_closures");
    cr_expect_str_eq(cadre_origin_text(CADRE_ORIGIN_STRATEGY), "strategy");
}
