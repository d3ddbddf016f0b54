/*
 * calls - how calls of a client ask the coordinator and wait for its answers.
 *
 * Owner:   a client. Thread: under the client's lock.
 */
#ifndef CADRE_COORDINATOR_CLIENT_CALLS_H
#define CADRE_COORDINATOR_CLIENT_CALLS_H

#include "coordinator/client/client.h"

/* What is listed, and who takes it: called with each name and its CADRE_LISTED_ITEMS numbers. */
typedef struct {
    cadre_listed_t kind;
    void (*take)(void *context, const char *name, const uint64_t *item);
    void *context;
} cadre_client_listing_t;

/* Lists all that there is of one kind. */
int cadre_client_list(cadre_client_t *self, const cadre_client_listing_t *listing,
                      int64_t deadline_ms);

/* Waits until the request has ended, and returns 0 when it was answered; else why not. `what` is
 * for the text of CADRE_ETIMEOUT. */
int cadre_client_await(cadre_client_t *self, cadre_client_request_t *request, int64_t deadline_ms,
                       const char *what);

/* Asks and waits for the answer, which must be of that type. The caller ends the request with
 * cadre_attachment_forget in any case. */
int cadre_client_ask(cadre_client_t *self, cadre_message_t *message, cadre_message_type_t expected,
                     int64_t deadline_ms, cadre_client_request_t *request);

#endif
