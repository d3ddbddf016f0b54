/* status_json - the core's state as JSON text, schema cadre.status/v1. Thread: under the
 * coordinator's lock. */
#ifndef CADRE_COORDINATOR_STATUS_JSON_H
#define CADRE_COORDINATOR_STATUS_JSON_H

#include "coordinator/core/coordinator_core.h"

/* Returns the status as text, which the caller frees. */
char *cadre_core_status_json(const cadre_core_t *core, uint64_t now_ms);

#endif
