/*
 * process_test - cadre-ps as a process: its sockets, threads, files and exit status.
 */
#include <dirent.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <zmq.h>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_draft.h"
#include "tests/ps/peers.h"

TestSuite(process, .timeout = 900);

enum { ELEMENTS = 300000, FIRST_CHUNK = 262144 };

static int
restore(peers_t *self, const char *path, uint64_t cut, uint64_t generation)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_RESTORE};
    message.restore = (cadre_restore_message_t){.path = path, .cut = cut, .generation = generation};
    return peers_ask_control(self, &message);
}

/* CREATE of a vector of ELEMENTS under momentum, beginning at 0. */
static cadre_message_t
create_message(uint64_t generation)
{
    static const uint64_t shape[] = {ELEMENTS};
    static const double parameters[] = {1, 0.5};
    cadre_message_t message = {.type = CADRE_MESSAGE_CREATE};
    message.create = (cadre_create_message_t){.variable = 1,
                                              .name = "v",
                                              .partitions = 1,
                                              .dtype = CADRE_F32,
                                              .shape = {shape, 1},
                                              .rows = ELEMENTS,
                                              .initializer = 1, /* zeros */
                                              .optimizer = 2,   /* momentum */
                                              .optimizer_parameters = {parameters, 2},
                                              .generation = generation};
    return message;
}

static int
create(peers_t *self, uint64_t generation)
{
    cadre_message_t message = create_message(generation);
    return peers_ask_control(self, &message);
}

/* Without waiting for the answer. */
static void
send_create(peers_t *self, uint64_t generation)
{
    cadre_message_t message = create_message(generation);
    message.request = ++self->request;
    peers_send(self, self->control, &self->ps, &message);
}

static cadre_chunk_t *
new_floats(size_t count, float value)
{
    cadre_chunk_t *chunk = cadre_chunk_new(count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        ((float *)cadre_chunk_data(chunk))[i] = value;
    }
    return chunk;
}

static int
push(peers_t *self, uint64_t update, uint64_t version, uint64_t generation)
{
    uint64_t triple[] = {1, 0, version};
    cadre_message_t answer;
    cadre_message_t message = {.type = CADRE_MESSAGE_PUSH};
    message.push = (cadre_push_message_t){
        .update = update, .generation = generation, .partitions = {triple, 3}};
    cadre_message_add_chunk(&message, new_floats(FIRST_CHUNK, -1));
    cadre_message_add_chunk(&message, new_floats(ELEMENTS - FIRST_CHUNK, -1));
    peers_ask_data(self, &message, &answer);
    cr_assert_eq(answer.type, CADRE_MESSAGE_APPLIED);
    int status = -(int)answer.applied.status;
    cadre_message_fini(&answer);
    return status;
}

/* The value that every element has. */
static float
pull(peers_t *self, uint64_t generation, uint64_t *version)
{
    uint64_t triple[] = {1, 0, 0};
    cadre_message_t answer;
    cadre_message_t message = {.type = CADRE_MESSAGE_PULL};
    message.pull = (cadre_pull_message_t){.generation = generation, .partitions = {triple, 3}};
    peers_ask_data(self, &message, &answer);
    cr_assert_eq(answer.values.status, 0, "%s", answer.values.text);
    cr_assert_eq(answer.chunk_count, 2);
    const float *numbers = cadre_chunk_data(answer.chunks[1]);
    float value = numbers[0];
    for (size_t i = 0; i < ELEMENTS - FIRST_CHUNK; i++) {
        cr_assert_float_eq(numbers[i], value, 0);
    }
    *version = answer.values.partitions.items[0];
    cadre_message_fini(&answer);
    return value;
}

static void
send_snapshot(peers_t *self, uint64_t checkpoint, uint64_t cut)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_SNAPSHOT, .request = ++self->request};
    message.snapshot =
        (cadre_snapshot_message_t){.checkpoint = checkpoint, .cut = cut, .generation = 1};
    peers_send(self, self->control, &self->ps, &message);
}

static void
send_close_cut(peers_t *self, uint64_t checkpoint, uint64_t cut, const char *directory)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSE_CUT, .request = ++self->request};
    message.close_cut = (cadre_close_cut_message_t){
        .checkpoint = checkpoint, .cut = cut, .directory = directory, .generation = 1};
    peers_send(self, self->control, &self->ps, &message);
}

static void
end_checkpoint(peers_t *self, uint64_t checkpoint)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_CHECKPOINT_END};
    message.checkpoint_end =
        (cadre_checkpoint_end_message_t){.checkpoint = checkpoint, .committed = 1};
    cr_assert_eq(peers_ask_control(self, &message), 0);
}

/* Takes checkpoint 1 at cut 3 and commits it; its path, freed by the caller. A `length` that is not
 * 0 is what the shard's file is made to have, and said to have, with holes behind what was written.
 */
static char *
take_checkpoint(peers_t *self, const char *directory, off_t length)
{
    cadre_checkpoint_directory_t *checkpoints = NULL;
    cadre_checkpoint_draft_t *draft = NULL;
    cr_assert_eq(cadre_checkpoint_directory_open(directory, true, &checkpoints), 0);
    cr_assert_eq(cadre_checkpoint_draft_begin(checkpoints, 1, &draft), 0);
    send_snapshot(self, 1, 3);
    cadre_message_t taken;
    peers_await_control(self, CADRE_MESSAGE_SNAPSHOT_TAKEN, &taken);
    cr_assert_eq(taken.snapshot_taken.status, 0, "%s", taken.snapshot_taken.text);
    cr_assert_eq(taken.request, self->request);
    cadre_message_fini(&taken);
    cr_assert_eq(push(self, 3, 2, 1), 0, "updates go on while it is open");
    send_close_cut(self, 1, 3, cadre_checkpoint_draft_path(draft));
    cadre_message_t written;
    peers_await_control(self, CADRE_MESSAGE_SNAPSHOT_WRITTEN, &written);
    const cadre_snapshot_written_message_t *file = &written.snapshot_written;
    cr_assert_eq(file->status, 0, "%s", file->text);
    cr_assert_eq(file->counters.items[CADRE_PS_COUNTER_applied], 2, "at the cut");
    cadre_manifest_shard_t shard = {
        .file = (char *)file->file,
        .size_bytes = file->size_bytes,
        .hash = file->hash,
        .state = {.window_base = 3, .generation = 1, .applied = 2, .duplicate = 1}};
    cadre_manifest_partition_t partition = {.shard = 0, .count = ELEMENTS};
    cadre_manifest_variable_t variable = {.name = "v",
                                          .dtype = CADRE_F32,
                                          .rank = 1,
                                          .shape = {ELEMENTS},
                                          .initializer = json_object(),
                                          .optimizer = json_object(),
                                          .partition_count = 1,
                                          .partitions = &partition};
    cadre_manifest_t manifest = {.job = "test",
                                 .id = 1,
                                 .cut = 3,
                                 .epoch = 4,
                                 .seed = 1,
                                 .created = "today",
                                 .variable_count = 1,
                                 .variables = &variable,
                                 .shard_count = 1,
                                 .shards = &shard,
                                 .progress = json_object()};
    if (length > 0) {
        cadre_auto(cadre_free) char *path =
            cadre_asprintf("%s/%s", cadre_checkpoint_draft_path(draft), file->file);
        cr_assert_eq(truncate(path, length), 0);
        shard.size_bytes = (uint64_t)length;
    }
    cr_assert_eq(cadre_checkpoint_draft_commit(&draft, &manifest), 0, "%s", cadre_error_text());
    if (length == 0) {
        cr_assert_eq(cadre_checkpoint_directory_verify(checkpoints, 1), 0, "%s",
                     cadre_error_text());
    }
    json_decref(variable.initializer);
    json_decref(variable.optimizer);
    json_decref(manifest.progress);
    cadre_message_fini(&written);
    cadre_checkpoint_directory_destroy(&checkpoints);
    end_checkpoint(self, 1);
    return cadre_asprintf("%s/ckpt-00000001", directory);
}

static void
remove_directory(const char *path)
{
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        cadre_auto(cadre_free) char *below = cadre_asprintf("%s/%s", path, entry->d_name);
        struct stat info;
        if (entry->d_name[0] != '.' && lstat(below, &info) == 0) {
            S_ISDIR(info.st_mode) ? remove_directory(below) : (void)unlink(below);
        }
    }
    closedir(directory);
    rmdir(path);
}

static void
stop(peers_t *self)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_STOP};
    message.stop.reason = "the job has ended";
    peers_send(self, self->control, &self->ps, &message);
    peers_await_control(self, CADRE_MESSAGE_GOODBYE, &message);
    cr_assert_str_eq(message.goodbye.reason, "the job has ended");
    cadre_message_fini(&message);
}

Test(process, serves_checkpoints_and_restores_a_shard)
{
    char directory[] = "/tmp/cadre-ps-test-XXXXXX";
    cr_assert_not_null(mkdtemp(directory));
    uint64_t version = 0;
    peers_t self = peers_open("--index", "0");
    peers_join(&self);
    cr_assert_eq(push(&self, 1, 0, 1), CADRE_EFENCED, "there is no shard yet");
    cr_assert_eq(restore(&self, "", 1, 1), 0);
    cr_assert_eq(create(&self, 1), 0);
    cr_assert_eq(push(&self, 1, 0, 1), 0);
    cr_assert_eq(push(&self, 1, 0, 1), CADRE_EDUPLICATE);
    cr_assert_float_eq(pull(&self, 1, &version), 1, 0);
    cr_assert_eq(push(&self, 2, 1, 1), 0); /* momentum: 0.5 + 1 */
    cr_assert_float_eq(pull(&self, 1, &version), 2.5f, 0);
    cadre_auto(cadre_free) char *path = take_checkpoint(&self, directory, 0);
    cr_assert_float_eq(pull(&self, 1, &version), 4.25f, 0);
    cr_assert_eq(version, 3);

    cr_assert_eq(restore(&self, path, 3, 2), 0);
    cr_assert_eq(create(&self, 2), 0);
    cr_assert_eq(push(&self, 3, 2, 1), CADRE_EFENCED, "of the generation before");
    cr_assert_float_eq(pull(&self, 2, &version), 2.5f, 0);
    cr_assert_eq(version, 2);
    cr_assert_eq(push(&self, 2, 1, 2), CADRE_EDUPLICATE, "below the cut");
    cr_assert_eq(push(&self, 3, 2, 2), 0);
    cr_assert_float_eq(pull(&self, 2, &version), 4.25f, 0, "the momentum came back too");
    cr_assert_eq(restore(&self, "/nowhere", 3, 3), CADRE_ENOTFOUND);
    stop(&self);
    cr_assert_eq(peers_await_exit(&self), 0);
    peers_close(&self);
    remove_directory(directory);
}

/* A file of 256 GiB, nearly all of it a hole, takes minutes to be read, whatever the machine. */
Test(process, answers_and_goes_on_while_a_checkpoint_is_read)
{
    char directory[] = "/tmp/cadre-ps-test-XXXXXX";
    cr_assert_not_null(mkdtemp(directory));
    uint64_t version = 0;
    peers_t self = peers_open("--index", "0");
    peers_join(&self);
    cr_assert_eq(restore(&self, "", 1, 1), 0);
    cr_assert_eq(create(&self, 1), 0);
    cr_assert_eq(push(&self, 1, 0, 1), 0);
    cr_assert_eq(push(&self, 1, 0, 1), CADRE_EDUPLICATE);
    cr_assert_eq(push(&self, 2, 1, 1), 0);
    cadre_auto(cadre_free) char *path = take_checkpoint(&self, directory, (off_t)256 << 30);
    cr_assert_eq(restore(&self, path, 3, 2), 0);
    send_create(&self, 2);

    cadre_message_t message = {.type = CADRE_MESSAGE_COUNT};
    cr_assert_eq(peers_ask_control(&self, &message), 0);
    cr_assert_eq(push(&self, 3, 2, 2), CADRE_ENOTFOUND, "what is not there yet");
    uint64_t progress = 0;
    for (int beats = 0; beats < 4;) {
        peers_await_control(&self, CADRE_MESSAGE_HEARTBEAT, &message);
        beats += message.heartbeat.progress > progress && message.heartbeat.generation == 2;
        progress = message.heartbeat.progress;
        cadre_message_fini(&message);
    }
    cr_assert_eq(restore(&self, "", 1, 3), 0, "another RESTORE gives it up");
    cr_assert_eq(create(&self, 3), 0);
    cr_assert_float_eq(pull(&self, 3, &version), 0, 0);
    cr_assert_eq(restore(&self, path, 3, 4), 0);
    send_create(&self, 4);
    stop(&self);
    cr_assert_eq(peers_await_exit(&self), 0, "and so does the end");
    peers_close(&self);
    remove_directory(directory);
}

Test(process, says_that_a_snapshot_failed_until_the_checkpoint_has_ended)
{
    peers_t self = peers_open(NULL, NULL);
    peers_join(&self);
    cr_assert_eq(restore(&self, "", 1, 1), 0);
    cr_assert_eq(create(&self, 1), 0);
    send_snapshot(&self, 1, 3);
    send_close_cut(&self, 1, 3, "/nowhere/at/all");
    for (int i = 0; i < 3; i++) {
        cadre_message_t written;
        peers_await_control(&self, CADRE_MESSAGE_SNAPSHOT_WRITTEN, &written);
        cr_assert_eq(-(int)written.snapshot_written.status, CADRE_ENOTFOUND);
        cadre_message_fini(&written);
    }
    end_checkpoint(&self, 1);
    for (int i = 0; i < 5;) { /* and then no more */
        cadre_message_t message;
        cr_assert_eq(peers_receive(&self, self.control, PEERS_WAIT_MS, &message), 0);
        cr_assert_neq(message.type, CADRE_MESSAGE_SNAPSHOT_WRITTEN);
        i += message.type == CADRE_MESSAGE_HEARTBEAT;
        cadre_message_fini(&message);
    }
    peers_close(&self);
}

Test(process, tells_its_counters_in_heartbeats)
{
    peers_t self = peers_open(NULL, NULL);
    peers_join(&self);
    cr_assert_eq(restore(&self, "", 1, 1), 0);
    cr_assert_eq(create(&self, 1), 0);
    cr_assert_eq(push(&self, 1, 0, 1), 0);
    uint64_t applied = 0;
    for (int i = 0; i < 50 && applied == 0; i++) {
        cadre_message_t heartbeat;
        peers_await_control(&self, CADRE_MESSAGE_HEARTBEAT, &heartbeat);
        cr_assert_eq(heartbeat.heartbeat.counters.count, CADRE_PS_COUNTER_COUNT);
        applied = heartbeat.heartbeat.counters.items[CADRE_PS_COUNTER_applied];
        cadre_message_fini(&heartbeat);
    }
    cr_assert_eq(applied, 1);
    peers_close(&self);
}

Test(process, says_goodbye_and_exits_143_on_sigterm)
{
    peers_t self = peers_open(NULL, NULL);
    peers_join(&self);
    kill(self.process, SIGTERM);
    cadre_message_t goodbye;
    peers_await_control(&self, CADRE_MESSAGE_GOODBYE, &goodbye);
    cadre_message_fini(&goodbye);
    cr_assert_eq(peers_await_exit(&self), 143);
    peers_close(&self);
}

Test(process, survives_malformed_messages_and_counts_them)
{
    peers_t self = peers_open(NULL, NULL);
    peers_join(&self);
    cr_assert_eq(restore(&self, "", 1, 1), 0);
    cadre_chunk_t *junk = cadre_chunk_new_copy("\x93\x01\x02", 3);
    cr_assert_eq(cadre_socket_send(self.data, NULL, junk, NULL, 0), 0);
    cr_assert_eq(cadre_socket_send(self.control, &self.ps, junk, NULL, 0), 0);
    cadre_chunk_unref(&junk);
    uint64_t malformed = 0;
    for (int i = 0; i < 50 && malformed < 2; i++) {
        cadre_message_t heartbeat;
        peers_await_control(&self, CADRE_MESSAGE_HEARTBEAT, &heartbeat);
        malformed = heartbeat.heartbeat.counters.items[CADRE_PS_COUNTER_malformed];
        cadre_message_fini(&heartbeat);
    }
    cr_assert_eq(malformed, 2);
    cr_assert_eq(create(&self, 1), 0);
    cr_assert_eq(push(&self, 1, 0, 1), 0);
    peers_close(&self);
}

/* Where the ps of a coordinator at ipc://DIRECTORY/NAME says that it listens. */
static void
hello_address(const char *directory, const char *name, char *text)
{
    peers_t self = {.me = {CADRE_ROLE_COORDINATOR, 0, 77}, .epoch = 4};
    cadre_auto(cadre_free) char *address = cadre_asprintf("ipc://%s/%s", directory, name);
    cadre_message_t hello;
    cr_assert_eq(cadre_context_open(&self.context), 0);
    peers_bind(&self, address);
    peers_start(&self, NULL, NULL);
    peers_await_control(&self, CADRE_MESSAGE_HELLO, &hello);
    snprintf(text, CADRE_ENDPOINT_TEXT_SIZE, "%s", hello.hello.address);
    cadre_message_fini(&hello);
    kill(self.process, SIGTERM);
    cr_assert_eq(peers_await_exit(&self), 143);
    peers_close(&self);
}

Test(process, listens_beside_a_coordinator_on_ipc)
{
    char directory[] = "/tmp/cadre-ps-test-XXXXXX";
    cr_assert_not_null(mkdtemp(directory));
    char text[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_auto(cadre_free) char *prefix = cadre_asprintf("ipc://%s/ps-", directory);
    hello_address(directory, "control", text);
    cr_assert_eq(strncmp(text, prefix, strlen(prefix)), 0, "%s", text);
    cr_assert_lt(access(text + strlen("ipc://"), F_OK), 0, "it takes its socket with it");
    cadre_auto(cadre_free) char *deep = cadre_asprintf("%s/%065d", directory, 0);
    cr_assert_eq(mkdir(deep, 0700), 0);
    hello_address(deep, "c", text);
    cr_assert_eq(strncmp(text, "tcp://127.0.0.1:", 16), 0, "%s", text);
    remove_directory(directory);
}

/* Another connection to the control ROUTER with the ps's routing id, known to it. */
static cadre_socket_t *
hold_name(peers_t *self)
{
    char id[CADRE_ROUTING_ID_SIZE_MAX + 1] = "";
    memcpy(id, self->ps.bytes, self->ps.size);
    cadre_socket_t *holder = NULL;
    cr_assert_eq(cadre_socket_open_dealer(self->context, CADRE_PLANE_CONTROL, id, &holder), 0);
    cr_assert_eq(cadre_socket_connect(holder, cadre_socket_endpoint(self->control)), 0);
    cadre_chunk_t *word = cadre_chunk_new_copy("here", 4);
    cr_assert_eq(cadre_socket_send(holder, NULL, word, NULL, 0), 0);
    cadre_chunk_unref(&word);
    zmq_pollitem_t item = {.socket = cadre_socket_handle(self->control), .events = ZMQ_POLLIN};
    cr_assert_eq(zmq_poll(&item, 1, PEERS_WAIT_MS), 1);
    cr_assert_eq(cadre_socket_receive(self->control, &self->frames), 0);
    return holder;
}

/* The coordinator dies and another one takes its place at the same address: the ps dials again, and
 * begins anew for it. */
Test(process, finds_the_next_coordinator_and_forgets_the_last_ones_shard)
{
    uint64_t version = 0;
    peers_t self = peers_open(NULL, NULL);
    peers_join(&self);
    cr_assert_eq(restore(&self, "", 1, 1), 0);
    cr_assert_eq(create(&self, 1), 0);
    cr_assert_eq(push(&self, 1, 0, 1), 0);
    char endpoint[CADRE_ENDPOINT_TEXT_SIZE];
    memcpy(endpoint, self.endpoint, sizeof(endpoint));
    cadre_socket_close(&self.control, 0);
    self.me.incarnation++;
    self.epoch++;
    peers_bind(&self, endpoint);
    cadre_message_t hello;
    peers_await_control(&self, CADRE_MESSAGE_HELLO, &hello);
    cr_assert_eq(hello.hello.session, self.me.incarnation - 1);
    cadre_message_fini(&hello);
    peers_welcome(&self);
    cr_assert_eq(restore(&self, "", 1, 1), 0);
    cr_assert_eq(create(&self, 1), 0);
    cr_assert_float_eq(pull(&self, 1, &version), 0, 0);
    cr_assert_eq(push(&self, 1, 0, 1), 0, "an update id of another session's");
    peers_close(&self);
}

/* A ROUTER that holds a connection of the ps's name ignores the next one of that name for good; the
 * ps gives its own up until it is heard. */
Test(process, makes_another_connection_when_nobody_answers)
{
    peers_t self = peers_open(NULL, NULL);
    cadre_message_t hello;
    peers_await_control(&self, CADRE_MESSAGE_HELLO, &hello);
    cadre_message_fini(&hello);
    char endpoint[CADRE_ENDPOINT_TEXT_SIZE];
    memcpy(endpoint, self.endpoint, sizeof(endpoint));
    cadre_socket_close(&self.control, 0);
    peers_bind(&self, "tcp://127.0.0.1:*");
    cadre_socket_t *holder = hold_name(&self);
    while (zmq_bind(cadre_socket_handle(self.control), endpoint) < 0) {
        poll(NULL, 0, 20);
    }
    cr_assert_eq(peers_receive(&self, self.control, 1500, &hello), CADRE_ETIMEOUT, "it is mute");
    cadre_socket_close(&holder, 0);
    peers_await_control(&self, CADRE_MESSAGE_HELLO, &hello);
    cadre_message_fini(&hello);
    peers_welcome(&self);
    cr_assert_eq(restore(&self, "", 1, 1), 0);
    peers_close(&self);
}

Test(process, waits_for_another_session_when_told_to)
{
    peers_t self = peers_open("--on-session-end", "wait");
    peers_join(&self);
    stop(&self);
    cadre_message_t hello;
    peers_await_control(&self, CADRE_MESSAGE_HELLO, &hello);
    cr_assert_eq(hello.hello.session, 0);
    cadre_message_fini(&hello);
    peers_welcome(&self);
    cr_assert_eq(restore(&self, "", 1, 1), 0);
    cr_assert_eq(create(&self, 1), 0);
    kill(self.process, SIGTERM);
    cr_assert_eq(peers_await_exit(&self), 143);
    peers_close(&self);
}

/* Clock ticks of CPU that the process has used, all threads. */
static unsigned long
cpu_ticks(pid_t process)
{
    char path[64];
    unsigned long user = 0;
    unsigned long system = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", process);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    int got =
        fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    fclose(file);
    cr_assert_eq(got, 2);
    return user + system;
}

Test(process, uses_no_cpu_while_idle)
{
    peers_t self = peers_open(NULL, NULL);
    peers_join(&self);
    cr_assert_eq(restore(&self, "", 1, 1), 0);
    unsigned long before = cpu_ticks(self.process);
    for (int i = 0; i < 15; i++) { /* 1.5 s by the heartbeats' own clock */
        cadre_message_t heartbeat;
        peers_await_control(&self, CADRE_MESSAGE_HEARTBEAT, &heartbeat);
        cadre_message_fini(&heartbeat);
    }
    cr_assert_leq(cpu_ticks(self.process) - before, 5, "of 150 ticks");
    peers_close(&self);
}

/* --- folders --- */

/* The status and text of a checkpoint that is to be written to `directory`. */
static int
write_to(peers_t *self, const char *directory, char text[CADRE_TEXT_SIZE_MAX + 1])
{
    cadre_message_t message;
    cr_assert_eq(restore(self, "", 1, 1), 0);
    cr_assert_eq(create(self, 1), 0);
    send_snapshot(self, 1, 3);
    peers_await_control(self, CADRE_MESSAGE_SNAPSHOT_TAKEN, &message);
    cadre_message_fini(&message);
    send_close_cut(self, 1, 3, directory);
    int status = 0;
    for (unsigned heard = 0; heard != 3;) { /* its REPLY, and that it was written, in any order */
        cr_assert_eq(peers_receive(self, self->control, PEERS_WAIT_MS, &message), 0);
        heard |= message.type == CADRE_MESSAGE_REPLY;
        if (message.type == CADRE_MESSAGE_SNAPSHOT_WRITTEN) {
            heard |= 2;
            status = -(int)message.snapshot_written.status;
            snprintf(text, CADRE_TEXT_SIZE_MAX + 1, "%s", message.snapshot_written.text);
        }
        cadre_message_fini(&message);
    }
    end_checkpoint(self, 1);
    return status;
}

Test(process, writes_and_reads_checkpoints_only_where_it_may)
{
    char allowed[] = "/tmp/cadre-ps-test-XXXXXX";
    char elsewhere[] = "/tmp/cadre-ps-test-XXXXXX";
    char text[CADRE_TEXT_SIZE_MAX + 1];
    cr_assert_not_null(mkdtemp(allowed));
    cr_assert_not_null(mkdtemp(elsewhere));
    peers_t self = peers_open("--checkpoint-dir", allowed);
    peers_join(&self);
    cr_expect_eq(write_to(&self, elsewhere, text), CADRE_EREFUSED, "%s", text);
    cr_expect_not_null(strstr(text, "--checkpoint-dir"), "%s", text);
    cr_expect_eq(rmdir(elsewhere), 0, "nothing was written");
    cr_expect_eq(restore(&self, "/tmp", 1, 2), CADRE_EREFUSED);
    cr_expect_eq(restore(&self, "/tmp/not-there", 1, 2), CADRE_EREFUSED);
    cr_expect_eq(restore(&self, allowed, 1, 2), CADRE_ENOTFOUND, "there is no manifest");
    cr_expect_eq(restore(&self, "", 1, 3), 0);
    stop(&self);
    cr_expect_eq(peers_await_exit(&self), 0);
    peers_close(&self);
    remove_directory(allowed);
}

Test(process, takes_no_folder_from_a_coordinator_on_tcp_without_being_told)
{
    char text[CADRE_TEXT_SIZE_MAX + 1];
    setenv("CADRE_CHECKPOINT_DIR", "", 1);
    peers_t self = peers_open("--index", "0");
    peers_join(&self);
    cr_expect_eq(write_to(&self, "/tmp", text), CADRE_EREFUSED, "%s", text);
    stop(&self);
    cr_expect_eq(peers_await_exit(&self), 0);
    peers_close(&self);
}
