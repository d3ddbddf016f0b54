/* Messages that never end, sent to a coordinator and a ps of `cadre run`: the connection is ended
 * before they have cost much memory, and the run loses nobody. */
#include <cadre/coordinator.h>
#include <criterion/criterion.h>
#include <glob.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/net/receiving.h"
#include "tests/sanitizer.h"
#include "tests/system/digits.h"
#include "tests/system/local_cluster.h"
#include "tests/system/process.h"
#include "tests/system/stranger.h"

TestSuite(endless, .timeout = 900);

enum {
    EPOCHS = 100000, /* the run ends when the test has seen all */
    PIECE_MAX = (1 << 20) + 9,
    SENT_MAX = 512 << 20,      /* of large frames, in pieces that are sent at once */
    SMALL_MAX = 8 << 20,       /* of small ones, each of which costs twenty times as much */
    GROWTH_MAX_KIB = 64 << 10, /* of the receiver meanwhile, training included */
    WAIT_MS = 120000,
};

/* What a worker that nobody knows says first. */
static const char HELLO[] = STRANGER_GREETING "\4\x42\5READY\x0bSocket-Type\0\0\0\6DEALER"
                                              "\x08Identity\0\0\0\x19worker/7/00000000000000aa";

/* The path of a socket or log of the run under way, once it is there; freed by the caller. */
static char *
wait_file(const digits_t *run, const char *name)
{
    cadre_auto(cadre_free) char *pattern =
        cadre_asprintf("%s/run-*/cadre-*/%s", run->command.scratch.path, name);
    for (deadline_t deadline = deadline_in(WAIT_MS);;) {
        glob_t found;
        if (glob(pattern, 0, NULL, &found) == 0) {
            char *path = cadre_strdup(found.gl_pathv[0]);
            globfree(&found);
            return path;
        }
        cr_assert(again(deadline), "%s is not there", pattern);
    }
}

/* Sends a message without end until the connection is ended; the most memory the process had is
 * near what it had before. */
static void
send_endless(const digits_t *run, const char *name, pid_t pid, bool is_small)
{
    static char piece[PIECE_MAX];
    cadre_auto(cadre_free) char *path = wait_file(run, name);
    size_t total = 0;
    size_t total_max = is_small ? SMALL_MAX : SENT_MAX;
    memset(piece, 0, sizeof(piece));
    if (is_small) {
        for (size_t i = 0; i + 3 <= sizeof(piece); i += 3) {
            memcpy(piece + i, "\1\1x", 3);
        }
    } else {
        memcpy(piece, "\3\0\0\0\0\0\x10\0\0", 9);
    }
    size_t size = is_small ? sizeof(piece) / 3 * 3 : sizeof(piece);
    int64_t before_kib = process_memory_kib(pid, "VmRSS:");
    int fd = stranger_connect(path);
    cr_assert_geq(fd, 0, "%s", path);
    cr_assert(stranger_send(fd, HELLO, sizeof(HELLO) - 1));
    cr_assert(stranger_await_ready(fd));
    while (total < total_max && stranger_send(fd, piece, size)) {
        total += size;
    }
    int64_t grown_kib = process_memory_kib(pid, "VmHWM:") - before_kib;
    cr_expect(total < total_max, "%s took %zu bytes, small %d", name, total, is_small);
    cr_expect(before_kib > 0 && (SANITIZER || grown_kib < GROWTH_MAX_KIB),
              "%s grew by %" PRId64 " KiB, small %d", name, grown_kib, is_small);
    close(fd);
}

Test(endless, messages_are_ended_and_cost_the_run_nothing)
{
    digits_t run;
    digits_open(&run, EPOCHS);
    digits_start(&run);
    digits_wait_said(&run, "epoch=2/");
    pid_t ps = command_task(&run.command, "ps", 0);
    for (int is_small = 0; is_small <= 1; is_small++) {
        send_endless(&run, "coordinator", run.command.pid, is_small);
        send_endless(&run, "ps-0", ps, is_small);
    }
    cadre_auto(cadre_free) char *path = wait_file(&run, "ps-0.log");
    bool is_told = false;
    for (deadline_t deadline = deadline_in(WAIT_MS); !is_told;) {
        cadre_auto(cadre_free) char *log = file_text(path);
        is_told = strstr(log, "connections_refused") != NULL;
        cr_assert(is_told || again(deadline), "%s", log);
    }
    digits_wait_said(&run, "connections_refused");
    command_signal(&run.command, SIGINT);
    digits_expect_end(&run, 128 + SIGINT);
    json_t *result = command_result(&run.command);
    cr_expect_gt(json_number_at(result, "closures.finished"), 2 * DIGITS_CLOSURES);
    cr_expect_leq(json_number_at(result, "closures.attempts"),
                  json_number_at(result, "closures.scheduled"), "none ran twice");
    digits_expect_number(result, "failures.worker", 0);
    digits_expect_number(result, "failures.ps", 0);
    json_decref(result);
    digits_close(&run);
}

/* What a coordinator assigns to a ps is a message of a partition, larger than a stranger's. */
Test(endless, messages_are_not_those_that_are_as_large_as_they_may_be)
{
    enum { ROWS = 4 * CADRE_RECEIVING_STRANGER_MAX / (int)sizeof(float) };
    local_cluster_t cluster;
    local_cluster_options_t options = {.ps = 1, .workers = 1};
    cadre_variable_options_t variable = cadre_variable_options();
    cadre_variable_t *wide = NULL;
    cadre_tensor_t read = {.data = NULL};
    float *values = cadre_calloc(ROWS, sizeof(*values));
    variable.partitioner = CADRE_PARTITION_FIXED;
    variable.count = 1;
    const cadre_tensor_t value = {.dtype = CADRE_F32, .rank = 1, .shape = {ROWS}, .data = values};
    values[ROWS - 1] = 7;
    local_cluster_open(&cluster, &options);
    cr_assert_eq(cadre_variable_create(cluster.coordinator, "wide", CADRE_F32, (int64_t[]){ROWS}, 1,
                                       &variable, &wide),
                 0);
    cr_assert_eq(cadre_variable_assign(wide, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS), 0, "%s",
                 cadre_error_text());
    cr_assert_eq(cadre_variable_read(wide, &read, LOCAL_WAIT_MS), 0, "%s", cadre_error_text());
    cr_expect_eq(((const float *)read.data)[ROWS - 1], 7);
    cadre_tensor_fini(&read);
    free(values);
    local_cluster_close(&cluster);
}
