#include "common/spec/strategy_spec.h"

#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

#define OPEN         CADRE_STRATEGY_TASKS_OPEN
#define ONE          CADRE_STRATEGY_TASKS_ONE
#define LIKE_WORKERS CADRE_STRATEGY_TASKS_LIKE_WORKERS
#define LIKE_DEVICES CADRE_STRATEGY_TASKS_LIKE_DEVICES

/* Indexed by cadre_strategy_t: word, number of ps, number of workers, is_synchronous,
 * is_of_one_host. */
static const cadre_strategy_spec_t specs[] = {
    [CADRE_STRATEGY_PARAMETER_SERVER] = {"parameter_server", OPEN, OPEN, false, false},
    [CADRE_STRATEGY_MULTI_WORKER] = {"multi_worker", LIKE_WORKERS, OPEN, true, false},
    [CADRE_STRATEGY_MIRRORED] = {"mirrored", LIKE_WORKERS, LIKE_DEVICES, true, true},
    [CADRE_STRATEGY_CENTRAL] = {"central", ONE, LIKE_DEVICES, true, true},
    [CADRE_STRATEGY_LOCAL] = {"local", ONE, ONE, true, true},
};

/* Returns the row of a strategy, for 0 that of parameter_server; NULL for an unknown number. */
const cadre_strategy_spec_t *
cadre_strategy_spec(int64_t strategy)
{
    int64_t number = strategy ? strategy : CADRE_STRATEGY_PARAMETER_SERVER;
    bool is_known = number > 0 && number < (int64_t)CADRE_COUNT_OF(specs);
    return is_known ? &specs[number] : NULL;
}

/* Finds the strategy with this word. Number 0 stands for the default, so the table begins at 1. */
int
cadre_strategy_parse(const char *word, cadre_strategy_t *strategy)
{
    for (size_t i = CADRE_STRATEGY_PARAMETER_SERVER; i < CADRE_COUNT_OF(specs); i++) {
        if (strcmp(word, specs[i].word) == 0) {
            *strategy = (cadre_strategy_t)i;
            return 0;
        }
    }
    return cadre_fail(CADRE_EINVALID, "strategy \"%.64s\" is none of %s", word,
                      CADRE_STRATEGY_WORDS);
}
