/*
 * closure_words - describes a closure that somebody waits for, in words.
 *
 * Owner:   none: it only looks. Thread: under the coordinator's lock.
 */
#ifndef CADRE_COORDINATOR_CORE_MEMBERS_CLOSURE_WORDS_H
#define CADRE_COORDINATOR_CORE_MEMBERS_CLOSURE_WORDS_H

#include <stdint.h>

#include "common/base/limits.h"
#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/closures/closure.h"

/* Bytes of any text that says what somebody waits for. */
enum { CADRE_WAITING_TEXT_SIZE = CADRE_TEXT_SIZE_MAX + 128 };

/* Writes which closure it is (one that has not ended), with its function and worker; returns
 * `text`. */
const char *cadre_closure_words(const cadre_closure_t *closure, const cadre_catalogue_t *catalogue,
                                uint64_t now_ms, char text[CADRE_WAITING_TEXT_SIZE]);

#endif
