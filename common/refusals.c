#include "common/refusals.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/greetings.h"
#include "common/limits.h"
#include "common/receiving.h"

bool
cadre_refusals_tell(cadre_refusals_t *self, int64_t now_ms, char *pairs)
{
    self->large += cadre_receiving_refused();
    self->many += cadre_greetings_refused();
    if (self->large + self->many == 0 || now_ms < self->due_ms) {
        return false;
    }
    snprintf(pairs, CADRE_REFUSALS_TEXT_SIZE, "large=%" PRIu64 " many=%" PRIu64 " why=\"%s\"",
             self->large, self->many,
             self->large > 0 ? "a message of more frames or bytes than may come"
                             : "too many connections of one address");
    *self = (cadre_refusals_t){.due_ms = now_ms + CADRE_DROPPED_LOG_MS};
    return true;
}
