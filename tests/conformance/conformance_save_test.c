/* Saving while the cluster or the directory of checkpoints fails under it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_save, .timeout = 120);

/* --- checkpoints that cannot be removed --- */

Test(conformance_save, checkpoints_that_cannot_be_removed_are_counted)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.checkpoint_keep = 1;
    stage_open_with(&stage, &options);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    cadre_auto(cadre_free) char *foreign =
        cadre_asprintf("%s/checkpoints/ckpt-00000001/.nfs0001", stage.cluster.scratch.path);
    cr_assert_eq(mkdir(foreign, 0700), 0);
    stage_schedule(&stage, "add_one", 1);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    EVENTUALLY(cadre_totals(stage.coordinator).retentions_failed == 1);
    cr_expect(local_cluster_logged(&stage.cluster, "retention_failed"));
    cr_expect_eq(cadre_totals(stage.coordinator).checkpoints, 2, "they are as good as any");
    cr_expect_eq(cadre_totals(stage.coordinator).checkpoints_failed, 0);
    cadre_auto(cadre_free) char *text = NULL;
    OK(cadre_status_json(stage.coordinator, &text));
    cr_expect(strstr(text, "\"retention_failed\":1"), "%s", text);
    stage_close(&stage);
}
