#include "coordinator/core/checkpoint/checkpoint_manifest.h"

#include <criterion/criterion.h>
#include <jansson.h>

#include "common/base/status.h"
#include "tests/coordinator/checkpoint_fixture.h"

TestSuite(checkpoint_manifest, .timeout = 240);

Test(checkpoint_manifest, whose_progress_nobody_of_us_wrote_is_malformed)
{
    static const char *const bad[] = {"{}",
                                      "{\"user\": null}",
                                      "{\"user\": null, \"totals\": {}}",
                                      "{\"user\": null, \"totals\": 7}",
                                      "{\"user\": null, \"totals\": {\"scheduled\": \"1\"}}",
                                      "{\"user\": null, \"totals\": {\"scheduled\": -1}}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        json_error_t error;
        cadre_manifest_t manifest = {.progress = json_loads(bad[i], 0, &error)};
        cadre_totals_t totals = {.scheduled = 77};
        char *progress = NULL;
        cr_assert_eq(cadre_checkpoint_totals(&manifest, &totals, &progress), CADRE_EMALFORMED);
        cr_assert_eq(totals.scheduled, 77, "untouched");
        cr_assert_null(progress);
        cadre_manifest_fini(&manifest);
    }
}

/* Its parts may be on some shards only when those take their snapshots. */
Test(checkpoint_manifest, its_manifest_is_silent_on_what_was_created_after_the_snapshots)
{
    fixture_t *self = job();
    cadre_variable_t *later = fixture_add_variable(self, "later", 3, 1);
    later->created = false;
    self->core.catalogue.creating = 1;
    bring_to(self, CADRE_CHECKPOINT_WRITING);
    later->created = true;
    self->core.catalogue.creating = 0;
    fixture_add_variable(self, "last", 3, 1);
    say_written(self, 0, 9, 0);
    say_written(self, 1, 9, 0);
    fixture_turn(self);
    const cadre_manifest_t *manifest = last_order(self)->manifest;
    cr_assert_eq(manifest->variable_count, 2);
    cr_assert_null(cadre_manifest_find(manifest, "later"));
    cr_assert_null(cadre_manifest_find(manifest, "last"));
    fixture_destroy(&self);
}

Test(checkpoint_manifest, its_manifest_says_what_the_cut_holds)
{
    fixture_t *self = job();
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    for (uint32_t i = 1; i <= 3; i++) {
        fixture_schedule(self, i);
    }
    fixture_turn(self);
    fixture_done(self, &workers[0], 1, 1);
    fixture_done(self, &workers[1], 2, 1);
    fixture_done(self, &workers[0], 3, 1);
    cadre_variable_t *unfinished = fixture_add_variable(self, "later", 3, 1);
    unfinished->created = false;
    bring_to(self, CADRE_CHECKPOINT_WRITING);
    /* What comes after the cut is not in it. */
    for (uint32_t i = 4; i <= 7; i++) {
        fixture_schedule(self, i);
    }
    fixture_turn(self);
    fixture_done(self, &workers[0], 4, 1);
    say_written(self, 0, 9, 0);
    say_written(self, 1, 9, 0);
    fixture_turn(self);
    cadre_manifest_t *manifest = last_order(self)->manifest;
    cr_assert_str_eq(manifest->job, "test");
    cr_assert_eq(manifest->id, 9);
    cr_assert_eq(manifest->cut, 4);
    cr_assert_eq(manifest->epoch, FIXTURE_EPOCH);
    cr_assert_eq(manifest->seed, 42);
    cr_assert_eq(manifest->variable_count, 2, "only what exists");
    const cadre_manifest_variable_t *w = cadre_manifest_find(manifest, "w");
    cr_assert_eq(w->partition_count, 2);
    cr_assert_eq(w->partitions[0].first_element, 0);
    cr_assert_eq(w->partitions[0].count, 3);
    cr_assert_eq(w->partitions[1].first_element, 3);
    cr_assert_eq(w->partitions[1].count, 2);
    cr_assert_eq(manifest->shard_count, PS);
    cr_assert_str_eq(manifest->shards[1].file, "shard-1.mdb");
    cr_assert_eq(manifest->shards[1].size_bytes, 8192);
    cr_assert_eq(manifest->shards[1].hash, 0xabc1);
    cr_assert_eq(manifest->shards[1].state.window_base, 4);
    cr_assert_eq(manifest->shards[1].state.generation, 1);
    cr_assert_eq(manifest->shards[1].state.applied, 101);
    cr_assert_eq(manifest->shards[1].state.duplicate, 7);
    cr_assert_eq(manifest->shards[1].state.refused, 3);
    cadre_totals_t totals = {0};
    char *progress = NULL;
    cr_assert_eq(cadre_checkpoint_totals(manifest, &totals, &progress), 0);
    cr_assert_eq(totals.scheduled, 3);
    cr_assert_eq(totals.finished, 3);
    cr_assert_eq(totals.attempts, 3);
    cr_assert_str_eq(progress, "{\"epoch\":3}");
    free(progress);
    fixture_destroy(&self);
}

Test(checkpoint_manifest, its_manifest_says_how_a_table_keeps_its_rows)
{
    fixture_t *self = job();
    cadre_variable_t *table = fixture_add_table(self, "users", 16);
    table->table->when_full = CADRE_TABLE_EVICT_LRU;
    table->table->rows_max = 1000;
    bring_to(self, CADRE_CHECKPOINT_COMMITTING);
    const cadre_manifest_t *manifest = last_order(self)->manifest;
    const cadre_manifest_variable_t *users = cadre_manifest_find(manifest, "users");
    cr_assert_eq(users->rank, 2);
    cr_assert_eq(users->shape[0], 0);
    cr_assert_eq(users->shape[1], 16);
    cr_assert_eq(users->partition_count, PS);
    cr_assert_eq(users->partitions[1].shard, 1);
    cr_assert_eq(users->partitions[1].count, 0);
    cr_assert_str_eq(json_string_value(json_object_get(users->table, "storage")), "f32");
    cr_assert_str_eq(json_string_value(json_object_get(users->table, "when_full")), "lru");
    cr_assert_eq(json_integer_value(json_object_get(users->table, "rows_max")), 1000);
    cr_assert_null(cadre_manifest_find(manifest, "w")->table);
    fixture_destroy(&self);
}

Test(checkpoint_manifest, its_manifest_survives_the_file_and_resumes_the_totals)
{
    fixture_t *self = job();
    self->core.totals.workers_lost = 4;
    self->core.totals.failed = 2;
    self->core.totals.ps_restored = 5;
    self->core.totals.replayed = 3311;
    self->core.totals.closures_at_risk = 6;
    self->core.totals.checkpoints = 8;
    self->core.totals.checkpoints_failed = 1;
    self->core.totals.retentions_failed = 7;
    bring_to(self, CADRE_CHECKPOINT_COMMITTING);
    cadre_manifest_t *manifest = last_order(self)->manifest;
    manifest->created = cadre_strdup("2025-01-31T12:34:56.789Z");
    char *text = NULL;
    size_t size_bytes = 0;
    cr_assert_eq(cadre_manifest_encode(manifest, &text, &size_bytes), 0, "%s", cadre_error_text());
    cadre_manifest_t read = {0};
    cr_assert_eq(cadre_manifest_decode("manifest.json", text, size_bytes, &read), 0);
    cadre_totals_t totals = {0};
    char *progress = NULL;
    cr_assert_eq(cadre_checkpoint_totals(&read, &totals, &progress), 0);
    cr_assert_eq(totals.workers_lost, 4);
    cr_assert_eq(totals.failed, 2);
    cr_assert_eq(totals.ps_restored, 5);
    cr_assert_eq(totals.replayed, 3311);
    cr_assert_eq(totals.closures_at_risk, 6);
    cr_assert_eq(totals.checkpoints, 9, "the one that was read counts too");
    cr_assert_eq(totals.checkpoints_failed, 1);
    cr_assert_eq(totals.retentions_failed, 7);
    cr_assert_str_eq(progress, "{\"epoch\":3}");
    fixture_t *next = fixture_new(PS);
    cadre_task_t ps = fixture_ps(0);
    cadre_task_t worker = fixture_worker(0);
    totals.scheduled = 11;
    cadre_core_resume(&next->core, "/ckpt/ckpt-9", 9, 12, &totals);
    fixture_hello(next, &ps);
    fixture_hello(next, &worker);
    fixture_schedule(next, 1);
    fixture_turn(next);
    const cadre_message_t *restore = fixture_sent(next, &ps, CADRE_MESSAGE_RESTORE, 0);
    cr_assert_str_eq(restore->restore.path, "/ckpt/ckpt-9");
    cr_assert_eq(restore->restore.cut, 12);
    cr_assert_eq(restore->restore.generation, 1);
    cr_assert_eq(fixture_sent(next, &worker, CADRE_MESSAGE_CLOSURE, 0)->closure.id, 12);
    cr_assert_eq(next->core.begun.total, 12);
    cr_assert_str_eq(next->core.checkpoint.last_path, "/ckpt/ckpt-9");
    free(progress);
    free(text);
    cadre_manifest_fini(&read);
    fixture_destroy(&next);
    fixture_destroy(&self);
}
