/* What every role answers over HTTP while a job goes through its states: whether it lives, whether
 * it can do its work and why not, and totals that agree between the tasks. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"
#include "tests/system/metrics_page.h"
#include "tests/system/process.h"

TestSuite(metrics, .timeout = 900);

enum { CLOSURES = 2000, PS = 2, WORKERS = 2 };

typedef struct {
    stage_t stage;
    int coordinator; /* ports */
    int ps[PS];
    int workers[WORKERS];
} fixture_t;

static int
port_of(const stage_t *stage, const char *task)
{
    cadre_auto(cadre_free) char *name = cadre_asprintf("%s.log", task);
    cadre_auto(cadre_free) char *path = scratch_path(&stage->cluster.scratch, name);
    return page_port_of_log(path);
}

/* Every task on a port of its own. */
static void
open_stage(fixture_t *self)
{
    setenv("CADRE_HTTP", "0", 1);
    local_cluster_options_t options = {.ps = PS, .workers = WORKERS};
    options.coordinator.http = "0";
    options.coordinator.checkpoint_dir = local_checkpoints;
    stage_open_with(&self->stage, &options);
    const char *address = cadre_coordinator_http(self->stage.coordinator);
    cr_assert(address && strncmp(address, "127.0.0.1:", 10) == 0, "%s", address);
    self->coordinator = (int)strtol(address + 10, NULL, 10);
    cr_assert(local_cluster_logged(&self->stage.cluster, "http_listening address=127.0.0.1:"));
    self->ps[0] = port_of(&self->stage, "ps-0");
    self->ps[1] = port_of(&self->stage, "ps-1");
    self->workers[0] = port_of(&self->stage, "worker-0");
    self->workers[1] = port_of(&self->stage, "worker-1");
}

static void
schedule_many(fixture_t *self, int count)
{
    const cadre_function_t *function = stage_function(&self->stage, "add_one");
    for (int i = 0; i < count; i++) {
        OK(cadre_coordinator_schedule(self->stage.coordinator, function, NULL, LOCAL_WAIT_MS,
                                      NULL));
    }
}

/* One page: what was sent is answered, abandoned or pending. The page is one moment. */
static void
expect_worker_adds_up(const char *text)
{
    double sent = page_value(text, "cadre_worker_updates_sent_total");
    double answered = page_sum(text, "cadre_worker_updates_answered_total{", "");
    double abandoned = page_value(text, "cadre_worker_updates_abandoned_total");
    double pending = page_value(text, "cadre_worker_updates_pending");
    cr_expect(sent == answered + abandoned + pending, "%g sent, %g answered, %g abandoned, %g open",
              sent, answered, abandoned, pending);
    cr_expect_geq(pending, 0);
}

typedef struct {
    double sent;
    double abandoned;
    double repeated;
    double heard; /* answers, by workers */
    double answered;
    double applied;
    double noted; /* in the histograms of staleness */
} totals_t;

static totals_t
totals_of(const fixture_t *self)
{
    totals_t totals = {.sent = 0};
    for (int i = 0; i < WORKERS; i++) {
        cadre_auto(cadre_free) char *text = page_metrics(self->workers[i]);
        expect_worker_adds_up(text);
        totals.sent += page_value(text, "cadre_worker_updates_sent_total");
        totals.abandoned += page_value(text, "cadre_worker_updates_abandoned_total");
        totals.repeated += page_value(text, "cadre_worker_updates_repeated_total");
        totals.heard += page_sum(text, "cadre_worker_updates_answered_total{", "");
        totals.noted += page_sum(text, "cadre_worker_staleness_versions_count{", "");
    }
    for (int i = 0; i < PS; i++) {
        cadre_auto(cadre_free) char *text = page_metrics(self->ps[i]);
        totals.answered += page_sum(text, "cadre_ps_updates_total{", "");
        totals.applied += page_sum(text, "cadre_ps_updates_total{", "applied");
    }
    return totals;
}

/* Waits until the figures of all tasks are those of the end. */
static totals_t
final_totals(const fixture_t *self, double applied)
{
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS);;) {
        totals_t totals = totals_of(self);
        if (totals.applied >= applied && totals.heard >= applied) {
            return totals;
        }
        cr_assert(again(deadline), "%g are applied and %g heard, not %g", totals.applied,
                  totals.heard, applied);
    }
}

Test(metrics, totals_reconcile_over_all_tasks)
{
    fixture_t self;
    open_stage(&self);
    schedule_many(&self, CLOSURES);
    for (int i = 0; i < 20; i++) { /* while it trains */
        totals_of(&self);
        page_expect(self.workers[0], "/livez", 200, "alive");
        page_expect(self.ps[1], "/livez", 200, "alive");
    }
    OK(cadre_coordinator_join(self.stage.coordinator, -1));
    totals_t totals = final_totals(&self, (double)CLOSURES * PS);
    cr_expect(totals.applied == (double)CLOSURES * PS, "%g", totals.applied);
    cr_expect(totals.sent == totals.heard + totals.abandoned, "%g", totals.sent);
    cr_expect(totals.repeated > 0 || totals.answered == totals.sent, "%g sent, %g answered",
              totals.sent, totals.answered);
    cr_expect(totals.answered <= totals.sent + totals.repeated, "%g", totals.answered);
    cr_expect(totals.repeated > 0 || totals.noted == totals.applied, "%g of %g are in histograms",
              totals.noted, totals.applied);
    cadre_auto(cadre_free) char *text = page_metrics(self.workers[1]);
    cr_expect(strstr(text, "cadre_worker_staleness_versions_bucket{worker=\"1\",variable=\"wide\","
                           "le=\"0\"} "),
              "%s", text);
    stage_close(&self.stage);
}

Test(metrics, the_coordinator_tells_of_the_job)
{
    fixture_t self;
    open_stage(&self);
    schedule_many(&self, 100);
    OK(cadre_coordinator_join(self.stage.coordinator, -1));
    OK(cadre_checkpoint_save(self.stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    double finished = 0;
    double applied = 0;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); finished < 100 || applied < 200;) {
        cadre_auto(cadre_free) char *text = page_metrics(self.coordinator);
        finished = page_sum(text, "cadre_coordinator_closures_ended_total{", "result=\"finished\"");
        applied = page_sum(text, "cadre_coordinator_task_updates_total{role=\"ps\"", "applied");
        cr_assert(again(deadline), "%g finished, %g applied: %s", finished, applied, text);
    }
    cr_expect(finished == 100 && applied == 200, "%g %g", finished, applied);
    cadre_auto(cadre_free) char *text = page_metrics(self.coordinator);
    cr_expect(page_value(text, "cadre_coordinator_closures_scheduled_total") == 100);
    cr_expect(page_sum(text, "cadre_coordinator_strategy{", "parameter_server") == 1);
    cr_expect(page_value(text, "cadre_coordinator_closures_queued") == 0);
    cr_expect(page_sum(text, "cadre_coordinator_tasks{", "") == PS + WORKERS);
    cr_expect(page_sum(text, "cadre_coordinator_shards{", "ready") == PS);
    cr_expect(page_sum(text, "cadre_coordinator_checkpoints_total{", "committed") == 1);
    cr_expect(page_value(text, "cadre_coordinator_checkpoint_bytes") > 0);
    cr_expect(page_value(text, "cadre_coordinator_checkpoint_age_seconds") < LOCAL_WAIT_MS);
    cr_expect(page_value(text, "cadre_coordinator_lease_seconds") == LOCAL_LEASE_MS / 1000);
    cr_expect(page_sum(text, "cadre_build_info{", "role=\"coordinator\"") == 1);
    stage_close(&self.stage);
}

Test(metrics, a_shard_that_is_away_makes_the_coordinator_unready_until_it_is_back)
{
    fixture_t self;
    open_stage(&self);
    page_expect(self.coordinator, "/readyz", 200, "ready");
    page_wait(self.ps[1], "/readyz", 200, "ready");
    schedule_many(&self, 200);
    OK(cadre_coordinator_join(self.stage.coordinator, -1));
    local_cluster_signal(&self.stage.cluster, LOCAL_PS, 1, SIGKILL);
    page_wait(self.coordinator, "/readyz", 503, "shard 1 of 2 is away\n");
    page_expect(self.coordinator, "/livez", 200, "alive");
    page_expect(self.workers[0], "/livez", 200, "alive");
    cadre_auto(cadre_free) char *log = scratch_path(&self.stage.cluster.scratch, "ps-1.log");
    cr_assert_eq(unlink(log), 0);
    local_cluster_start(&self.stage.cluster, LOCAL_PS, 1);
    page_wait(self.coordinator, "/readyz", 200, "ready");
    self.ps[1] = port_of(&self.stage, "ps-1");
    page_wait(self.ps[1], "/readyz", 200, "ready");
    schedule_many(&self, 200);
    OK(cadre_coordinator_join(self.stage.coordinator, -1));
    totals_t totals = final_totals(&self, 2.0 * 200 * PS);
    cr_expect(totals.applied == 2.0 * 200 * PS, "each once, also after a replay: %g",
              totals.applied);
    cadre_auto(cadre_free) char *text = page_metrics(self.coordinator);
    cr_expect(page_value(text, "cadre_coordinator_shards_restored_total") == 1);
    cr_expect(page_sum(text, "cadre_coordinator_tasks_lost_total{", "ps") == 1);
    stage_close(&self.stage);
}

Test(metrics, a_worker_that_drains_is_alive_and_not_ready)
{
    fixture_t self;
    open_stage(&self);
    page_wait(self.workers[0], "/readyz", 200, "ready");
    page_wait(self.workers[1], "/readyz", 200, "ready");
    hold_t hold = stage_hold(&self.stage, "hold");
    int worker = hold_wait(&hold, 1);
    local_cluster_signal(&self.stage.cluster, LOCAL_WORKER, worker, SIGTERM);
    page_wait(self.workers[worker], "/readyz", 503, "it is draining\n");
    page_expect(self.workers[worker], "/livez", 200, "alive");
    page_expect(self.workers[1 - worker], "/readyz", 200, "ready");
    double drained = 0;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); drained <= 0;) {
        cadre_auto(cadre_free) char *text = page_metrics(self.workers[worker]);
        drained = page_value(text, "cadre_worker_drain_seconds");
        cr_assert(again(deadline), "%s", text);
    }
    hold_release(&hold);
    int end = local_cluster_reap(&self.stage.cluster, LOCAL_WORKER, worker);
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == 143, "%d", end);
    OK(cadre_coordinator_join(self.stage.coordinator, -1));
    hold_fini(&hold);
    stage_close(&self.stage);
}

/* --- tasks without a coordinator --- */

typedef struct {
    scratch_t scratch;
    pid_t pid;
    char *log;
    int port;
} lone_t;

static void
start_lone(lone_t *self, const char *name)
{
    scratch_open(&self->scratch);
    self->log = scratch_path(&self->scratch, "task.log");
    cadre_auto(cadre_free) char *program = program_path(name);
    cadre_auto(cadre_free) char *address =
        cadre_asprintf("ipc://%s/coordinator", self->scratch.path);
    const char *arguments[] = {program, "--coordinator", address, "--http", "0", NULL};
    self->pid = process_start(&(process_t){.arguments = arguments, .output = self->log});
    self->port = page_port_of_log(self->log);
}

static void
end_lone(lone_t *self)
{
    int end = 0;
    kill(self->pid, SIGTERM);
    cr_assert(process_wait(self->pid, LOCAL_WAIT_MS, &end));
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == 143, "%d", end);
    free(self->log);
    scratch_close(&self->scratch);
}

/* Then the job begins, and ends, and the task with it. */
static void
expect_joins(lone_t *self, const char *name, int workers)
{
    start_lone(self, name);
    page_wait(self->port, "/readyz", 503, "it has no connection to the coordinator\n");
    page_expect(self->port, "/livez", 200, "alive\n");
    cadre_auto(cadre_free) char *address =
        cadre_asprintf("ipc://%s/coordinator", self->scratch.path);
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.address = address;
    options.ps_count = 1;
    options.http = "0";
    cadre_coordinator_t *coordinator = NULL;
    OK(cadre_coordinator_open(&options, &coordinator));
    int port = (int)strtol(strchr(cadre_coordinator_http(coordinator), ':') + 1, NULL, 10);
    if (workers > 0) {
        page_wait(port, "/readyz", 503, "shard 0 of 1 is away\n");
    } else {
        page_wait(port, "/readyz", 200, "ready\n");
    }
    page_wait(self->port, "/readyz", 200, "ready\n");
    page_expect(port, "/livez", 200, "alive\n");
    cadre_coordinator_close(&coordinator);
    int end = 0;
    cr_assert(process_wait(self->pid, LOCAL_WAIT_MS, &end));
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == 0, "%d", end);
    free(self->log);
    scratch_close(&self->scratch);
}

Test(metrics, a_ps_is_ready_when_it_has_joined_and_its_shard_serves)
{
    lone_t self;
    expect_joins(&self, "cadre-ps", 0);
}

Test(metrics, a_worker_is_ready_when_it_has_joined)
{
    lone_t self;
    expect_joins(&self, "cadre-worker", 1);
}

Test(metrics, a_task_that_waits_for_a_coordinator_stops_as_ever)
{
    lone_t self;
    start_lone(&self, "cadre-ps");
    page_wait(self.port, "/readyz", 503, "it has no connection to the coordinator\n");
    end_lone(&self);
}

Test(metrics, a_coordinator_refuses_a_bad_address_and_one_in_use)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cadre_coordinator_t *first = NULL;
    cadre_coordinator_t *second = NULL;
    options.http = "nowhere";
    FAILS(cadre_coordinator_open(&options, &first), CADRE_ECONFIG, "options: http: \"nowhere\"");
    options.http = "0";
    OK(cadre_coordinator_open(&options, &first));
    options.http = cadre_coordinator_http(first);
    FAILS(cadre_coordinator_open(&options, &second), CADRE_EUNAVAILABLE, "in use");
    cadre_coordinator_close(&first);
    options.http = NULL;
    OK(cadre_coordinator_open(&options, &first));
    cr_expect_null(cadre_coordinator_http(first));
    cadre_coordinator_close(&first);
}
