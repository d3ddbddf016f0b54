/*
 * worker_flags - the command line and environment of cadre-worker.
 *
 * Owner:   main. Thread: main's.
 */
#ifndef CADRE_WORKER_WORKER_FLAGS_H
#define CADRE_WORKER_WORKER_FLAGS_H

#include <stdbool.h>

#include "common/net/cluster_config.h"
#include "common/net/security.h"
#include "common/system/log.h"
#include "worker/slot/native.h"

/* How the process ends; the numbers are those of the `cadre` command. */
enum {
    CADRE_WORKER_EXIT_OK = 0,
    CADRE_WORKER_EXIT_USAGE = 2,
    CADRE_WORKER_EXIT_NO_INPUT = 66,
    CADRE_WORKER_EXIT_UNAVAILABLE = 69,
    CADRE_WORKER_EXIT_DEVICE = 70,
    CADRE_WORKER_EXIT_CANNOT_WRITE = 73,
    CADRE_WORKER_EXIT_IO = 74,
    CADRE_WORKER_EXIT_PROTOCOL = 76,
    CADRE_WORKER_EXIT_CONFIG = 78,
    CADRE_WORKER_EXIT_INTERRUPTED = 130,
    CADRE_WORKER_EXIT_TERMINATED = 143,
};

/* What the flags and the environment say; texts are borrowed from them. */
typedef struct {
    cadre_cluster_config_t cluster;
    uint32_t slots;
    int threads;
    int row_cache_mib; /* memory for rows of tables; 0: none are kept */
    const char *natives[CADRE_NATIVE_FILES_MAX];
    int native_count;
    const char *data_dir; /* --data-dir or CADRE_DATA_DIR; NULL: the current folder */
    const char *device;   /* name of the device, as in cadre_device_options_t */
    const char *math;     /* of matrix products, as in cadre_device_options_t */
    const char *trace;    /* trace file to write; NULL: none */
    const char *http;     /* address for probes and metrics; NULL: none */
    cadre_log_level_t level;
    int away_seconds;  /* how long to wait for an absent coordinator, unless `wait`; 0: for ever */
    int drain_seconds; /* how long closures may still run after SIGTERM */
    int shard_seconds; /* after so much silence a ps counts as unreachable; 0: never */
    cadre_security_t security; /* of the connections beyond this machine */
    bool wait;                 /* wait for another session when one has ended */
    bool check;                /* only check flags, keys and device, then exit */
    bool list_devices;         /* only say which devices there are, then exit */
    bool die_with_parent;      /* end when the process that has started this one ends */
} cadre_worker_flags_t;

/* Reads command line and environment into `flags`, which the caller ends with
 * cadre_worker_flags_fini. Ends the process itself for --help, --version and usage errors, as argp
 * does. Fails with CADRE_ECONFIG for a bad variable of the environment, and with CADRE_ECONFIG or
 * CADRE_ENOTFOUND when the description of the cluster is bad or missing. */
int cadre_worker_flags_parse(int argc, char **argv, cadre_worker_flags_t *flags);

void cadre_worker_flags_fini(cadre_worker_flags_t *self);

#endif
