#include "coordinator/core/job_metrics.h"

#include "coordinator/status_json.h"
#include "tests/coordinator/core_fixture.h"

TestSuite(job_metrics, .timeout = 240);

static fixture_t *
new_job(uint32_t ps_count)
{
    fixture_t *self = fixture_new(ps_count);
    self->core.options.build = "1";
    return self;
}

static char *
told(const fixture_t *self)
{
    cadre_metrics_text_t text = {.bytes = NULL};
    size_t size_bytes = 0;
    cadre_core_metrics(&self->core, self->now_ms, &text);
    return cadre_metrics_text_take(&text, &size_bytes);
}

static void
expect_told(const fixture_t *self, const char *line)
{
    cadre_auto(cadre_free) char *text = told(self);
    cr_expect(strstr(text, line), "%s is not in %s", line, text);
}

Test(job_metrics, tasks_are_told_with_what_their_heartbeats_say)
{
    fixture_t *self = new_job(1);
    cadre_task_t ps = fixture_ps(0);
    cadre_task_t worker = fixture_worker(1);
    fixture_hello(self, &ps);
    fixture_hello(self, &worker);
    fixture_turn(self);
    cadre_member_t *member = cadre_membership_find(&self->core.membership, ps.incarnation);
    cr_assert(member);
    member->counters[CADRE_PS_COUNTER_applied] = 41;
    member->counters[CADRE_PS_COUNTER_pull_bytes] = 42;
    member = cadre_membership_find(&self->core.membership, worker.incarnation);
    cr_assert(member);
    member->counters[CADRE_WORKER_COUNTER_refused] = 43;
    member->counters[CADRE_WORKER_COUNTER_push_bytes] = 44;
    member->draining = true;
    self->now_ms = member->heard_ms + 1500;
    expect_told(self, "\ncadre_coordinator_task_updates_total{role=\"ps\",index=\"0\",result="
                      "\"applied\"} 41\n");
    expect_told(self, "\ncadre_coordinator_task_updates_total{role=\"worker\",index=\"1\",result="
                      "\"refused\"} 43\n");
    expect_told(self, "\ncadre_coordinator_task_pull_bytes_total{role=\"ps\",index=\"0\"} 42\n");
    expect_told(self,
                "\ncadre_coordinator_task_push_bytes_total{role=\"worker\",index=\"1\"} 44\n");
    expect_told(self,
                "\ncadre_coordinator_task_silence_seconds{role=\"worker\",index=\"1\"} 1.5\n");
    expect_told(self, "\ncadre_coordinator_tasks{role=\"worker\"} 1\n");
    expect_told(self, "\ncadre_coordinator_workers_draining 1\n");
    expect_told(self, "\ncadre_coordinator_tasks_unlisted 0\n");
    fixture_destroy(&self);
}

Test(job_metrics, tables_are_told_by_name_with_the_sums_of_all_ps)
{
    fixture_t *self = fixture_new_cluster(2, 0);
    self->core.options.build = "1";
    cadre_auto(cadre_free) char *before = told(self);
    cr_expect_not(strstr(before, "cadre_coordinator_table_"));
    const uint64_t users = fixture_add_table(self, "users", 16)->id;
    fixture_add_table(self, "items", 8);
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t tables[] = {users, 10 + i, 1000, 7 + i, 20, 3, 4, 5, users + 9, 1};
        const cadre_task_t ps = fixture_ps(i);
        cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_HEARTBEAT);
        message.heartbeat = (cadre_heartbeat_message_t){
            .sequence = 9, .shard = i, .progress = 9, .tables = {tables, CADRE_COUNT_OF(tables)}};
        message.heartbeat.generation = self->core.recovery.places[i].generation;
        fixture_say(self, &ps, &message);
    }
    expect_told(self, "\ncadre_coordinator_table_rows{table=\"users\"} 21\n");
    expect_told(self, "\ncadre_coordinator_table_rows{table=\"items\"} 0\n");
    expect_told(self, "\ncadre_coordinator_table_bytes{table=\"users\"} 2000\n");
    expect_told(self, "\ncadre_coordinator_table_rows_created_total{table=\"users\"} 40\n");
    expect_told(self, "\ncadre_coordinator_table_rows_evicted_total{table=\"users\"} 6\n");
    expect_told(self, "\ncadre_coordinator_table_rows_expired_total{table=\"users\"} 8\n");
    expect_told(self, "\ncadre_coordinator_table_gradients_unadmitted_total{table=\"users\"} 10\n");

    cadre_auto(cadre_free) char *status = cadre_core_status_json(&self->core, self->now_ms);
    cr_expect(strstr(status,
                     "\"tables\":[{\"name\":\"users\",\"width\":16,\"shards\":2,\"rows\":21,"
                     "\"size_bytes\":2000,\"steps\":8,\"created\":40,\"evicted\":6,"
                     "\"expired\":8,\"unadmitted\":10},{\"name\":\"items\",\"width\":8,"
                     "\"shards\":0,"),
              "%s", status);
    fixture_destroy(&self);
}

Test(job_metrics, staleness_is_told_of_closures_that_pushed)
{
    fixture_t *self = cluster(1);
    self->core.options.build = "1";
    const cadre_task_t worker = fixture_worker(0);
    for (uint64_t i = 0; i < 3; i++) {
        cadre_closure_t *closure = fixture_schedule(self, 1);
        fixture_turn(self);
        cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_CLOSURE_DONE);
        message.closure_done = (cadre_closure_done_message_t){
            .id = closure->id, .attempt = 1, .updates = i > 0, .staleness = 3 * i};
        fixture_say(self, &worker, &message);
    }
    expect_told(self, "\ncadre_coordinator_staleness_versions_bucket{le=\"2\"} 0\n");
    expect_told(self, "\ncadre_coordinator_staleness_versions_bucket{le=\"4\"} 1\n");
    expect_told(self, "\ncadre_coordinator_staleness_versions_bucket{le=\"8\"} 2\n");
    expect_told(self, "\ncadre_coordinator_staleness_versions_sum 9\n");
    expect_told(self, "\ncadre_coordinator_staleness_versions_count 2\n");
    fixture_destroy(&self);
}

Test(job_metrics, closures_for_one_worker_alone_count_as_those_for_any)
{
    fixture_t *self = cluster(1);
    self->core.options.build = "1";
    for (uint32_t tag = 0; tag < 2; tag++) { /* worker 1 is not there */
        cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
        closure->tag = tag;
        fixture_watch(self, closure);
        cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    }
    fixture_turn(self);
    expect_told(self, "\ncadre_coordinator_closures_queued 1\n");
    expect_told(self, "\ncadre_coordinator_closures_in_flight 1\n");
    cadre_auto(cadre_free) char *status = cadre_core_status_json(&self->core, self->now_ms);
    cr_expect(strstr(status, "\"queued\":1,\"in_flight\":1"), "%s", status);
    fixture_destroy(&self);
}

Test(job_metrics, tasks_beyond_the_limit_are_counted_and_not_told)
{
    fixture_t *self = new_job(1);
    for (uint32_t i = 0; i < CADRE_METRICS_TASKS_MAX + 3; i++) {
        cadre_task_t worker = fixture_worker(i);
        fixture_hello(self, &worker);
        fixture_clear(self);
    }
    cadre_auto(cadre_free) char *text = told(self);
    cr_expect(strstr(text, "\ncadre_coordinator_tasks{role=\"worker\"} 259\n"), "%s", text);
    cr_expect(strstr(text, "\ncadre_coordinator_tasks_unlisted 3\n"));
    cr_expect(strstr(text, "index=\"255\""));
    cr_expect_not(strstr(text, "index=\"256\""));
    fixture_destroy(&self);
}

Test(job_metrics, checkpoints_are_told_where_there_are_any)
{
    fixture_t *self = new_job(1);
    cadre_auto(cadre_free) char *text = told(self);
    cr_expect_not(strstr(text, "cadre_coordinator_checkpoint"));
    self->core.checkpoint.enabled = true;
    self->core.checkpoint.last_bytes = 4096;
    self->core.checkpoint.last_took_ms = 250;
    self->core.totals.checkpoints = 2;
    self->now_ms = self->core.checkpoint.last_ms + 12500;
    expect_told(self, "\ncadre_coordinator_checkpoint_age_seconds 12.5\n");
    expect_told(self, "\ncadre_coordinator_checkpoint_bytes 4096\n");
    expect_told(self, "\ncadre_coordinator_checkpoint_seconds 0.25\n");
    expect_told(self, "\ncadre_coordinator_checkpoints_total{result=\"committed\"} 2\n");
    expect_told(self, "\ncadre_coordinator_checkpoint_under_way_seconds 0\n");
    fixture_destroy(&self);
}

Test(job_metrics, keys_that_cannot_be_read_are_told)
{
    fixture_t *self = new_job(1);
    expect_told(self, "cadre_keys_unreadable{role=\"coordinator\"} 0\n");
    self->core.keys_unreadable = true;
    expect_told(self, "cadre_keys_unreadable{role=\"coordinator\"} 1\n");
    fixture_destroy(&self);
}
