/*
 * native_file - a copy of the shared object with native functions (tests/worker/native), in a
 * folder of the test's own, so that its rights can be changed.
 */
#ifndef CADRE_TESTS_WORKER_NATIVE_FILE_H
#define CADRE_TESTS_WORKER_NATIVE_FILE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/copy_file.h"

static inline void
native_file_setup(char *folder, size_t size_bytes)
{
    snprintf(folder, size_bytes, "/tmp/cadre-native-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static inline void
native_file_teardown(const char *folder)
{
    static const char *const names[] = {"a.so", "b.so"};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* Its path, freed by the caller. */
static inline char *
native_file_copy(const char *folder, const char *name)
{
    cadre_auto(cadre_free) char *from =
        cadre_asprintf("%s/../tests/test_native.so", getenv("CADRE_BIN_DIR"));
    char *to = cadre_asprintf("%s/%s", folder, name);
    copy_file(from, to);
    return to;
}

#endif
