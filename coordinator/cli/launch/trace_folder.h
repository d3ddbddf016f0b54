/*
 * trace_folder - the folder into which the workers of `cadre run` write their traces:
 * worker-0.json, and worker-0.2.json for the second process of that worker.
 *
 * Thread:  the main one; the functions keep no state.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_TRACE_FOLDER_H
#define CADRE_COORDINATOR_CLI_LAUNCH_TRACE_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the path of the trace of start number `starts` (1 is the first) of worker `index`; freed
 * by the caller. Each process has a file of its own, so that the trace of one that has crashed
 * stays. */
char *cadre_trace_folder_file(const char *folder, uint32_t index, uint32_t starts);

/* Checks that files can be written into `folder`, or that it could be made: makes a folder inside
 * and removes it at once. CADRE_EIO with a text that names the obstacle. */
int cadre_trace_folder_check(const char *folder);

/* Makes `folder` with its parents and checks it. Fails with CADRE_EIO. */
int cadre_trace_folder_make(const char *folder);

/* Removes the traces of earlier runs from a folder that was made: only files named like
 * worker-0.json or worker-0.2.json, and not the one at the path `own`, which this run writes
 * already (NULL: none). Fails with CADRE_EIO. */
int cadre_trace_folder_sweep(const char *folder, const char *own);

#endif
