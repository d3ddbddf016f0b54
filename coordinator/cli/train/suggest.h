/*
 * suggest - the known word that a user probably meant by a mistyped one.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_SUGGEST_H
#define CADRE_COORDINATOR_CLI_TRAIN_SUGGEST_H

#include <stddef.h>

enum { CADRE_SUGGEST_SIZE_MAX = 64 }; /* characters of a word; longer ones are not compared */

/* Returns the nearest of `count` words (NULL entries are skipped), the first of equals; NULL when
 * none is near: a third of a word's characters may differ, at least one. */
const char *cadre_suggest(const char *word, const char *const *words, size_t count);

/* Returns the suggestion as the end of a sentence, "; did you mean \"learning_rate\"?", or "" when
 * there is none. Freed by the caller. */
char *cadre_suggest_text(const char *word, const char *const *words, size_t count);

#endif
