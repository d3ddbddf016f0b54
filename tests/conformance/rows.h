/*
 * rows - rows of data that know which they are, and a variable that counts how often each was given
 * to a closure: what tests of epochs stand on.
 *
 * Nothing here needs Criterion: the driver, a program of its own, uses it too.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_TESTS_CONFORMANCE_ROWS_H
#define CADRE_TESTS_CONFORMANCE_ROWS_H

#include <cadre/coordinator.h>

/* Writes a file of `rows` rows "i, 0, i"; ends the program when it cannot. */
void rows_write(const char *path, int rows);

/* Opens such a file as the dataset `name`. */
int rows_open(cadre_coordinator_t *coordinator, const char *path, const char *name,
              int64_t timeout_ms, cadre_dataset_t **dataset);

/* Creates "visits", VISIT_ROWS zeros in `parts` parts, with the optimizer "add". */
int visits_create(cadre_coordinator_t *coordinator, int parts, cadre_variable_t **visits);

#endif
