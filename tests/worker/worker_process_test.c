/* A real cadre-worker with fake_cluster around it. */
#include "worker/worker_process.h"

#include <cadre/program.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <zmq.h>

#include "common/graph/program.h"
#include "common/wire/tensor_list.h"
#include "tests/sanitizer.h"
#include "tests/system/process.h"
#include "tests/worker/native_cluster.h"

TestSuite(worker_process, .timeout = 900);

static const char *const no_arguments[] = {NULL};

/* gradient of w: all ones times the mean of x; results: "sum" of w, "rows". */
static void
define_program(fake_cluster_t *self, uint64_t id)
{
    cadre_program_t *program = cadre_program_new("step");
    int64_t shape[] = {2 * FAKE_SHARDS};
    cadre_node_t w = cadre_op_var(program, "w", shape, 1);
    cadre_dim_t dims[] = {cadre_dim_symbol("B"), cadre_dim(2)};
    cadre_node_t x = cadre_op_arg(program, "x", CADRE_F32, dims, 2);
    cadre_node_t ones =
        cadre_op_add(program, cadre_op_mul(program, w, cadre_op_const_f32(program, 0)),
                     cadre_op_mean_all(program, x));
    cadre_op_push(program, w, ones);
    cadre_op_result(program, "sum", cadre_op_sum_all(program, w));
    cr_assert_eq(cadre_program_finish(program), 0, "%s", cadre_error_text());
    size_t size_bytes = 0;
    const uint8_t *bytes = cadre_program_bytes(program, &size_bytes);
    self->functions[id - 1] = (fake_function_t){.kind = CADRE_FUNCTION_PROGRAM,
                                                .name = "step",
                                                .program = cadre_chunk_new_copy(bytes, size_bytes)};
    cadre_program_destroy(&program);
}

/* A closure of function 1 with x = ones [rows, 2]. */
static void
schedule_step(fake_cluster_t *self, uint64_t id, int64_t rows)
{
    float data[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 2, .shape = {rows, 2}, .data = data};
    const char *names[] = {"x"};
    cadre_tensor_list_t list = {0};
    cr_assert_eq(cadre_tensor_list_encode(&x, 1, CADRE_RESULT_SIZE_MAX, &list), 0);
    cadre_message_t message = fake_closure(id, 1);
    message.closure.flags = CADRE_CLOSURE_WANTS_RESULTS;
    message.closure.names = (cadre_strs_t){names, 1};
    message.closure.tensors = cadre_tensor_list_items(&list);
    cadre_tensor_list_add_chunks(&list, &message);
    fake_tell(self, message);
    cadre_tensor_list_fini(&list);
}

static float
result(const fake_cluster_t *self)
{
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    cr_assert_eq(cadre_tensor_list_decode(self->last_done.closure_done.tensors, &self->last_done,
                                          CADRE_RESULT_SIZE_MAX, &tensors, &count),
                 0);
    cr_assert_eq(count, 1);
    float value = *(float *)tensors[0].data;
    cadre_tensors_fini(&tensors, count);
    return value;
}

Test(worker_process, runs_programs_and_exits_when_told_to_stop)
{
    fake_cluster_t self;
    fake_open(&self);
    define_program(&self, 1);
    fake_start(&self, no_arguments);
    FAKE_UNTIL(&self, self.joined);
    for (uint64_t id = 1; id <= 20; id++) {
        schedule_step(&self, id, 1 + (int64_t)id % 3);
        FAKE_UNTIL(&self, self.done + self.failed == id);
        cr_assert_eq(self.failed, 0, "%s", self.last_text);
        cr_expect_float_eq(result(&self), 4 * (float)(id - 1), 0, "pulled before it pushed");
    }
    for (int i = 0; i < FAKE_SHARDS; i++) {
        cr_expect_float_eq(self.values[i][0], 20, 0);
        cr_expect_float_eq(self.values[i][1], 20, 0);
    }
    cr_expect_eq(fake_stop(&self), 0);
    cr_expect(self.left);
    fake_close(&self);
}

Test(worker_process, pushes_again_under_the_same_id_when_no_answer_comes)
{
    fake_cluster_t self;
    fake_open(&self);
    define_program(&self, 1);
    fake_start(&self, no_arguments);
    FAKE_UNTIL(&self, self.joined);
    self.lose_answers = 3;
    schedule_step(&self, 1, 1);
    FAKE_UNTIL(&self, self.done == 1);
    cr_expect_geq(self.duplicates, 1);
    cr_expect_eq(self.last_done.closure_done.duplicates + self.last_done.closure_done.updates, 2);
    cr_expect_float_eq(self.values[0][0], 1, 0);
    cr_expect_float_eq(self.values[1][1], 1, 0);
    cr_expect_eq(fake_stop(&self), 0);
    fake_close(&self);
}

Test(worker_process, names_a_native_function_that_it_does_not_have)
{
    fake_cluster_t self;
    fake_open(&self);
    fake_define_native(&self, 1, "missing");
    fake_start(&self, no_arguments);
    FAKE_UNTIL(&self, self.joined);
    fake_tell(&self, fake_closure(1, 1));
    FAKE_UNTIL(&self, self.failed == 1);
    cr_expect_eq(self.last_status, (uint64_t)-CADRE_ENOTFOUND);
    cr_expect_eq(self.last_reason, CADRE_FAILURE_UNABLE);
    cr_expect_not_null(strstr(self.last_text, "missing"));
    cr_expect_eq(fake_stop(&self), 0);
    fake_close(&self);
}

/* Keeps `window` closures with the worker until `last` have ended. */
static void
run_noops(fake_cluster_t *self, uint64_t *next, uint64_t last, uint64_t window)
{
    while (self->done < last) {
        for (; *next <= last && *next <= self->done + window; ++*next) {
            fake_tell(self, fake_closure(*next, 1));
        }
        fake_step(self, 1000);
        cr_assert_eq(self->failed, 0, "%s", self->last_text);
    }
}

Test(worker_process, holds_no_more_memory_after_many_closures)
{
    fake_cluster_t self;
    fake_open(&self);
    fake_define_native(&self, 1, "noop");
    fake_start(&self, no_arguments);
    FAKE_UNTIL(&self, self.joined);
    uint64_t next = 1;
    run_noops(&self, &next, 1000, 128);
    int64_t before_kib = process_memory_kib(self.process, "VmRSS:");
    int64_t begin_us = cadre_clock_now_us();
    run_noops(&self, &next, 41000, 128);
    double seconds = (double)(cadre_clock_now_us() - begin_us) / 1e6;
    int64_t after_kib = process_memory_kib(self.process, "VmRSS:");
    cr_log_info("%.0f closures/s, %" PRId64 " KiB before, %" PRId64 " KiB after", 40000 / seconds,
                before_kib, after_kib);
    if (!SANITIZER) {
        cr_expect_leq(after_kib, before_kib + 2048);
    }
    cr_expect_eq(fake_stop(&self), 0);
    fake_close(&self);
}

Test(worker_process, drains_and_says_goodbye_on_SIGTERM)
{
    fake_cluster_t self;
    fake_open(&self);
    fake_define_native(&self, 1, "noop");
    fake_start(&self, no_arguments);
    FAKE_UNTIL(&self, self.joined);
    fake_tell(&self, fake_closure(1, 1));
    FAKE_UNTIL(&self, self.done == 1);
    kill(self.process, SIGTERM);
    cr_expect_eq(fake_wait_exit(&self), 143);
    cr_expect(self.left);
    fake_close(&self);
}

Test(worker_process, waits_for_the_next_session_when_it_is_told_to)
{
    fake_cluster_t self;
    fake_open(&self);
    fake_define_native(&self, 1, "noop");
    const char *const arguments[] = {"--on-session-end", "wait", NULL};
    fake_start(&self, arguments);
    for (uint64_t session = 1; session <= 3; session++) {
        FAKE_UNTIL(&self, self.joined);
        fake_tell(&self, fake_closure(1, 1)); /* ids begin again */
        FAKE_UNTIL(&self, self.done == session);
        cadre_message_t message = {.type = CADRE_MESSAGE_STOP};
        message.stop.reason = "over";
        self.joined = false;
        memset(self.reported, 0, sizeof(self.reported));
        fake_tell(&self, message);
    }
    FAKE_UNTIL(&self, self.joined);
    kill(self.process, SIGTERM);
    cr_expect_eq(fake_wait_exit(&self), 143);
    fake_close(&self);
}

Test(worker_process, exits_on_SIGTERM_without_a_coordinator)
{
    fake_cluster_t self;
    fake_open(&self);
    cadre_socket_close(&self.control, 0);
    cr_assert_eq(cadre_socket_open_router(self.context, CADRE_PLANE_CONTROL, &self.control), 0);
    const char *const arguments[] = {"--coordinator", "tcp://127.0.0.1:1", NULL};
    cadre_endpoint_t any = {.kind = CADRE_ENDPOINT_TCP, .host = "127.0.0.1"};
    cr_assert_eq(cadre_socket_bind(self.control, &any), 0);
    fake_start(&self, arguments);
    for (int i = 0; i < 5; i++) {
        fake_step(&self, 100);
    }
    kill(self.process, SIGTERM);
    cr_expect_eq(fake_wait_exit(&self), 143);
    fake_close(&self);
}

Test(worker_process, asks_for_definitions_that_it_misses)
{
    fake_cluster_t self;
    fake_open(&self);
    self.keep_secrets = true;
    define_program(&self, 1);
    fake_define_native(&self, 2, "noop");
    fake_start(&self, no_arguments);
    FAKE_UNTIL(&self, self.joined);
    schedule_step(&self, 1, 1);
    fake_tell(&self, fake_closure(2, 2));
    FAKE_UNTIL(&self, self.done + self.failed == 2);
    cr_expect_eq(self.failed, 0, "%s", self.last_text);
    cr_expect_eq(fake_stop(&self), 0);
    fake_close(&self);
}

Test(worker_process, reads_batches_of_a_dataset)
{
    char folder[] = "/tmp/cadre-worker-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/data.csv", folder);
    FILE *file = fopen(path, "w");
    fputs("1,1,0\n2,2,1\n3,3,0\n", file);
    fclose(file);
    fake_cluster_t self;
    fake_open(&self);
    define_program(&self, 1);
    self.dataset = "{\"format\":\"csv\",\"path\":\"data.csv\"}";
    const char *const arguments[] = {"--data-dir", folder, NULL};
    fake_start(&self, arguments);
    FAKE_UNTIL(&self, self.joined);
    uint64_t batch[] = {1, 0, 1, 2}; /* rows 1 and 2: the mean of x is 2.5 */
    cadre_message_t message = fake_closure(1, 1);
    message.closure.batches = (cadre_u64s_t){batch, 4};
    fake_tell(&self, message);
    FAKE_UNTIL(&self, self.done + self.failed == 1);
    cr_assert_eq(self.failed, 0, "%s", self.last_text);
    cr_expect_float_eq(self.values[0][0], 2.5F, 0);
    cr_expect_eq(self.dataset_ready.rows, 3);
    cr_expect_eq(self.dataset_ready.features, 2);
    cr_expect_eq(self.dataset_ready.classes, 2);
    batch[2] = 2; /* one row too far */
    message = fake_closure(2, 1);
    message.closure.batches = (cadre_u64s_t){batch, 4};
    fake_tell(&self, message);
    FAKE_UNTIL(&self, self.failed == 1);
    cr_expect_eq(self.last_reason, CADRE_FAILURE_USER);
    cr_expect_eq(fake_stop(&self), 0);
    fake_close(&self);
    unlink(path);
    rmdir(folder);
}

/* --- native functions --- */

Test(worker_process, runs_native_functions_that_pull_and_push)
{
    fake_cluster_t self;
    char folder[64];
    fake_start_natives(&self, folder, no_arguments);
    for (uint64_t id = 1; id <= 100; id++) {
        fake_tell(&self, fake_closure(id, ADD_ONE));
    }
    FAKE_UNTIL(&self, self.done + self.failed == 100);
    cr_expect_eq(self.failed, 0, "%s", self.last_text);
    cr_expect_float_eq(self.values[0][0], 100, 0);
    cr_expect_float_eq(self.values[1][1], 100, 0);
    cadre_message_t message = fake_closure(101, STEPS);
    message.closure.steps = 3;
    message.closure.flags = CADRE_CLOSURE_WANTS_RESULTS;
    fake_tell(&self, message);
    FAKE_UNTIL(&self, self.done + self.failed == 101);
    cr_expect_eq(self.failed, 0, "%s", self.last_text);
    cr_expect_eq(self.last_done.closure_done.updates, 3 * FAKE_SHARDS);
    cr_assert_eq(self.last_done.chunk_count, 1);
    const float *seen = cadre_chunk_data(self.last_done.chunks[0]);
    cr_expect_float_eq(seen[0], 100, 0);
    cr_expect_float_eq(seen[2], 102, 0, "each step sees the one before");
    fake_stop_natives(&self, folder);
}

Test(worker_process, reports_what_a_native_function_does_wrong)
{
    fake_cluster_t self;
    char folder[64];
    fake_start_natives(&self, folder, no_arguments);
    fake_tell(&self, fake_closure(1, FAILS));
    FAKE_UNTIL(&self, self.failed == 1);
    cr_expect_eq(self.last_status, (uint64_t)-CADRE_EFUNCTION);
    cr_expect_eq(self.last_reason, CADRE_FAILURE_USER);
    cr_expect_str_eq(self.last_text, "reason 7");
    cr_expect_eq(self.versions[0], 0, "what it had pushed is dropped");
    fake_tell(&self, fake_closure(2, HIDES));
    FAKE_UNTIL(&self, self.failed == 2);
    cr_expect_eq(self.last_status, (uint64_t)-CADRE_EFULL);
    fake_tell(&self, fake_closure(3, MISTAKES));
    FAKE_UNTIL(&self, self.done + self.failed == 3);
    cr_expect_eq(self.failed, 2, "%s", self.last_text);
    cr_expect_float_eq(self.values[0][0], 2, 0);
    fake_stop_natives(&self, folder);
}

Test(worker_process, gives_arguments_and_takes_results)
{
    fake_cluster_t self;
    char folder[64];
    fake_start_natives(&self, folder, no_arguments);
    float data[] = {5, 6};
    cadre_tensor_t a = {.dtype = CADRE_F32, .rank = 1, .shape = {2}, .data = data};
    const char *names[] = {"a"};
    cadre_tensor_list_t list = {0};
    cr_assert_eq(cadre_tensor_list_encode(&a, 1, CADRE_RESULT_SIZE_MAX, &list), 0);
    cadre_message_t message = fake_closure(9, ECHOES);
    message.closure.flags = CADRE_CLOSURE_WANTS_RESULTS;
    message.closure.names = (cadre_strs_t){names, 1};
    message.closure.tensors = cadre_tensor_list_items(&list);
    cadre_tensor_list_add_chunks(&list, &message);
    fake_tell(&self, message);
    cadre_tensor_list_fini(&list);
    FAKE_UNTIL(&self, self.done + self.failed == 1);
    cr_assert_eq(self.failed, 0, "%s", self.last_text);
    cr_assert_eq(self.last_done.closure_done.names.count, 2);
    cr_expect_str_eq(self.last_done.closure_done.names.items[0], "who");
    cr_expect_str_eq(self.last_done.closure_done.names.items[1], "a");
    const uint64_t *who = cadre_chunk_data(self.last_done.chunks[0]);
    cr_expect(who[0] == 3 && who[1] == 9 && who[2] == 9);
    cr_expect_arr_eq(cadre_chunk_data(self.last_done.chunks[1]), data, sizeof(data));
    fake_stop_natives(&self, folder);
}

Test(worker_process, a_free_slot_takes_what_waits_behind_a_long_closure)
{
    fake_cluster_t self;
    char folder[64];
    fake_start_natives(&self, folder, no_arguments);
    fake_tell(&self, fake_closure(1, WAITS));
    for (uint64_t id = 2; id <= 300; id++) {
        fake_tell(&self, fake_closure(id, ADD_ONE));
    }
    FAKE_UNTIL(&self, self.done == 299);
    fake_cancel(&self, 1);
    FAKE_UNTIL(&self, self.failed == 1);
    cr_expect_eq(self.last_reason, CADRE_FAILURE_RETURNED);
    cr_expect_eq(self.last_status, (uint64_t)-CADRE_ECANCELLED);
    fake_stop_natives(&self, folder);
}

Test(worker_process, hands_back_what_has_not_begun_when_it_drains)
{
    fake_cluster_t self;
    char folder[64];
    fake_start_natives(&self, folder, no_arguments);
    for (uint64_t id = 1; id <= 100; id++) {
        fake_tell(&self, fake_closure(id, id <= 2 ? WAITS : ADD_ONE));
    }
    for (int i = 0; i < 3; i++) {
        fake_step(&self, 50);
    }
    kill(self.process, SIGTERM);
    FAKE_UNTIL(&self, self.failed >= 98);
    cr_expect_eq(self.done, 0);
    fake_cancel(&self, 1);
    fake_cancel(&self, 2);
    cr_expect_eq(fake_wait_exit(&self), 143);
    cr_expect(self.left);
    cr_expect_eq(self.last_reason, CADRE_FAILURE_RETURNED);
    fake_close(&self);
    native_file_teardown(folder);
}

Test(worker_process, stops_while_closures_run)
{
    fake_cluster_t self;
    char folder[64];
    fake_start_natives(&self, folder, no_arguments);
    for (uint64_t id = 1; id <= 50; id++) {
        fake_tell(&self, fake_closure(id, id % 2 ? WAITS : STEPS));
    }
    for (int i = 0; i < 3; i++) {
        fake_step(&self, 30);
    }
    fake_stop_natives(&self, folder);
}

/* Another connection to a fresh control ROUTER with the worker's routing id, known to it. */
static cadre_socket_t *
hold_name(fake_cluster_t *self)
{
    cadre_endpoint_t any = {.kind = CADRE_ENDPOINT_TCP, .host = "127.0.0.1"};
    char id[CADRE_ROUTING_ID_SIZE_MAX + 1] = "";
    memcpy(id, self->worker.bytes, self->worker.size);
    cadre_socket_t *holder = NULL;
    cr_assert_eq(cadre_socket_open_router(self->context, CADRE_PLANE_CONTROL, &self->control), 0);
    cr_assert_eq(cadre_socket_bind(self->control, &any), 0);
    cr_assert_eq(cadre_socket_open_dealer(self->context, CADRE_PLANE_CONTROL, id, &holder), 0);
    cr_assert_eq(cadre_socket_connect(holder, cadre_socket_endpoint(self->control)), 0);
    cadre_chunk_t *word = cadre_chunk_new_copy("here", 4);
    cr_assert_eq(cadre_socket_send(holder, NULL, word, NULL, 0), 0);
    cadre_chunk_unref(&word);
    zmq_pollitem_t item = {.socket = cadre_socket_handle(self->control), .events = ZMQ_POLLIN};
    cr_assert_eq(zmq_poll(&item, 1, FAKE_WAIT_MS), 1);
    cr_assert_eq(cadre_socket_receive(self->control, &self->frames), 0);
    return holder;
}

/* A ROUTER that holds a connection of the worker's name ignores the next one of that name for good;
 * the worker gives its own up until it is heard. */
Test(worker_process, makes_another_connection_when_nobody_answers)
{
    fake_cluster_t self;
    fake_open(&self);
    fake_start(&self, no_arguments);
    FAKE_UNTIL(&self, self.joined);
    char endpoint[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_endpoint_text(cadre_socket_endpoint(self.control), endpoint);
    cadre_socket_close(&self.control, 0);
    cadre_socket_t *holder = hold_name(&self);
    while (zmq_bind(cadre_socket_handle(self.control), endpoint) < 0) {
        poll(NULL, 0, 20);
    }
    self.joined = false;
    int64_t end_ms = cadre_clock_now_ms() + 1500;
    while (cadre_clock_now_ms() < end_ms) {
        fake_step(&self, 100);
    }
    cr_assert_not(self.joined, "it is mute");
    cadre_socket_close(&holder, 0);
    FAKE_UNTIL(&self, self.joined);
    cr_expect_eq(fake_stop(&self), 0);
    fake_close(&self);
}
