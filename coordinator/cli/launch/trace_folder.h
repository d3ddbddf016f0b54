/*
 * trace_folder - where the workers of `cadre run` write their traces: worker-0.json, and
 * worker-0.2.json for the second process of that worker.
 *
 * Thread:  the main one; the functions keep no state.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_TRACE_FOLDER_H
#define CADRE_COORDINATOR_CLI_LAUNCH_TRACE_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

/* The file of start `starts` (1 is the first) of worker `index`; freed by the caller. Each process
 * has its own: what led to the end of one stays. */
char *cadre_trace_folder_file(const char *folder, uint32_t index, uint32_t starts);

/* Whether files can be written into `folder`, or it could be made: tried with a folder inside that
 * is removed at once. CADRE_EIO with what is in the way. */
int cadre_trace_folder_check(const char *folder);

/* Makes `folder` with its parents, checks it, and removes the traces of earlier runs from it: files
 * of that name and no others. CADRE_EIO. */
int cadre_trace_folder_open(const char *folder);

#endif
