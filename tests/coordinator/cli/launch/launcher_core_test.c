#include "coordinator/cli/launch/launcher_core.h"

#include <criterion/criterion.h>
#include <signal.h>

#include "common/base/memory.h"

TestSuite(launcher_core, .timeout = 240);

static const cadre_process_end_t killed = {.signalled = true, .number = SIGKILL};

static cadre_process_end_t
exited(int code)
{
    return (cadre_process_end_t){.number = code};
}

static size_t
start_all(cadre_launcher_core_t *core, int64_t now_ms)
{
    size_t started = 0;
    size_t task;
    while (cadre_launcher_core_next(core, now_ms, &task)) {
        started++;
    }
    return started;
}

Test(launcher_core, starts_ps_workers_and_program_once)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 2, 3, true, 0);
    cr_assert_eq(cadre_launcher_core_wait_ms(&core, 50), 0);
    cr_assert_eq(start_all(&core, 50), 6);
    cr_assert_eq(start_all(&core, 50), 0);
    cr_assert_eq(cadre_launcher_core_running(&core), 6);
    cr_assert_eq(cadre_launcher_core_wait_ms(&core, 50), -1);
    cr_assert(core.tasks[1].role == CADRE_LAUNCH_PS && core.tasks[1].index == 1);
    cr_assert(core.tasks[4].role == CADRE_LAUNCH_WORKER && core.tasks[4].index == 2);
    cr_assert(core.tasks[5].role == CADRE_LAUNCH_PROGRAM && core.tasks[5].index == 0);
}

Test(launcher_core, starts_a_worker_that_had_run_for_a_while_again_at_once)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 1, 1, false, -1);
    int64_t now_ms = 0;
    start_all(&core, now_ms);
    for (int i = 1; i <= 100; i++) {
        now_ms += CADRE_LAUNCHER_STEADY_MS;
        cadre_launch_decision_t decision = cadre_launcher_core_ended(&core, 1, killed, now_ms);
        cr_assert_eq(decision.outcome, CADRE_LAUNCH_RESTART);
        cr_assert_eq(decision.delay_ms, 0);
        cr_assert_eq(decision.restarts, i);
        cr_assert_eq(start_all(&core, now_ms), 1);
    }
}

Test(launcher_core, waits_longer_each_time_for_a_worker_that_cannot_start)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 1, 1, false, -1);
    int64_t now_ms = 0;
    start_all(&core, now_ms);
    static const int64_t delays_ms[] = {100, 200, 400, 800, 1600, 2000, 2000};
    for (size_t i = 0; i < CADRE_COUNT_OF(delays_ms); i++) {
        now_ms += CADRE_LAUNCHER_STEADY_MS - 1;
        cadre_launch_decision_t decision = cadre_launcher_core_ended(&core, 1, killed, now_ms);
        cr_assert_eq(decision.delay_ms, delays_ms[i], "%zu", i);
        cr_assert_eq(cadre_launcher_core_wait_ms(&core, now_ms), delays_ms[i]);
        now_ms += delays_ms[i] - 1;
        cr_assert_eq(start_all(&core, now_ms), 0);
        now_ms++;
        cr_assert_eq(start_all(&core, now_ms), 1);
    }
    now_ms += CADRE_LAUNCHER_STEADY_MS;
    cr_assert_eq(cadre_launcher_core_ended(&core, 1, killed, now_ms).delay_ms, 0);
    start_all(&core, now_ms);
    cr_assert_eq(cadre_launcher_core_ended(&core, 1, killed, now_ms).delay_ms, 100);
}

Test(launcher_core, gives_a_worker_up_when_the_restarts_are_used_and_the_job_with_the_last_one)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 1, 2, false, 1);
    start_all(&core, 0);
    cr_assert_eq(cadre_launcher_core_ended(&core, 1, killed, 5000).outcome, CADRE_LAUNCH_RESTART);
    start_all(&core, 5000);
    cr_assert_eq(cadre_launcher_core_ended(&core, 1, killed, 9000).outcome, CADRE_LAUNCH_GIVE_UP);
    cr_assert_eq(start_all(&core, 99000), 0);
    cadre_launch_decision_t decision = cadre_launcher_core_ended(&core, 2, killed, 9000);
    cr_assert_eq(decision.outcome, CADRE_LAUNCH_END_JOB);
    cr_assert_eq(decision.exit_code, CADRE_EXIT_UNAVAILABLE);
}

Test(launcher_core, does_not_start_again_what_would_fail_again)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 1, 2, false, -1);
    start_all(&core, 0);
    cr_assert_eq(cadre_launcher_core_ended(&core, 1, exited(CADRE_EXIT_CONFIG), 10).outcome,
                 CADRE_LAUNCH_GIVE_UP);
    cadre_launch_decision_t decision =
        cadre_launcher_core_ended(&core, 2, exited(CADRE_EXIT_CONFIG), 10);
    cr_assert_eq(decision.outcome, CADRE_LAUNCH_END_JOB);
    cr_assert_eq(decision.exit_code, CADRE_EXIT_CONFIG);
}

Test(launcher_core, lets_a_worker_go_that_was_drained_while_another_one_is_left)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 1, 2, false, -1);
    start_all(&core, 0);
    cr_assert_eq(cadre_launcher_core_ended(&core, 1, exited(CADRE_EXIT_TERMINATED), 10).outcome,
                 CADRE_LAUNCH_DRAINED);
    cr_assert_eq(start_all(&core, 99000), 0);
}

/* Somebody asks every process to leave, one after the other. */
Test(launcher_core, starts_the_last_worker_again_that_was_drained_as_often_as_it_may)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 1, 2, false, 1);
    start_all(&core, 0);
    cadre_launcher_core_ended(&core, 1, exited(CADRE_EXIT_TERMINATED), 5000);
    cadre_launch_decision_t decision =
        cadre_launcher_core_ended(&core, 2, exited(CADRE_EXIT_TERMINATED), 5000);
    cr_assert(decision.outcome == CADRE_LAUNCH_RESTART && decision.last);
    cr_assert_eq(decision.restarts, 1);
    cr_assert_eq(start_all(&core, 5000), 1);
    decision = cadre_launcher_core_ended(&core, 2, exited(CADRE_EXIT_TERMINATED), 9000);
    cr_assert(decision.outcome == CADRE_LAUNCH_END_JOB && decision.used_up);
    cr_assert_eq(decision.exit_code, CADRE_EXIT_UNAVAILABLE);
}

/* --- silence --- */

/* Looks once a second for `seconds`; whether the task was to be killed at the last one only. */
static bool
killed_after(cadre_launcher_core_t *core, size_t task, int seconds)
{
    for (int i = 1; i < seconds; i++) {
        cr_assert_not(cadre_launcher_core_look(core, task, false, 1000), "after %d s", i);
    }
    return cadre_launcher_core_look(core, task, false, 1000);
}

Test(launcher_core, gives_a_task_up_that_is_not_heard_for_long_after_its_lease)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 1, 1, false, -1);
    core.ps_silent_max_ms = 3000;
    start_all(&core, 0);
    for (size_t task = 0; task < 2; task++) {
        int limit_s = task == 0 ? 3 : CADRE_LAUNCHER_SILENT_MS / 1000;
        cr_assert_not(cadre_launcher_core_look(&core, task, true, 1000));
        cr_assert_not(cadre_launcher_core_look(&core, task, false, 2000), "when is not known");
        cr_assert_not(killed_after(&core, task, limit_s - 1));
        cr_assert_not(cadre_launcher_core_look(&core, task, true, 1000), "it is back");
        cr_assert_not(cadre_launcher_core_look(&core, task, false, 2000));
        cr_assert(killed_after(&core, task, limit_s));
        cr_assert_not(cadre_launcher_core_look(&core, task, false, 1000), "once");
        cr_assert_eq(cadre_launcher_core_ended(&core, task, killed, 99000).outcome,
                     CADRE_LAUNCH_RESTART);
        start_all(&core, 99000);
        cr_assert_not(cadre_launcher_core_look(&core, task, false, 1000), "it begins");
        cr_assert_not(killed_after(&core, task, 2 * limit_s), "it was never heard");
    }
}

Test(launcher_core, gives_nobody_up_once_it_stops)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 1, 1, false, -1);
    start_all(&core, 0);
    cadre_launcher_core_look(&core, 1, true, 1000);
    cadre_launcher_core_stop(&core);
    cr_assert_not(killed_after(&core, 1, 100));
}

Test(launcher_core, takes_no_notice_of_tasks_that_their_coordinator_told_to_leave)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 1, 1, true, -1);
    start_all(&core, 0);
    for (size_t task = 0; task < 2; task++) {
        cr_assert_eq(cadre_launcher_core_ended(&core, task, exited(0), 10).outcome,
                     CADRE_LAUNCH_EXPECTED);
    }
    cr_assert_eq(start_all(&core, 9 + CADRE_LAUNCHER_DISMISSED_MS), 0);
    cr_assert_eq(cadre_launcher_core_ended(&core, 2, exited(0), 20).exit_code, 0);
}

Test(launcher_core, starts_a_ps_again_that_was_dismissed_from_a_job_that_goes_on)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    size_t task = 99;
    cadre_launcher_core_init(&core, 1, 1, true, 0);
    start_all(&core, 0);
    cr_assert_eq(cadre_launcher_core_ended(&core, 0, exited(0), 10).outcome, CADRE_LAUNCH_EXPECTED);
    cr_assert_eq(cadre_launcher_core_ended(&core, 1, exited(0), 10).outcome, CADRE_LAUNCH_EXPECTED);
    cr_assert_not(cadre_launcher_core_next(&core, 9 + CADRE_LAUNCHER_DISMISSED_MS, &task));
    cr_assert(cadre_launcher_core_next(&core, 10 + CADRE_LAUNCHER_DISMISSED_MS, &task));
    cr_assert_eq(task, 0);
    cr_assert_not(cadre_launcher_core_next(&core, 99000, &task), "a worker may have been drained");
    cadre_launcher_core_ended(&core, 0, exited(0), 99000);
    cadre_launcher_core_stop(&core);
    cr_assert_not(cadre_launcher_core_next(&core, 999000, &task), "the job did end");
}

Test(launcher_core, starts_a_ps_again_however_it_ended)
{
    const cadre_process_end_t ends[] = {killed, exited(1), exited(CADRE_EXIT_BUG),
                                        exited(CADRE_EXIT_UNAVAILABLE),
                                        exited(CADRE_EXIT_TERMINATED)};
    for (size_t i = 0; i < CADRE_COUNT_OF(ends); i++) {
        cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
        cadre_launcher_core_init(&core, 2, 1, false, -1);
        start_all(&core, 0);
        cadre_launch_decision_t decision = cadre_launcher_core_ended(&core, 1, ends[i], 9999);
        cr_assert_eq(decision.outcome, CADRE_LAUNCH_RESTART, "%zu", i);
        cr_assert_eq(decision.delay_ms, 0);
        cr_assert_eq(decision.restarts, 1);
        cr_assert_eq(start_all(&core, 9999), 1);
        cr_assert_eq(core.tasks[1].starts, 2);
        decision = cadre_launcher_core_ended(&core, 1, ends[i], 10000); /* and soon again */
        cr_assert_eq(decision.delay_ms, CADRE_LAUNCHER_DELAY_MIN_MS);
    }
}

Test(launcher_core, ends_the_job_when_a_ps_may_not_be_started_again)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 2, 2, false, 2);
    start_all(&core, 0);
    cr_assert_eq(cadre_launcher_core_ended(&core, 3, killed, 2000).outcome, CADRE_LAUNCH_RESTART);
    cr_assert_eq(cadre_launcher_core_ended(&core, 0, killed, 2000).outcome, CADRE_LAUNCH_RESTART);
    cadre_launch_decision_t decision = cadre_launcher_core_ended(&core, 1, killed, 2000);
    cr_assert_eq(decision.outcome, CADRE_LAUNCH_END_JOB);
    cr_assert_eq(decision.exit_code, CADRE_EXIT_UNAVAILABLE);
    cr_assert(decision.used_up, "workers' starts count with those of ps");
    cadre_launcher_core_fini(&core);
    cadre_launcher_core_init(&core, 1, 1, false, -1);
    start_all(&core, 0);
    decision = cadre_launcher_core_ended(&core, 0, exited(CADRE_EXIT_CONFIG), 2000);
    cr_assert_eq(decision.outcome, CADRE_LAUNCH_END_JOB);
    cr_assert_eq(decision.exit_code, CADRE_EXIT_CONFIG);
    cr_assert_not(decision.used_up);
}

Test(launcher_core, passes_on_how_the_program_ended)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 1, 1, true, -1);
    start_all(&core, 0);
    cadre_launcher_core_stop(&core);
    cadre_launch_decision_t decision = cadre_launcher_core_ended(&core, 2, exited(7), 10);
    cr_assert(decision.outcome == CADRE_LAUNCH_END_JOB && decision.exit_code == 7);
    cadre_launcher_core_fini(&core);
    cadre_launcher_core_init(&core, 1, 1, true, -1);
    start_all(&core, 0);
    decision = cadre_launcher_core_ended(&core, 2, killed, 10);
    cr_assert(decision.outcome == CADRE_LAUNCH_END_JOB && decision.exit_code == 128 + SIGKILL);
}

Test(launcher_core, starts_nothing_more_once_it_stops)
{
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 1, 2, false, -1);
    start_all(&core, 0);
    cadre_launcher_core_ended(&core, 1, killed, 10);
    cadre_launcher_core_stop(&core);
    cr_assert_eq(start_all(&core, 99000), 0);
    cr_assert_eq(cadre_launcher_core_ended(&core, 2, killed, 20).outcome, CADRE_LAUNCH_EXPECTED);
    cr_assert_eq(cadre_launcher_core_ended(&core, 0, killed, 20).outcome, CADRE_LAUNCH_EXPECTED);
    cr_assert_eq(cadre_launcher_core_running(&core), 0);
    cr_assert_eq(start_all(&core, 99000), 0);
}
