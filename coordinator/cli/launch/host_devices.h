/*
 * host_devices - the devices of this host that a job may use, and a job's strategy placed on them.
 *
 * GPUs are counted by cadre-worker --list-devices, in a process of its own: a driver that is loaded
 * does not leave, and this process computes nothing.
 *
 * Thread:  any.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_HOST_DEVICES_H
#define CADRE_COORDINATOR_CLI_LAUNCH_HOST_DEVICES_H

#include "coordinator/cli/train/job_strategy.h"

enum { CADRE_HOST_DEVICES_WAIT_MS = 60000 }; /* for a driver that begins to work */

/* Counts what the job's strategy and its list of devices ask for. CADRE_EUNAVAILABLE when
 * cadre-worker is not beside this program, or does not answer; CADRE_EIO. */
int cadre_host_devices_count(const cadre_job_t *job, cadre_job_places_t *places);

/* Follows the strategy of a job whose tasks are started on this host: counts, places, and checks
 * that no device of its list is left without a worker. CADRE_ECONFIG, or what counting returns. */
int cadre_host_devices_place(cadre_job_t *job);

#endif
