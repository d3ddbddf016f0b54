/*
 * status_lines - the status of a job in words, as `cadre status` prints it.
 *
 * Thread:  any; the function keeps no state.
 */
#ifndef CADRE_COORDINATOR_CLI_STATUS_LINES_H
#define CADRE_COORDINATOR_CLI_STATUS_LINES_H

#include <jansson.h>
#include <stdio.h>

/* Prints the status (schema cadre.status/v1) of a job: a few lines of the whole, then one for each
 * task and each table. What the status lacks is printed as 0 or "-". */
void cadre_status_lines_print(const json_t *status, FILE *file);

#endif
