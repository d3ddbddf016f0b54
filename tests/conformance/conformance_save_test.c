/* Saving while the cluster or the directory of checkpoints fails under it. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "coordinator/coordinator.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_save, .timeout = 900);

/* --- checkpoints that cannot be removed --- */

Test(conformance_save, checkpoints_that_cannot_be_removed_are_counted)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.checkpoint_keep = 2;
    stage_open_with(&stage, &options);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    cadre_auto(cadre_free) char *foreign =
        cadre_asprintf("%s/checkpoints/ckpt-00000001/.nfs0001", stage.cluster.scratch.path);
    cr_assert_eq(mkdir(foreign, 0700), 0);
    stage_schedule(&stage, "add_one", 1);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    EVENTUALLY(cadre_coordinator_totals(stage.coordinator).retentions_failed == 1);
    EVENTUALLY(local_cluster_logged(&stage.cluster, "retention_failed"));
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).checkpoints, 3,
                 "they are as good as any");
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).checkpoints_failed, 0);
    cadre_auto(cadre_free) char *text = NULL;
    OK(cadre_coordinator_status_json(stage.coordinator, &text));
    cr_expect(strstr(text, "\"retention_failed\":1"), "%s", text);
    stage_close(&stage);
}

/* --- one every so many steps --- */

Test(conformance_save, one_is_taken_every_so_many_steps_of_closures_that_push)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.checkpoint_every_steps = 10;
    stage_open_with(&stage, &options);
    stage_schedule(&stage, "add_one", 9);
    OK(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS));
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).checkpoints, 0);
    for (uint64_t i = 1; i <= 3; i++) {
        stage_schedule(&stage, "add_one", i == 1 ? 1 : 10);
        OK(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS));
        EVENTUALLY(cadre_coordinator_totals(stage.coordinator).checkpoints == i);
    }
    stage_close(&stage);
}

/* --- the best one --- */

Test(conformance_save, the_one_that_is_marked_as_the_best_stays)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.checkpoint_keep = 2;
    stage_open_with(&stage, &options);
    cr_expect_null(cadre_checkpoint_best(stage.coordinator));
    cr_expect_eq(cadre_checkpoint_mark_best(stage.coordinator, 1), CADRE_ENOTFOUND);
    cr_expect_eq(cadre_checkpoint_mark_best(stage.coordinator, 0), CADRE_ESTATE, "none resumed");

    uint64_t best = 0;
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, &best));
    OK(cadre_checkpoint_mark_best(stage.coordinator, best));
    for (int i = 0; i < 4; i++) {
        OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    }
    cadre_auto(cadre_free) char *second =
        cadre_asprintf("%s/checkpoints/ckpt-00000002", stage.cluster.scratch.path);
    EVENTUALLY(access(second, F_OK) != 0); /* retention has been here */
    cadre_auto(cadre_free) char *path = cadre_checkpoint_best(stage.coordinator);
    cr_assert(path && strstr(path, "/ckpt-00000001"), "%s", path);
    cr_expect_eq(access(path, F_OK), 0);
    stage_close(&stage);
}

Test(conformance_save, a_job_without_a_directory_has_no_best_one)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 1};
    stage_open_with(&stage, &options);
    cr_expect_eq(cadre_checkpoint_mark_best(stage.coordinator, 1), CADRE_ESTATE);
    cr_expect_null(cadre_checkpoint_best(stage.coordinator));
    stage_close(&stage);
}

/* --- a directory that is away --- */

/* As if assignments of so many bytes were kept for a replay. */
static void
keep_bytes(const stage_t *stage, size_t size_bytes)
{
    cadre_gate_lock(stage->coordinator->gate);
    stage->coordinator->core.replay.size_bytes += size_bytes;
    cadre_gate_unlock(stage->coordinator->gate);
}

Test(conformance_save, assignments_wait_while_there_is_no_room_to_keep_them)
{
    const size_t much = 2 * (size_t)CADRE_REPLAY_SIZE_MAX;
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    stage_open_with(&stage, &options);
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/checkpoints", stage.cluster.scratch.path);
    cadre_auto(cadre_free) char *aside = cadre_asprintf("%s-aside", path);
    cr_assert_eq(rename(path, aside), 0);
    cr_assert_eq(symlink("/dev/null", path), 0);
    keep_bytes(&stage, much);
    EVENTUALLY(local_cluster_logged(&stage.cluster, "dispatch_paused"));
    cadre_tensor_t value = {0};
    OK(cadre_variable_read(stage.wide, &value, LOCAL_WAIT_MS));
    cr_expect_eq(cadre_variable_assign(stage.wide, CADRE_VARIABLE_SET, &value, 100),
                 CADRE_ETIMEOUT);
    cr_expect(strstr(cadre_error_text(), "memory for a replay is full"), "%s", cadre_error_text());
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(rename(aside, path), 0);
    keep_bytes(&stage, -much);
    OK(cadre_variable_assign(stage.wide, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    cadre_tensor_fini(&value);
    stage_close(&stage);
}

/* --- a ps that is lost meanwhile --- */

/* A save in a thread of its own. */
typedef struct {
    stage_t *stage;
    pthread_t thread;
    int64_t timeout_ms;
    int status;
    char text[512];
} save_t;

static void *
run_save(void *context)
{
    save_t *self = context;
    self->status =
        cadre_checkpoint_save(self->stage->coordinator, "{\"epoch\":1}", self->timeout_ms, NULL);
    snprintf(self->text, sizeof(self->text), "%s", self->status < 0 ? cadre_error_text() : "");
    return NULL;
}

static bool
has_cut(stage_t *stage)
{
    cadre_coordinator_t *coordinator = stage->coordinator;
    cadre_gate_lock(coordinator->gate);
    bool yes = coordinator->core.checkpoint.state == CADRE_CHECKPOINT_CUT;
    cadre_gate_unlock(coordinator->gate);
    return yes;
}

/* Saves while a closure is held, so that the checkpoint waits for it, and kills a ps under it. */
static hold_t
lose_ps_while_saving(stage_t *stage, save_t *save, int64_t timeout_ms)
{
    hold_t hold = stage_hold(stage, "hold");
    hold_wait(&hold, 1);
    *save = (save_t){.stage = stage, .timeout_ms = timeout_ms};
    cr_assert_eq(pthread_create(&save->thread, NULL, run_save, save), 0);
    EVENTUALLY(has_cut(stage));
    local_cluster_signal(&stage->cluster, LOCAL_PS, 0, SIGKILL);
    EVENTUALLY(cadre_coordinator_totals(stage->coordinator).checkpoints_failed == 1);
    return hold;
}

static void
open_saving(stage_t *stage, int64_t ps_timeout_ms)
{
    local_cluster_options_t options = {.ps = 2, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.ps_timeout_ms = ps_timeout_ms;
    stage_open_with(stage, &options);
    stage_schedule(stage, "add_one", 10);
    stage_join(stage);
}

Test(conformance_save, a_ps_that_comes_back_costs_a_save_nothing_but_time)
{
    stage_t stage;
    save_t save;
    open_saving(&stage, 0);
    hold_t hold = lose_ps_while_saving(&stage, &save, LOCAL_WAIT_MS);
    hold_release(&hold);
    local_cluster_start(&stage.cluster, LOCAL_PS, 0);
    cr_assert_eq(pthread_join(save.thread, NULL), 0);
    cr_assert_eq(save.status, 0, "%s", save.text);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).checkpoints, 1);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).checkpoints_failed, 1);
    stage_join(&stage);
    stage_expect(&stage, 11);
    hold_fini(&hold);
    stage_close(&stage);
}

Test(conformance_save, a_save_ends_in_time_while_a_ps_is_away)
{
    stage_t stage;
    save_t save;
    open_saving(&stage, 0);
    hold_t hold = lose_ps_while_saving(&stage, &save, 2000);
    cr_assert_eq(pthread_join(save.thread, NULL), 0);
    cr_expect_eq(save.status, CADRE_ETIMEOUT, "%s", save.text);
    cr_expect(strstr(save.text, "ps 0"), "%s", save.text);
    hold_release(&hold);
    local_cluster_start(&stage.cluster, LOCAL_PS, 0);
    stage_join(&stage);
    stage_expect(&stage, 11);
    hold_fini(&hold);
    stage_close(&stage);
}

Test(conformance_save, a_save_ends_with_the_job_when_the_ps_stays_away)
{
    stage_t stage;
    save_t save;
    open_saving(&stage, 500);
    hold_t hold = lose_ps_while_saving(&stage, &save, LOCAL_WAIT_MS);
    cr_assert_eq(pthread_join(save.thread, NULL), 0);
    cr_expect_eq(save.status, CADRE_EUNAVAILABLE, "%s", save.text);
    cr_expect(strstr(save.text, "ps 0"), "%s", save.text);
    hold_release(&hold);
    hold_fini(&hold);
    stage_close(&stage);
}
