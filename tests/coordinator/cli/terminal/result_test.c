#include "coordinator/cli/terminal/result.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"

TestSuite(result, .timeout = 240);

Test(result, is_the_object_that_scripts_read)
{
    cadre_auto(cadre_result_fini) cadre_result_t result;
    cadre_result_init(&result);
    result.strategy = "mirrored";
    result.accuracy = 0.97265625;
    result.loss = 0.125;
    result.test_rows = 359;
    result.examples = 43140;
    result.resumed_examples = 3140;
    result.seconds = 1.6;
    result.scheduled = 1350;
    result.finished = 1350;
    result.attempts = 1352;
    result.shard_count = 2;
    result.shards = cadre_calloc(2, sizeof(*result.shards));
    result.shards[0] = (cadre_result_shard_t){true, {.applied = 1350, .duplicate = 2}};
    result.shards[1] = (cadre_result_shard_t){true, {.applied = 1350, .refused = 1}};
    result.workers_lost = 3;
    result.checkpoint = cadre_strdup("cadre-checkpoints/digits/ckpt-00000001");
    result.stopped = "epochs";
    cadre_metrics_set(&result.metrics, CADRE_METRIC_RECALL, 0.5);
    cadre_metrics_set(&result.metrics, CADRE_METRIC_LOSS, 0.125); /* which stands by itself */
    result.classes = 2;
    result.confusion = cadre_calloc(4, sizeof(*result.confusion));
    memcpy(result.confusion, (const double[]){3, 1, 0, 4}, 4 * sizeof(double));
    cadre_auto(cadre_free) char *text = cadre_result_json(&result);
    cr_assert_str_eq(
        text,
        "{\"schema\":\"cadre.result/"
        "v1\",\"strategy\":\"mirrored\",\"accuracy\":0.97265625,\"loss\":0.125,"
        "\"examples\":43140,\"seconds\":1.6,\"examples_per_s\":25000.0,"
        "\"closures\":{\"scheduled\":1350,\"finished\":1350,\"attempts\":1352},"
        "\"updates\":[{\"shard\":0,\"applied\":1350,\"duplicate\":2,\"refused\":0},"
        "{\"shard\":1,\"applied\":1350,\"duplicate\":0,\"refused\":1}],"
        "\"failures\":{\"worker\":3,\"ps\":0},"
        "\"checkpoint\":\"cadre-checkpoints/digits/ckpt-00000001\","
        "\"stopped\":\"epochs\",\"best\":null,\"staleness\":null,\"metrics\":{\"recall\":0.5},"
        "\"confusion_matrix\":[[3,1],[0,4]]}");
}

Test(result, says_why_training_stopped_and_which_checkpoint_is_the_best)
{
    cadre_auto(cadre_result_fini) cadre_result_t result;
    cadre_result_init(&result);
    result.stopped = "patience";
    snprintf(result.stopped_text, sizeof(result.stopped_text), "test_loss was not better");
    result.best_metric = "test_loss";
    result.best = 0.25;
    result.best_step = 450;
    result.best_checkpoint = cadre_strdup("d/ckpt-00000004");
    cadre_auto(cadre_free) char *object = cadre_result_json(&result);
    cr_assert(strstr(object, "\"stopped\":\"patience\",\"best\":{\"metric\":\"test_loss\","
                             "\"value\":0.25,\"step\":450,\"checkpoint\":\"d/ckpt-00000004\"}"),
              "%s", object);
    cadre_auto(cadre_free) char *text = cadre_result_text(&result);
    cr_assert(strstr(text, "; stopped: test_loss was not better"), "%s", text);
    result.stopped = "epochs"; /* the usual end needs no words */
    cadre_auto(cadre_free) char *usual = cadre_result_text(&result);
    cr_assert_not(strstr(usual, "stopped"), "%s", usual);
}

Test(result, says_null_for_the_counters_of_a_shard_whose_ps_is_gone)
{
    cadre_auto(cadre_result_fini) cadre_result_t result;
    cadre_result_init(&result);
    result.shard_count = 2;
    result.shards = cadre_calloc(2, sizeof(*result.shards));
    result.shards[0] = (cadre_result_shard_t){true, {.applied = 7}};
    cadre_auto(cadre_free) char *text = cadre_result_json(&result);
    cr_assert(strstr(text, "\"updates\":[{\"shard\":0,\"applied\":7,\"duplicate\":0,\"refused\":0},"
                           "{\"shard\":1,\"applied\":null,\"duplicate\":null,\"refused\":null}]"),
              "%s", text);
}

Test(result, tells_the_speed_of_this_run_beside_the_examples_of_the_whole_job)
{
    cadre_auto(cadre_result_fini) cadre_result_t result;
    cadre_result_init(&result);
    result.loss = 0.5;
    result.examples = 231518;
    result.resumed_examples = 230080;
    result.seconds = 0.1;
    cadre_auto(cadre_free) char *text = cadre_result_text(&result);
    cr_assert(strstr(text, "231518 examples, 1438 of them in 0.1 s (14380/s)"), "%s", text);
    result.resumed_examples = 0;
    cadre_auto(cadre_free) char *whole = cadre_result_text(&result);
    cr_assert(strstr(whole, "; 231518 examples in 0.1 s (2315180/s)"), "%s", whole);
    result.strategy = "central";
    cadre_auto(cadre_free) char *named = cadre_result_text(&result);
    cr_assert(strstr(named, "; strategy central"), "%s", named);
}

Test(result, says_null_for_what_is_not_known)
{
    cadre_auto(cadre_result_fini) cadre_result_t result;
    cadre_result_init(&result);
    cadre_auto(cadre_free) char *text = cadre_result_json(&result);
    cr_assert(strstr(text, "\"strategy\":null,\"accuracy\":null,\"loss\":null"));
    cr_assert(strstr(text, "\"examples_per_s\":null"));
    cr_assert(strstr(text, "\"updates\":[]"));
    cr_assert(strstr(
        text,
        "\"checkpoint\":null,\"stopped\":null,\"best\":null,\"staleness\":null,\"metrics\":{},"
        "\"confusion_matrix\":null}"));
    cr_assert_not(strchr(text, '\n'));
}
