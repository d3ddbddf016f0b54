/*
 * native_cluster - fake_cluster with a worker that has the native functions of tests/worker/native.
 */
#ifndef CADRE_TESTS_WORKER_NATIVE_CLUSTER_H
#define CADRE_TESTS_WORKER_NATIVE_CLUSTER_H

#include "tests/worker/fake_cluster.h"
#include "tests/worker/native_file.h"

/* The functions' ids. */
enum { ADD_ONE = 1, STEPS, HIDES, FAILS, WAITS, ECHOES, MISTAKES, SLOW, HANGS };

enum { NATIVE_FOLDER_SIZE = 64 };

static inline void
fake_define_native(fake_cluster_t *self, uint64_t id, const char *name)
{
    self->functions[id - 1] = (fake_function_t){.kind = CADRE_FUNCTION_NATIVE, .name = name};
}

/* On an open cluster: starts the worker with `arguments`, NULL at the end, and waits until it is
 * in. */
static inline void
fake_start_natives_on(fake_cluster_t *self, char *folder, const char *const *arguments)
{
    static const char *const names[] = {"test.add_one",  "test.steps", "test.hides",
                                        "test.fails",    "test.waits", "test.echoes",
                                        "test.mistakes", "test.slow",  "test.hangs"};
    native_file_setup(folder, NATIVE_FOLDER_SIZE);
    cadre_auto(cadre_free) char *path = native_file_copy(folder, "a.so");
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        fake_define_native(self, i + 1, names[i]);
    }
    const char *all[16] = {"--native", path};
    for (size_t i = 0; arguments[i]; i++) {
        all[2 + i] = arguments[i];
    }
    fake_start(self, all);
    FAKE_UNTIL(self, self->joined);
}

static inline void
fake_start_natives(fake_cluster_t *self, char *folder, const char *const *arguments)
{
    fake_open(self);
    fake_start_natives_on(self, folder, arguments);
}

/* Ends a worker that has been waited for. */
static inline void
fake_end_natives(fake_cluster_t *self, const char *folder)
{
    fake_close(self);
    native_file_teardown(folder);
}

static inline void
fake_stop_natives(fake_cluster_t *self, const char *folder)
{
    cr_expect_eq(fake_stop(self), 0);
    fake_end_natives(self, folder);
}

static inline void
fake_cancel(fake_cluster_t *self, uint64_t id)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_CANCEL};
    message.cancel.ids = (cadre_u64s_t){&id, 1};
    fake_tell(self, message);
}

#endif
