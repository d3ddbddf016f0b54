/*
 * cadre-ps when its coordinator is away for a moment, comes back, or is another one: what it keeps,
 * what it says, what it drops.
 */
#include <poll.h>
#include <sys/resource.h>

#include "common/checkpoint/shard_reader.h"
#include "common/spec/initializer_spec.h"
#include "common/spec/optimizer_spec.h"
#include "tests/checkpoint/sample.h"
#include "tests/ps/peers.h"

TestSuite(process_session, .timeout = 900);

enum { ROWS = 5, GENERATION = 3, CHECKPOINT = 5 };

/* The status of a REPLY, with its text. */
static int
ask_for_text(peers_t *self, cadre_message_t *message, char *text)
{
    cadre_message_t reply;
    message->request = ++self->request;
    peers_send(self, self->control, &self->ps, message);
    peers_await_control(self, CADRE_MESSAGE_REPLY, &reply);
    cr_assert_eq(reply.request, self->request);
    snprintf(text, CADRE_TEXT_SIZE_MAX + 1, "%s", reply.reply.text);
    int status = -(int)reply.reply.status;
    cadre_message_fini(&reply);
    return status;
}

static cadre_message_t
restore_message(const char *path, uint64_t generation)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_RESTORE};
    message.restore = (cadre_restore_message_t){.path = path, .cut = 1, .generation = generation};
    return message;
}

static int
restore(peers_t *self, uint64_t generation)
{
    cadre_message_t message = restore_message("", generation);
    return peers_ask_control(self, &message);
}

/* A vector of ROWS that begins at 0 and adds what is pushed. */
static cadre_message_t
create_message(uint64_t generation)
{
    static const uint64_t shape[] = {ROWS};
    cadre_message_t message = {.type = CADRE_MESSAGE_CREATE};
    message.create = (cadre_create_message_t){.variable = 1,
                                              .name = "v",
                                              .partitions = 1,
                                              .dtype = CADRE_F32,
                                              .shape = {shape, 1},
                                              .rows = ROWS,
                                              .initializer = CADRE_INITIALIZER_ZEROS,
                                              .optimizer = CADRE_OPTIMIZER_ADD,
                                              .generation = generation};
    return message;
}

static int
create(peers_t *self, uint64_t generation)
{
    cadre_message_t message = create_message(generation);
    return peers_ask_control(self, &message);
}

static int
push(peers_t *self, uint64_t update, uint64_t generation)
{
    uint64_t triple[] = {1, 0, 0};
    cadre_message_t answer;
    cadre_message_t message = {.type = CADRE_MESSAGE_PUSH};
    message.push = (cadre_push_message_t){
        .update = update, .generation = generation, .partitions = {triple, 3}};
    cadre_chunk_t *ones = cadre_chunk_new(ROWS * sizeof(float));
    for (int i = 0; i < ROWS; i++) {
        ((float *)cadre_chunk_data(ones))[i] = 1;
    }
    cadre_message_add_chunk(&message, ones);
    peers_ask_data(self, &message, &answer);
    cr_assert_eq(answer.type, CADRE_MESSAGE_APPLIED);
    int status = -(int)answer.applied.status;
    cadre_message_fini(&answer);
    return status;
}

static void
expect_value(peers_t *self, uint64_t generation, float value)
{
    uint64_t triple[] = {1, 0, 0};
    cadre_message_t answer;
    cadre_message_t message = {.type = CADRE_MESSAGE_PULL};
    message.pull = (cadre_pull_message_t){.generation = generation, .partitions = {triple, 3}};
    peers_ask_data(self, &message, &answer);
    cr_assert_eq(answer.values.status, 0, "%s", answer.values.text);
    for (int i = 0; i < ROWS; i++) {
        cr_assert_float_eq(((const float *)cadre_chunk_data(answer.chunks[0]))[i], value, 0);
    }
    cadre_message_fini(&answer);
}

/* A ps that serves: three updates are in. */
static peers_t
open_serving(void)
{
    peers_t self = peers_open("--on-session-end", "wait");
    peers_join(&self);
    cr_assert_eq(restore(&self, GENERATION), 0);
    cr_assert_eq(create(&self, GENERATION), 0);
    for (uint64_t update = 1; update <= 3; update++) {
        cr_assert_eq(push(&self, update, GENERATION), 0);
    }
    return self;
}

/* The coordinator's socket breaks and is there again under the same address; the HELLO that comes
 * says session and generation. */
static void
break_connection(peers_t *self, uint64_t session, uint64_t generation)
{
    char endpoint[CADRE_ENDPOINT_TEXT_SIZE];
    memcpy(endpoint, self->endpoint, sizeof(endpoint));
    cadre_socket_close(&self->control, 0);
    peers_bind(self, endpoint);
    cadre_message_t hello;
    peers_await_control(self, CADRE_MESSAGE_HELLO, &hello);
    cr_assert_eq(hello.hello.session, session);
    cr_assert_eq(hello.hello.generation, generation);
    cadre_message_fini(&hello);
}

Test(process_session, keeps_its_shard_when_the_same_coordinator_is_back)
{
    peers_t self = open_serving();
    for (int i = 0; i < 3; i++) {
        break_connection(&self, self.me.incarnation, GENERATION);
        cr_assert_eq(push(&self, 4 + (uint64_t)i, GENERATION), 0, "workers are served meanwhile");
        peers_welcome(&self);
        cr_assert_eq(restore(&self, GENERATION), 0, "said again, it changes nothing");
        expect_value(&self, GENERATION, 4.0f + (float)i);
        cr_assert_eq(push(&self, 2, GENERATION), CADRE_EDUPLICATE);
    }
    peers_close(&self);
}

Test(process_session, a_welcome_to_a_member_changes_nothing)
{
    peers_t self = open_serving();
    peers_welcome(&self);
    peers_welcome(&self);
    cr_assert_eq(create(&self, GENERATION), 0);
    expect_value(&self, GENERATION, 3);
    cr_assert_eq(push(&self, 3, GENERATION), CADRE_EDUPLICATE);
    peers_close(&self);
}

Test(process_session, says_hello_again_to_whoever_does_not_know_it)
{
    peers_t self = open_serving();
    cadre_message_t message = {.type = CADRE_MESSAGE_UNKNOWN_PEER};
    peers_send(&self, self.control, &self.ps, &message);
    cadre_message_t hello;
    peers_await_control(&self, CADRE_MESSAGE_HELLO, &hello);
    cr_assert_eq(hello.hello.session, self.me.incarnation);
    cr_assert_eq(hello.hello.generation, GENERATION);
    cadre_message_fini(&hello);
    peers_welcome(&self);
    cr_assert_eq(restore(&self, GENERATION), 0);
    expect_value(&self, GENERATION, 3);
    peers_close(&self);
}

/* --- another coordinator --- */

/* Opens a cut and closes it. */
static void
send_snapshot(peers_t *self, const char *directory, uint64_t generation)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_SNAPSHOT, .request = ++self->request};
    message.snapshot =
        (cadre_snapshot_message_t){.checkpoint = CHECKPOINT, .cut = 4, .generation = generation};
    peers_send(self, self->control, &self->ps, &message);
    message = (cadre_message_t){.type = CADRE_MESSAGE_CLOSE_CUT, .request = ++self->request};
    message.close_cut = (cadre_close_cut_message_t){
        .checkpoint = CHECKPOINT, .cut = 4, .directory = directory, .generation = generation};
    peers_send(self, self->control, &self->ps, &message);
}

/* The coordinator dies with a checkpoint under way and the next one uses the same number for its
 * first: that is another checkpoint, which is written, and the last one's is not taken for it. */
Test(process_session, another_coordinators_checkpoint_of_the_same_number_is_another)
{
    char directory[] = "/tmp/cadre-ps-test-XXXXXX";
    cr_assert_not_null(mkdtemp(directory));
    peers_t self = open_serving();
    cadre_message_t message;
    send_snapshot(&self, directory, GENERATION + 1); /* refused, and so never written */
    peers_await_control(&self, CADRE_MESSAGE_SNAPSHOT_TAKEN, &message);
    cr_assert_eq(message.snapshot_taken.status, (uint64_t)-CADRE_EFENCED);
    cadre_message_fini(&message);
    break_connection(&self, self.me.incarnation, GENERATION);
    self.me.incarnation++;
    self.epoch++;
    peers_welcome(&self);
    cr_assert_eq(restore(&self, 1), 0);
    cr_assert_eq(create(&self, 1), 0);
    cr_assert_eq(push(&self, 1, 1), 0);
    send_snapshot(&self, directory, 1);
    peers_await_control(&self, CADRE_MESSAGE_SNAPSHOT_WRITTEN, &message);
    cr_assert_eq(message.snapshot_written.status, 0, "%s", message.snapshot_written.text);
    char *path = cadre_asprintf("%s/%s", directory, message.snapshot_written.file);
    cadre_shard_reader_t *reader = NULL;
    const cadre_shard_reader_file_t file = {
        .directory_fd = AT_FDCWD,
        .name = path,
        .path = path,
        .size_bytes = message.snapshot_written.size_bytes,
        .hash = message.snapshot_written.hash,
    };
    cr_assert_eq(cadre_shard_reader_open(&file, NULL, &reader), 0, "%s", cadre_error_text());
    float values[ROWS];
    cadre_checkpoint_range_t range = {
        .variable = "v", .kind = CADRE_CHECKPOINT_KIND_VALUE, .dtype = CADRE_F32, .count = ROWS};
    cr_assert_eq(cadre_shard_reader_read(reader, &range, values, NULL), 0);
    cr_assert_float_eq(values[0], 1, 0, "of the new session");
    cadre_shard_reader_destroy(&reader);
    cadre_message_fini(&message);
    peers_close(&self);
    unlink(path);
    rmdir(directory);
    free(path);
}

Test(process_session, a_coordinator_that_never_comes_back_keeps_nobody_from_ending_it)
{
    peers_t self = open_serving();
    cadre_socket_close(&self.control, 0);
    cr_assert_eq(push(&self, 4, GENERATION), 0);
    kill(self.process, SIGTERM);
    cr_assert_eq(peers_await_exit(&self), 143);
    peers_close(&self);
}

/* --- the disk --- */

static void
expect_unharmed(peers_t *self)
{
    expect_value(self, GENERATION, 3);
    cr_assert_eq(push(self, 3, GENERATION), CADRE_EDUPLICATE);
    cr_assert_eq(push(self, 4, GENERATION), 0);
}

Test(process_session, a_snapshot_that_cannot_be_written_costs_the_shard_nothing)
{
    peers_t self = open_serving();
    cadre_message_t message;
    send_snapshot(&self, "/nowhere/at/all", GENERATION);
    peers_await_control(&self, CADRE_MESSAGE_SNAPSHOT_WRITTEN, &message);
    cr_assert_eq(message.snapshot_written.status, (uint64_t)-CADRE_ENOTFOUND);
    cr_assert_not_null(strstr(message.snapshot_written.text, "/nowhere/at/all"));
    cadre_message_fini(&message);
    expect_unharmed(&self);
    peers_close(&self);
}

Test(process_session, a_limit_on_files_and_a_log_that_nobody_reads_kill_nobody)
{
    char directory[] = "/tmp/cadre-ps-test-XXXXXX";
    cr_assert_not_null(mkdtemp(directory));
    int ends[2];
    int before = dup(STDERR_FILENO);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    rlim_t whole = limit.rlim_cur;
    cr_assert_eq(pipe(ends), 0);
    close(ends[0]);
    limit.rlim_cur = 4096;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
    signal(SIGPIPE, SIG_DFL);
    peers_t self = open_serving();
    cr_assert_geq(dup2(before, STDERR_FILENO), 0);
    limit.rlim_cur = whole;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    close(before);
    close(ends[1]);
    cadre_message_t message;
    cadre_chunk_t *junk = cadre_chunk_new_copy("\x93\x01\x02", 3);
    cr_assert_eq(cadre_socket_send(self.control, &self.ps, junk, NULL, 0), 0); /* this is logged */
    cadre_chunk_unref(&junk);
    send_snapshot(&self, directory, GENERATION);
    peers_await_control(&self, CADRE_MESSAGE_SNAPSHOT_WRITTEN, &message);
    cr_assert_eq(message.snapshot_written.status, (uint64_t)-CADRE_EIO);
    cr_assert_not_null(strstr(message.snapshot_written.text, "shard-0.mdb"));
    cadre_message_fini(&message);
    expect_unharmed(&self);
    peers_close(&self);
    cr_assert_eq(rmdir(directory), 0, "it has removed what it began");
}

/* The ps says which file is damaged; the coordinator decides what then. */
Test(process_session, names_the_damaged_file_when_it_cannot_restore)
{
    cadre_auto(sample_directory_remove) char *path = sample_directory();
    cadre_checkpoint_directory_t *checkpoints = NULL;
    cr_assert_eq(cadre_checkpoint_directory_open(path, true, &checkpoints), 0);
    sample_commit(checkpoints, 1, 2, 2);
    cadre_checkpoint_directory_destroy(&checkpoints);
    cadre_auto(cadre_free) char *checkpoint = cadre_asprintf("%s/ckpt-00000001", path);
    cadre_auto(cadre_free) char *file = cadre_asprintf("%s/shard-1.mdb", checkpoint);
    cadre_auto(cadre_free) char *manifest = cadre_asprintf("%s/manifest.json", checkpoint);
    sample_damage(file, 5000);
    peers_t self = open_serving();
    cadre_message_t message = restore_message(checkpoint, GENERATION + 1);
    char text[CADRE_TEXT_SIZE_MAX + 1];
    cr_assert_eq(ask_for_text(&self, &message, text), 0, "%s: the manifest is sound", text);
    message = create_message(GENERATION + 1);
    message.create.name = "fc1.bias";
    static const uint64_t shape[] = {11};
    message.create.shape = (cadre_u64s_t){shape, 1};
    message.create.rows = 11;
    cr_assert_eq(ask_for_text(&self, &message, text), CADRE_ECORRUPT);
    cr_assert(strstr(text, "fc1.bias") && strstr(text, file), "%s", text);
    sample_damage(manifest, 100);
    message = restore_message(checkpoint, GENERATION + 2);
    int status = ask_for_text(&self, &message, text);
    cr_assert(status == CADRE_ECORRUPT || status == CADRE_EMALFORMED, "%s", text);
    cr_assert(strstr(text, manifest), "%s", text);
    cr_assert_eq(push(&self, 9, GENERATION), CADRE_EFENCED);
    cr_assert_eq(restore(&self, GENERATION + 3), 0);
    cr_assert_eq(create(&self, GENERATION + 3), 0);
    cr_assert_eq(push(&self, 9, GENERATION + 3), 0);
    peers_close(&self);
}
