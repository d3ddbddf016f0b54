/*
 * Checkpoints on a disk that fails: each call by which a ps or the coordinator changes something
 * under the checkpoint directory fails once with ENOSPC, once with EIO, and once kills its process
 * instead; and for a while the disk is full, or calls fail at random. Training must go on, the
 * failure be counted and said, the checkpoint before stay loadable, and every total be exact; the
 * job is killed and taken up again in between.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/field.h"
#include "tests/chaos/file_faults.h"
#include "tests/system/process.h"

enum {
    PS = 2,
    WORKERS = 2,
    CHECKPOINT_MS = 60,
    FULL_MS = 250,       /* how long a disk stays full, or fails at random, */
    RANDOM_PERCENT = 10, /* of the calls then */
    RESUME_EVERY = 6,    /* faults between two kills of the job */
    CALLS_MAX = 1000,    /* of one checkpoint */
    SURVEY_COUNT = 3,    /* checkpoints whose calls are counted */
};

typedef enum { MODE_ENOSPC, MODE_EIO, MODE_KILL, MODE_FULL, MODE_RANDOM, MODE_COUNT } disk_mode_t;

static const char *const mode_names[] = {"ENOSPC", "EIO", "kill", "full for a while",
                                         "failing at random"};
static const int errors[] = {ENOSPC, EIO, FILE_FAULTS_KILL, ENOSPC, EIO};

/* Who has the bad disk: the job, or the first ps. */
static const field_role_t victims[] = {FIELD_PS, FIELD_JOB};

typedef struct {
    field_t field;
    file_faults_t *faults[FIELD_ROLE_COUNT];
    char *preload;
    char *orders[FIELD_ROLE_COUNT]; /* words of the environment */
    uint64_t failed;                /* checkpoints, over all starts of the job */
    uint64_t kills;
} disk_t;

/* --- setting up --- */

static void
prepare(void *context, field_role_t role, int index, field_start_t *start)
{
    const disk_t *disk = context;
    if (role != FIELD_WORKER && index == 0) {
        start->environment[0] = disk->preload;
        start->environment[1] = disk->orders[role];
    }
}

static void
disk_open(disk_t *disk, chaos_run_t *run)
{
    cadre_auto(cadre_free) char *library = program_path("../tests/chaos_file_faults.so");
    if (access(library, F_OK) != 0) {
        chaos_skip(run, "a sanitizer's runtime must come first in a process: nothing is preloaded");
    }
    *disk = (disk_t){.preload = cadre_asprintf("LD_PRELOAD=%s", library)};
    field_options_t options = {
        .ps = PS,
        .workers = WORKERS,
        .checkpoints = true,
        .settings = {.seed = run->seed, .assign = true, .checkpoint_every_ms = CHECKPOINT_MS},
        .prepare = prepare,
        .context = disk};
    field_prepare(&disk->field, &options);
    for (size_t i = 0; i < CADRE_COUNT_OF(victims); i++) {
        field_role_t role = victims[i];
        cadre_auto(cadre_free) char *path =
            cadre_asprintf("%s/orders-%d", disk->field.scratch.path, (int)role);
        disk->faults[role] = file_faults_open(path, disk->field.board->checkpoints);
        disk->orders[role] = cadre_asprintf(FILE_FAULTS_VARIABLE "=%s", path);
        disk->field.may_be_killed[role][0] = true;
    }
    field_begin(&disk->field);
}

static void
disk_close(disk_t *disk, board_t *last)
{
    field_close(&disk->field, last);
    free(disk->preload);
    for (size_t i = 0; i < CADRE_COUNT_OF(victims); i++) {
        file_faults_close(&disk->faults[victims[i]]);
        free(disk->orders[victims[i]]);
    }
}

/* --- conditions --- */

static bool
has_checkpoints(field_t *field, void *context)
{
    const uint64_t *checkpoints = context;
    return field->board->state == BOARD_RUNNING && field->board->checkpoints_done >= *checkpoints;
}

static void
await_checkpoints(disk_t *disk, uint64_t more)
{
    more += disk->field.board->checkpoints_done;
    field_await(&disk->field, "a checkpoint", has_checkpoints, &more);
}

static bool
has_failed(field_t *field, void *context)
{
    (void)field;
    const file_faults_t *faults = context;
    return faults->failed > 0;
}

/* How many calls one checkpoint takes there. */
static uint64_t
survey(disk_t *disk, field_role_t role)
{
    await_checkpoints(disk, 1);
    file_faults_arm(disk->faults[role], 0, 0, false);
    await_checkpoints(disk, SURVEY_COUNT);
    uint64_t calls = disk->faults[role]->calls / SURVEY_COUNT;
    if (calls < 2 || calls > CALLS_MAX) {
        field_fail(&disk->field, "a checkpoint takes %" PRIu64 " calls", calls);
    }
    return calls;
}

/* --- one fault --- */

/* The job says in its log, and counts, what became of a checkpoint. What fails while old ones are
 * removed costs none. */
static bool
is_excused(const file_faults_t *faults)
{
    return strcmp(faults->last_call, "unlink") == 0 || strstr(faults->last_path, "/ckpt-");
}

static void
restart_job(disk_t *disk)
{
    disk->failed += disk->field.board->checkpoints_failed;
    field_signal(&disk->field, FIELD_JOB, 0, SIGKILL);
    field_start(&disk->field, FIELD_JOB, 0);
    field_await_progress(&disk->field, 1);
}

static bool
is_gone(field_t *field, void *context)
{
    const field_role_t *role = context;
    return field->pids[*role][0] == 0;
}

static void
after_kill(disk_t *disk, field_role_t role)
{
    field_await(&disk->field, "a killed process to be gone", is_gone, &role);
    if (role == FIELD_JOB) {
        disk->failed += disk->field.board->checkpoints_failed;
    }
    disk->kills++;
    field_start(&disk->field, role, 0);
}

/* What the job has counted: checkpoints that failed, and old ones that could not be removed (which
 * makes a directory too). */
static uint64_t
failures(const field_t *field)
{
    return field->board->checkpoints_failed + field->board->retentions_failed;
}

/* The fault at call `from`, and what must be so after it. */
static void
strike(disk_t *disk, field_role_t role, disk_mode_t mode, uint64_t from)
{
    field_t *field = &disk->field;
    file_faults_t *faults = disk->faults[role];
    uint64_t failed_before = failures(field);
    if (mode == MODE_RANDOM) {
        file_faults_arm_random(faults, errors[mode], RANDOM_PERCENT);
    } else {
        file_faults_arm(faults, errors[mode], from, mode == MODE_FULL);
    }
    field_await(field, "a call to fail", has_failed, faults);
    if (mode == MODE_KILL) {
        after_kill(disk, role);
        field_await_progress(field, 1);
    } else if (field->pids[role][0] == 0) {
        field_fail(field, "%s at %s %s ended its process", mode_names[mode], faults->last_call,
                   faults->last_path);
    }
    if (mode >= MODE_FULL) {
        field_spend(field, FULL_MS);
    }
    file_faults_disarm(faults);
    field_await_progress(field, 1);
    await_checkpoints(disk, 1);
    if (mode < MODE_RANDOM && mode != MODE_KILL && failures(field) == failed_before &&
        !is_excused(faults)) {
        field_fail(field, "%s at %s %s: no checkpoint or removal was counted as failed",
                   mode_names[mode], faults->last_call, faults->last_path);
    }
    field_await_fence(field);
}

void
chaos_disk(chaos_run_t *run)
{
    disk_t disk;
    board_t last;
    int faults = 0;
    uint64_t calls[FIELD_ROLE_COUNT] = {0};
    disk_open(&disk, run);
    for (size_t v = 0; v < CADRE_COUNT_OF(victims); v++) {
        field_role_t role = victims[v];
        calls[role] = survey(&disk, role);
        for (int mode = 0; mode < MODE_COUNT; mode++) {
            int steps = (int)calls[role] < run->count ? (int)calls[role] : run->count;
            for (int i = 0; i < steps; i++) {
                uint64_t from = 1 + (uint64_t)i * calls[role] / (uint64_t)steps;
                strike(&disk, role, (disk_mode_t)mode, from);
                if (++faults % RESUME_EVERY == 0) {
                    restart_job(&disk);
                }
            }
        }
    }
    disk.failed += disk.field.board->checkpoints_failed;
    disk_close(&disk, &last);
    chaos_say(run,
              "%d faults: ENOSPC, EIO, kill, full, random errors at each of %" PRIu64
              " calls of a ps and %" PRIu64 " of the coordinator; %" PRIu64
              " checkpoints failed and were counted, %" PRIu64 " processes killed, %" PRIu64
              " of %" PRIu64 " starts resumed, %" PRIu64 " updates exact",
              faults, calls[FIELD_PS], calls[FIELD_JOB], disk.failed, disk.kills, last.resumed,
              last.starts, last.updates);
    chaos_number(run, "faults", faults);
    chaos_number(run, "calls_ps", (double)calls[FIELD_PS]);
    chaos_number(run, "calls_coordinator", (double)calls[FIELD_JOB]);
    chaos_number(run, "checkpoints_failed", (double)disk.failed);
    chaos_number(run, "processes_killed", (double)disk.kills);
    chaos_number(run, "starts_resumed", (double)last.resumed);
}
