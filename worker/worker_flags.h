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

/* Texts are the command line's. */
typedef struct {
    cadre_cluster_config_t cluster;
    uint32_t slots;
    int threads;
    const char *natives[CADRE_NATIVE_FILES_MAX];
    int native_count;
    const char *data_dir; /* or of CADRE_DATA_DIR; NULL: the current folder */
    const char *device;   /* as cadre_device_options_t has it, and so is the next */
    const char *math;
    const char *trace; /* file to write, or NULL */
    const char *http;  /* where it answers about itself, or NULL */
    cadre_log_level_t level;
    int away_seconds;  /* for a coordinator to come back, unless `wait`; 0: as long as it takes */
    int drain_seconds; /* after SIGTERM, for what runs */
    int shard_seconds; /* until a silent ps counts as one that cannot be reached; 0: never */
    cadre_security_t security; /* of the connections beyond this machine */
    bool wait;                 /* after a session for the next one */
    bool check;
    bool die_with_parent;
} cadre_worker_flags_t;

/* Reads both into `flags`, which the caller ends with cadre_worker_flags_fini. Ends the process
 * itself for --help, --version and usage errors, as argp does. CADRE_ECONFIG for
 * a bad variable of the environment, CADRE_ECONFIG or CADRE_ENOTFOUND when the description of the
 * cluster is bad or missing. */
int cadre_worker_flags_parse(int argc, char **argv, cadre_worker_flags_t *flags);

void cadre_worker_flags_fini(cadre_worker_flags_t *self);

#endif
