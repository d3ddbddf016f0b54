#include "common/net/monitor.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"

TestSuite(monitor, .timeout = 240);

enum { WAIT_MS = 120000 };

/* Reads events until all the kinds in the set (bits) have come; returns those that have not. */
static unsigned
missing_kinds(cadre_monitor_t *monitor, unsigned wanted)
{
    zmq_pollitem_t item = {.socket = cadre_monitor_handle(monitor), .events = ZMQ_POLLIN};
    while (wanted && zmq_poll(&item, 1, WAIT_MS) == 1) {
        cadre_event_t event = {0};
        cr_assert_eq(cadre_monitor_receive(monitor, &event), 0);
        wanted &= ~(1U << event.kind);
    }
    return wanted;
}

Test(monitor, reports_a_peer_that_comes_and_goes)
{
    cadre_context_t *context = NULL;
    cadre_socket_t *router = NULL;
    cadre_socket_t *dealer = NULL;
    cadre_monitor_t *at_router = NULL;
    cadre_monitor_t *at_dealer = NULL;
    cr_assert_eq(cadre_context_open(&context), 0);
    cr_assert_eq(cadre_socket_open_router(context, CADRE_PLANE_CONTROL, &router), 0);
    cr_assert_eq(cadre_socket_open_dealer(context, CADRE_PLANE_CONTROL, "w", &dealer), 0);
    cr_assert_eq(cadre_monitor_open(context, router, &at_router), 0);
    cr_assert_eq(cadre_monitor_open(context, dealer, &at_dealer), 0);
    cadre_event_t event = {0};
    cr_assert_eq(cadre_monitor_receive(at_dealer, &event), CADRE_EAGAIN);
    cadre_endpoint_t at = {0};
    cr_assert_eq(cadre_endpoint_parse("127.0.0.1:*", &at), 0);
    cr_assert_eq(cadre_socket_bind(router, &at), 0);
    cr_assert_eq(cadre_socket_connect(dealer, cadre_socket_endpoint(router)), 0);
    cr_assert_eq(missing_kinds(at_dealer, 1U << CADRE_EVENT_CONNECTED | 1U << CADRE_EVENT_READY),
                 0);
    cr_assert_eq(missing_kinds(at_router, 1U << CADRE_EVENT_ACCEPTED | 1U << CADRE_EVENT_READY), 0);

    cadre_monitor_close(&at_dealer);
    cadre_socket_close(&dealer, 0);
    cr_assert_eq(missing_kinds(at_router, 1U << CADRE_EVENT_DISCONNECTED), 0);
    cadre_routing_id_t gone = {0};
    cadre_routing_id_set(&gone, "w", 1);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *probe = cadre_chunk_new_copy("p", 1);
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    int64_t deadline_ms = cadre_clock_now_ms() + WAIT_MS;
    int status = 0;
    do {
        cr_assert_eq(cadre_socket_receive(router, &frames), CADRE_EAGAIN);
        status = cadre_socket_send(router, &gone, probe, NULL, 0);
    } while (status != CADRE_EUNAVAILABLE && cadre_clock_now_ms() < deadline_ms);
    cr_assert_eq(status, CADRE_EUNAVAILABLE);
    cadre_monitor_close(&at_router);
    cadre_socket_close(&router, 0);
    cadre_context_close(&context);
}

Test(monitor, reports_tries_while_nobody_listens)
{
    cadre_context_t *context = NULL;
    cadre_socket_t *dealer = NULL;
    cadre_monitor_t *monitor = NULL;
    char *directory = NULL;
    cadre_endpoint_t nobody = {0};
    cr_assert_eq(cadre_ipc_directory_new(NULL, &directory), 0);
    cr_assert_eq(cadre_ipc_endpoint(directory, "nobody", &nobody), 0);
    cr_assert_eq(cadre_context_open(&context), 0);
    cr_assert_eq(cadre_socket_open_dealer(context, CADRE_PLANE_CONTROL, "w", &dealer), 0);
    cr_assert_eq(cadre_monitor_open(context, dealer, &monitor), 0);
    cr_assert_eq(cadre_socket_connect(dealer, &nobody), 0);
    cr_assert_eq(missing_kinds(monitor, 1U << CADRE_EVENT_RETRYING), 0);
    cadre_monitor_close(&monitor);
    cadre_socket_close(&dealer, 0);
    cadre_context_close(&context);
    cadre_ipc_directory_remove(&directory);
}

/* Strangers that come and go while nobody reads the events. */
Test(monitor, of_one_kind_does_not_stall_a_socket_by_events_that_nobody_reads)
{
    enum { STRANGERS = 12000 }; /* more than fit, at one event each */
    cadre_context_t *context = NULL;
    cadre_socket_t *router = NULL;
    cadre_socket_t *dealer = NULL;
    cadre_monitor_t *at_router = NULL;
    cadre_monitor_t *at_dealer = NULL;
    char *directory = NULL;
    cadre_endpoint_t at = {0};
    cr_assert_eq(cadre_ipc_directory_new(NULL, &directory), 0);
    cr_assert_eq(cadre_ipc_endpoint(directory, "data", &at), 0);
    cr_assert_eq(cadre_context_open(&context), 0);
    cr_assert_eq(cadre_socket_open_router(context, CADRE_PLANE_DATA, &router), 0);
    cr_assert_eq(
        cadre_monitor_open_for(context, router, 1U << CADRE_EVENT_NOT_ACCEPTED, &at_router), 0);
    cr_assert_eq(cadre_socket_bind(router, &at), 0);

    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, at.path, strlen(at.path) + 1);
    int64_t deadline_ms = cadre_clock_now_ms() + WAIT_MS;
    for (int i = 0; i < STRANGERS && cadre_clock_now_ms() < deadline_ms; i++) {
        int stranger = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        while (connect(stranger, (struct sockaddr *)&address, sizeof(address)) < 0 &&
               cadre_clock_now_ms() < deadline_ms) {
            sched_yield(); /* the backlog is full */
        }
        close(stranger);
    }
    cr_assert_lt(cadre_clock_now_ms(), deadline_ms, "nobody accepts any more");

    cr_assert_eq(cadre_socket_open_dealer(context, CADRE_PLANE_DATA, "w", &dealer), 0);
    cr_assert_eq(cadre_monitor_open(context, dealer, &at_dealer), 0);
    cr_assert_eq(cadre_socket_connect(dealer, &at), 0);
    cr_expect_eq(missing_kinds(at_dealer, 1U << CADRE_EVENT_READY), 0);
    cadre_event_t event = {0};
    cr_expect_eq(cadre_monitor_receive(at_router, &event), CADRE_EAGAIN);
    cadre_monitor_close(&at_dealer);
    cadre_monitor_close(&at_router);
    cadre_socket_close(&dealer, 0);
    cadre_socket_close(&router, 0);
    cadre_context_close(&context);
    cadre_ipc_directory_remove(&directory);
}

Test(monitor, tells_only_of_the_kinds_that_were_asked_for)
{
    cadre_context_t *context = NULL;
    cadre_socket_t *router = NULL;
    cadre_socket_t *dealer = NULL;
    cadre_monitor_t *monitor = NULL;
    cadre_event_t event = {0};
    cadre_endpoint_t at = {0};
    cr_assert_eq(cadre_context_open(&context), 0);
    cr_assert_eq(cadre_endpoint_parse("127.0.0.1:*", &at), 0);
    cr_assert_eq(cadre_socket_open_router(context, CADRE_PLANE_CONTROL, &router), 0);
    cr_assert_eq(cadre_socket_open_dealer(context, CADRE_PLANE_CONTROL, "w", &dealer), 0);
    cr_assert_eq(cadre_monitor_open_for(context, router,
                                        1U << CADRE_EVENT_READY | 1U << CADRE_EVENT_DISCONNECTED,
                                        &monitor),
                 0);
    cr_assert_eq(cadre_socket_bind(router, &at), 0);
    cr_assert_eq(cadre_socket_connect(dealer, cadre_socket_endpoint(router)), 0);
    zmq_pollitem_t item = {.socket = cadre_monitor_handle(monitor), .events = ZMQ_POLLIN};
    const cadre_event_kind_t kinds[] = {CADRE_EVENT_READY, CADRE_EVENT_DISCONNECTED};
    for (size_t i = 0; i < CADRE_COUNT_OF(kinds); i++) {
        cr_assert_eq(zmq_poll(&item, 1, WAIT_MS), 1);
        cr_assert_eq(cadre_monitor_receive(monitor, &event), 0);
        cr_assert_eq(event.kind, kinds[i]);
        cadre_socket_close(&dealer, 0);
    }
    cadre_monitor_close(&monitor);
    cadre_socket_close(&router, 0);
    cadre_context_close(&context);
}
