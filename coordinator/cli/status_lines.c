#include "coordinator/cli/status_lines.h"

#include <stdbool.h>
#include <string.h>

static const char *
text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "-";
}

static long long
number_at(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Returns how many of the tasks in the status have this role. */
static int
count_role(const json_t *tasks, const char *role)
{
    int count = 0;
    size_t index = 0;
    const json_t *task = NULL;
    json_array_foreach(tasks, index, task)
    {
        count += strcmp(text_at(task, "role"), role) == 0;
    }
    return count;
}

/* Prints one line for a task of the status: the state of a ps is that of its shard; of a worker
 * also what it runs. */
static void
print_task(FILE *file, const json_t *status, const json_t *task)
{
    char name[64];
    bool is_ps = text_at(task, "role")[0] == 'p';
    long long index = number_at(task, "index");
    const json_t *shard = json_array_get(json_object_get(status, "shards"), (size_t)index);
    const json_t *runs = json_object_get(task, "runs");

    snprintf(name, sizeof(name), "%s %lld", text_at(task, "role"), index);
    fprintf(file, "%-12s %-10s %s, process %lld", name,
            is_ps ? text_at(shard, "state") : text_at(task, "state"), text_at(task, "host"),
            number_at(task, "process"));
    if (!is_ps) {
        fprintf(file, ", %lld closures", number_at(task, "in_flight"));
    }
    if (runs) {
        fprintf(file, ", %s for %lld ms", text_at(runs, "function"), number_at(runs, "ms"));
    }

    fprintf(file, "\n");
}

/* Prints one line for a table of the status. */
static void
print_table(FILE *file, const json_t *status, const json_t *table)
{
    fprintf(file,
            "%-12s table      %lld rows of %lld, %lld bytes on %lld of %lld ps, %lld made, %lld "
            "evicted, %lld expired, %lld gradients not admitted\n",
            text_at(table, "name"), number_at(table, "rows"), number_at(table, "width"),
            number_at(table, "size_bytes"), number_at(table, "shards"),
            number_at(status, "ps_expected"), number_at(table, "created"),
            number_at(table, "evicted"), number_at(table, "expired"),
            number_at(table, "unadmitted"));
}

/* Prints how many second attempts at slow closures were begun, where there were any. */
static void
print_backups(FILE *file, const json_t *backups)
{
    if (number_at(backups, "begun") > 0) {
        fprintf(file, "backup attempts: %lld, won: %lld\n", number_at(backups, "begun"),
                number_at(backups, "won"));
    }
}

/* Returns the index of the bucket of a histogram that holds closure `number` of all, the
 * least stale one being number 0. */
static size_t
bucket_of(const json_t *histogram, long long number)
{
    long long seen = 0;
    size_t index = 0;
    const json_t *bucket = NULL;
    json_array_foreach(histogram, index, bucket)
    {
        seen += number_at(bucket, "closures");
        if (seen > number) {
            break;
        }
    }
    return index;
}

/* Prints " at most N" for a bucket of a histogram, " above N" for the last one, which has no bound.
 */
static void
print_bucket(FILE *file, const json_t *histogram, size_t index)
{
    const json_t *bound = json_object_get(json_array_get(histogram, index), "at_most");
    if (json_is_integer(bound)) {
        fprintf(file, " at most %lld", json_integer_value(bound));
        return;
    }
    fprintf(file, " above %lld",
            index > 0 ? number_at(json_array_get(histogram, index - 1), "at_most") : 0);
}

/* Prints how stale the updates of closures were, where any were applied. */
static void
print_staleness(FILE *file, const json_t *status)
{
    const json_t *histogram = json_object_get(status, "staleness");
    long long count = 0;
    size_t index = 0;
    const json_t *bucket = NULL;
    json_array_foreach(histogram, index, bucket)
    {
        count += number_at(bucket, "closures");
    }
    if (count == 0) {
        return;
    }

    fprintf(file, "staleness: mean %.2f versions, median",
            (double)number_at(status, "staleness_sum") / (double)count);
    print_bucket(file, histogram, bucket_of(histogram, (count - 1) / 2));
    fprintf(file, ", maximum");
    print_bucket(file, histogram, bucket_of(histogram, count - 1));
    fprintf(file, ", %lld closures\n", count);
}

void
cadre_status_lines_print(const json_t *status, FILE *file)
{
    const json_t *tasks = json_object_get(status, "tasks");
    const json_t *closures = json_object_get(status, "closures");
    const json_t *checkpoints = json_object_get(status, "checkpoints");
    const json_t *failures = json_object_get(status, "failures");
    size_t index = 0;
    const json_t *task = NULL;
    bool is_unreadable = json_is_true(json_object_get(status, "keys_unreadable"));

    fprintf(file, "job %s: %d of %lld ps, %d workers, strategy %s, transport %s%s\n",
            text_at(status, "job"), count_role(tasks, "ps"), number_at(status, "ps_expected"),
            count_role(tasks, "worker"), text_at(status, "strategy"), text_at(status, "transport"),
            is_unreadable ? ", its allowed keys cannot be read: see its log" : "");
    fprintf(file,
            "closures: %lld finished, %lld in flight, %lld queued, %lld failed, %lld attempts\n",
            number_at(closures, "finished"), number_at(closures, "in_flight"),
            number_at(closures, "queued"), number_at(closures, "failed"),
            number_at(closures, "attempts"));
    print_backups(file, json_object_get(closures, "backup_attempts"));
    print_staleness(file, status);
    fprintf(file, "lost: %lld workers, %lld ps\n", number_at(failures, "worker"),
            number_at(failures, "ps"));
    fprintf(file, "checkpoints: %lld, the last %s\n", number_at(checkpoints, "committed"),
            text_at(checkpoints, "last"));
    json_array_foreach(tasks, index, task)
    {
        print_task(file, status, task);
    }
    json_array_foreach(json_object_get(status, "tables"), index, task)
    {
        print_table(file, status, task);
    }
}
