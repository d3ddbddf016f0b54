/* group - the core's side of the public cadre_group_t; the rest is in <cadre/coordinator.h>. */
#ifndef CADRE_COORDINATOR_API_GROUP_H
#define CADRE_COORDINATOR_API_GROUP_H

#include <cadre/group.h>

#include "coordinator/core/closures/closure_group.h"

/* Under the lock: gives a share of the group that a call names, or NULL where it names none.
 *
 * CADRE_EINVALID: the group is of another coordinator. */
int cadre_group_closures(const cadre_group_t *self, const cadre_coordinator_t *coordinator,
                         cadre_closure_group_t **out);

/* Under the lock: raises the pending error of a group, once everything of it in flight has ended;
 * CADRE_EAGAIN until then, 0 where there is none. */
int cadre_group_raise(cadre_coordinator_t *coordinator, cadre_closure_group_t *closures);

#endif
