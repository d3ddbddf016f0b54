/*
 * host_devices - counts the devices of this host that a job may use, and sets how many workers and
 * ps the strategy of the job has on them, and whether these are threads or processes.
 *
 * GPUs are counted by cadre-worker --list-devices, a process of its own: a GPU driver cannot be
 * unloaded from a process, and this one does not need it afterwards.
 *
 * Thread:  any.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_HOST_DEVICES_H
#define CADRE_COORDINATOR_CLI_LAUNCH_HOST_DEVICES_H

#include "coordinator/cli/train/job_strategy.h"

enum { CADRE_HOST_DEVICES_WAIT_MS = 60000 }; /* how long the driver may take to start */

/* Counts the devices: those that the job lists, the GPUs of the host for "auto", or none for the
 * CPU alone. Fails with CADRE_EUNAVAILABLE when cadre-worker is not in the folder of this program
 * or does not answer in time, with CADRE_EIO when a pipe cannot be made. */
int cadre_host_devices_count(const cadre_job_t *job, cadre_job_places_t *places);

/* Sets workers and ps of a job whose tasks are started on this host, as its strategy has them for
 * the devices here, and whether they are threads of this process: with "auto" where the strategy
 * allows it, only the CPU computes, several slots have one thread each, and nothing else speaks for
 * processes. `apart` names what does
 * on the command line ("--native"); NULL: nothing. Fails with CADRE_ECONFIG when a setting
 * contradicts the strategy, a listed device gets no worker, or threads are asked for and cannot be,
 * and as cadre_host_devices_count does. */
int cadre_host_devices_place(cadre_job_t *job, const char *apart);

#endif
