/*
 * attachment - the client's half of its dealings with a coordinator: it attaches, says with every
 * heartbeat that it is there, and repeats requests until they are answered.
 *
 * Owner:   a client. Thread: under the client's lock.
 *
 * Nothing is repeated only because time has passed. Each ATTACH names the requests that were sent
 * before it and are unanswered, and its answer names those whose answers will not come; these are
 * sent again (coordinator/core/clients/clients.h).
 */
#ifndef CADRE_COORDINATOR_CLIENT_ATTACHMENT_H
#define CADRE_COORDINATOR_CLIENT_ATTACHMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/outbox.h"

/* A request of a call, which lives with its caller. Zeroed before it is asked. */
typedef struct cadre_client_request {
    struct cadre_client_request *next; /* in the order of their numbers */
    uint64_t number;
    cadre_outbox_entry_t said; /* the encoded message, to be sent again */
    bool is_schedule;          /* a SCHEDULE, which the coordinator keeps until it is settled */
    bool sent;
    uint64_t sent_after; /* number of the last ATTACH that was sent before it */
    bool ended;          /* answered, or it never will be */
    int status;          /* ended without an answer: why; `text` says it in words */
    char text[CADRE_TEXT_SIZE_MAX + 1];
    cadre_message_t answer;
} cadre_client_request_t;

typedef enum {
    CADRE_ATTACHMENT_BEGINS, /* no ATTACH was answered yet */
    CADRE_ATTACHMENT_STANDS,
    CADRE_ATTACHMENT_ENDED,
} cadre_attachment_state_t;

typedef struct {
    cadre_task_t task; /* the client's own */
    cadre_attachment_state_t state;
    int status; /* ENDED: why, for all requests; `text` says it in words */
    char text[CADRE_TEXT_SIZE_MAX + 1];
    uint64_t epoch; /* of the session; 0 while it begins */
    char job[CADRE_NAME_SIZE_MAX + 1];
    bool may_schedule;
    uint64_t heartbeat_ms;
    uint64_t last; /* number of the last request */
    uint64_t beat; /* number of the last ATTACH */
    uint64_t beat_due_ms;
    uint64_t heard_ms;             /* when the coordinator was heard last */
    cadre_client_request_t *first; /* requests that have not ended */
    size_t count;
} cadre_attachment_t;

void cadre_attachment_init(cadre_attachment_t *self, const cadre_task_t *task, uint64_t now_ms);

/* Begins a request: encodes `message`, whose chunks move, under the next number. CADRE_EFULL when
 * CADRE_CLIENT_REQUESTS_MAX have not ended; else why the attachment has ended. */
int cadre_attachment_ask(cadre_attachment_t *self, cadre_message_t *message,
                         cadre_client_request_t *request);

/* Gives a request up, whether it has ended or not, and frees what it holds. */
void cadre_attachment_forget(cadre_attachment_t *self, cadre_client_request_t *request);

/* Takes a message of the coordinator. */
void cadre_attachment_receive(cadre_attachment_t *self, cadre_message_t *message, uint64_t now_ms);

/* Puts what is to be sent now into the outbox. Returns when to be called again. */
uint64_t cadre_attachment_tick(cadre_attachment_t *self, uint64_t now_ms, cadre_outbox_t *outbox);

/* Ends the attachment and all its requests with a status below 0 and a text. */
void cadre_attachment_end(cadre_attachment_t *self, int status, const char *text);

/* Puts GOODBYE into the outbox, where the coordinator knows the client. */
void cadre_attachment_leave(cadre_attachment_t *self, cadre_outbox_t *outbox);

#endif
