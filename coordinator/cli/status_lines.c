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
