#include "common/net/socket.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/monitor.h"
#include "common/system/clock.h"

TestSuite(socket, .timeout = 240);

enum { WAIT_MS = 120000 };

/* A ROUTER and a connected DEALER of the same plane. */
typedef struct {
    cadre_context_t *context;
    cadre_socket_t *router;
    cadre_socket_t *dealer;
    cadre_routing_id_t dealer_id;
    char *directory;
} pair_t;

static cadre_endpoint_t
endpoint(const char *text)
{
    cadre_endpoint_t parsed = {0};
    cr_assert_eq(cadre_endpoint_parse(text, &parsed), 0, "%s", cadre_error_text());
    return parsed;
}

static cadre_chunk_t *
pattern(size_t size_bytes, unsigned seed)
{
    cadre_chunk_t *chunk = cadre_chunk_new(size_bytes);
    uint8_t *bytes = cadre_chunk_data(chunk);
    for (size_t i = 0; i < size_bytes; i++) {
        bytes[i] = (uint8_t)(seed + i * 31 + (i >> 8));
    }
    return chunk;
}

static void
assert_pattern(const cadre_chunk_t *chunk, size_t size_bytes, unsigned seed)
{
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *wanted = pattern(size_bytes, seed);
    cr_assert_eq(cadre_chunk_size_bytes(chunk), size_bytes);
    cr_assert_eq(memcmp(cadre_chunk_data(chunk), cadre_chunk_data(wanted), size_bytes), 0);
    cr_assert_eq((uintptr_t)cadre_chunk_data(chunk) % 8, 0, "a frame is not aligned");
}

/* Waits for the condition that cadre_socket_receive has something to say. */
static int
receive(cadre_socket_t *socket, cadre_frames_t *frames)
{
    zmq_pollitem_t item = {.socket = cadre_socket_handle(socket), .events = ZMQ_POLLIN};
    zmq_poll(&item, 1, WAIT_MS);
    return cadre_socket_receive(socket, frames);
}

static bool
is_from(const cadre_frames_t *frames, const cadre_routing_id_t *id)
{
    return frames->from.size == id->size && memcmp(frames->from.bytes, id->bytes, id->size) == 0;
}

/* Waits for room or a connection. */
static int
send_when_ready(cadre_socket_t *socket, const cadre_routing_id_t *to, cadre_chunk_t *header,
                cadre_chunk_t *const *chunks, size_t count)
{
    int64_t deadline_ms = cadre_clock_now_ms() + WAIT_MS;
    int status = 0;
    do {
        status = cadre_socket_send(socket, to, header, chunks, count);
        if (status == CADRE_EAGAIN) {
            zmq_poll(NULL, 0, 1);
        }
    } while (status == CADRE_EAGAIN && cadre_clock_now_ms() < deadline_ms);
    return status;
}

static void
say_hello(pair_t *pair)
{
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *hello = cadre_chunk_new_copy("hello", 5);
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    cr_assert_eq(send_when_ready(pair->dealer, NULL, hello, NULL, 0), 0);
    cr_assert_eq(receive(pair->router, &frames), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_chunk_size_bytes(frames.header), 5);
    cr_assert_eq(frames.count, 0);
    pair->dealer_id = frames.from;
}

static void
pair_open(pair_t *pair, cadre_plane_t plane, bool over_ipc)
{
    *pair = (pair_t){0};
    cr_assert_eq(cadre_context_open(&pair->context), 0);
    cr_assert_eq(cadre_socket_open_router(pair->context, plane, &pair->router), 0);
    cr_assert_eq(cadre_socket_open_dealer(pair->context, plane, "worker/3/77", &pair->dealer), 0);
    cadre_endpoint_t at = endpoint("tcp://127.0.0.1:*");
    if (over_ipc) {
        cr_assert_eq(cadre_ipc_directory_new(NULL, &pair->directory), 0);
        cr_assert_eq(cadre_ipc_endpoint(pair->directory, "data", &at), 0);
    }
    cr_assert_eq(cadre_socket_bind(pair->router, &at), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_socket_connect(pair->dealer, cadre_socket_endpoint(pair->router)), 0);
    say_hello(pair);
}

static void
pair_close(pair_t *pair)
{
    cadre_socket_close(&pair->dealer, 0);
    cadre_socket_close(&pair->router, 0);
    cadre_context_close(&pair->context);
    cadre_ipc_directory_remove(&pair->directory);
}

static void
wait_until_alone(const cadre_chunk_t *chunk)
{
    int64_t deadline_ms = cadre_clock_now_ms() + WAIT_MS;
    while (!cadre_chunk_alone(chunk) && cadre_clock_now_ms() < deadline_ms) {
        zmq_poll(NULL, 0, 1);
    }
    cr_assert(cadre_chunk_alone(chunk), "a sent chunk is still referenced");
}

static void
exchange_large_chunks(bool over_ipc)
{
    enum { COUNT = 4 };
    pair_t pair;
    pair_open(&pair, CADRE_PLANE_DATA, over_ipc);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = pattern(100, 9);
    cadre_chunk_t *chunks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        chunks[i] = pattern(CADRE_CHUNK_SIZE_MAX, i);
    }
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};

    cr_assert_eq(send_when_ready(pair.dealer, NULL, header, chunks, COUNT), 0);
    cr_assert_eq(receive(pair.router, &frames), 0, "%s", cadre_error_text());
    cr_assert(is_from(&frames, &pair.dealer_id));
    cr_assert_eq(frames.count, COUNT);
    assert_pattern(frames.header, 100, 9);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_pattern(frames.chunks[i], CADRE_CHUNK_SIZE_MAX, i);
        cr_assert(cadre_chunk_alone(frames.chunks[i]));
        wait_until_alone(chunks[i]);
    }

    /* And what was received goes back as it is, without the router keeping it. */
    cadre_chunk_t *kept = frames.chunks[1];
    frames.chunks[1] = NULL;
    cr_assert_eq(cadre_socket_send(pair.router, &pair.dealer_id, frames.header, &kept, 1), 0);
    cadre_chunk_unref(&kept);
    cr_assert_eq(receive(pair.dealer, &frames), 0, "%s", cadre_error_text());
    cr_assert_eq(frames.from.size, 0);
    assert_pattern(frames.chunks[0], CADRE_CHUNK_SIZE_MAX, 1);

    for (unsigned i = 0; i < COUNT; i++) {
        cadre_chunk_unref(&chunks[i]);
    }
    pair_close(&pair);
}

Test(socket, moves_large_chunks_intact_over_tcp_and_drops_their_references)
{
    exchange_large_chunks(false);
}

Test(socket, moves_large_chunks_intact_over_ipc_and_drops_their_references)
{
    exchange_large_chunks(true);
}

Test(socket, moves_frames_of_any_size_aligned_and_in_order)
{
    static const size_t sizes[] = {0,
                                   1,
                                   7,
                                   8,
                                   29,
                                   30,
                                   1000,
                                   CADRE_FRAME_COPY_MAX - 1,
                                   CADRE_FRAME_COPY_MAX,
                                   CADRE_FRAME_COPY_MAX + 1,
                                   3001,
                                   5003,
                                   8191,
                                   8192,
                                   8193,
                                   70001};
    enum { COUNT = CADRE_COUNT_OF(sizes) };
    pair_t pair;
    pair_open(&pair, CADRE_PLANE_CONTROL, false);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = pattern(33, 2);
    cadre_chunk_t *chunks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        chunks[i] = pattern(sizes[i], i);
    }
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    for (unsigned round = 0; round < 20; round++) {
        cr_assert_eq(send_when_ready(pair.dealer, NULL, header, chunks, COUNT), 0);
        cr_assert_eq(send_when_ready(pair.dealer, NULL, header, chunks, 1), 0);
    }
    for (unsigned round = 0; round < 20; round++) {
        cr_assert_eq(receive(pair.router, &frames), 0, "%s", cadre_error_text());
        cr_assert_eq(frames.count, COUNT);
        for (unsigned i = 0; i < COUNT; i++) {
            assert_pattern(frames.chunks[i], sizes[i], i);
        }
        cr_assert_eq(receive(pair.router, &frames), 0, "%s", cadre_error_text());
        cr_assert_eq(frames.count, 1);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        wait_until_alone(chunks[i]);
        cadre_chunk_unref(&chunks[i]);
    }
    pair_close(&pair);
}

Test(socket, copies_small_frames_so_that_their_chunk_stays_alone)
{
    pair_t pair;
    pair_open(&pair, CADRE_PLANE_DATA, false);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = pattern(10, 0);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *small = pattern(CADRE_FRAME_COPY_MAX, 0);
    cr_assert_eq(cadre_socket_send(pair.dealer, NULL, header, &small, 1), 0);
    cr_assert(cadre_chunk_alone(small));
    pair_close(&pair);
}

Test(socket, tells_a_router_that_it_knows_no_such_peer)
{
    pair_t pair;
    pair_open(&pair, CADRE_PLANE_CONTROL, false);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *chunk = pattern(CADRE_CHUNK_SIZE_MAX, 0);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = pattern(10, 0);
    cadre_routing_id_t stranger = {0};
    cadre_routing_id_set(&stranger, "ps/9\n", 5);
    cr_assert_eq(cadre_socket_send(pair.router, &stranger, header, &chunk, 1), CADRE_EUNAVAILABLE);
    cr_assert_str_eq(cadre_error_text(), "no peer is called 0x70732f390a");
    cr_assert(cadre_chunk_alone(chunk));

    /* The router is unharmed: the next message to a known peer arrives whole. */
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    cr_assert_eq(cadre_socket_send(pair.router, &pair.dealer_id, header, NULL, 0), 0);
    cr_assert_eq(receive(pair.dealer, &frames), 0);
    assert_pattern(frames.header, 10, 0);
    pair_close(&pair);
}

Test(socket, keeps_what_a_dealer_sends_before_it_is_connected)
{
    pair_t pair;
    pair_open(&pair, CADRE_PLANE_CONTROL, false);
    cadre_socket_t *early = NULL;
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *chunk = pattern(CADRE_CHUNK_SIZE_MAX, 0);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = pattern(10, 0);
    cr_assert_eq(cadre_socket_open_dealer(pair.context, CADRE_PLANE_CONTROL, "worker/1/1", &early),
                 0);
    cr_assert_eq(cadre_socket_send(early, NULL, header, &chunk, 1), CADRE_EAGAIN);
    cr_assert(cadre_chunk_alone(chunk), "a refused message kept its chunk");
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    cr_assert_eq(cadre_socket_receive(early, &frames), CADRE_EAGAIN);

    cr_assert_eq(cadre_socket_connect(early, cadre_socket_endpoint(pair.router)), 0);
    cr_assert_eq(cadre_socket_send(early, NULL, header, &chunk, 1), 0);
    cr_assert_eq(receive(pair.router, &frames), 0);
    cr_assert_eq(frames.count, 1);
    cr_assert_eq(cadre_socket_receive(pair.router, &frames), CADRE_EAGAIN);
    cadre_socket_close(&early, 0);
    pair_close(&pair);
}

/* Fills the queue with messages numbered in their header until the socket says again; returns how
 * many went in. */
static uint32_t
fill(cadre_socket_t *socket, const cadre_routing_id_t *to, cadre_chunk_t *const *chunks,
     size_t count)
{
    for (uint32_t number = 0;; number++) {
        cadre_auto(cadre_chunk_unref) cadre_chunk_t *header =
            cadre_chunk_new_copy(&number, sizeof(number));
        int status = cadre_socket_send(socket, to, header, chunks, count);
        if (status == CADRE_EAGAIN) {
            return number;
        }
        cr_assert_eq(status, 0, "%s", cadre_error_text());
        cr_assert_lt(number, 100000, "the queue has no limit");
    }
}

static void
back_pressure(bool to_dealer)
{
    enum { COUNT = 5 };
    pair_t pair;
    pair_open(&pair, CADRE_PLANE_CONTROL, false);
    cadre_chunk_t *chunks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        chunks[i] = pattern(20000, i);
    }
    cadre_socket_t *sender = to_dealer ? pair.router : pair.dealer;
    cadre_socket_t *receiver = to_dealer ? pair.dealer : pair.router;
    const cadre_routing_id_t *to = to_dealer ? &pair.dealer_id : NULL;
    uint32_t sent = fill(sender, to, chunks, COUNT);
    /* All that a worker may hold, whatever libzmq knows of what it has read. */
    cr_assert_geq(sent, 2 * CADRE_CREDIT_MAX - 1);

    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    for (uint32_t wanted = 0; wanted < sent; wanted++) {
        cr_assert_eq(receive(receiver, &frames), 0, "%s", cadre_error_text());
        uint32_t number = 0;
        memcpy(&number, cadre_chunk_data(frames.header), sizeof(number));
        cr_assert_eq(number, wanted);
        cr_assert_eq(frames.count, COUNT);
        assert_pattern(frames.chunks[COUNT - 1], 20000, COUNT - 1);
    }
    cr_assert_eq(cadre_socket_receive(receiver, &frames), CADRE_EAGAIN, "half a message arrived");
    for (unsigned i = 0; i < COUNT; i++) {
        wait_until_alone(chunks[i]);
        cadre_chunk_unref(&chunks[i]);
    }
    pair_close(&pair);
}

Test(socket, refuses_whole_messages_when_the_queue_to_a_router_is_full)
{
    back_pressure(false);
}

Test(socket, refuses_whole_messages_when_the_queue_to_a_dealer_is_full)
{
    back_pressure(true);
}

/* Sends a burst of messages of `count` chunks into whatever state the connection is in. */
static void
burst(cadre_socket_t *socket, cadre_chunk_t *header, cadre_chunk_t *const *chunks, size_t count)
{
    for (int i = 0; i < 60; i++) {
        int status = cadre_socket_send(socket, NULL, header, chunks, count);
        cr_assert(status == 0 || status == CADRE_EAGAIN || status == CADRE_EUNAVAILABLE);
    }
}

static void
rebind(pair_t *pair, const cadre_endpoint_t *at)
{
    cr_assert_eq(cadre_socket_open_router(pair->context, CADRE_PLANE_CONTROL, &pair->router), 0);
    int64_t deadline_ms = cadre_clock_now_ms() + WAIT_MS;
    while (cadre_socket_bind(pair->router, at) < 0) {
        cr_assert_lt(cadre_clock_now_ms(), deadline_ms, "%s", cadre_error_text());
        zmq_poll(NULL, 0, 1);
    }
}

static bool
all_alone(cadre_chunk_t *const *chunks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!cadre_chunk_alone(chunks[i])) {
            return false;
        }
    }
    return true;
}

/* Routers come and go while messages of many frames are being queued: whatever is lost is lost
 * whole, and the first frame of what arrives is always a header. */
Test(socket, never_delivers_half_a_message_when_connections_break)
{
    enum { COUNT = 40, ROUNDS = 10, PER_ROUND = 20 };
    pair_t pair;
    pair_open(&pair, CADRE_PLANE_CONTROL, false);
    cadre_endpoint_t at = *cadre_socket_endpoint(pair.router);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = cadre_chunk_new_copy("HEAD", 4);
    cadre_chunk_t *chunks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        chunks[i] = pattern(2000, i);
    }
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    for (int round = 0; round < ROUNDS; round++) {
        int64_t deadline_ms = cadre_clock_now_ms() + WAIT_MS;
        for (int received = 0; received < PER_ROUND;) {
            cr_assert_lt(cadre_clock_now_ms(), deadline_ms, "nothing arrives any more");
            burst(pair.dealer, header, chunks, COUNT);
            zmq_pollitem_t item = {.socket = cadre_socket_handle(pair.router),
                                   .events = ZMQ_POLLIN};
            zmq_poll(&item, 1, 10);
            while (cadre_socket_receive(pair.router, &frames) == 0) {
                received++;
                cr_assert_eq(frames.count, COUNT);
                cr_assert_eq(cadre_chunk_size_bytes(frames.header), 4);
            }
        }
        cadre_socket_close(&pair.router, 0);
        burst(pair.dealer, header, chunks, COUNT);
        rebind(&pair, &at);
    }
    for (int64_t deadline_ms = cadre_clock_now_ms() + WAIT_MS;
         !all_alone(chunks, COUNT) && cadre_clock_now_ms() < deadline_ms;) {
        cadre_socket_receive(pair.router, &frames);
    }
    cr_assert(all_alone(chunks, COUNT), "a chunk is still referenced");
    for (unsigned i = 0; i < COUNT; i++) {
        cadre_chunk_unref(&chunks[i]);
    }
    pair_close(&pair);
}

/* libzmq 4.3.4 aborts here when sockets are closed with a linger of 0. All rounds share a context,
 * so that they linger at the same time. */
Test(socket, survives_both_ends_closing_with_messages_half_sent)
{
    enum { COUNT = 40, ROUNDS = 120 };
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = cadre_chunk_new_copy("HEAD", 4);
    cadre_chunk_t *chunks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        chunks[i] = pattern(2000 + 300 * i, i);
    }
    cadre_context_t *context = NULL;
    cr_assert_eq(cadre_context_open(&context), 0);
    char *directory = NULL;
    cr_assert_eq(cadre_ipc_directory_new(NULL, &directory), 0);
    for (int round = 0; round < ROUNDS; round++) {
        pair_t pair = {.context = context};
        cadre_endpoint_t at = {0};
        cadre_auto(cadre_free) char *name = cadre_asprintf("%d", round);
        cr_assert_eq(cadre_ipc_endpoint(directory, name, &at), 0);
        cr_assert_eq(cadre_socket_open_router(context, CADRE_PLANE_DATA, &pair.router), 0);
        cr_assert_eq(cadre_socket_open_dealer(context, CADRE_PLANE_DATA, "w", &pair.dealer), 0);
        cr_assert_eq(cadre_socket_bind(pair.router, &at), 0);
        cr_assert_eq(cadre_socket_connect(pair.dealer, cadre_socket_endpoint(pair.router)), 0);
        say_hello(&pair);
        burst(pair.dealer, header, chunks, COUNT);
        int64_t until_us = cadre_clock_now_us() + round % 60 * 8; /* vary how much is under way */
        while (cadre_clock_now_us() < until_us) {
        }
        cadre_socket_close(&pair.router, 0);
        cadre_socket_close(&pair.dealer, 0);
    }
    cadre_context_close(&context);
    cadre_ipc_directory_remove(&directory);
    for (unsigned i = 0; i < COUNT; i++) {
        cr_assert(cadre_chunk_alone(chunks[i]), "a chunk outlived its context");
        cadre_chunk_unref(&chunks[i]);
    }
}

Test(socket, takes_a_message_at_its_limits_and_drops_one_above_whole)
{
    pair_t pair;
    pair_open(&pair, CADRE_PLANE_DATA, false);
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    static const struct {
        size_t header;
        size_t chunk;
        int status;
    } cases[] = {
        {CADRE_LARGE_HEADER_SIZE_MAX - 1, CADRE_CHUNK_SIZE_MAX - 1, 0},
        {CADRE_LARGE_HEADER_SIZE_MAX, CADRE_CHUNK_SIZE_MAX, 0},
        {CADRE_LARGE_HEADER_SIZE_MAX + 1, 1, CADRE_EMALFORMED},
        {1, CADRE_CHUNK_SIZE_MAX + 1, CADRE_EMALFORMED},
        {0, 1, CADRE_EMALFORMED},
        {1, CADRE_DATA_FRAME_MAX, CADRE_EMALFORMED},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = pattern(cases[i].header, 1);
        cadre_auto(cadre_chunk_unref) cadre_chunk_t *large = pattern(cases[i].chunk, 1);
        cadre_chunk_t *chunks[] = {large, large};
        cr_assert_eq(send_when_ready(pair.dealer, NULL, header, chunks, 2), 0);
        cr_assert_eq(receive(pair.router, &frames), cases[i].status, "case %zu", i);
        cr_assert_eq(frames.count, cases[i].status == 0 ? 2 : 0);
        cr_assert_eq(frames.header == NULL, cases[i].status != 0);
        cr_assert(is_from(&frames, &pair.dealer_id));
        cr_assert_eq(cadre_socket_receive(pair.router, &frames), CADRE_EAGAIN, "left-overs");
    }
    pair_close(&pair);
}

static void
send_raw_frames(void *handle, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(zmq_send(handle, "x", 1, i + 1 < count ? ZMQ_SNDMORE : 0), 1);
    }
}

Test(socket, takes_as_many_chunks_as_the_limit_says)
{
    pair_t pair;
    pair_open(&pair, CADRE_PLANE_CONTROL, false);
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    send_raw_frames(cadre_socket_handle(pair.dealer), 1 + CADRE_MESSAGE_CHUNKS_MAX);
    cr_assert_eq(receive(pair.router, &frames), 0, "%s", cadre_error_text());
    cr_assert_eq(frames.count, CADRE_MESSAGE_CHUNKS_MAX);
    send_raw_frames(cadre_socket_handle(pair.dealer), 2 + CADRE_MESSAGE_CHUNKS_MAX);
    cr_assert_eq(receive(pair.router, &frames), CADRE_EMALFORMED);
    cr_assert_str_eq(cadre_error_text(), "message: more than 4096 chunks");
    cr_assert_eq(frames.count, 0);
    say_hello(&pair);
    pair_close(&pair);
}

Test(socket, closes_the_connection_on_a_frame_beyond_what_zeromq_may_hold)
{
    pair_t pair;
    pair_open(&pair, CADRE_PLANE_CONTROL, false);
    cadre_monitor_t *monitor = NULL;
    cr_assert_eq(cadre_monitor_open(pair.context, pair.router, &monitor), 0);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = pattern(1, 1);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *large = pattern(CADRE_CONTROL_FRAME_MAX + 1, 1);
    cr_assert_eq(cadre_socket_send(pair.dealer, NULL, header, &large, 1), 0);
    cadre_event_t event = {0};
    zmq_pollitem_t item = {.socket = cadre_monitor_handle(monitor), .events = ZMQ_POLLIN};
    cr_assert_eq(zmq_poll(&item, 1, WAIT_MS), 1);
    cr_assert_eq(cadre_monitor_receive(monitor, &event), 0);
    cr_assert_eq(event.kind, CADRE_EVENT_DISCONNECTED);
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    cr_assert_eq(cadre_socket_receive(pair.router, &frames), CADRE_EAGAIN);
    cadre_monitor_close(&monitor);
    pair_close(&pair);
}

Test(socket, refuses_a_peer_with_a_long_routing_id)
{
    pair_t pair;
    pair_open(&pair, CADRE_PLANE_CONTROL, false);
    char id[CADRE_ROUTING_ID_SIZE_MAX + 2];
    memset(id, 'a', sizeof(id));
    id[sizeof(id) - 1] = '\0';
    cadre_socket_t *socket = NULL;
    cr_assert_eq(cadre_socket_open_dealer(pair.context, CADRE_PLANE_CONTROL, id, &socket),
                 CADRE_EINVALID);
    cr_assert_eq(cadre_socket_open_dealer(pair.context, CADRE_PLANE_CONTROL, "", &socket),
                 CADRE_EINVALID);

    void *stranger = zmq_socket(cadre_context_handle(pair.context), ZMQ_DEALER);
    cr_assert_eq(zmq_setsockopt(stranger, ZMQ_ROUTING_ID, id, sizeof(id) - 1), 0);
    char text[CADRE_ENDPOINT_TEXT_SIZE];
    zmq_connect(stranger, cadre_endpoint_text(cadre_socket_endpoint(pair.router), text));
    send_raw_frames(stranger, 3);
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    cr_assert_eq(receive(pair.router, &frames), CADRE_EMALFORMED);
    cr_assert_eq(frames.from.size, 0);
    zmq_close(stranger);

    id[CADRE_ROUTING_ID_SIZE_MAX] = '\0';
    cr_assert_eq(cadre_socket_open_dealer(pair.context, CADRE_PLANE_CONTROL, id, &socket), 0);
    cadre_socket_close(&socket, 0);
    pair_close(&pair);
}

Test(socket, binds_only_to_this_machine_unless_told_otherwise)
{
    cadre_context_t *context = NULL;
    cadre_socket_t *socket = NULL;
    cr_assert_eq(cadre_context_open(&context), 0);
    cr_assert_eq(cadre_socket_open_router(context, CADRE_PLANE_CONTROL, &socket), 0);
    static const char *const open[] = {"tcp://*:*", "0.0.0.0:0", "tcp://[::]:*",
                                       "chief.job.svc:2222", "192.0.2.1:1"};
    for (size_t i = 0; i < CADRE_COUNT_OF(open); i++) {
        cadre_endpoint_t at = endpoint(open[i]);
        cr_assert_eq(cadre_socket_bind(socket, &at), CADRE_EREFUSED, "%s", open[i]);
        cr_assert_not_null(strstr(cadre_error_text(), "cadre keygen DIR"));
    }
    cadre_context_permit_plain(context);
    cadre_endpoint_t all = endpoint("tcp://*:*");
    cr_assert_eq(cadre_socket_bind(socket, &all), 0, "%s", cadre_error_text());
    cr_assert_str_eq(cadre_socket_endpoint(socket)->host, "0.0.0.0");
    cr_assert_gt(cadre_socket_endpoint(socket)->port, 0);
    cadre_socket_close(&socket, 0);
    cadre_context_close(&context);
}

Test(socket, binds_localhost_and_keeps_the_name_it_was_given)
{
    cadre_context_t *context = NULL;
    cadre_socket_t *socket = NULL;
    cr_assert_eq(cadre_context_open(&context), 0);
    cr_assert_eq(cadre_socket_open_router(context, CADRE_PLANE_CONTROL, &socket), 0);
    cr_assert_eq(cadre_socket_endpoint(socket)->kind, 0);
    cadre_endpoint_t at = endpoint("localhost:*");
    cr_assert_eq(cadre_socket_bind(socket, &at), 0, "%s", cadre_error_text());
    cr_assert_str_eq(cadre_socket_endpoint(socket)->host, "localhost");
    cr_assert_gt(cadre_socket_endpoint(socket)->port, 0);
    cadre_socket_close(&socket, 0);
    cadre_context_close(&context);
}

Test(socket, names_endpoint_and_reason_when_it_cannot_bind_or_connect)
{
    pair_t pair;
    pair_open(&pair, CADRE_PLANE_CONTROL, true);
    cadre_socket_t *socket = NULL;
    cr_assert_eq(cadre_socket_open_router(pair.context, CADRE_PLANE_CONTROL, &socket), 0);
    cadre_endpoint_t at = endpoint("ipc:///nonexistent/socket");
    cr_assert_eq(cadre_socket_bind(socket, &at), CADRE_EIO);
    cr_assert_str_eq(cadre_error_text(),
                     "ipc:///nonexistent/socket cannot be bound: No such file or directory");
    at = endpoint("tcp://*:5");
    cr_assert_eq(cadre_socket_connect(pair.dealer, &at), CADRE_EINVALID);
    at = endpoint("tcp://127.0.0.1:*");
    cr_assert_eq(cadre_socket_connect(pair.dealer, &at), CADRE_EINVALID);

    cadre_endpoint_t file = {0};
    cr_assert_eq(cadre_ipc_endpoint(pair.directory, "file", &file), 0);
    FILE *stream = fopen(file.path, "w");
    fclose(stream);
    cr_assert_eq(cadre_socket_bind(socket, &file), CADRE_EIO);
    cr_assert_eq(access(file.path, F_OK), 0, "a user's file was deleted");
    unlink(file.path);
    cadre_socket_close(&socket, 0);
    pair_close(&pair);
}
