/*
 * strategy_spec - a table of what each strategy (cadre/strategy.h) prescribes: how many ps and
 * workers, and whether steps are synchronous. Both the launcher, which starts tasks, and the
 * coordinator, which leads them, read it.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_SPEC_STRATEGY_SPEC_H
#define CADRE_COMMON_SPEC_STRATEGY_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/strategy.h>

#define CADRE_STRATEGY_WORD(NAME, number, word) "|" word

/* The words of all strategies, as for a usage text: "parameter_server|multi_worker|...". The macro
 * skips the first "|". */
#define CADRE_STRATEGY_WORDS (&CADRE_STRATEGY_LIST(CADRE_STRATEGY_WORD)[1])

/* How many tasks of a role (ps, worker) a strategy prescribes. */
typedef enum {
    CADRE_STRATEGY_TASKS_OPEN,         /* any number: the job says it */
    CADRE_STRATEGY_TASKS_ONE,          /* one */
    CADRE_STRATEGY_TASKS_LIKE_WORKERS, /* as many as the job has workers */
    CADRE_STRATEGY_TASKS_LIKE_DEVICES, /* one for each device of the host */
} cadre_strategy_tasks_t;

typedef struct {
    const char *word;
    cadre_strategy_tasks_t ps;      /* how many ps */
    cadre_strategy_tasks_t workers; /* how many workers */
    bool is_synchronous;            /* a step: as many closures as there are workers */
    bool is_of_one_host;            /* all its tasks run on one host, and so in one process */
} cadre_strategy_spec_t;

/* Returns the row of a strategy; for 0 that of the default, parameter_server. NULL when the number
 * is not in cadre_strategy_t. */
const cadre_strategy_spec_t *cadre_strategy_spec(int64_t strategy);

/* Finds the strategy with this word. Fails with CADRE_EINVALID, and a text that lists the words,
 * when no strategy has it. */
int cadre_strategy_parse(const char *word, cadre_strategy_t *strategy);

#endif
