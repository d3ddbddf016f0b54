/* A coordinator that is killed, and everything with it: ids F24 and D3 of docs/conformance.md. */
#include <criterion/criterion.h>
#include <signal.h>

#include "common/base/memory.h"
#include "tests/conformance/outside.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_coordinator, .timeout = 900);

enum { ROWS = 100, BATCHES = (ROWS + OUTSIDE_BATCH - 1) / OUTSIDE_BATCH };

static double
integer(const json_t *object, const char *name)
{
    return (double)json_integer_value(json_object_get(object, name));
}

/* The totals are those of a job that was left alone: each row once per epoch, each update once. */
static void
expect_exact(outside_t *outside, int epochs)
{
    json_t *result = outside_result(outside);
    const json_t *visits = json_object_get(result, "visits");
    const json_t *applied = json_object_get(result, "applied");
    int closures = epochs * BATCHES;
    cr_assert_eq(json_array_size(visits), ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        double times = json_number_value(json_array_get(visits, i));
        cr_assert(times >= epochs && times <= epochs, "row %zu was visited %g times, not %d", i,
                  times, epochs);
    }
    for (size_t i = 0; i < json_array_size(applied); i++) {
        cr_assert_eq(json_integer_value(json_array_get(applied, i)), closures,
                     "shard %zu applied %d updates, not %d", i,
                     (int)json_integer_value(json_array_get(applied, i)), closures);
    }
    cr_expect_eq((int)integer(result, "scheduled"), closures);
    cr_expect_eq((int)integer(result, "finished"), closures);
    json_decref(result);
}

/* The last checkpoint is in the middle of one epoch, and work of the next has been done since. */
static const outside_job_t held = {
    .epochs = 3, .save_at = BATCHES / 2, .hold_at = BATCHES + BATCHES / 3};

static void
hold_and_kill(outside_t *outside, int size)
{
    outside_open(outside, size, ROWS);
    outside_drive(outside, &held);
    outside_await(outside, "holding");
    outside_kill_driver(outside);
}

static void
expect_resumed(outside_t *outside)
{
    char start[32];
    snprintf(start, sizeof(start), "start %d\n", held.save_at);
    outside_await(outside, start);
    outside_release(outside);
    expect_exact(outside, held.epochs);
}

BOTH_SIZES(conformance_coordinator, F24_a_coordinator_that_is_killed_resumes_at_the_last_cut)
{
    outside_t outside;
    hold_and_kill(&outside, size);
    outside_drive(&outside, &held);
    expect_resumed(&outside);
    outside_close(&outside);
}

BOTH_SIZES(conformance_coordinator, F24_a_coordinator_is_killed_whenever_it_has_saved)
{
    enum { KILLS = 3, EPOCHS = 100 };
    outside_t outside;
    uint64_t checkpoint = 0;
    outside_job_t job = {.epochs = EPOCHS, .every_ms = 100};
    outside_open(&outside, size, ROWS);
    for (int i = 1; i <= KILLS; i++) {
        /* Each gets further than the one before: where nothing has run nothing is saved. */
        job.hold_at = i * EPOCHS / (KILLS + 1) * BATCHES;
        outside_drive(&outside, &job);
        checkpoint = outside_await_checkpoint(&outside, checkpoint);
        outside_kill_driver(&outside);
    }
    outside_release(&outside);
    outside_drive(&outside, &job);
    expect_exact(&outside, EPOCHS);
    outside_close(&outside);
}

static void
restart_tasks(outside_t *outside)
{
    for (int role = 0; role < LOCAL_ROLE_COUNT; role++) {
        for (int i = 0; i < outside->cluster.options.ps; i++) {
            local_cluster_signal(&outside->cluster, (local_role_t)role, i, SIGKILL);
        }
    }
    for (int role = 0; role < LOCAL_ROLE_COUNT; role++) {
        for (int i = 0; i < outside->cluster.options.ps; i++) {
            local_cluster_start(&outside->cluster, (local_role_t)role, i);
        }
    }
}

BOTH_SIZES(conformance_coordinator, D3_everything_is_killed_in_the_middle_of_an_epoch)
{
    outside_t outside;
    hold_and_kill(&outside, size);
    restart_tasks(&outside);
    outside_drive(&outside, &held);
    expect_resumed(&outside);
    outside_close(&outside);
}
