/* group - what other public calls need of a cadre_group_t, whose own calls are in
 * <cadre/group.h>. */
#ifndef CADRE_COORDINATOR_API_GROUP_H
#define CADRE_COORDINATOR_API_GROUP_H

#include <cadre/group.h>

#include "coordinator/core/closures/closure_group.h"

/* Gives a reference to the state of the group that a call names, NULL for NULL. Under the gate's
 * lock.
 *
 * CADRE_EINVALID: the group is of another coordinator. */
int cadre_group_closures(const cadre_group_t *self, const cadre_coordinator_t *coordinator,
                         cadre_closure_group_t **out);

/* Raises the pending error of a group: returns its status with its text, and takes it out. Returns
 * 0 when there is no error, CADRE_EAGAIN while closures of the group that are being cancelled are
 * in flight. Under the gate's lock. */
int cadre_group_raise(cadre_coordinator_t *coordinator, cadre_closure_group_t *closures);

#endif
