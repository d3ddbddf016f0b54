#include "coordinator/cli/launch/task_end.h"

#include <criterion/criterion.h>
#include <signal.h>

TestSuite(task_end, .timeout = 240);

static const cadre_launcher_report_t killed_worker = {
    .role = CADRE_LAUNCH_WORKER,
    .index = 1,
    .pid = 7,
    .end = {.signalled = true, .number = SIGKILL},
    .decision = {.outcome = CADRE_LAUNCH_RESTART, .restarts = 1},
};

Test(task_end, say_how_a_worker_ended_what_of_its_closures_and_what_next)
{
    char text[CADRE_TASK_END_TEXT_SIZE];
    cr_expect_str_eq(cadre_task_end_full_text(&killed_worker, 10, text),
                     "worker 1 (pid 7) was killed by SIGKILL, often because memory ran out: its "
                     "closures run again on other workers; it starts again at once (restart 1 of "
                     "10)");
    cadre_launcher_report_t late = killed_worker;
    late.decision.delay_ms = 1600;
    cr_expect_str_eq(cadre_task_end_full_text(&late, -1, text),
                     "worker 1 (pid 7) was killed by SIGKILL, often because memory ran out: its "
                     "closures run again on other workers; it starts again in 1.6 s (restart 1 of "
                     "no limit)");
    cr_expect_str_eq(cadre_task_end_text(&killed_worker, text),
                     "worker 1 was killed by SIGKILL, often because memory ran out");
}

Test(task_end, say_of_a_silent_task_why_it_was_killed)
{
    char text[CADRE_TASK_END_TEXT_SIZE];
    cadre_launcher_report_t report = killed_worker;
    report.silent_ms = 20900;
    cr_expect_str_eq(cadre_task_end_full_text(&report, 10, text),
                     "worker 1 (pid 7) was not heard for 20 s after its lease, so it was killed: "
                     "its closures run again on other workers; it starts again at once (restart 1 "
                     "of 10)");
}

Test(task_end, say_why_the_last_worker_starts_again_that_was_told_to_leave)
{
    char text[CADRE_TASK_END_TEXT_SIZE];
    cadre_launcher_report_t report = killed_worker;
    report.end = (cadre_process_end_t){.number = 143};
    report.decision.last = true;
    cr_expect_str_eq(cadre_task_end_full_text(&report, 10, text),
                     "worker 1 (pid 7) exited with 143, stopped by SIGTERM: no other worker is "
                     "left; it starts again at once (restart 1 of 10)");
}

Test(task_end, say_that_a_worker_was_told_to_leave)
{
    char text[CADRE_TASK_END_TEXT_SIZE];
    cadre_launcher_report_t report = killed_worker;
    report.end = (cadre_process_end_t){.number = 143};
    report.decision = (cadre_launch_decision_t){.outcome = CADRE_LAUNCH_DRAINED};
    cr_expect_str_eq(cadre_task_end_full_text(&report, 10, text),
                     "worker 1 (pid 7) exited with 143, stopped by SIGTERM: what it has not run "
                     "goes to other workers; it is not started again");
}

Test(task_end, say_why_a_worker_stays_away)
{
    char text[CADRE_TASK_END_TEXT_SIZE];
    cadre_launcher_report_t report = killed_worker;
    report.decision = (cadre_launch_decision_t){.outcome = CADRE_LAUNCH_GIVE_UP, .used_up = true};
    cr_expect_str_eq(cadre_task_end_full_text(&report, 10, text),
                     "worker 1 (pid 7) was killed by SIGKILL, often because memory ran out: its "
                     "closures run again on other workers; it is not started again: "
                     "--max-restarts are used up");
    report.decision.used_up = false;
    report.end = (cadre_process_end_t){.number = 78};
    cr_expect_str_eq(cadre_task_end_full_text(&report, 10, text),
                     "worker 1 (pid 7) exited with 78, bad configuration: its closures run again "
                     "on other workers; it is not started again");
    report.decision.outcome = CADRE_LAUNCH_END_JOB;
    cr_expect_str_eq(cadre_task_end_full_text(&report, 10, text),
                     "worker 1 (pid 7) exited with 78, bad configuration: no worker is left, so "
                     "the job ends");
}

Test(task_end, tell_a_lost_device_from_a_bug)
{
    char text[CADRE_TASK_END_TEXT_SIZE];
    cadre_launcher_report_t report = killed_worker;
    report.end = (cadre_process_end_t){.number = 70};
    cr_expect_str_eq(cadre_task_end_text(&report, text),
                     "worker 1 exited with 70, its device is lost");
    report.role = CADRE_LAUNCH_PS;
    cr_expect_str_eq(cadre_task_end_text(&report, text), "ps 1 exited with 70, a bug in Cadre");
}

Test(task_end, say_that_the_shard_of_a_ps_waits_for_it)
{
    char text[CADRE_TASK_END_TEXT_SIZE];
    cadre_launcher_report_t report = killed_worker;
    report.role = CADRE_LAUNCH_PS;
    cr_expect_str_eq(cadre_task_end_full_text(&report, 10, text),
                     "ps 1 (pid 7) was killed by SIGKILL, often because memory ran out: its shard "
                     "waits for it; it starts again at once (restart 1 of 10)");
}

Test(task_end, say_that_a_job_ends_with_a_ps_that_may_not_come_back)
{
    char text[CADRE_TASK_END_TEXT_SIZE];
    cadre_launcher_report_t report = killed_worker;
    report.role = CADRE_LAUNCH_PS;
    report.decision = (cadre_launch_decision_t){.outcome = CADRE_LAUNCH_END_JOB, .used_up = true};
    cr_expect_str_eq(cadre_task_end_full_text(&report, 10, text),
                     "ps 1 (pid 7) was killed by SIGKILL, often because memory ran out: its shard "
                     "is gone, so the job ends; --max-restarts are used up");
}
