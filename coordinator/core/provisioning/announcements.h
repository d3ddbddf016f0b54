/*
 * announcements - tells workers of what closures refer to: shards, variables, functions, datasets.
 * (Resources are announced by resources.h.)
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * Everything is announced when it is created, and a worker that joins is sent what it lacks: its
 * HELLO says what it has. Variables are announced as a log (definitions.h), each record once: the
 * shell queues what a slow connection does not take yet, so a worker that only says HELLO again is
 * not sent the log again. A worker that misses something all the same asks for it (WANT).
 */
#ifndef CADRE_COORDINATOR_CORE_PROVISIONING_ANNOUNCEMENTS_H
#define CADRE_COORDINATOR_CORE_PROVISIONING_ANNOUNCEMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/catalogue/definitions.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/shards/recovery.h"

/* The objects that announcements read and call; borrowed for their life. Of members the
 * announcements write what each was told, of functions and datasets the encoded message
 * (`told`). */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_shard_recovery_t *recovery; /* knows which ps serves each shard */
    cadre_effects_t *effects;
} cadre_announcements_links_t;

typedef struct {
    cadre_announcements_links_t links;
    cadre_definitions_t definitions; /* the log of variables for workers */
    bool untold;                     /* records were added that workers were not sent yet */
    uint64_t datasets_ms; /* when datasets were last sent to workers that have not answered */
} cadre_announcements_t;

void cadre_announcements_init(cadre_announcements_t *self,
                              const cadre_announcements_links_t *links);
void cadre_announcements_fini(cadre_announcements_t *self);

/* --- announcing what is new --- */

/* Append a record to the log: a variable that was created; an id that is vacant; a variable that is
 * being dropped; a function or a resource that was removed. The next
 * cadre_announcements_tell_variables sends the records. */
void cadre_announcements_add_variable(cadre_announcements_t *self,
                                      const cadre_variable_t *variable);
void cadre_announcements_add_vacancy(cadre_announcements_t *self, uint32_t id);
void cadre_announcements_add_drop(cadre_announcements_t *self, const cadre_variable_t *variable);
void cadre_announcements_add_removal(cadre_announcements_t *self, cadre_defined_t of, uint32_t id);

/* Sends every worker the records that were added since the last call. */
void cadre_announcements_tell_variables(cadre_announcements_t *self);

/* Send a function to every worker; send a dataset to every worker. */
void cadre_announcements_tell_function(cadre_announcements_t *self, cadre_function_t *function);
void cadre_announcements_tell_dataset(cadre_announcements_t *self, cadre_dataset_t *dataset);

/* --- telling workers what they lack --- */

/* Sends a worker what it lacks, as its HELLO shows: shards, variables, functions, datasets. */
void cadre_announcements_brief(cadre_announcements_t *self, cadre_member_t *member,
                               const cadre_hello_message_t *hello);

/* Answers a WANT: sends again what a worker asks for. */
void cadre_announcements_on_want(cadre_announcements_t *self, cadre_member_t *member,
                                 const cadre_want_message_t *want);

/* Returns whether it is time to send datasets again to workers that have not answered, and notes
 * that this happens now. */
bool cadre_announcements_take_datasets_due(cadre_announcements_t *self);

void cadre_announcements_send_dataset(cadre_announcements_t *self, const cadre_member_t *member,
                                      cadre_dataset_t *dataset);

#endif
