/*
 * fake_cluster - a coordinator and shards, as simple as can be, around a real cadre-worker process.
 *
 * One thread: fake_step waits for messages and answers them. Shard k holds part k of one variable
 * "w", f32 [2 * FAKE_SHARDS], two elements on each; a push is added to it. Tests look at the fields
 * and change what is to go wrong.
 */
#ifndef CADRE_TESTS_WORKER_FAKE_CLUSTER_H
#define CADRE_TESTS_WORKER_FAKE_CLUSTER_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/socket.h"
#include "common/system/clock.h"
#include "common/wire/codec.h"

enum {
    FAKE_SHARDS = 2,
    FAKE_FUNCTIONS_MAX = 16,
    FAKE_UPDATES_MAX = 1 << 16,
    FAKE_SESSION = 4711,
    FAKE_PS = 100, /* incarnation of shard 0's process */
    FAKE_WAIT_MS = 120000,
};

typedef struct {
    cadre_function_kind_t kind;
    const char *name;
    cadre_chunk_t *program;
} fake_function_t;

typedef struct {
    cadre_context_t *context;
    cadre_socket_t *control;
    cadre_socket_t *data[FAKE_SHARDS];
    cadre_frames_t frames;
    pid_t process;
    cadre_routing_id_t worker;
    bool joined;
    bool left;                                     /* GOODBYE has come */
    fake_function_t functions[FAKE_FUNCTIONS_MAX]; /* by id - 1 */
    const char *dataset;                           /* description of dataset 1, or NULL */
    cadre_dataset_ready_message_t dataset_ready;
    char dataset_text[CADRE_TEXT_SIZE_MAX + 1];

    float values[FAKE_SHARDS][2];
    uint64_t versions[FAKE_SHARDS];
    bool applied[FAKE_SHARDS][FAKE_UPDATES_MAX];
    uint64_t duplicates;
    bool keep_secrets;     /* definitions only on WANT */
    unsigned lose_answers; /* that many APPLIED are not sent */
    uint64_t incarnations[FAKE_SHARDS];
    uint64_t generations[FAKE_SHARDS];
    bool away[FAKE_SHARDS];
    uint64_t pushes;   /* that came, repeated ones too */
    bool silent;       /* HELLO and HEARTBEAT are not answered */
    uint64_t hellos;   /* that came */
    uint64_t lease_ms; /* 0: 10 s */

    uint64_t done; /* reports, each attempt's once however often it is repeated */
    uint64_t failed;
    uint8_t reported[FAKE_UPDATES_MAX]; /* attempt of the last one, by closure */
    cadre_message_t last_done;
    uint64_t last_reason;
    uint64_t last_status;
    char last_text[CADRE_TEXT_SIZE_MAX + 1];
} fake_cluster_t;

/* Binds the coordinator and the shards. */
void fake_open(fake_cluster_t *self);

/* Starts the worker with the arguments given, NULL at the end. */
void fake_start(fake_cluster_t *self, const char *const *arguments);

/* Sends the worker a message of the coordinator's. */
void fake_tell(fake_cluster_t *self, cadre_message_t message);

/* Tells the worker where shard `index` is now. */
void fake_tell_shard(fake_cluster_t *self, uint32_t index);

/* Waits `timeout_ms` for messages, and answers those that have come. */
void fake_step(fake_cluster_t *self, int timeout_ms);

/* Steps until the condition holds; fails the test after FAKE_WAIT_MS. */
#define FAKE_UNTIL(cluster, condition)                                                             \
    do {                                                                                           \
        int64_t fake_end_ms = cadre_clock_now_ms() + FAKE_WAIT_MS;                                 \
        while (!(condition)) {                                                                     \
            fake_step(cluster, 100);                                                               \
            cr_assert_lt(cadre_clock_now_ms(), fake_end_ms, "waited too long for " #condition);    \
        }                                                                                          \
    } while (0)

/* A closure without arguments. */
cadre_message_t fake_closure(uint64_t id, uint64_t function);

/* Answers messages until the worker exits; its status, or -signal. */
int fake_wait_exit(fake_cluster_t *self);

/* Sends STOP, and waits for the exit. */
int fake_stop(fake_cluster_t *self);

/* Kills the worker if it still runs, and closes everything. */
void fake_close(fake_cluster_t *self);

#endif
