/*
 * strategy_spec - what each strategy (cadre/strategy.h) says of the tasks of a job and of its
 * steps, as a table: the one place that whoever starts tasks and whoever leads them read.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_SPEC_STRATEGY_SPEC_H
#define CADRE_COMMON_SPEC_STRATEGY_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/strategy.h>

#define CADRE_STRATEGY_WORD(NAME, number, word) "|" word

/* The words in the list's order: "parameter_server|multi_worker". */
#define CADRE_STRATEGY_WORDS (&CADRE_STRATEGY_LIST(CADRE_STRATEGY_WORD)[1])

/* How many tasks of a role there are. */
typedef enum {
    CADRE_STRATEGY_TASKS_OPEN,         /* as the job says */
    CADRE_STRATEGY_TASKS_ONE,          /* one */
    CADRE_STRATEGY_TASKS_LIKE_WORKERS, /* as many as workers */
    CADRE_STRATEGY_TASKS_LIKE_DEVICES, /* as many as devices of the host */
} cadre_strategy_tasks_t;

typedef struct {
    const char *word;
    cadre_strategy_tasks_t ps;
    cadre_strategy_tasks_t workers;
    bool is_synchronous; /* in steps of as many closures as there are workers */
} cadre_strategy_spec_t;

/* Returns what a strategy says; 0 is the default, parameter_server. NULL for a number that is none
 * of cadre_strategy_t. */
const cadre_strategy_spec_t *cadre_strategy_spec(int64_t strategy);

/* Finds the strategy with this word. CADRE_EINVALID, with the choices, where there is none. */
int cadre_strategy_parse(const char *word, cadre_strategy_t *strategy);

#endif
