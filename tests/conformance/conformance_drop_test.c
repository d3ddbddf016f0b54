/* Variables that could not be created everywhere, and variables that are dropped: what stays of
 * them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/conformance/stage.h"

TestSuite(conformance_drop, .timeout = 180);

static int
create(stage_t *stage, const char *name, int64_t rows, int parts, cadre_variable_t **variable)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = parts;
    options.optimizer = "add";
    return cadre_variable_create(stage->coordinator, name, CADRE_F32, &rows, 1, &options, variable);
}

/* Two parts, one of them on a ps that is frozen for longer than the call waits. */
Test(conformance_drop, a_creation_that_fails_leaves_nothing_behind)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 2, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.lease_ms = 60000;
    options.coordinator.ps_timeout_ms = 1500;
    stage_open_with(&stage, &options);
    cadre_variable_t *variable = NULL;
    local_cluster_signal(&stage.cluster, LOCAL_PS, 1, SIGSTOP);
    FAILS(create(&stage, "old", 10, 2, &variable), CADRE_ETIMEOUT, "variable old");
    cr_expect_null(variable);
    local_cluster_signal(&stage.cluster, LOCAL_PS, 1, SIGCONT);
    int status = CADRE_ETIMEOUT;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); status == CADRE_ETIMEOUT;) {
        cr_assert(again(deadline), "the ps answers again");
        status = create(&stage, "other", 3, 1, &variable);
    }
    OK(status);
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof(name), "new%d", i);
        OK(create(&stage, name, 3, 1, &variable));
    }
    OK(create(&stage, "old", 10, 2, &variable));
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    stage_schedule(&stage, "add_one", 20); /* the worker knows that an id is nobody's */
    stage_join(&stage);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    local_cluster_restart(&stage.cluster, LOCAL_PS, 1);
    stage_schedule(&stage, "add_one", 20);
    stage_join(&stage);
    stage_expect(&stage, 40);
    stage_close(&stage);
}

/* No shard could hold it: each refuses its part. */
Test(conformance_drop, a_creation_that_the_shards_refuse_leaves_its_name)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 2, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    stage_open_with(&stage, &options);
    cadre_variable_t *variable = NULL;
    FAILS(create(&stage, "vast", INT64_C(1) << 40, 2, &variable), CADRE_ETOOLARGE, "vast");
    OK(create(&stage, "vast", 10, 2, &variable));
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    stage_schedule(&stage, "add_one", 5);
    stage_join(&stage);
    stage_expect(&stage, 5);
    stage_close(&stage);
}
