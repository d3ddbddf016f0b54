/*
 * announcements - telling workers what closures refer to: shards, variables, functions, datasets;
 * resources.h does for resources.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * Everything is announced when it is created, and a worker that joins is sent what it lacks: its
 * HELLO says what it has. Variables are a log (definitions.h), of which the shell keeps what is on
 * its way to a slow worker, so nothing is sent twice to one that only says HELLO again. A worker
 * that misses something all the same asks (WANT).
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

/* What announcements read, and whom they tell: all borrowed for their life. Of members they write
 * what those were told, of functions and datasets the message that tells of them (`told`). */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_shard_recovery_t *recovery; /* says where each shard is */
    cadre_effects_t *effects;
} cadre_announcements_links_t;

typedef struct {
    cadre_announcements_links_t links;
    cadre_definitions_t definitions; /* of variables, for workers */
    bool untold;                     /* some worker may lack some of them */
    uint64_t datasets_ms; /* when datasets were last announced to those who have not answered */
} cadre_announcements_t;

void cadre_announcements_init(cadre_announcements_t *self,
                              const cadre_announcements_links_t *links);
void cadre_announcements_fini(cadre_announcements_t *self);

/* --- what comes to be --- */

/* Appends what workers are to know of variables: one that was created, an id that is vacant, one
 * that is being dropped. The next cadre_announcements_tell_variables sends them. */
void cadre_announcements_add_variable(cadre_announcements_t *self,
                                      const cadre_variable_t *variable);
void cadre_announcements_add_vacancy(cadre_announcements_t *self, uint32_t id);
void cadre_announcements_add_drop(cadre_announcements_t *self, const cadre_variable_t *variable);

/* Tells every worker of the variables that were added since the last call. */
void cadre_announcements_tell_variables(cadre_announcements_t *self);

/* Tells every worker of a function or a dataset. */
void cadre_announcements_tell_function(cadre_announcements_t *self, cadre_function_t *function);
void cadre_announcements_tell_dataset(cadre_announcements_t *self, cadre_dataset_t *dataset);

/* --- who lacks something --- */

/* Tells a worker what it lacks by its HELLO. */
void cadre_announcements_brief(cadre_announcements_t *self, cadre_member_t *member,
                               const cadre_hello_message_t *hello);

/* Answers a WANT. */
void cadre_announcements_on_want(cadre_announcements_t *self, cadre_member_t *member,
                                 const cadre_want_message_t *want);

/* Returns whether it is time to send datasets again to those who have not answered, and notes that
 * this happens now. */
bool cadre_announcements_take_datasets_due(cadre_announcements_t *self);

void cadre_announcements_send_dataset(cadre_announcements_t *self, const cadre_member_t *member,
                                      cadre_dataset_t *dataset);

#endif
