#include "coordinator/cli/train/word_ids.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/data_column.h"

/* Adds the hashed columns of a CSV file to `words`, by name or number. */
static void
add_columns(json_t *words, const json_t *columns)
{
    for (size_t i = 0; i < json_array_size(columns); i++) {
        cadre_auto(cadre_data_column_fini) cadre_data_column_t column = {0};
        char number[24];
        if (cadre_data_column_read(json_array_get(columns, i), &column) < 0 ||
            column.buckets == 0) {
            continue;
        }
        snprintf(number, sizeof(number), "%" PRId64, column.index);
        json_object_set_new(words, column.name ? column.name : number,
                            json_pack("{s:I, s:I}", "hash", (json_int_t)column.buckets, "hash_seed",
                                      (json_int_t)column.hash_seed));
    }
}

char *
cadre_word_ids_text(const json_t *train)
{
    json_t *columns = json_object();
    json_t *buckets = json_object_get(train, "buckets");
    add_columns(columns, json_object_get(train, "columns"));
    json_t *words = json_object();
    if (json_object_size(columns) > 0) {
        json_object_set(words, "columns", columns);
    }
    if (buckets) {
        json_object_set(words, "buckets", buckets);
    }
    char *text = json_object_size(words) > 0 ? json_dumps(words, JSON_COMPACT) : NULL;
    json_decref(columns);
    json_decref(words);
    return text;
}

/* Fails when both have a number under this key, and not the same; `column` is NULL for what is no
 * column's. */
static int
compare(const char *path, const json_t *before, const json_t *now, const char *key,
        const char *column)
{
    const json_t *was = json_object_get(before, key);
    const json_t *is = json_object_get(now, key);
    if (!json_is_integer(was) || !json_is_integer(is) ||
        json_integer_value(was) == json_integer_value(is)) {
        return 0;
    }
    return cadre_fail(CADRE_ECONFIG,
                      "%s was trained with \"%s\" %lld%s%s%s, and data.train has %lld: its rows "
                      "would be those of other words. Set it back, or begin anew with "
                      "--resume never",
                      path, key, (long long)json_integer_value(was), column ? " of column \"" : "",
                      column ? column : "", column ? "\"" : "", (long long)json_integer_value(is));
}

/* Compares what two records say. */
static int
compare_words(const char *path, const json_t *before, const json_t *now)
{
    const char *name = NULL;
    const json_t *was = NULL;
    json_t *columns = json_object_get(before, "columns");
    int status = compare(path, before, now, "buckets", NULL);
    json_object_foreach(columns, name, was)
    {
        const json_t *is = json_object_get(json_object_get(now, "columns"), name);
        status = status < 0 ? status : compare(path, was, is, "hash", name);
        status = status < 0 ? status : compare(path, was, is, "hash_seed", name);
    }
    return status;
}

int
cadre_word_ids_check(const char *path, const char *progress, const char *words)
{
    json_t *record = progress ? json_loads(progress, 0, NULL) : NULL;
    json_t *now = words ? json_loads(words, 0, NULL) : NULL;
    const int status = compare_words(path, json_object_get(record, "words"), now);
    json_decref(record);
    json_decref(now);
    return status;
}
