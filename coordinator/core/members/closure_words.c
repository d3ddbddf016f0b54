#include "coordinator/core/members/closure_words.h"

#include <inttypes.h>
#include <stdio.h>

#include "coordinator/core/members/membership.h"

/* Writes id, function, attempt and worker of a closure that has not ended, for people. Returns
 * `text`. */
const char *
cadre_closure_words(const cadre_closure_t *closure, const cadre_catalogue_t *catalogue,
                    uint64_t now_ms, char text[CADRE_WAITING_TEXT_SIZE])
{
    char where[96] = "which waits for a worker";
    char name[32];
    if (closure->state == CADRE_CLOSURE_IN_FLIGHT) {
        snprintf(where, sizeof(where), "on %s for %" PRIu64 " s",
                 cadre_member_name(closure->worker, name), (now_ms - closure->begun_ms) / 1000);
    }

    snprintf(text, CADRE_WAITING_TEXT_SIZE,
             "closure %" PRIu64 " (function %s) %s, attempt %" PRIu64, closure->id,
             catalogue->functions[closure->function - 1]->name, where, closure->attempt);
    return text;
}
