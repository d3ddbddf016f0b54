/* Opening a coordinator: what is refused before anything starts. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cadre/coordinator.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/system/descriptors.h"
#include "coordinator/coordinator.h"

TestSuite(setup, .timeout = 240);

/* A coordinator of a directory of checkpoints, on a port of its own. */
static cadre_coordinator_options_t
options_for(const char *folder)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.address = "tcp://127.0.0.1:*";
    options.checkpoint_dir = folder;
    return options;
}

Test(setup, refuses_a_second_coordinator_of_one_checkpoint_directory)
{
    char folder[] = "/tmp/cadre-setup-XXXXXX";
    cr_assert(mkdtemp(folder));
    cadre_auto(cadre_free) char *draft = cadre_asprintf("%s/.tmp-ckpt-00000001-0", folder);
    cadre_coordinator_options_t options = options_for(folder);
    cadre_coordinator_t *first = NULL;
    cadre_coordinator_t *second = NULL;
    char process[32];
    snprintf(process, sizeof(process), "process %d on", (int)getpid());
    cr_assert_eq(cadre_coordinator_open(&options, &first), 0, "%s", cadre_error_text());
    cr_assert_eq(mkdir(draft, 0700), 0); /* what the first is writing */
    cr_assert_eq(cadre_coordinator_open(&options, &second), CADRE_EEXISTS);
    cr_expect_null(second);
    cr_expect(strstr(cadre_error_text(), folder), "%s", cadre_error_text());
    cr_expect(strstr(cadre_error_text(), process), "%s", cadre_error_text());
    cr_expect_eq(access(draft, F_OK), 0, "the second has touched nothing");
    cadre_coordinator_close(&first);
    cr_assert_eq(cadre_coordinator_open(&options, &first), 0, "%s", cadre_error_text());
    cr_expect_eq(access(draft, F_OK), -1, "its next holder tidies up");
    cadre_coordinator_close(&first);
    cr_expect_eq(rmdir(folder), 0);
}

Test(setup, follows_a_strategy_and_says_which)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cadre_coordinator_t *coordinator = NULL;
    options.strategy = CADRE_STRATEGY_CENTRAL;
    options.step_closures = 3;
    cr_assert_eq(cadre_coordinator_open(&options, &coordinator), 0, "%s", cadre_error_text());
    cr_expect_eq(coordinator->core.options.consistency, CADRE_SYNC);
    cr_expect_eq(coordinator->core.options.recovery, CADRE_RECOVERY_ROLLBACK);
    cadre_auto(cadre_free) char *status = NULL;
    cr_assert_eq(cadre_coordinator_status_json(coordinator, &status), 0);
    cr_expect_not_null(strstr(status, "\"strategy\":\"central\""), "%s", status);
    cadre_coordinator_close(&coordinator);
    options.recovery = CADRE_RECOVERY_RELAXED;
    cr_expect_eq(cadre_coordinator_open(&options, &coordinator), CADRE_ECONFIG);
    cr_expect_not_null(strstr(cadre_error_text(), "recovery relaxed"), "%s", cadre_error_text());
}

Test(setup, draws_another_epoch_at_every_start)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    uint64_t epochs[3] = {0};
    for (size_t i = 0; i < CADRE_COUNT_OF(epochs); i++) {
        cadre_coordinator_t *coordinator = NULL;
        cr_assert_eq(cadre_coordinator_open(&options, &coordinator), 0, "%s", cadre_error_text());
        epochs[i] = coordinator->core.options.epoch;
        cadre_coordinator_close(&coordinator);
        cr_expect_neq(epochs[i], 0);
        for (size_t j = 0; j < i; j++) {
            cr_expect(epochs[i] > epochs[j] + 1000 || epochs[i] + 1000 < epochs[j],
                      "an epoch is no count");
        }
    }
}

Test(setup, refuses_to_keep_one_checkpoint_only)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cadre_coordinator_t *coordinator = NULL;
    options.checkpoint_keep = 1;
    cr_expect_eq(cadre_coordinator_open(&options, &coordinator), CADRE_ECONFIG);
    cr_expect(strstr(cadre_error_text(), "at least 2"), "%s", cadre_error_text());
}

Test(setup, refuses_a_chain_of_checkpoints_that_no_reader_follows)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cadre_coordinator_t *coordinator = NULL;
    options.checkpoint_full_every = CADRE_CHECKPOINT_FULL_EVERY_MAX + 1;
    cr_expect_eq(cadre_coordinator_open(&options, &coordinator), CADRE_ECONFIG);
    cr_expect(strstr(cadre_error_text(), "checkpoint_full_every is 65, at most 64"), "%s",
              cadre_error_text());
    options.checkpoint_full_every = CADRE_CHECKPOINT_FULL_EVERY_MAX;
    cr_expect_eq(cadre_coordinator_open(&options, &coordinator), 0, "%s", cadre_error_text());
    cadre_coordinator_close(&coordinator);
}

Test(setup, refuses_what_is_no_recovery)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cadre_coordinator_t *coordinator = NULL;
    options.recovery = (cadre_recovery_t)(CADRE_RECOVERY_RELAXED + 1);
    cr_expect_eq(cadre_coordinator_open(&options, &coordinator), CADRE_ECONFIG);
    cr_expect(strstr(cadre_error_text(), "recovery 3"), "%s", cadre_error_text());
    options.recovery = CADRE_RECOVERY_RELAXED;
    cr_expect_eq(cadre_coordinator_open(&options, &coordinator), 0);
    cadre_coordinator_close(&coordinator);
}

/* What the text says after nobody came. */
static const char *
wait_for_nobody(const char *address)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cadre_coordinator_t *coordinator = NULL;
    options.address = address;
    unsetenv("CADRE_CLUSTER");
    unsetenv("TF_CONFIG");
    cr_assert_eq(cadre_coordinator_open(&options, &coordinator), 0, "%s", cadre_error_text());
    cr_expect_eq(cadre_coordinator_wait_ready(coordinator, 1, 1), CADRE_ETIMEOUT);
    cadre_coordinator_close(&coordinator);
    return cadre_error_text();
}

Test(setup, says_how_to_get_a_cluster_when_nothing_describes_one)
{
    cr_expect(strstr(wait_for_nobody(NULL), "cadre run -- PROGRAM"), "%s", cadre_error_text());
    cr_expect(strstr(cadre_error_text(), "0 of 1 ps and 0 of 1 workers joined ipc:///"), "%s",
              cadre_error_text());
    cr_expect_not(strstr(wait_for_nobody("tcp://127.0.0.1:*"), "PROGRAM"), "%s",
                  cadre_error_text());
}

/* The last line that a coordinator has logged at level W or E. */
static char logged[1024];

static void
keep_line(void *context, char level, const char *event, const char *pairs)
{
    (void)context;
    if (level == 'W' || level == 'E') {
        snprintf(logged, sizeof(logged), "%s %s", event, pairs);
    }
}

Test(setup, does_not_begin_anew_where_no_checkpoint_can_be_loaded)
{
    char folder[] = "/tmp/cadre-setup-XXXXXX";
    cr_assert(mkdtemp(folder));
    cadre_coordinator_options_t options = options_for(folder);
    cadre_coordinator_t *coordinator = NULL;
    options.resume = CADRE_RESUME_AUTO;
    options.log = keep_line;
    cr_assert_eq(cadre_coordinator_open(&options, &coordinator), 0, "there never was one: %s",
                 cadre_error_text());
    cadre_coordinator_close(&coordinator);
    cadre_auto(cadre_free) char *damaged = cadre_asprintf("%s/ckpt-00000004", folder);
    cr_assert_eq(mkdir(damaged, 0700), 0); /* its manifest is gone */
    cr_assert_eq(cadre_coordinator_open(&options, &coordinator), CADRE_ECORRUPT);
    cr_expect(strstr(cadre_error_text(), folder), "%s", cadre_error_text());
    cr_expect(strstr(logged, "checkpoint_damaged checkpoint=4"), "%s", logged);
    options.resume = CADRE_RESUME_NEVER;
    cr_expect_eq(cadre_coordinator_open(&options, &coordinator), 0, "%s", cadre_error_text());
    cadre_coordinator_close(&coordinator);
    cr_expect_eq(rmdir(damaged), 0);
    cr_expect_eq(rmdir(folder), 0);
}

Test(setup, begins_beside_a_draft_that_cannot_be_removed)
{
    char folder[] = "/tmp/cadre-setup-XXXXXX";
    cr_assert(mkdtemp(folder));
    cadre_auto(cadre_free) char *draft = cadre_asprintf("%s/.tmp-ckpt-00000001-7", folder);
    cadre_auto(cadre_free) char *foreign = cadre_asprintf("%s/.nfs0001", draft);
    cadre_coordinator_options_t options = options_for(folder);
    cadre_coordinator_t *coordinator = NULL;
    options.log = keep_line;
    cr_assert_eq(mkdir(draft, 0700), 0);
    cr_assert_eq(mkdir(foreign, 0700), 0);
    cr_assert_eq(cadre_coordinator_open(&options, &coordinator), 0, "%s", cadre_error_text());
    cr_expect(strstr(logged, "cleanup_failed") && strstr(logged, foreign), "%s", logged);
    cadre_coordinator_close(&coordinator);
    cr_expect_eq(rmdir(foreign), 0);
    cr_expect_eq(rmdir(draft), 0);
    cr_expect_eq(rmdir(folder), 0);
}

Test(setup, without_an_address_binds_where_only_this_user_can_connect)
{
    unsetenv("CADRE_CLUSTER");
    unsetenv("TF_CONFIG");
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cadre_coordinator_t *coordinator = NULL;
    struct stat about = {0};
    mode_t before = umask(0);
    cr_assert_eq(cadre_coordinator_open(&options, &coordinator), 0, "%s", cadre_error_text());
    umask(before);
    const char *address = cadre_coordinator_address(coordinator);
    cr_assert_eq(strncmp(address, "ipc:///", 7), 0, "%s", address);
    cadre_auto(cadre_free) char *path = cadre_strdup(address + 6);
    cr_assert_eq(lstat(path, &about), 0);
    cr_expect(S_ISSOCK(about.st_mode) && (about.st_mode & 0777) == 0600);
    *strrchr(path, '/') = '\0';
    cr_assert_eq(lstat(path, &about), 0);
    cr_expect(S_ISDIR(about.st_mode) && (about.st_mode & 0777) == 0700);
    cr_expect_eq(about.st_uid, getuid());
    cadre_coordinator_close(&coordinator);
    cr_expect_eq(access(path, F_OK), -1, "it is gone with its coordinator");
}

Test(setup, refuses_a_job_whose_ps_take_all_descriptors)
{
    struct rlimit limit = {256, 256};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cadre_coordinator_t *coordinator = NULL;
    options.ps_count = 256 / 4;
    cr_expect_eq(cadre_coordinator_open(&options, &coordinator), CADRE_ECONFIG);
    cr_expect(strstr(cadre_error_text(), "a coordinator with 64 ps takes "), "%s",
              cadre_error_text());
    cr_expect(strstr(cadre_error_text(), "RLIMIT_NOFILE, the limit of open files, is 256: "), "%s",
              cadre_error_text());
    options.ps_count = 1;
    cr_assert_eq(cadre_coordinator_open(&options, &coordinator), 0, "%s", cadre_error_text());
    uint32_t workers = coordinator->core.options.workers_max;
    cr_expect(workers > 64 && workers < 256 - CADRE_DESCRIPTORS_RESERVE, "%u", workers);
    cadre_coordinator_close(&coordinator);
}
