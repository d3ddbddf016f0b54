/*
 * Setting a coordinator up: everything that can fail happens here, on the caller's thread, before a
 * thread starts.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/disk.h"
#include "common/http/http_address.h"
#include "common/net/cluster_config.h"
#include "common/net/security.h"
#include "common/system/clock.h"
#include "common/system/descriptors.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/checkpoint/checkpoint_manifest.h"
#include "coordinator/lock_file.h"
#include "coordinator/private_directory.h"
#include "coordinator/strategy.h"

enum {
    /* Descriptors that a coordinator opens itself: sockets, threads, files of a checkpoint. */
    DESCRIPTORS_OWN = 32,
    DESCRIPTORS_PER_PS = 4, /* descriptors for each ps: of its connection, and of ours to it */
    /* Most bytes of the checkpoint directory's path, which messages carry with a file name. */
    CHECKPOINT_PATH_MAX = 200
};

/* --- the address --- */

/* Chooses an ipc socket that only this user can reach: any user of this machine could reach a
 * loopback port. */
static int
choose_private_address(cadre_coordinator_t *self, cadre_endpoint_t *endpoint)
{
    int status = cadre_ipc_directory_new(getenv("XDG_RUNTIME_DIR"), &self->own_directory);
    if (status < 0) {
        return status;
    }
    return cadre_ipc_endpoint(self->own_directory, "coordinator", endpoint);
}

/* Finds the address and the tasks, in the options or in the environment. The environment is
 * not read if the options have both: it may describe another cluster. */
static int
find_place(cadre_coordinator_t *self, const cadre_coordinator_options_t *options,
           cadre_endpoint_t *endpoint, cadre_cluster_shape_t *shape)
{
    cadre_cluster_sources_t sources = {.role = "coordinator"};
    cadre_auto(cadre_cluster_config_fini)
        cadre_cluster_config_t config = {.role = CADRE_ROLE_COORDINATOR};

    if (options->local) {
        self->invited = true;
        *shape =
            (cadre_cluster_shape_t){.ps = 1, .workers = 1, .slots = (uint32_t)options->local_slots};
        cadre_inproc_endpoint("coordinator", endpoint);
        return 0;
    }

    if (!options->address || !options->ps_count) {
        cadre_cluster_sources_from_environment(&sources);
    }

    int status = cadre_cluster_config_read(&sources, &config);
    /* CADRE_ENOTFOUND: nothing describes the cluster */
    bool described = status == 0;

    if (status < 0 && status != CADRE_ENOTFOUND) {
        return status;
    }

    /* other tasks may know the address, and come */
    self->invited = described || options->address;

    if (options->ps_count < 0 || options->ps_count > CADRE_SHARDS_MAX) {
        return cadre_fail(CADRE_ECONFIG, "options: ps_count %d is not in 0..%d", options->ps_count,
                          CADRE_SHARDS_MAX);
    }

    *shape = (cadre_cluster_shape_t){
        .ps = (uint32_t)options->ps_count,
        .workers = described ? (uint32_t)config.workers.count : 0,
        .has_shards_beside_workers = described && config.has_shards_beside_workers,
    };
    if (shape->ps == 0) {
        shape->ps = described && config.ps.count > 0 ? (uint32_t)config.ps.count : 1;
    }

    if (options->address) {
        status = cadre_endpoint_parse(options->address, endpoint);
        return status == 0 && endpoint->kind == CADRE_ENDPOINT_INPROC
                   ? cadre_fail(CADRE_ECONFIG, "options: address %s: set local instead",
                                options->address)
                   : status;
    }
    if (!described) {
        return choose_private_address(self, endpoint);
    }

    *endpoint = config.coordinator;
    return 0;
}

/* --- one coordinator per address --- */

/* Returns the path of a bound endpoint's lock file: beside an ipc socket; for a tcp port in a
 * private directory of the user. NULL if the user has none: the system refuses a second coordinator
 * on a port anyway, whose error then cannot name the first. */
static char *
lock_path(const cadre_endpoint_t *endpoint)
{
    if (endpoint->kind == CADRE_ENDPOINT_IPC) {
        return cadre_asprintf("%s.lock", endpoint->path);
    }
    cadre_auto(cadre_free) char *directory = NULL;
    int status =
        cadre_private_directory(getenv("XDG_RUNTIME_DIR"), getenv("HOME"), geteuid(), &directory);
    return status == 0 ? cadre_asprintf("%s/cadre-port-%u.lock", directory, endpoint->port) : NULL;
}

/* Locks the coordinator's address. ZeroMQ would silently replace an ipc socket that is in use; the
 * lock refuses a second coordinator, with the name of the first. */
static int
lock_address(cadre_coordinator_t *self, const cadre_endpoint_t *endpoint)
{
    char address[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_auto(cadre_free) char *path = lock_path(endpoint);
    return path ? cadre_lock_file_open(&self->address_lock, path,
                                       cadre_endpoint_text(endpoint, address), self->job)
                : 0;
}

/* Called on the authenticator's thread: puts a log line into the core's effects, which the actor
 * takes to the log. */
static void
tell_audit(void *context, char level, const char *event, const char *pairs)
{
    cadre_coordinator_t *self = context;
    cadre_gate_lock(self->gate);
    cadre_effects_log(&self->core.effects, level, event, "%s", pairs);
    cadre_gate_unlock_and_wake(self->gate);
}

/* Reads the keys that options and environment name, guards the context with them, and opens the
 * authenticator. */
static int
guard_context(cadre_coordinator_t *self, const cadre_coordinator_options_t *options)
{
    cadre_security_t security = {.keys = options->keys, .insecure = options->insecure_transport};
    int status = cadre_security_read(&security);
    if (status < 0) {
        return status;
    }

    status = cadre_security_apply(&security, CADRE_KEY_COORDINATOR, self->context);
    if (status < 0) {
        return status;
    }
    if (cadre_context_keyring(self->context)) {
        status = cadre_authenticator_open(self->context, tell_audit, self, &self->authenticator);
    }

    return status;
}

/* Binds the control socket of a job in one process at an ipc address too, and locks that. */
static int
bind_outside(cadre_coordinator_t *self, const char *address)
{
    cadre_endpoint_t endpoint;
    int status = cadre_endpoint_parse(address, &endpoint);
    if (status < 0 || endpoint.kind != CADRE_ENDPOINT_IPC) {
        return cadre_fail(CADRE_ECONFIG,
                          "options: address %s: with local it is ipc:///PATH, or "
                          "left out",
                          address);
    }

    status = lock_address(self, &endpoint);
    if (status < 0) {
        return status;
    }

    cadre_endpoint_text(&endpoint, self->address);
    return cadre_socket_bind_also(self->control, &endpoint);
}

/* Binds the control socket and locks its address. An address that is known beforehand (no wildcard
 * port) is locked before the bind, so that a second coordinator cannot take an ipc socket from the
 * first. */
static int
bind_control(cadre_coordinator_t *self, const cadre_endpoint_t *endpoint)
{
    bool is_shared = endpoint->kind != CADRE_ENDPOINT_INPROC; /* others could bind it */
    bool known = endpoint->kind == CADRE_ENDPOINT_IPC || endpoint->port != 0;
    cadre_descriptors_raise();
    int status = known ? lock_address(self, endpoint) : 0;
    if (status < 0) {
        return status;
    }

    status = cadre_socket_open_router(self->context, CADRE_PLANE_CONTROL, &self->control);
    if (status < 0) {
        return status;
    }

    status =
        cadre_monitor_open_for(self->context, self->control,
                               1U << CADRE_EVENT_NOT_ACCEPTED | 1U << CADRE_EVENT_DISCONNECTED |
                                   1U << CADRE_EVENT_HANDSHAKE_FAILED,
                               &self->monitor);
    if (status < 0) {
        return status;
    }

    status = cadre_socket_bind(self->control, endpoint);
    if (status < 0) {
        return status;
    }
    if (is_shared && !known) { /* the system has chosen the port just now */
        status = lock_address(self, cadre_socket_endpoint(self->control));
        if (status < 0) {
            return status;
        }
    }

    if (self->authenticator && endpoint->kind == CADRE_ENDPOINT_TCP) {
        status =
            cadre_authenticator_check(self->authenticator, cadre_socket_endpoint(self->control));
        if (status < 0) {
            return status;
        }
    }

    cadre_endpoint_text(cadre_socket_endpoint(self->control), self->address);
    self->transport = cadre_security_transport(self->context, endpoint);
    return 0;
}

/* Counts how many workers there are file descriptors for. Subtracts those that are open, those that
 * the process will need for itself and its ps, and one and a half times the reserve that
 * connections must leave free (accept.c): the half is for tasks that connect only to be refused. */
static int
count_room(cadre_coordinator_t *self, uint32_t ps_count, uint32_t *workers_max)
{
    uint64_t limit = cadre_descriptors_limit();
    uint64_t taken = cadre_descriptors_open() + DESCRIPTORS_OWN +
                     (uint64_t)DESCRIPTORS_PER_PS * ps_count + 3 * cadre_descriptors_reserve() / 2;
    char text[CADRE_DESCRIPTORS_TEXT_SIZE];

    cadre_descriptors_text(text);
    if (limit <= taken) {
        return cadre_fail(CADRE_ECONFIG,
                          "a coordinator with %" PRIu32 " ps takes %" PRIu64
                          " descriptors before it has a worker, and %s",
                          ps_count, taken, text);
    }

    *workers_max = (uint32_t)(limit - taken < CADRE_TASKS_MAX ? limit - taken : CADRE_TASKS_MAX);
    self->descriptors_why = cadre_strdup(text);
    return 0;
}

/* --- resuming --- */

/* Logs by the caller's callback, while the coordinator has no core yet. */
static void CADRE_PRINTF(4, 5)
    tell(const cadre_coordinator_t *self, char level, const char *event, const char *format, ...)
{
    char pairs[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(pairs, sizeof(pairs), format, arguments);
    va_end(arguments);
    if (self->log) {
        self->log(self->log_context, level, event, pairs);
    }
}

typedef struct {
    const cadre_coordinator_t *coordinator;
    size_t damaged;
} search_t;

/* Counts and logs a checkpoint that cannot be loaded; called for each while the newest valid one is
 * looked for. */
static void
note_damaged(void *context, uint64_t id, const char *reason)
{
    search_t *self = context;
    self->damaged++;
    tell(self->coordinator, 'E', "checkpoint_damaged",
         "checkpoint=%" PRIu64 " why=\"%.300s\" next=\"an older one\"", id, reason);
}

/* Finds the id of the newest valid checkpoint of the directory, 0 when it holds none. Fails if
 * there are checkpoints and none of them can be read: the job must not silently start from
 * scratch. */
static int
newest_checkpoint(const cadre_coordinator_t *self, uint64_t *id)
{
    search_t search = {.coordinator = self};
    cadre_auto(cadre_checkpoint_directory_destroy) cadre_checkpoint_directory_t *directory = NULL;

    *id = 0;
    int status = cadre_checkpoint_directory_open(self->checkpoint_dir, true, &directory);
    if (status < 0) {
        return status == CADRE_ENOTFOUND ? 0 : status;
    }

    status = cadre_checkpoint_directory_newest(directory, note_damaged, &search, id);
    if (status != CADRE_ENOTFOUND) {
        return status;
    }
    if (search.damaged == 0) {
        return 0;
    }

    return cadre_fail(
        CADRE_ECORRUPT,
        "%s: none of its %zu checkpoints can be loaded; resume \"never\" starts afresh",
        self->checkpoint_dir, search.damaged);
}

/* Gives the path of the checkpoint to resume, NULL for none. */
static int
find_checkpoint(cadre_coordinator_t *self, const cadre_coordinator_options_t *options, char **path)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    *path = NULL;
    if (options->resume_path) {
        char resolved[PATH_MAX];
        if (!realpath(options->resume_path, resolved)) {
            return cadre_fail(CADRE_ENOTFOUND, "checkpoint %s: %s", options->resume_path,
                              strerror(errno));
        }
        *path = cadre_strdup(resolved);
        return 0;
    }

    if (options->resume == CADRE_RESUME_NEVER) {
        return 0;
    }
    if (!self->checkpoint_dir) {
        return cadre_fail(CADRE_ECONFIG, "resume \"auto\" needs a checkpoint directory");
    }

    uint64_t id = 0;
    int status = newest_checkpoint(self, &id);

    if (id > 0) {
        *path = cadre_asprintf("%s/%s", self->checkpoint_dir, cadre_checkpoint_name(id, name));
    }

    return status;
}

typedef struct {
    bool found;
    uint64_t id;
    uint64_t seed;
    cadre_totals_t totals;
} resumed_t;

/* How the checkpoint to resume was chosen. */
typedef enum {
    CHECKPOINT_NAMED, /* by the options */
    CHECKPOINT_FOUND, /* the newest that is whole */
} checkpoint_source_t;

/* Logs that the checkpoint is of a job with another name; it is resumed all the same. */
static void
tell_other_job(const cadre_coordinator_t *self, const char *path, const char *job)
{
    if (self->log && strcmp(job, self->job) != 0) {
        char pairs[512];
        snprintf(pairs, sizeof(pairs), "path=\"%.250s\" job=%.128s next=\"it is taken as it is\"",
                 path, job);
        self->log(self->log_context, 'W', "resumed_other_job", pairs);
    }
}

/* Returns what a manifest says of a table; zeros of a dense variable. */
static cadre_resumed_table_t
table_in(const cadre_manifest_variable_t *variable)
{
    const json_t *table = variable->table;
    const json_int_t admit_after = json_integer_value(json_object_get(table, "admit_after"));
    return (cadre_resumed_table_t){
        .parts = table ? (uint32_t)variable->partition_count : 0,
        .admit_after =
            admit_after > 0 && admit_after <= CADRE_TABLE_ADMIT_MAX ? (uint32_t)admit_after : 0,
        .row_wise = json_is_true(json_object_get(table, "row_wise")),
    };
}

/* Keeps the names of the manifest's variables, the kinds of their optimizers, and how tables were
 * kept, for when the program creates them again. */
static void
keep_names(cadre_coordinator_t *self, const cadre_manifest_t *manifest)
{
    self->resumed_variables =
        cadre_calloc(manifest->variable_count, sizeof(*self->resumed_variables));
    self->resumed_optimizers =
        cadre_calloc(manifest->variable_count, sizeof(*self->resumed_optimizers));
    self->resumed_tables = cadre_calloc(manifest->variable_count, sizeof(*self->resumed_tables));
    self->resumed_variable_count = manifest->variable_count;
    for (size_t i = 0; i < manifest->variable_count; i++) {
        const cadre_manifest_variable_t *variable = &manifest->variables[i];
        const char *optimizer = json_string_value(json_object_get(variable->optimizer, "kind"));
        self->resumed_variables[i] = cadre_strdup(variable->name);
        self->resumed_optimizers[i] = optimizer ? cadre_strdup(optimizer) : NULL;
        self->resumed_tables[i] = table_in(variable);
        cadre_name_map_put(&self->resumed_names, self->resumed_variables[i],
                           &self->resumed_variables[i]);
    }
}

/* Takes from a checkpoint's manifest all that the job resumes with: cut, totals, sequence numbers,
 * variables. */
static int
take_manifest(cadre_coordinator_t *self, const char *path, const cadre_manifest_t *manifest,
              resumed_t *resumed)
{
    tell_other_job(self, path, manifest->job);
    keep_names(self, manifest);
    self->resumed_cut = manifest->cut;
    resumed->id = manifest->id;
    resumed->seed = manifest->seed;
    resumed->found = true;
    int status = cadre_checkpoint_totals(manifest, &resumed->totals, &self->resumed_progress);
    if (status < 0) {
        return status;
    }

    return cadre_checkpoint_sequences(manifest, &self->resumed_sequences);
}

/* Reads the checkpoint that the job resumes from. If the caller named it, its files are read and
 * hashed first; the newest valid one has been checked already, when it was looked for. */
static int
read_checkpoint(cadre_coordinator_t *self, const char *path, checkpoint_source_t source,
                resumed_t *resumed)
{
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    int status = cadre_checkpoint_reader_open(path, &reader);
    if (status < 0) {
        return status;
    }
    if (source == CHECKPOINT_NAMED) {
        status = cadre_checkpoint_reader_verify_files(reader);
    }
    if (status < 0) {
        return status;
    }

    return take_manifest(self, path, cadre_checkpoint_reader_manifest(reader), resumed);
}

/* --- setting up, step by step --- */

/* Makes the directory and its missing parents. */
static int
make_directories(const char *path)
{
    cadre_auto(cadre_free) char *copy = cadre_strdup(path);
    for (char *at = copy + 1; *at; at++) {
        if (*at == '/') {
            *at = '\0';
            int status = cadre_disk_make_directory(copy);
            if (status < 0) {
                return cadre_fail_within(CADRE_EIO, "checkpoint directory %s", path);
            }
            *at = '/';
        }
    }

    int status = cadre_disk_make_directory(copy);
    return status < 0 ? cadre_fail_within(CADRE_EIO, "checkpoint directory") : 0;
}

/* Makes and locks the checkpoint directory, and removes drafts that an earlier coordinator has
 * left. */
static int
set_checkpoint_dir(cadre_coordinator_t *self, const cadre_coordinator_options_t *options)
{
    if (!options->checkpoint_dir) {
        return 0;
    }

    int status = options->checkpoint_dir[0] ? make_directories(options->checkpoint_dir)
                                            : cadre_fail(CADRE_ECONFIG, "checkpoint_dir is empty");
    if (status < 0) {
        return status;
    }

    char resolved[PATH_MAX];
    if (!realpath(options->checkpoint_dir, resolved)) {
        return cadre_fail(CADRE_EIO, "checkpoint directory %s: %s", options->checkpoint_dir,
                          strerror(errno));
    }

    if (strlen(resolved) > CHECKPOINT_PATH_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "checkpoint directory %s: a path of over %d bytes",
                          resolved, CHECKPOINT_PATH_MAX);
    }

    self->checkpoint_dir = cadre_strdup(resolved);
    self->checkpoint_keep = options->checkpoint_keep ? options->checkpoint_keep : 3;
    status = cadre_coordinator_lock_checkpoints(self);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_checkpoint_directory_destroy) cadre_checkpoint_directory_t *directory = NULL;
    status = cadre_checkpoint_directory_open(self->checkpoint_dir, true, &directory);
    if (status < 0) {
        return status;
    }

    if (cadre_checkpoint_directory_clean(directory, NULL) < 0) {
        /* A ps of the last coordinator may still be writing into a draft; nobody reads drafts. */
        tell(self, 'W', "cleanup_failed", "why=\"%.300s\" next=\"it is left there\"",
             cadre_error_text());
    }

    return 0;
}

/* Returns a random number other than 0. */
static uint64_t
random_u64(void)
{
    uint64_t number = 0;
    while (number == 0) {
        if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
            /* no randomness from the system: time and process have to do */
            number = (uint64_t)cadre_clock_now_us() ^ (uint64_t)getpid() << 40;
        }
    }
    return number;
}

/* Opens the HTTP server at `address`; NULL: none is wanted. */
static int
open_http(cadre_coordinator_t *self, const char *address)
{
    static const char *const actors[] = {"coordinator's thread"};
    if (!address) {
        return 0;
    }

    int status = cadre_http_server_open(address, actors, CADRE_COUNT_OF(actors), &self->http);
    if (status < 0) {
        return cadre_fail_within(status, "options: http");
    }

    tell(self, 'I', "http_listening", "address=%s", cadre_http_server_address(self->http));
    return 0;
}

/* Checks the options of a job in one process, and that a job of several has none of them. */
static int
check_local(const cadre_coordinator_options_t *options)
{
    if (options->local && options->ps_count > 1) {
        return cadre_fail(CADRE_ECONFIG, "options: local has one ps, and a worker, in this "
                                         "process: leave ps_count out");
    }

    if (options->natives && !options->local) {
        return cadre_fail(CADRE_ECONFIG, "options: natives are of a worker in this process: set "
                                         "local, or give the file to cadre-worker --native");
    }

    const struct {
        const char *name;
        int value;
        int most;
    } numbers[] = {{"local_slots", options->local_slots, CADRE_SLOTS_MAX},
                   {"local_threads", options->local_threads, CADRE_THREADS_MAX},
                   {"local_ps_lanes", options->local_ps_lanes, CADRE_LANES_MAX}};
    bool any = options->local_device || options->local_data_dir || options->local_trace;
    for (size_t i = 0; i < CADRE_COUNT_OF(numbers); i++) {
        if (numbers[i].value < 0 || numbers[i].value > numbers[i].most) {
            return cadre_fail(CADRE_ECONFIG, "options: %s %d is not in 0..%d", numbers[i].name,
                              numbers[i].value, numbers[i].most);
        }
        any = any || numbers[i].value > 0;
    }

    return any && !options->local
               ? cadre_fail(CADRE_ECONFIG, "options: what begins with local_ is of a job in this "
                                           "process: set local")
               : 0;
}

/* Checks options that C types do not check: signs, and enums that a program in another language may
 * have filled in. */
static int
check_options(const cadre_coordinator_options_t *options)
{
    if (options->lease_ms < 0 || options->closure_deadline_ms < 0 || options->ps_timeout_ms < 0 ||
        options->checkpoint_every_ms < 0 || options->checkpoint_keep < 0 ||
        options->checkpoint_every_steps < 0) {
        return cadre_fail(CADRE_ECONFIG, "options: no time or count may be negative");
    }

    if (options->checkpoint_keep == 1) {
        return cadre_fail(CADRE_ECONFIG, "options: checkpoint_keep is at least 2: when the newest "
                                         "cannot be read, a lost ps begins with the one before");
    }

    if (options->checkpoint_full_every > CADRE_CHECKPOINT_FULL_EVERY_MAX) {
        return cadre_fail(CADRE_ECONFIG, "options: checkpoint_full_every is %u, at most %d",
                          options->checkpoint_full_every, CADRE_CHECKPOINT_FULL_EVERY_MAX);
    }

    if ((unsigned)options->placement > CADRE_PLACEMENT_ROUND_ROBIN) {
        return cadre_fail(CADRE_ECONFIG,
                          "options: placement %d is not one of cadre_placement_policy_t",
                          (int)options->placement);
    }

    if ((unsigned)options->resume > CADRE_RESUME_AUTO) {
        return cadre_fail(CADRE_ECONFIG, "options: resume %d is not one of cadre_resume_t",
                          (int)options->resume);
    }

    if ((unsigned)options->recovery > CADRE_RECOVERY_RELAXED) {
        return cadre_fail(CADRE_ECONFIG, "options: recovery %d is not one of cadre_recovery_t",
                          (int)options->recovery);
    }

    if ((unsigned)options->consistency > CADRE_SYNC) {
        return cadre_fail(CADRE_ECONFIG,
                          "options: consistency %d is not one of "
                          "cadre_consistency_t",
                          (int)options->consistency);
    }

    int status = check_local(options);
    if (status < 0) {
        return status;
    }

    cadre_endpoint_t http;
    if (options->http && cadre_http_address_parse(options->http, &http) < 0) {
        cadre_fail_within(CADRE_ECONFIG, "options: http");
        return CADRE_ECONFIG;
    }

    return options->job ? cadre_name_check("job", options->job) : 0;
}

/* Checks what the options say of synchronous steps, after the strategy has set its own. */
static int
check_steps(const cadre_coordinator_options_t *options)
{
    if (options->consistency == CADRE_SYNC && options->recovery == CADRE_RECOVERY_RELAXED) {
        return cadre_fail(CADRE_ECONFIG, "options: consistency sync loses no update, recovery "
                                         "relaxed does: leave recovery out");
    }

    if (options->step_closures > CADRE_STEP_CLOSURES_MAX) {
        return cadre_fail(CADRE_ECONFIG, "options: step_closures is %" PRIu32 ", at most %d",
                          options->step_closures, CADRE_STEP_CLOSURES_MAX);
    }

    if (options->backup_attempts > CADRE_BACKUP_ATTEMPTS_MAX) {
        return cadre_fail(CADRE_ECONFIG, "options: backup_attempts is %" PRIu32 ", at most %d",
                          options->backup_attempts, CADRE_BACKUP_ATTEMPTS_MAX);
    }

    return 0;
}

/* Takes over from a checkpoint what the core goes on with. */
static void
resume_core(cadre_coordinator_t *self, const resumed_t *resumed)
{
    cadre_core_resume(&self->core, self->resumed_path, resumed->id, self->resumed_cut,
                      &resumed->totals);
    for (size_t i = 0; i < self->resumed_sequences.count; i++) {
        const cadre_sequence_range_t *range = &self->resumed_sequences.ranges[i];
        cadre_checkpoint_hold(&self->core.checkpoint, range);
    }
    for (size_t i = 0; i < self->resumed_variable_count; i++) {
        cadre_checkpoint_await(&self->core.checkpoint, self->resumed_variables[i]);
    }
    cadre_effects_log(&self->core.effects, 'I', "resumed", "path=\"%s\" cut=%" PRIu64,
                      self->resumed_path, self->resumed_cut);
}

/* Returns the lease of members where the options set none. On ipc the job is a local one, as the
 * launcher starts it. */
static uint64_t
default_lease_ms(const cadre_coordinator_t *self)
{
    if (cadre_socket_endpoint(self->control)->kind == CADRE_ENDPOINT_INPROC) {
        return CADRE_HOSTED_LEASE_MS;
    }
    return strncmp(self->address, "ipc://", 6) == 0 ? CADRE_LOCAL_LEASE_MS : CADRE_LEASE_MS;
}

/* Returns whether the job's one slot may run steps of one closure in series (core_options.h). Not
 * where there are native functions: one may push, go on and fail, and its updates would be left out
 * of its step. A program pushes once, at its end. */
static bool
is_serial(const cadre_coordinator_options_t *options)
{
    return options->local && options->local_slots == 1 && !options->natives &&
           options->consistency == CADRE_SYNC && options->step_closures <= 1;
}

/* Makes the core, resumes it, and logs how it begins. All of it under the gate's lock: the
 * authenticator's thread may log into the core's effects meanwhile. */
static void
make_core(cadre_coordinator_t *self, const cadre_coordinator_options_t *options, uint32_t ps_count,
          uint32_t workers_max, const resumed_t *resumed)
{
    uint64_t lease_ms = options->lease_ms ? (uint64_t)options->lease_ms : default_lease_ms(self);
    cadre_core_options_t core = {
        .incarnation = random_u64(),
        .epoch = random_u64(),
        .job = self->job,
        .transport = self->transport,
        .build = CADRE_VERSION,
        .ps_count = ps_count,
        .workers_max = workers_max,
        .workers_why = self->descriptors_why,
        .seed = resumed->found ? resumed->seed : options->seed,
        .queue_capacity =
            options->queue_capacity ? options->queue_capacity : CADRE_CLOSURE_QUEUE_MAX,
        .lease_ms = lease_ms,
        .deadline_ms = (uint64_t)options->closure_deadline_ms,
        .heartbeat_ms = lease_ms / 4 < CADRE_HEARTBEAT_MS ? lease_ms / 4 : CADRE_HEARTBEAT_MS,
        .resend_ms = CADRE_RESEND_MS,
        .ps_timeout_ms = options->ps_timeout_ms ? (uint64_t)options->ps_timeout_ms : 60000,
        .recovery =
            options->consistency == CADRE_SYNC ? CADRE_RECOVERY_ROLLBACK : options->recovery,
        .consistency = options->consistency,
        .step_closures = options->step_closures ? options->step_closures : 1,
        .is_serial = is_serial(options),
        .staleness_bound = options->staleness_bound,
        .backup_attempts = options->backup_attempts,
        .strategy = options->strategy,
        .client_closures = options->client_closures,
        .round_robin = options->placement == CADRE_PLACEMENT_ROUND_ROBIN,
        .fill_bytes = options->consistency == CADRE_SYNC ? CADRE_FILL_SIZE : 0};
    if (core.seed == 0) {
        core.seed = random_u64();
    }

    cadre_gate_lock(self->gate);
    /* Log lines of connections made before this, which cadre_core_init would drop. */
    cadre_effects_t before = self->core.effects;
    cadre_core_init(&self->core, &core, (uint64_t)cadre_clock_now_ms());
    cadre_effect_t effect;
    while (cadre_effects_take(&before, &effect)) {
        cadre_effects_emit(&self->core.effects, &effect);
    }

    cadre_effects_fini(&before);
    if (self->checkpoint_dir) {
        cadre_checkpoint_enable(&self->core.checkpoint, (uint64_t)options->checkpoint_every_ms,
                                (uint64_t)options->checkpoint_every_steps);
        cadre_checkpoint_chain(&self->core.checkpoint, options->checkpoint_full_every > 0
                                                           ? options->checkpoint_full_every
                                                           : CADRE_CHECKPOINT_FULL_EVERY);
    }
    if (resumed->found) {
        resume_core(self, resumed);
    }

    if (strcmp(self->transport, "insecure") == 0) {
        cadre_effects_log(&self->core.effects, 'W', "insecure_transport",
                          "address=\"%s\" why=\"whoever reaches it takes part and reads along\"",
                          self->address);
    }

    cadre_effects_log(&self->core.effects, 'I', "coordinator",
                      "address=\"%s\" job=%s ps=%u seed=%" PRIu64, self->address, self->job,
                      ps_count, core.seed);
    cadre_gate_unlock(self->gate);
}

/* Sets the coordinator up, on the caller's thread: everything that can fail, before a thread
 * starts. Each step relies on those before it. */
int
cadre_coordinator_set_up(cadre_coordinator_t *self, const cadre_coordinator_options_t *given)
{
    cadre_coordinator_options_t followed = *given; /* with what the strategy says */
    const cadre_coordinator_options_t *options = &followed;
    cadre_endpoint_t endpoint = {.kind = CADRE_ENDPOINT_TCP};
    cadre_cluster_shape_t shape = {.ps = 0};
    uint32_t workers_max = 0;
    resumed_t resumed = {.found = false};

    self->log = options->log;
    self->log_context = options->log_context;
    int status = check_options(options);
    if (status < 0) {
        return status;
    }

    self->job = cadre_strdup(options->job ? options->job : "job");
    status = find_place(self, options, &endpoint, &shape);
    if (status < 0) {
        return status;
    }

    status = cadre_coordinator_follow_strategy(&followed, &shape);
    if (status < 0) {
        return status;
    }

    status = check_steps(options);
    if (status < 0) {
        return status;
    }

    /* Keys come before the first socket: a socket that is bound without keys would let anybody
     * in. */
    status = options->local ? 0 : guard_context(self, options);
    if (status < 0) {
        return status;
    }

    status = bind_control(self, &endpoint);
    if (status < 0) {
        return status;
    }

    if (options->local && options->address) {
        status = bind_outside(self, options->address);
        if (status < 0) {
            return status;
        }
    }

    status = open_http(self, options->http);
    if (status < 0) {
        return status;
    }

    status = count_room(self, shape.ps, &workers_max);
    if (status < 0) {
        return status;
    }

    /* The directory is locked before it is searched: no other coordinator writes there. */
    status = set_checkpoint_dir(self, options);
    if (status < 0) {
        return status;
    }

    status = find_checkpoint(self, options, &self->resumed_path);
    if (status < 0) {
        return status;
    }

    if (self->resumed_path) {
        status =
            read_checkpoint(self, self->resumed_path,
                            options->resume_path ? CHECKPOINT_NAMED : CHECKPOINT_FOUND, &resumed);
        if (status < 0) {
            return cadre_fail_within(status, "checkpoint %s", self->resumed_path);
        }
    }

    make_core(self, options, shape.ps, workers_max, &resumed);
    return 0;
}
