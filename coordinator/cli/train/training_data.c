#include "coordinator/cli/train/training_data.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/data_spec.h"
#include "coordinator/cli/terminal/notice.h"

/* Opens a dataset by its description; reports the wait, as a worker has to read the file first. */
static int
open_dataset(const cadre_trainer_options_t *options, const char *name, const json_t *description,
             cadre_dataset_t **dataset)
{
    cadre_auto(cadre_free) char *text = json_dumps(description, JSON_COMPACT);
    const json_t *path = json_object_get(description, "path");
    const json_t *first = json_is_array(path) ? json_array_get(path, 0) : path;
    const int64_t limit_ms = json_is_true(json_object_get(description, "streaming"))
                                 ? CADRE_TRAINER_STREAM_MS
                                 : CADRE_TRAINER_DATA_MS;
    cadre_notice_begin_wait(options->notices, limit_ms, json_string_value(first));
    int status = cadre_dataset_open(options->coordinator, name, text, limit_ms, dataset);
    cadre_notice_end_wait(options->notices);
    return status;
}

/* Opens two datasets of one file: a random part of its rows to test on, which is held out, and the
 * rest to train on. */
static int
open_parts(cadre_training_data_t *self, const cadre_trainer_options_t *options)
{
    json_t *part = json_deep_copy(options->train);
    json_object_set_new(part, "held_out", json_real(options->job->test_fraction));
    json_object_set_new(part, "part", json_string("rest"));
    if (options->job->test_seed > 0) {
        json_object_set_new(part, "split_seed", json_integer(options->job->test_seed));
    }

    int status = open_dataset(options, "train", part, &self->train);
    if (status == 0) {
        json_object_set_new(part, "part", json_string("held_out"));
        status = open_dataset(options, "test", part, &self->test);
    }

    json_decref(part);
    return status;
}

/* Returns whether a test file may lack the last features: it is sparse, its indices are no keys,
 * which have no number, and its description does not say how many there are. */
static bool
may_lack_features(const json_t *description)
{
    cadre_data_format_t format = CADRE_DATA_CSV;
    const char *word = json_string_value(json_object_get(description, "format"));
    return cadre_data_format_find(word, &format) &&
           cadre_data_format_has(format, CADRE_DATA_SPARSE) &&
           !json_object_get(description, "features") &&
           !json_is_true(json_object_get(description, "keys"));
}

/* Opens the test file with the training file's number of features and classes: alone, a sparse file
 * may lack the last features and a small file the last classes. */
static int
open_test(cadre_training_data_t *self, const cadre_trainer_options_t *options,
          const cadre_dataset_info_t *info)
{
    json_t *description = json_deep_copy(options->test);
    if (may_lack_features(description)) {
        json_object_set_new(description, "features", json_integer(info->features));
    }
    if (options->job->label == CADRE_JOB_CLASS && !json_object_get(description, "classes")) {
        json_object_set_new(description, "classes", json_integer(info->classes));
    }

    int status = open_dataset(options, "test", description, &self->test);
    json_decref(description);
    if (status < 0) {
        return status;
    }

    if (cadre_dataset_info(self->test).features != info->features) {
        return cadre_fail(CADRE_EDATA, "rows to train on have %lld features, rows to test on %lld",
                          (long long)info->features,
                          (long long)cadre_dataset_info(self->test).features);
    }

    return 0;
}

/* Returns from how many ranges the batches of a shuffled epoch come in turn; 1: from none. */
static int64_t
ranges_of(const json_t *description)
{
    cadre_auto(cadre_free) char *text = json_dumps(description, JSON_COMPACT);
    cadre_auto(cadre_data_spec_fini) cadre_data_spec_t spec = {0};
    int status = cadre_data_spec_decode(text, strlen(text), &spec);
    return status == 0 && spec.is_streamed ? spec.ranges : 1;
}

/* Opens the rows to train on, and those to test on if the job has any: a part of the same file, or
 * a file of their own. */
int
cadre_training_data_open(cadre_training_data_t *self, const cadre_trainer_options_t *options)
{
    *self = (cadre_training_data_t){.ranges = ranges_of(options->train)};
    int status = options->job->test_fraction > 0
                     ? open_parts(self, options)
                     : open_dataset(options, "train", options->train, &self->train);
    if (status < 0) {
        return status;
    }

    cadre_dataset_info_t info = cadre_dataset_info(self->train);
    if (options->job->label == CADRE_JOB_CLASS && info.classes < 2) {
        return cadre_fail(CADRE_EDATA,
                          "the labels have %lld classes: a classifier needs at least 2",
                          (long long)info.classes);
    }

    return options->test ? open_test(self, options, &info) : 0;
}
