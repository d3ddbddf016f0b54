#include "common/net/peer.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(peer, .timeout = 240);

static cadre_outbox_entry_t
entry(void)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_DRAIN, .incarnation = 1};
    cadre_outbox_entry_t result = {0};
    cadre_outbox_entry_init(&result, &(cadre_task_t){CADRE_ROLE_COORDINATOR, 0, 0}, &message);
    return result;
}

/* A peer that is not there: libzmq keeps CADRE_CONTROL_HWM messages for it. */
static void
open_peer(cadre_context_t **context, cadre_peer_t *peer)
{
    cadre_socket_t *socket = NULL;
    cadre_endpoint_t endpoint;
    cr_assert_eq(cadre_context_open(context), 0);
    cr_assert_eq(cadre_socket_open_dealer(*context, CADRE_PLANE_CONTROL,
                                          "worker/0/0000000000000001", &socket),
                 0);
    cr_assert_eq(cadre_endpoint_parse("tcp://127.0.0.1:1", &endpoint), 0);
    cr_assert_eq(cadre_socket_connect(socket, &endpoint), 0);
    cadre_peer_init(peer, socket, &(cadre_task_t){CADRE_ROLE_COORDINATOR, 0, 0}, "a");
}

Test(peer, keeps_what_a_full_socket_does_not_take_up_to_a_bound)
{
    cadre_context_t *context = NULL;
    cadre_peer_t peer;
    open_peer(&context, &peer);
    for (int i = 0; i < CADRE_CONTROL_HWM; i++) {
        cadre_outbox_entry_t message = entry();
        cadre_peer_send(&peer, &message);
    }
    cr_expect_not(cadre_peer_is_full(&peer));
    for (int i = 0; i < CADRE_PEER_WAITING_MAX + 10; i++) {
        cadre_outbox_entry_t message = entry();
        cadre_peer_send(&peer, &message);
        cr_expect_null(message.header, "taken, or dropped");
    }
    cr_expect_eq(cadre_outbox_count(&peer.waiting), CADRE_PEER_WAITING_MAX);
    cadre_peer_flush(&peer);
    cr_expect(cadre_peer_is_full(&peer));
    cadre_peer_drop_waiting(&peer);
    cr_expect_not(cadre_peer_is_full(&peer));
    cadre_peer_close(&peer, 0);
    cadre_context_close(&context);
}

Test(peer, drops_what_is_for_a_closed_one)
{
    cadre_peer_t peer = {0};
    cadre_outbox_entry_t message = entry();
    cadre_peer_send(&peer, &message);
    cr_expect_null(message.header);
    cr_expect_not(cadre_peer_is_full(&peer));
    cadre_peer_close(&peer, 0);
}
