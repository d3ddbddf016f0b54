#include "common/net/refusals.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/limits.h"
#include "common/net/greetings.h"
#include "common/net/receiving.h"

/* Counts a connection whose handshake failed, but not the one by which this process checks its own
 * socket: that is the first, and has not come while `checked` is false. */
void
cadre_refusals_add_strange(cadre_refusals_t *self)
{
    self->strange += self->checked;
    self->checked = true;
}

/* Returns why connections were refused, for a log line that has room for one reason: the most
 * telling that occurred. */
static const char *
reason_of(const cadre_refusals_t *self)
{
    if (self->large > 0) {
        return "a message of more frames or bytes than may come";
    }

    return self->many > 0 ? "too many connections of one address"
                          : "no key, another key, or another protocol";
}

/* Writes the fields of a log line about refused connections, and counts from 0 again; false when
 * there is none to tell of, or the last line is too recent. */
bool
cadre_refusals_tell(cadre_refusals_t *self, int64_t now_ms, char *pairs)
{
    self->large += cadre_receiving_refused();
    self->many += cadre_greetings_refused();
    if (self->large + self->many + self->strange == 0 || now_ms < self->due_ms) {
        return false;
    }

    snprintf(pairs, CADRE_REFUSALS_TEXT_SIZE,
             "large=%" PRIu64 " many=%" PRIu64 " strange=%" PRIu64 " why=\"%s\"", self->large,
             self->many, self->strange, reason_of(self));
    *self = (cadre_refusals_t){.checked = self->checked, .due_ms = now_ms + CADRE_DROPPED_LOG_MS};
    return true;
}
