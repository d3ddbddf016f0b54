/* A status in words. */
#include "coordinator/cli/status_lines.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

TestSuite(status_lines, .timeout = 240);

/* The lines of this status, freed by the caller. */
static char *
lines_of(const char *json)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    json_error_t error;
    json_t *status = json_loads(json, 0, &error);
    cr_assert(file && status, "%s", error.text);
    cadre_status_lines_print(status, file);
    json_decref(status);
    fclose(file);
    return text;
}

Test(status_lines, tell_the_whole_and_each_task_and_table)
{
    cadre_auto(cadre_free) char *text = lines_of(
        "{\"job\": \"digits\", \"ps_expected\": 2, \"strategy\": \"parameter_server\", "
        "\"transport\": \"curve\", \"shards\": [{\"state\": \"ready\"}], \"closures\": "
        "{\"finished\": 90, \"in_flight\": 2, \"queued\": 3, \"failed\": 0, \"attempts\": 94, "
        "\"backup_attempts\": {\"under_way\": 1, \"begun\": 3, \"won\": 2}}, \"staleness\": "
        "[{\"at_most\": 0, \"closures\": 1}, {\"at_most\": 1, \"closures\": 2}, {\"at_most\": 2, "
        "\"closures\": 1}, {\"at_most\": 4, \"closures\": 0}, {\"at_most\": null, \"closures\": "
        "0}], \"staleness_sum\": 4, \"failures\": {\"worker\": 1, \"ps\": 0}, \"checkpoints\": "
        "{\"committed\": 1, \"last\": \"c/ckpt-1\"}, \"tasks\": [{\"role\": \"ps\", \"index\": 0, "
        "\"host\": \"a\", \"process\": 7, \"state\": \"healthy\"}, {\"role\": \"worker\", "
        "\"index\": 0, \"host\": \"b\", \"process\": 8, \"state\": \"suspect\", \"in_flight\": 2, "
        "\"runs\": {\"function\": \"train_step\", \"ms\": 12}}], \"tables\": [{\"name\": \"t\", "
        "\"rows\": 5, \"width\": 3, \"size_bytes\": 60, \"shards\": 1, \"created\": 6, "
        "\"evicted\": "
        "1, \"expired\": 0, \"unadmitted\": 4}]}");
    cr_expect_str_eq(
        text, "job digits: 1 of 2 ps, 1 workers, strategy parameter_server, transport curve\n"
              "closures: 90 finished, 2 in flight, 3 queued, 0 failed, 94 attempts\n"
              "backup attempts: 3, won: 2\n"
              "staleness: mean 1.00 versions, median at most 1, maximum at most 2, 4 closures\n"
              "lost: 1 workers, 0 ps\n"
              "checkpoints: 1, the last c/ckpt-1\n"
              "ps 0         ready      a, process 7\n"
              "worker 0     suspect    b, process 8, 2 closures, train_step for 12 ms\n"
              "t            table      5 rows of 3, 60 bytes on 1 of 2 ps, 6 made, 1 evicted, 0 "
              "expired, 4 gradients not admitted\n");
}

Test(status_lines, leave_out_backup_attempts_and_staleness_of_which_there_are_none)
{
    cadre_auto(cadre_free) char *text =
        lines_of("{\"closures\": {\"backup_attempts\": {\"begun\": 0, \"won\": 0}}, "
                 "\"staleness\": [{\"at_most\": 0, \"closures\": 0}], \"keys_unreadable\": true}");
    cr_expect_str_eq(text, "job -: 0 of 0 ps, 0 workers, strategy -, transport -, its allowed keys "
                           "cannot be read: see its log\n"
                           "closures: 0 finished, 0 in flight, 0 queued, 0 failed, 0 attempts\n"
                           "lost: 0 workers, 0 ps\n"
                           "checkpoints: 0, the last -\n");
}

/* Expects the line of this histogram. */
static void
expect_staleness(const char *histogram, int sum, const char *line)
{
    cadre_auto(cadre_free) char *json =
        cadre_asprintf("{\"staleness\": %s, \"staleness_sum\": %d}", histogram, sum);
    cadre_auto(cadre_free) char *text = lines_of(json);
    cr_expect(strstr(text, line), "%s is not in: %s", line, text);
}

Test(status_lines, give_the_median_and_the_maximum_of_staleness_as_buckets)
{
    expect_staleness("[{\"at_most\": 0, \"closures\": 9}, {\"at_most\": 1, \"closures\": 0}]", 0,
                     "\nstaleness: mean 0.00 versions, median at most 0, maximum at most 0, 9 "
                     "closures\n");
    /* half of an even count is in the bucket before, of an odd one in that of the middle */
    expect_staleness("[{\"at_most\": 0, \"closures\": 2}, {\"at_most\": 8, \"closures\": 2}]", 10,
                     "mean 2.50 versions, median at most 0, maximum at most 8, 4 closures\n");
    expect_staleness("[{\"at_most\": 0, \"closures\": 2}, {\"at_most\": 8, \"closures\": 3}]", 15,
                     "mean 3.00 versions, median at most 8, maximum at most 8, 5 closures\n");
    expect_staleness("[{\"at_most\": 1024, \"closures\": 1}, {\"at_most\": null, \"closures\": 2}]",
                     5000, "median above 1024, maximum above 1024, 3 closures\n");
}
