/* Who is let in by a socket that is guarded by keys, and what ends when a key is withdrawn. */
#include "common/net/authenticator.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <zmq.h>

#include "common/net/monitor.h"
#include "common/net/stranger.h"
#include "common/system/clock.h"
#include "tests/common/key_files.h"

TestSuite(authenticator, .timeout = 240, .init = fake_tree_make, .fini = fake_tree_remove);

enum { WAIT_MS = 120000 };

/* A pair for each role. */
typedef struct {
    cadre_certificate_t pairs[CADRE_KEY_ROLES];
} job_t;

static void
make_directory(const char *name)
{
    cadre_auto(cadre_free) char *path = key_file_path(name);
    cr_assert_eq(mkdir(path, 0700), 0);
}

static void
write_key(const cadre_certificate_t *key, const char *directory, const char *name, bool secret)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s/%s", fake_tree, directory, name);
    cr_assert_eq(cadre_certificate_file_write(key, path, secret), 0, "%s", cadre_error_text());
}

/* A directory of keys called `name`: the pairs of all roles, and those of `allowed`. */
static void
make_keys(const char *name, const job_t *pairs, const job_t *allowed)
{
    char file[64];
    char directory[64];
    make_directory(name);
    snprintf(directory, sizeof(directory), "%s/allowed", name);
    make_directory(directory);
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        snprintf(file, sizeof(file), "%s.key", cadre_key_role_text(role));
        write_key(&pairs->pairs[role], name, file, true);
        snprintf(file, sizeof(file), "%s.pub", cadre_key_role_text(role));
        write_key(&allowed->pairs[role], directory, file, false);
    }
}

static job_t
new_job(void)
{
    job_t job;
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        cr_assert_eq(cadre_certificate_make(role, cadre_key_role_text(role), &job.pairs[role]), 0);
    }
    return job;
}

static cadre_context_t *
open_context(const char *keys, cadre_key_role_t role)
{
    cadre_context_t *context = NULL;
    cr_assert_eq(cadre_context_open(&context), 0);
    if (keys) {
        cadre_keyring_t *keyring = NULL;
        cadre_auto(cadre_free) char *path = key_file_path(keys);
        cr_assert_eq(cadre_keyring_open(path, role, &keyring), 0, "%s", cadre_error_text());
        cadre_context_guard(context, keyring);
    }
    return context;
}

/* --- a server, and who tries it --- */

typedef struct {
    job_t job;
    cadre_context_t *context;
    cadre_authenticator_t *authenticator;
    cadre_socket_t *router;
    cadre_plane_t plane;
    atomic_int accepted;
    atomic_int refused;
    atomic_int withdrawn;
    atomic_int unreadable;
    atomic_int readable;
    atomic_int not_ended;
    char accepted_pairs[640];
} server_t;

static void
count(void *context, char level, const char *event, const char *pairs)
{
    server_t *self = context;
    (void)level;
    if (strcmp(event, "key_accepted") == 0) {
        snprintf(self->accepted_pairs, sizeof(self->accepted_pairs), "%s", pairs);
    }
    self->accepted += strcmp(event, "key_accepted") == 0;
    self->refused += strcmp(event, "key_refused") == 0;
    self->withdrawn += strcmp(event, "key_revoked") == 0;
    self->unreadable += strcmp(event, "keys_unreadable") == 0;
    self->readable += strcmp(event, "keys_readable") == 0;
    self->not_ended += strcmp(event, "disconnect_failed") == 0;
}

static void
server_open(server_t *self, cadre_plane_t plane, bool authenticates)
{
    bool control = plane == CADRE_PLANE_CONTROL;
    cadre_endpoint_t at = {0};
    *self = (server_t){.job = new_job(), .plane = plane};
    make_keys("job", &self->job, &self->job);
    self->context = open_context("job", control ? CADRE_KEY_COORDINATOR : CADRE_KEY_PS);
    if (authenticates) {
        cr_assert_eq(cadre_authenticator_open(self->context, count, self, &self->authenticator), 0);
    }
    cr_assert_eq(cadre_socket_open_router(self->context, plane, &self->router), 0);
    cr_assert_eq(cadre_endpoint_parse("tcp://127.0.0.1:*", &at), 0);
    cr_assert_eq(cadre_socket_bind(self->router, &at), 0, "%s", cadre_error_text());
}

static void
server_close(server_t *self)
{
    cadre_socket_close(&self->router, 0);
    cr_assert_eq(cadre_authenticator_close(&self->authenticator, WAIT_MS), 0);
    cadre_context_close(&self->context);
}

typedef struct {
    cadre_context_t *context;
    cadre_socket_t *dealer;
    cadre_monitor_t *monitor;
} client_t;

/* Connects with the keys of a directory, or without any. */
static void
client_open(client_t *self, const server_t *server, const char *keys, cadre_key_role_t role)
{
    self->context = open_context(keys, role);
    cr_assert_eq(cadre_socket_open_dealer(self->context, server->plane, "worker/0/0000000000000001",
                                          &self->dealer),
                 0);
    cr_assert_eq(cadre_monitor_open(self->context, self->dealer, &self->monitor), 0);
    cr_assert_eq(cadre_socket_connect(self->dealer, cadre_socket_endpoint(server->router)), 0, "%s",
                 cadre_error_text());
}

static void
client_close(client_t *self)
{
    cadre_monitor_close(&self->monitor);
    cadre_socket_close(&self->dealer, 0);
    cadre_context_close(&self->context);
}

/* The next event of one of two kinds. */
static cadre_event_kind_t
client_wait(client_t *self, cadre_event_kind_t one, cadre_event_kind_t other)
{
    int64_t deadline_ms = cadre_clock_now_ms() + WAIT_MS;
    while (cadre_clock_now_ms() < deadline_ms) {
        zmq_pollitem_t item = {.socket = cadre_monitor_handle(self->monitor), .events = ZMQ_POLLIN};
        cadre_event_t event;
        zmq_poll(&item, 1, 1000);
        while (cadre_monitor_receive(self->monitor, &event) == 0) {
            if (event.kind == one || event.kind == other) {
                return event.kind;
            }
        }
    }
    cr_assert_fail("neither of two events came");
    return CADRE_EVENT_OTHER;
}

static bool
is_let_in(const server_t *server, const char *keys, cadre_key_role_t role)
{
    client_t client;
    client_open(&client, server, keys, role);
    cadre_event_kind_t kind = client_wait(&client, CADRE_EVENT_READY, CADRE_EVENT_HANDSHAKE_FAILED);
    client_close(&client);
    return kind == CADRE_EVENT_READY;
}

static void
wait_until(atomic_int *counter, int least)
{
    int64_t deadline_ms = cadre_clock_now_ms() + WAIT_MS;
    while (*counter < least && cadre_clock_now_ms() < deadline_ms) {
        zmq_poll(NULL, 0, 1);
    }
    cr_assert_geq(*counter, least);
}

/* --- the matrix --- */

Test(authenticator, lets_each_role_in_where_it_has_business)
{
    static const bool control[CADRE_KEY_ROLES] = {
        [CADRE_KEY_PS] = true, [CADRE_KEY_WORKER] = true, [CADRE_KEY_CLIENT] = true};
    server_t server;
    server_open(&server, CADRE_PLANE_CONTROL, true);
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        cr_expect_eq(is_let_in(&server, "job", role), control[role], "%s",
                     cadre_key_role_text(role));
    }
    cr_expect_geq(server.accepted, 3);
    cr_expect_geq(server.refused, 1);
    server_close(&server);
}

Test(authenticator, lets_only_workers_and_the_coordinator_ask_for_values)
{
    server_t server;
    server_open(&server, CADRE_PLANE_DATA, true);
    cr_expect(is_let_in(&server, "job", CADRE_KEY_WORKER));
    cr_expect(is_let_in(&server, "job", CADRE_KEY_COORDINATOR));
    cr_expect_not(is_let_in(&server, "job", CADRE_KEY_CLIENT));
    cr_expect_not(is_let_in(&server, "job", CADRE_KEY_PS));
    server_close(&server);
}

Test(authenticator, refuses_a_key_that_is_not_allowed)
{
    server_t server;
    server_open(&server, CADRE_PLANE_CONTROL, true);
    job_t others = new_job();
    make_keys("others", &others, &server.job);
    cr_expect_not(is_let_in(&server, "others", CADRE_KEY_WORKER));
    cr_expect_not(is_let_in(&server, "others", CADRE_KEY_PS));
    cr_expect_geq(server.refused, 2);
    cr_expect_eq(server.accepted, 0);
    server_close(&server);
}

Test(authenticator, refuses_who_shows_no_key)
{
    server_t server;
    server_open(&server, CADRE_PLANE_CONTROL, true);
    cr_expect_not(is_let_in(&server, NULL, CADRE_KEY_WORKER));
    cr_expect_eq(server.accepted, 0);
    server_close(&server);
}

Test(authenticator, refuses_a_name_and_a_password)
{
    server_t server;
    server_open(&server, CADRE_PLANE_CONTROL, true);
    client_t client = {.context = open_context(NULL, CADRE_KEY_WORKER)};
    cr_assert_eq(cadre_socket_open_dealer(client.context, CADRE_PLANE_CONTROL, "a", &client.dealer),
                 0);
    void *handle = cadre_socket_handle(client.dealer);
    cr_assert_eq(zmq_setsockopt(handle, ZMQ_PLAIN_USERNAME, "admin", 5), 0);
    cr_assert_eq(zmq_setsockopt(handle, ZMQ_PLAIN_PASSWORD, "admin", 5), 0);
    cr_assert_eq(cadre_monitor_open(client.context, client.dealer, &client.monitor), 0);
    cr_assert_eq(cadre_socket_connect(client.dealer, cadre_socket_endpoint(server.router)), 0);
    cr_expect_eq(client_wait(&client, CADRE_EVENT_READY, CADRE_EVENT_HANDSHAKE_FAILED),
                 CADRE_EVENT_HANDSHAKE_FAILED);
    client_close(&client);
    server_close(&server);
}

/* Somebody else at the address of the coordinator learns nothing. */
Test(authenticator, does_not_talk_to_another_server)
{
    server_t server;
    server_open(&server, CADRE_PLANE_CONTROL, true);
    job_t others = new_job();
    make_keys("others", &server.job, &others); /* it knows another coordinator */
    cr_expect_not(is_let_in(&server, "others", CADRE_KEY_WORKER));
    cr_expect_eq(server.accepted, 0);
    server_close(&server);
}

Test(authenticator, nobody_is_let_in_without_one)
{
    server_t server;
    server_open(&server, CADRE_PLANE_CONTROL, false);
    cr_expect_not(is_let_in(&server, "job", CADRE_KEY_WORKER));
    server_close(&server);
}

/* Asks as libzmq does whether who has that key may connect; gives the code. */
static int
ask(void *handler, const char *public_key)
{
    uint8_t key[32];
    char answer[256];
    int code = 0;
    static const char *const frames[] = {"1.0", "1", "cadre.control", "10.0.0.1", "", "CURVE"};
    cr_assert_not_null(zmq_z85_decode(key, public_key));
    for (size_t i = 0; i < CADRE_COUNT_OF(frames); i++) {
        cr_assert_geq(zmq_send(handler, frames[i], strlen(frames[i]), ZMQ_SNDMORE), 0);
    }
    cr_assert_geq(zmq_send(handler, key, sizeof(key), 0), 0);
    for (int i = 0, more = 1; more; i++) {
        size_t size = sizeof(more);
        int length = zmq_recv(handler, answer, sizeof(answer) - 1, 0);
        cr_assert_geq(length, 0);
        answer[length] = '\0';
        code = i == 2 ? (int)strtol(answer, NULL, 10) : code;
        cr_assert_eq(zmq_getsockopt(handler, ZMQ_RCVMORE, &more, &size), 0);
    }
    return code;
}

Test(authenticator, tells_of_who_is_let_in_whatever_strangers_do)
{
    enum { STRANGERS = 2 * CADRE_AUDIT_LINES_MAX };
    server_t server;
    server_open(&server, CADRE_PLANE_CONTROL, true);
    cadre_certificate_t stranger;
    cr_assert_eq(cadre_certificate_make(CADRE_KEY_WORKER, "stranger", &stranger), 0);
    const cadre_certificate_t *worker = &server.job.pairs[CADRE_KEY_WORKER];
    void *handler = zmq_socket(cadre_context_handle(server.context), ZMQ_REQ);
    cr_assert_eq(zmq_connect(handler, "inproc://zeromq.zap.01"), 0);
    for (int i = 0; i < STRANGERS; i++) {
        cr_expect_eq(ask(handler, stranger.public_key), 400);
    }
    cr_expect_eq(ask(handler, worker->public_key), 200);
    wait_until(&server.accepted, 1);
    char id[CADRE_KEY_ID_TEXT_SIZE];
    cadre_key_id_text(cadre_peer_key_of(worker).id, id);
    cr_expect(strstr(server.accepted_pairs, worker->public_key), "%s", server.accepted_pairs);
    cr_expect(strstr(server.accepted_pairs, id), "%s", server.accepted_pairs);
    zmq_close(handler);
    server_close(&server);
}

/* --- messages --- */

static int
receive(cadre_socket_t *socket, cadre_frames_t *frames)
{
    zmq_pollitem_t item = {.socket = cadre_socket_handle(socket), .events = ZMQ_POLLIN};
    zmq_poll(&item, 1, WAIT_MS);
    return cadre_socket_receive(socket, frames);
}

Test(authenticator, says_whose_key_a_message_came_under)
{
    server_t server;
    client_t client;
    cadre_frames_t frames = {.header = NULL};
    server_open(&server, CADRE_PLANE_CONTROL, true);
    client_open(&client, &server, "job", CADRE_KEY_WORKER);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = cadre_chunk_new_copy("hello", 5);
    cr_assert_eq(cadre_socket_send(client.dealer, NULL, header, &header, 1), 0);
    cr_assert_eq(receive(server.router, &frames), 0, "%s", cadre_error_text());
    cadre_peer_key_t key = cadre_peer_key_of(&server.job.pairs[CADRE_KEY_WORKER]);
    cr_expect_eq(frames.key.role, CADRE_KEY_WORKER);
    cr_expect_eq(frames.key.id, key.id);
    cadre_task_t task;
    cr_assert_eq(cadre_task_parse(frames.from.bytes, frames.from.size, &task), 0);
    cr_expect_eq(cadre_peer_key_check(&frames.key, &task), 0);
    task.role = CADRE_ROLE_PS;
    cr_expect_eq(cadre_peer_key_check(&frames.key, &task), CADRE_EREFUSED);
    expect_error("a key of the role worker speaks as ps/0/");
    cadre_frames_fini(&frames);
    client_close(&client);
    server_close(&server);
}

/* --- withdrawing --- */

static void
withdraw(const char *name)
{
    cadre_auto(cadre_free) char *path = key_file_path(name);
    cr_assert_eq(unlink(path), 0);
}

/* Both directories are one here; the client is told nothing, its connection just ends. */
Test(authenticator, ends_the_connections_of_a_key_that_is_withdrawn)
{
    server_t server;
    client_t worker;
    client_t ps;
    server_open(&server, CADRE_PLANE_CONTROL, true);
    make_keys("client", &server.job, &server.job);
    client_open(&worker, &server, "client", CADRE_KEY_WORKER);
    client_open(&ps, &server, "client", CADRE_KEY_PS);
    client_wait(&worker, CADRE_EVENT_READY, CADRE_EVENT_READY);
    client_wait(&ps, CADRE_EVENT_READY, CADRE_EVENT_READY);
    withdraw("job/allowed/worker.pub");
    client_wait(&worker, CADRE_EVENT_DISCONNECTED, CADRE_EVENT_DISCONNECTED);
    cr_expect_eq(client_wait(&worker, CADRE_EVENT_READY, CADRE_EVENT_HANDSHAKE_FAILED),
                 CADRE_EVENT_HANDSHAKE_FAILED);
    client_wait(&ps, CADRE_EVENT_DISCONNECTED, CADRE_EVENT_DISCONNECTED);
    cr_expect_eq(client_wait(&ps, CADRE_EVENT_READY, CADRE_EVENT_HANDSHAKE_FAILED),
                 CADRE_EVENT_READY);
    cr_expect_eq(server.withdrawn, 1);
    client_close(&worker);
    client_close(&ps);
    server_close(&server);
}

/* Revocation goes on beside a file that cannot be read. */
Test(authenticator, ends_connections_while_the_directory_cannot_be_read)
{
    server_t server;
    client_t client;
    server_open(&server, CADRE_PLANE_CONTROL, true);
    make_keys("client", &server.job, &server.job);
    client_open(&client, &server, "client", CADRE_KEY_CLIENT);
    client_wait(&client, CADRE_EVENT_READY, CADRE_EVENT_READY);
    fake_tree_put("job/allowed/worker.pub~", "");
    wait_until(&server.unreadable, 1);
    cr_expect(is_let_in(&server, "client", CADRE_KEY_WORKER), "what was allowed stays so");
    withdraw("job/allowed/client.pub");
    client_wait(&client, CADRE_EVENT_DISCONNECTED, CADRE_EVENT_DISCONNECTED);
    cr_expect_eq(client_wait(&client, CADRE_EVENT_READY, CADRE_EVENT_HANDSHAKE_FAILED),
                 CADRE_EVENT_HANDSHAKE_FAILED);
    client_close(&client);
    server_close(&server);
}

/* One descriptor is left: enough to see that the directory is gone, not for ending connections. */
Test(authenticator, ends_connections_when_there_are_descriptors_again)
{
    server_t server;
    client_t client;
    server_open(&server, CADRE_PLANE_CONTROL, true);
    make_keys("client", &server.job, &server.job);
    client_open(&client, &server, "client", CADRE_KEY_WORKER);
    client_wait(&client, CADRE_EVENT_READY, CADRE_EVENT_READY);
    cadre_auto(cadre_free) char *folder = key_file_path("job/allowed");
    cadre_auto(cadre_free) char *aside = key_file_path("job/aside");
    key_files_descriptors_t held = key_files_leave_descriptors(1);
    cr_assert_eq(rename(folder, aside), 0);
    wait_until(&server.withdrawn, CADRE_KEY_ROLES);
    wait_until(&server.not_ended, 1);
    key_files_release_descriptors(&held);
    client_wait(&client, CADRE_EVENT_DISCONNECTED, CADRE_EVENT_DISCONNECTED);
    client_close(&client);
    server_close(&server);
}

Test(authenticator, says_again_that_the_directory_cannot_be_read)
{
    enum { NOW_MS = 1000000 };
    server_t server;
    server_open(&server, CADRE_PLANE_CONTROL, false);
    cadre_keyring_t *keyring = cadre_context_keyring(server.context);
    cr_expect_not(cadre_keyring_unreadable(keyring));
    fake_tree_put("job/allowed/broken.pub", "");
    cadre_keyring_look(keyring, NOW_MS, count, &server);
    cr_expect(cadre_keyring_unreadable(keyring));
    cr_expect_eq(server.unreadable, 1);
    cadre_keyring_look(keyring, NOW_MS + CADRE_KEYS_UNREADABLE_LOG_MS - 1, count, &server);
    cr_expect_eq(server.unreadable, 1);
    cadre_keyring_look(keyring, NOW_MS + CADRE_KEYS_UNREADABLE_LOG_MS, count, &server);
    cr_expect_eq(server.unreadable, 2);
    withdraw("job/allowed/broken.pub");
    cadre_keyring_look(keyring, NOW_MS + CADRE_KEYS_UNREADABLE_LOG_MS, count, &server);
    cr_expect_not(cadre_keyring_unreadable(keyring));
    cr_expect_eq(server.readable, 1);
    cr_expect_eq(server.withdrawn, 0);
    server_close(&server);
}

Test(authenticator, is_told_when_the_key_it_trusts_is_withdrawn)
{
    server_t server;
    client_t client;
    server_open(&server, CADRE_PLANE_CONTROL, true);
    client_open(&client, &server, "job", CADRE_KEY_WORKER);
    cr_expect(cadre_socket_trusted(client.dealer));
    withdraw("job/allowed/coordinator.pub");
    cadre_keyring_t *keyring = cadre_context_keyring(client.context);
    cr_expect_eq(cadre_keyring_look(keyring, cadre_clock_now_ms(), count, &server), 1);
    cr_expect_eq(cadre_keyring_withdrawals(keyring), 1);
    cr_expect_not(cadre_socket_trusted(client.dealer));
    client_close(&client);
    server_close(&server);
}

/* --- the self-check --- */

Test(authenticator, finds_that_strangers_are_refused)
{
    server_t server;
    server_open(&server, CADRE_PLANE_CONTROL, true);
    cr_expect_eq(
        cadre_authenticator_check(server.authenticator, cadre_socket_endpoint(server.router)), 0,
        "%s", cadre_error_text());
    cr_expect_eq(server.refused, 0, "its own strangers are not in the log");
    server_close(&server);
}

/* Takes connections and closes them, as a process without descriptors does; until it is stopped. */
static void *
close_all(void *argument)
{
    int listener = *(int *)argument;
    int fd;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        close(fd);
    }
    return NULL;
}

Test(authenticator, takes_a_closed_connection_for_no_refusal)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&at, size), 0);
    cr_assert_eq(listen(listener, 16), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, close_all, &listener), 0);
    job_t job = new_job();
    char text[64];
    cadre_endpoint_t bound = {0};
    snprintf(text, sizeof(text), "tcp://127.0.0.1:%d", ntohs(at.sin_port));
    cr_assert_eq(cadre_endpoint_parse(text, &bound), 0);
    cr_expect_eq(cadre_stranger_check(&bound, NULL, NULL, 500), CADRE_ETIMEOUT);
    cr_expect_eq(cadre_stranger_check(&bound, job.pairs[0].public_key, &job.pairs[1], 500),
                 CADRE_ETIMEOUT);
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
}

Test(authenticator, finds_that_strangers_are_let_in)
{
    server_t server;
    server_open(&server, CADRE_PLANE_CONTROL, true);
    cadre_context_t *open = open_context(NULL, CADRE_KEY_PS);
    cadre_socket_t *socket = NULL;
    cadre_endpoint_t at = {0};
    cr_assert_eq(cadre_socket_open_router(open, CADRE_PLANE_CONTROL, &socket), 0);
    cr_assert_eq(cadre_endpoint_parse("tcp://127.0.0.1:*", &at), 0);
    cr_assert_eq(cadre_socket_bind(socket, &at), 0);
    cr_expect_eq(cadre_authenticator_check(server.authenticator, cadre_socket_endpoint(socket)),
                 CADRE_EREFUSED);
    expect_error("lets strangers in");
    cadre_socket_close(&socket, 0);
    cadre_context_close(&open);
    server_close(&server);
}
