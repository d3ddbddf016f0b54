/* What each key may say, to a real coordinator and a real ps over CURVE: every message of every
 * role, against the table of rights (proto-schemas/messages.h). What is not allowed changes
 * nothing, and is counted. */
#include <cadre/client.h>
#include <cadre/coordinator.h>
#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/security.h"
#include "common/net/socket.h"
#include "common/wire/codec.h"
#include "coordinator/cli/train/job_keys.h"
#include "tests/common/message_sample.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(rights, .timeout = 900);

enum { WAIT_MS = 200000, ROWS = 8, PORT = 42300 };

#define OK(call)                                                                                   \
    do {                                                                                           \
        int status_ = (call);                                                                      \
        cr_assert(status_ == 0, "%s: %s", #call, cadre_error_text());                              \
    } while (0)

/* A coordinator in this process, and a ps with one variable. */
typedef struct {
    scratch_t scratch;
    char *keys;
    char *ps_address;
    cadre_coordinator_t *coordinator;
    cadre_variable_t *variable;
    pid_t ps;
} stage_t;

static void
stage_open(stage_t *self)
{
    unsigned pid = (unsigned)getpid();
    *self = (stage_t){.ps = 0};
    scratch_open(&self->scratch);
    self->keys = scratch_path(&self->scratch, "keys");
    cadre_auto(cadre_job_keys_fini) cadre_job_keys_t keys = {0};
    OK(cadre_job_keys_make(&keys));
    OK(cadre_job_keys_write(&keys, self->keys));
    self->ps_address = cadre_asprintf("tcp://127.%u.%u.%u:%d", 64 + pid / 62500 % 64,
                                      pid / 250 % 250, pid % 250 + 1, PORT);
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.address = "tcp://127.0.0.1:*";
    options.ps_count = 1;
    options.keys = self->keys;
    OK(cadre_coordinator_open(&options, &self->coordinator));
    cadre_auto(cadre_free) char *program = program_path("cadre-ps");
    cadre_auto(cadre_free) char *log = scratch_path(&self->scratch, "ps.log");
    const char *arguments[] = {program,
                               "--coordinator",
                               cadre_coordinator_address(self->coordinator),
                               "--address",
                               self->ps_address,
                               "--keys",
                               self->keys,
                               NULL};
    self->ps = process_start(&(process_t){.arguments = arguments, .output = log});
    OK(cadre_coordinator_wait_ready(self->coordinator, 0, WAIT_MS));
    OK(cadre_variable_create(self->coordinator, "v", CADRE_F32, (int64_t[]){ROWS}, 1, NULL,
                             &self->variable));
}

/* A member of the job's status, such as "messages.dropped". */
static double
status_number(const stage_t *self, const char *path)
{
    cadre_auto(cadre_free) char *text = NULL;
    OK(cadre_coordinator_status_json(self->coordinator, &text));
    json_t *status = json_loads(text, 0, NULL);
    double number = json_number_at(status, path);
    json_decref(status);
    return number;
}

static void
wait_number(const stage_t *self, const char *path, double wanted)
{
    for (deadline_t deadline = deadline_in(WAIT_MS); status_number(self, path) < wanted;) {
        cr_assert(again(deadline), "%s: %g of %g", path, status_number(self, path), wanted);
    }
    cr_expect_eq(status_number(self, path), wanted, "%s is %g, not %g", path,
                 status_number(self, path), wanted);
}

/* Everything is as it was, and the job can still use its ps. */
static void
stage_close(stage_t *self)
{
    int end = 0;
    cadre_tensor_t value = {.data = NULL};
    OK(cadre_variable_read(self->variable, &value, WAIT_MS));
    for (int i = 0; i < ROWS; i++) {
        cr_expect_eq(((const float *)value.data)[i], 0);
    }
    cadre_tensor_fini(&value);
    cr_expect_eq(status_number(self, "failures.ps"), 0);
    cadre_coordinator_close(&self->coordinator);
    cr_expect(process_wait(self->ps, WAIT_MS, &end) && WIFEXITED(end) && WEXITSTATUS(end) == 0);
    free(self->keys);
    free(self->ps_address);
    scratch_close(&self->scratch);
}

/* --- who speaks --- */

typedef struct {
    cadre_context_t *context;
    cadre_socket_t *socket;
    cadre_task_t task;
    cadre_frames_t frames;
} speaker_t;

/* Connects under the key of one role and the name of another, or the same. */
static void
speaker_open(speaker_t *self, const stage_t *stage, cadre_key_role_t key, cadre_role_t role,
             const char *address)
{
    static uint64_t incarnations = 1000;
    char name[CADRE_TASK_TEXT_SIZE];
    cadre_endpoint_t endpoint;
    bool data = address == stage->ps_address;
    *self = (speaker_t){.task = {role, 7, ++incarnations}};
    OK(cadre_context_open(&self->context));
    OK(cadre_security_apply(&(cadre_security_t){.keys = stage->keys}, key, self->context));
    OK(cadre_socket_open_dealer(self->context, data ? CADRE_PLANE_DATA : CADRE_PLANE_CONTROL,
                                cadre_task_text(&self->task, name), &self->socket));
    OK(cadre_endpoint_parse(address, &endpoint));
    OK(cadre_socket_connect(self->socket, &endpoint));
}

static void
speaker_close(speaker_t *self)
{
    cadre_frames_fini(&self->frames);
    cadre_socket_close(&self->socket, 0);
    cadre_context_close(&self->context);
}

static void
say(speaker_t *self, cadre_message_type_t type)
{
    cadre_message_t message = sample_message(type);
    message.incarnation = self->task.incarnation;
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = cadre_message_encode(&message);
    OK(cadre_socket_send(self->socket, NULL, header, message.chunks, message.chunk_count));
    cadre_message_fini(&message);
}

/* Says everything that its role may not; how many that were. */
static int
say_forbidden(speaker_t *self)
{
    int count = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(sample_types); i++) {
        if (cadre_message_authorize(sample_types[i], self->task.role) < 0) {
            say(self, sample_types[i]);
            count++;
        }
    }
    return count;
}

/* --- the matrix --- */

Test(rights, of_each_role_are_what_it_may_say_to_the_coordinator)
{
    static const struct {
        cadre_key_role_t key;
        cadre_role_t role;
    } speakers[] = {{CADRE_KEY_PS, CADRE_ROLE_PS},
                    {CADRE_KEY_WORKER, CADRE_ROLE_WORKER},
                    {CADRE_KEY_CLIENT, CADRE_ROLE_CLIENT}};
    stage_t stage;
    int expected = 0;
    stage_open(&stage);
    for (size_t i = 0; i < CADRE_COUNT_OF(speakers); i++) {
        speaker_t speaker;
        speaker_open(&speaker, &stage, speakers[i].key, speakers[i].role,
                     cadre_coordinator_address(stage.coordinator));
        int count = say_forbidden(&speaker);
        cr_expect_gt(count, 20);
        expected += count;
        wait_number(&stage, "messages.dropped", expected);
        speaker_close(&speaker);
    }
    stage_close(&stage);
}

/* A key of one role under the name of another: nothing at all is taken, not even a HELLO. */
Test(rights, of_a_key_are_those_of_its_own_role)
{
    stage_t stage;
    int expected = 0;
    stage_open(&stage);
    for (cadre_key_role_t key = CADRE_KEY_PS; key < CADRE_KEY_ROLES; key++) {
        for (cadre_role_t role = CADRE_ROLE_COORDINATOR; role <= CADRE_ROLE_CLIENT; role++) {
            speaker_t speaker;
            if (strcmp(cadre_key_role_text(key), cadre_role_text(role)) == 0) {
                continue;
            }
            speaker_open(&speaker, &stage, key, role, cadre_coordinator_address(stage.coordinator));
            for (size_t i = 0; i < CADRE_COUNT_OF(sample_types); i++) {
                say(&speaker, sample_types[i]);
                expected++;
            }
            wait_number(&stage, "messages.dropped", expected);
            speaker_close(&speaker);
        }
    }
    stage_close(&stage);
}

Test(rights, of_a_worker_are_what_it_may_say_to_a_ps)
{
    stage_t stage;
    speaker_t speaker;
    stage_open(&stage);
    speaker_open(&speaker, &stage, CADRE_KEY_WORKER, CADRE_ROLE_WORKER, stage.ps_address);
    int expected = say_forbidden(&speaker);
    cr_expect_gt(expected, 20);
    wait_number(&stage, "tasks.0.counters.malformed", expected);
    speaker_close(&speaker);
    speaker_open(&speaker, &stage, CADRE_KEY_WORKER, CADRE_ROLE_COORDINATOR, stage.ps_address);
    for (size_t i = 0; i < CADRE_COUNT_OF(sample_types); i++) {
        say(&speaker, sample_types[i]);
        expected++;
    }
    wait_number(&stage, "tasks.0.counters.malformed", expected);
    speaker_close(&speaker);
    stage_close(&stage);
}

/* Opens a client of the coordinator with the keys in that directory. */
static int
open_client(const stage_t *stage, const char *keys, cadre_client_t **client)
{
    cadre_client_options_t options = cadre_client_options();
    options.address = cadre_coordinator_address(stage->coordinator);
    options.keys = keys;
    options.timeout_ms = WAIT_MS;
    return cadre_client_open(&options, client);
}

Test(rights, of_a_client_are_to_read_and_no_more)
{
    stage_t stage;
    cadre_client_t *client = NULL;
    cadre_client_closure_t *closure = NULL;
    cadre_tensor_t value = {.data = NULL};
    stage_open(&stage);
    OK(open_client(&stage, stage.keys, &client));
    OK(cadre_client_read(client, "v", &value, WAIT_MS));
    cr_expect_eq(cadre_tensor_count(&value), ROWS);
    cadre_tensor_fini(&value);
    OK(cadre_client_schedule(client, "noop", NULL, &closure));
    cr_expect_eq(cadre_client_closure_wait(closure, WAIT_MS), CADRE_EREFUSED);
    cadre_client_closure_destroy(&closure);
    cadre_client_close(&client);
    stage_close(&stage);
}

/* Keys of another job: nobody here allows them, and they allow nobody here. */
Test(rights, of_a_client_are_those_of_an_allowed_key)
{
    stage_t stage;
    cadre_client_t *client = NULL;
    cadre_auto(cadre_job_keys_fini) cadre_job_keys_t keys = {0};
    stage_open(&stage);
    cadre_auto(cadre_free) char *others = scratch_path(&stage.scratch, "others");
    OK(cadre_job_keys_make(&keys));
    OK(cadre_job_keys_write(&keys, others));
    cr_expect_eq(open_client(&stage, others, &client), CADRE_EREFUSED, "%s", cadre_error_text());
    cr_expect_null(client);
    stage_close(&stage);
}
