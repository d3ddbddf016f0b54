#include "coordinator/cli/train/job.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cadre/options.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/device_list.h"
#include "common/spec/device_name.h"
#include "common/spec/strategy_spec.h"
#include "common/spec/wire_dtype.h"
#include "coordinator/cli/train/candidates.h"
#include "coordinator/cli/train/job_local.h"
#include "coordinator/cli/train/suggest.h"

/* The table of settings. A row has the key in a job file, the environment variable, the kind, the
 * least and the most allowed, the choices, the default, and the field of the job that it sets. */
#define INTEGER   CADRE_SETTING_INTEGER
#define NUMBER    CADRE_SETTING_NUMBER
#define SWITCH    CADRE_SETTING_SWITCH
#define TEXT      CADRE_SETTING_TEXT
#define CHOICE    CADRE_SETTING_CHOICE
#define DEVICE    CADRE_SETTING_DEVICE
#define AT(field) offsetof(cadre_job_t, field)

#define CLIP_MAX 1e30 /* well below the largest f32 */

static const cadre_setting_t settings[] = {
    {"name", "CADRE_JOB", TEXT, 1, CADRE_NAME_SIZE_MAX, NULL, NULL, AT(name)},
    {"seed", "CADRE_SEED", INTEGER, 0, 9007199254740992.0, NULL, "0", AT(seed)},
    {"data.dir", "CADRE_DATA", TEXT, 1, 4095, NULL, NULL, AT(data_dir)},
    {"model.type", NULL, CHOICE, 0, 0, CADRE_MODEL_WORDS, "mlp", AT(model)},
    {"model.activation", NULL, CHOICE, 0, 0, CADRE_ACTIVATION_WORDS, "relu", AT(activation)},
    {"model.kernel", NULL, INTEGER, 1, CADRE_LAYER_WINDOW_MAX, NULL, "3", AT(kernel)},
    {"model.width", NULL, INTEGER, 1, CADRE_LAYER_WIDTH_MAX, NULL, "32", AT(width)},
    {"model.heads", NULL, INTEGER, 1, CADRE_LAYER_WINDOW_MAX, NULL, "4", AT(heads)},
    {"model.blocks", NULL, INTEGER, 1, CADRE_JOB_BLOCKS_MAX, NULL, "1", AT(blocks)},
    {"model.ids", NULL, INTEGER, 0, CADRE_LAYER_IDS_MAX, NULL, "0", AT(ids)},
    {"model.keys", NULL, SWITCH, 0, 0, NULL, "false", AT(keys)},
    {"model.factors", NULL, INTEGER, 1, CADRE_LAYER_WIDTH_MAX, NULL, "8", AT(factors)},
    {"model.linear", NULL, SWITCH, 0, 0, NULL, "true", AT(linear)},
    {"model.softmax", NULL, CHOICE, 0, 0, CADRE_SOFTMAX_WORDS, "full", AT(softmax)},
    {"model.dropout", NULL, NUMBER, 0, 0.99, NULL, "0", AT(dropout)},
    {"model.l1", NULL, NUMBER, 0, CADRE_LAYER_PENALTY_MAX, NULL, "0", AT(l1)},
    {"model.l2", NULL, NUMBER, 0, CADRE_LAYER_PENALTY_MAX, NULL, "0", AT(l2)},
    {"model.wire", NULL, CHOICE, 0, 0, CADRE_WIRE_DTYPE_WORDS, "f32", AT(wire)},
    {"optimizer.type", NULL, TEXT, 1, CADRE_NAME_SIZE_MAX, NULL, "sgd", AT(optimizer)},
    {"optimizer.scale_with", NULL, CHOICE, 0, 0, "none|linear|sqrt", "none", AT(scale_with)},
    {"optimizer.base_batch_size", NULL, INTEGER, 0, 1 << 30, NULL, "0", AT(base_batch_size)},
    {"optimizer.clip_value", NULL, NUMBER, 0, CLIP_MAX, NULL, "0", AT(clip_value)},
    {"optimizer.clip_norm", NULL, NUMBER, 0, CLIP_MAX, NULL, "0", AT(clip_norm)},
    {"optimizer.global_clip_norm", NULL, NUMBER, 0, CLIP_MAX, NULL, "0", AT(global_clip_norm)},
    {"optimizer.lazy", NULL, SWITCH, 0, 0, NULL, "false", AT(lazy)},
    {"optimizer.use_ema", NULL, SWITCH, 0, 0, NULL, "false", AT(use_ema)},
    {"optimizer.ema_momentum", NULL, NUMBER, 1e-6, 0.999999, NULL, "0.99", AT(ema_momentum)},
    {"optimizer.ema_overwrite_frequency", NULL, INTEGER, 0, UINT32_MAX, NULL, "0",
     AT(ema_overwrite_frequency)},
    {"training.epochs", "CADRE_EPOCHS", INTEGER, 1, 1000000, NULL, "10", AT(epochs)},
    {"training.batch_size", "CADRE_BATCH_SIZE", INTEGER, 1, 1 << 20, NULL, "32", AT(batch_size)},
    {"training.local_steps", "CADRE_LOCAL_STEPS", INTEGER, 1, CADRE_JOB_LOCAL_STEPS_MAX, NULL, "1",
     AT(local_steps)},
    {"training.history", "CADRE_HISTORY", TEXT, 1, 4095, NULL, NULL, AT(history)},
    {"training.inner.type", NULL, TEXT, 1, CADRE_NAME_SIZE_MAX, NULL, NULL, AT(inner)},
    {"training.shuffle", NULL, SWITCH, 0, 0, NULL, "true", AT(shuffle)},
    {"training.drop_last", NULL, SWITCH, 0, 0, NULL, "false", AT(drop_last)},
    {"training.target_accuracy", NULL, NUMBER, 0, 1, NULL, NULL, AT(target_accuracy)},
    {"training.consistency", "CADRE_CONSISTENCY", CHOICE, 0, 0, "async|bounded|sync", "async",
     AT(consistency)},
    {"training.step_closures", "CADRE_STEP_CLOSURES", INTEGER, 1, CADRE_STEP_CLOSURES_MAX, NULL,
     "1", AT(step_closures)},
    {"training.staleness_bound", "CADRE_STALENESS_BOUND", INTEGER, 0, 1000000, NULL, "0",
     AT(staleness_bound)},
    {"training.delay_compensation", "CADRE_DELAY_COMPENSATION", NUMBER, 0,
     CADRE_DELAY_COMPENSATION_MAX, NULL, "0", AT(delay_compensation)},
    {"training.evaluate_average", NULL, SWITCH, 0, 0, NULL, "false", AT(evaluate_average)},
    {"training.evaluate_every", NULL, INTEGER, 0, 1000000, NULL, "0", AT(evaluate_every)},
    {"training.evaluation_batch_size", NULL, INTEGER, 1, 1 << 20, NULL, "500",
     AT(evaluation_batch_size)},
    {"training.top_k", NULL, INTEGER, 1, 1 << 20, NULL, "5", AT(top_k)},
    {"training.steps_per_epoch", NULL, INTEGER, 0, CADRE_JOB_STEPS_MAX, NULL, "0",
     AT(steps_per_epoch)},
    {"training.stop.steps", "CADRE_STOP_STEPS", INTEGER, 0, CADRE_JOB_STEPS_MAX, NULL, "0",
     AT(stop_steps)},
    {"training.stop.seconds", "CADRE_STOP_SECONDS", NUMBER, 0, CADRE_JOB_SECONDS_MAX, NULL, "0",
     AT(stop_seconds)},
    {"training.stop.metric", NULL, CHOICE, 0, 0, CADRE_METRIC_WORDS, "test_loss", AT(stop_metric)},
    {"training.stop.at_least", NULL, NUMBER, -1e30, 1e30, NULL, NULL, AT(stop_at_least)},
    {"training.stop.at_most", NULL, NUMBER, -1e30, 1e30, NULL, NULL, AT(stop_at_most)},
    {"training.stop.patience", NULL, INTEGER, 0, 1000000, NULL, "0", AT(stop_patience)},
    {"training.stop.min_delta", NULL, NUMBER, 0, 1e30, NULL, "0", AT(stop_min_delta)},
    {"training.plateau.metric", NULL, CHOICE, 0, 0, CADRE_METRIC_WORDS, "test_loss",
     AT(plateau_metric)},
    {"training.plateau.patience", NULL, INTEGER, 0, 1000000, NULL, "0", AT(plateau_patience)},
    {"training.plateau.min_delta", NULL, NUMBER, 0, 1e30, NULL, "0.0001", AT(plateau_min_delta)},
    {"training.plateau.factor", NULL, NUMBER, 1e-6, 0.999999, NULL, "0.1", AT(plateau_factor)},
    {"training.plateau.min_rate", NULL, NUMBER, 0, 1e10, NULL, "0", AT(plateau_min_rate)},
    {"strategy.type", "CADRE_STRATEGY", CHOICE, 0, 0, CADRE_STRATEGY_WORDS, "parameter_server",
     AT(strategy)},
    {"cluster.tasks", "CADRE_TASKS", CHOICE, 0, 0, "auto|threads|processes", "auto", AT(tasks)},
    {"cluster.ps", "CADRE_PS", INTEGER, 1, CADRE_SHARDS_MAX, NULL, "1", AT(ps)},
    {"cluster.workers", "CADRE_WORKERS", INTEGER, 1, CADRE_TASKS_MAX - CADRE_SHARDS_MAX, NULL, "2",
     AT(workers)},
    {"cluster.slots", "CADRE_SLOTS", INTEGER, 1, CADRE_SLOTS_MAX, NULL, "2", AT(slots)},
    {"cluster.threads", "CADRE_THREADS", INTEGER, 0, CADRE_THREADS_MAX, NULL, "0", AT(threads)},
    {"cluster.row_cache", "CADRE_ROW_CACHE", INTEGER, 0, CADRE_ROW_CACHE_MIB_MAX, NULL, "64",
     AT(row_cache)},
    {"cluster.ps_lanes", "CADRE_PS_LANES", INTEGER, 0, CADRE_LANES_MAX, NULL, "0", AT(ps_lanes)},
    {"cluster.device", "CADRE_DEVICE", DEVICE, 1, CADRE_JOB_DEVICES_SIZE_MAX, NULL, "auto",
     AT(device)},
    {"cluster.math", "CADRE_MATH", CHOICE, 0, 0, CADRE_MATH_WORDS, "f32", AT(math)},
    {"cluster.trace", "CADRE_TRACE", TEXT, 1, 4095, NULL, NULL, AT(trace)},
    {"cluster.partitioner", NULL, CHOICE, 0, 0, "fixed|min_bytes|max_bytes", "min_bytes",
     AT(partitioner)},
    {"cluster.partitions", NULL, INTEGER, 0, CADRE_PARTITIONS_PER_VARIABLE_MAX, NULL, "0",
     AT(partitions)},
    {"cluster.partition_bytes", NULL, INTEGER, 1, 9007199254740992.0, NULL, "262144",
     AT(partition_bytes)},
    {"cluster.placement", NULL, CHOICE, 0, 0, "bytes|round_robin", "bytes", AT(placement)},
    {"cluster.max_restarts", "CADRE_MAX_RESTARTS", INTEGER, CADRE_JOB_RESTARTS_UNLIMITED, 1000000,
     NULL, "10", AT(max_restarts)},
    {"cluster.recovery", "CADRE_RECOVERY", CHOICE, 0, 0, "replay|rollback|relaxed", "replay",
     AT(recovery)},
    {"cluster.ps_timeout_s", "CADRE_PS_TIMEOUT_S", NUMBER, 0.1, 86400, NULL, "60",
     AT(ps_timeout_s)},
    {"cluster.closure_deadline_s", "CADRE_CLOSURE_DEADLINE_S", NUMBER, 0, 86400, NULL, "0",
     AT(closure_deadline_s)},
    {"cluster.backup_attempts", "CADRE_BACKUP_ATTEMPTS", INTEGER, 0, CADRE_BACKUP_ATTEMPTS_MAX,
     NULL, "0", AT(backup_attempts)},
    {"cluster.client_closures", "CADRE_CLIENT_CLOSURES", SWITCH, 0, 0, NULL, "false",
     AT(client_closures)},
    {"cluster.shard_timeout_s", "CADRE_SHARD_TIMEOUT_S", INTEGER, 0, CADRE_SHARD_TIMEOUT_S_MAX,
     NULL, "30", AT(shard_timeout_s)},
    {"cluster.wait_s", "CADRE_WAIT_S", NUMBER, 0.1, 86400, NULL, "60", AT(wait_s)},
    {"checkpoint.dir", "CADRE_CHECKPOINT_DIR", TEXT, 1, 4095, NULL, NULL, AT(checkpoint_dir)},
    {"checkpoint.every_s", "CADRE_CHECKPOINT_EVERY_S", NUMBER, 0, 86400, NULL, "60",
     AT(checkpoint_every_s)},
    {"checkpoint.every_steps", "CADRE_CHECKPOINT_EVERY_STEPS", INTEGER, 0, CADRE_JOB_STEPS_MAX,
     NULL, "0", AT(checkpoint_every_steps)},
    {"checkpoint.every_epochs", "CADRE_CHECKPOINT_EVERY_EPOCHS", INTEGER, 0, 1000000, NULL, "0",
     AT(checkpoint_every_epochs)},
    {"checkpoint.full_every", NULL, INTEGER, 1, CADRE_CHECKPOINT_FULL_EVERY_MAX, NULL, "8",
     AT(checkpoint_full_every)},
    {"checkpoint.keep", NULL, INTEGER, 2, 10000, NULL, "3", AT(checkpoint_keep)},
    {"checkpoint.keep_best", NULL, CHOICE, 0, 0, CADRE_METRIC_WORDS_OR_NONE, "none",
     AT(checkpoint_keep_best)},
    {"checkpoint.resume", "CADRE_RESUME", TEXT, 1, 4095, NULL, "never", AT(resume)},
};

_Static_assert(CADRE_COUNT_OF(settings) <= CADRE_JOB_SETTINGS_MAX, "origins has a place for each");

const cadre_setting_t *
cadre_job_settings(size_t *count)
{
    *count = CADRE_COUNT_OF(settings);
    return settings;
}

static void *
field(const cadre_job_t *self, const cadre_setting_t *setting)
{
    return (char *)self + setting->offset;
}

/* Writes word number `position` of a list of choices, "relu|tanh", into `text`; "?" when there are
 * not so many words. */
const char *
cadre_choice_text(const char *choices, int64_t position, char *text, size_t size_bytes)
{
    for (; position > 0 && choices; position--) {
        choices = strchr(choices, '|');
        choices = choices ? choices + 1 : NULL;
    }
    choices = choices ? choices : "?";
    snprintf(text, size_bytes, "%.*s", (int)strcspn(choices, "|"), choices);
    return text;
}

/* Returns the word for where a setting's value is from. */
const char *
cadre_origin_text(cadre_origin_t origin)
{
    switch (origin) {
    case CADRE_ORIGIN_DEFAULT:
        return "default";
    case CADRE_ORIGIN_STRATEGY:
        return "strategy";
    case CADRE_ORIGIN_CONSISTENCY:
        return "consistency";
    case CADRE_ORIGIN_FILE:
        return "file";
    case CADRE_ORIGIN_ENVIRONMENT:
        return "environment";
    case CADRE_ORIGIN_FLAG:
        return "flag";
    }

    return "?";
}

/* --- setting one value, with the same checks for flag, environment and file --- */

/* Returns whether the setting is a time, which is counted in milliseconds. */
static bool
is_time(const cadre_setting_t *setting)
{
    const size_t length = strlen(setting->name);
    return strcmp(setting->name, "training.stop.seconds") == 0 ||
           (length > 2 && strcmp(setting->name + length - 2, "_s") == 0);
}

static int
set_number(cadre_job_t *self, const cadre_setting_t *setting, double value)
{
    if (!(value >= setting->low && value <= setting->high)) {
        return cadre_fail(CADRE_EINVALID, "%.15g is not in %.15g to %.15g", value, setting->low,
                          setting->high);
    }
    if (is_time(setting) && value > 0 && value < CADRE_JOB_SECONDS_MIN) {
        return cadre_fail(CADRE_EINVALID,
                          "%.15g s is shorter than %g s, the least time that is counted "
                          "(CADRE_JOB_SECONDS_MIN); 0 is none",
                          value, CADRE_JOB_SECONDS_MIN);
    }
    *(double *)field(self, setting) = value;
    return 0;
}

/* Sets an integer setting, after checking its range. */
static int
set_integer(cadre_job_t *self, const cadre_setting_t *setting, int64_t value)
{
    if (!((double)value >= setting->low && (double)value <= setting->high)) {
        return cadre_fail(CADRE_EINVALID, "%lld is not in %.17g to %.17g", (long long)value,
                          setting->low, setting->high);
    }
    *(int64_t *)field(self, setting) = value;
    return 0;
}

/* Sets a text; `low` and `high` of the setting bound its length in characters. */
static int
set_text(cadre_job_t *self, const cadre_setting_t *setting, const char *value)
{
    size_t length = strlen(value);
    if ((double)length < setting->low) {
        return cadre_fail(CADRE_EINVALID, "the text is empty");
    }

    if ((double)length > setting->high) {
        return cadre_fail(CADRE_EINVALID, "the text has %zu characters, over %.0f", length,
                          setting->high);
    }

    if (setting->kind == CADRE_SETTING_DEVICE && cadre_device_list_check(value) < 0) {
        return CADRE_EINVALID;
    }

    char **place = field(self, setting);
    free(*place);
    *place = cadre_strdup(value);
    return 0;
}

/* Sets a setting to the position of the word `value` among its choices. Where no choice is that
 * word, fails with the choices and the nearest one. */
static int
set_choice(cadre_job_t *self, const cadre_setting_t *setting, const char *value)
{
    char words[16][32];
    const char *list[CADRE_COUNT_OF(words)];
    size_t count = 0;
    for (const char *c = setting->choices; c; count++) {
        cadre_assert(count < CADRE_COUNT_OF(words));
        list[count] = cadre_choice_text(c, 0, words[count], sizeof(words[0]));
        if (strcmp(value, words[count]) == 0) {
            *(int64_t *)field(self, setting) = (int64_t)count;
            return 0;
        }
        c = strchr(c, '|');
        c = c ? c + 1 : NULL;
    }

    cadre_auto(cadre_free) char *hint = cadre_suggest_text(value, list, count);
    return cadre_fail(CADRE_EINVALID, "\"%.64s\" is none of %s%s", value, setting->choices, hint);
}

/* Sets an integer setting from text. Only a setting whose range begins below 0, the restarts, may
 * be "unlimited". */
static int
parse_integer(cadre_job_t *self, const cadre_setting_t *setting, const char *text)
{
    if (setting->low < 0 && strcmp(text, "unlimited") == 0) {
        return set_integer(self, setting, CADRE_JOB_RESTARTS_UNLIMITED);
    }

    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno) {
        return cadre_fail(CADRE_EINVALID, "\"%.64s\" is not a whole number", text);
    }

    return set_integer(self, setting, value);
}

/* Sets a setting of any kind from the text of a flag. */
static int
set_any(cadre_job_t *self, const cadre_setting_t *setting, const char *text)
{
    char *end;
    switch (setting->kind) {
    case CADRE_SETTING_INTEGER:
        return parse_integer(self, setting, text);
    case CADRE_SETTING_NUMBER: {
        double value = strtod(text, &end);
        if (end == text || *end || !isfinite(value)) {
            return cadre_fail(CADRE_EINVALID, "\"%.64s\" is not a number", text);
        }
        return set_number(self, setting, value);
    }
    case CADRE_SETTING_SWITCH:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
            return cadre_fail(CADRE_EINVALID, "\"%.64s\" is neither true nor false", text);
        }
        *(bool *)field(self, setting) = text[0] == 't';
        return 0;
    case CADRE_SETTING_TEXT:
    case CADRE_SETTING_DEVICE:
        return set_text(self, setting, text);
    case CADRE_SETTING_CHOICE:
        return set_choice(self, setting, text);
    }

    return CADRE_EINVALID;
}

/* Sets the setting `name` from text, and notes where the value is from. `from` names the place of
 * the text in messages, such as "--epochs". */
int
cadre_job_set(cadre_job_t *self, const char *name, const char *text, cadre_origin_t origin,
              const char *from)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(settings); i++) {
        if (strcmp(settings[i].name, name) == 0) {
            int status = set_any(self, &settings[i], text);
            if (status < 0) {
                return cadre_fail_within(status, "%s", from);
            }
            self->origins[i] = origin;
            return 0;
        }
    }

    return cadre_fail(CADRE_EINVALID, "%s: there is no setting %s", from, name);
}

/* Fails because a JSON value is of another type than `wanted`, as messages name it. */
static int
fail_type(const char *wanted, const json_t *value)
{
    static const char *const found[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array",
        [JSON_STRING] = "a string",  [JSON_INTEGER] = "a whole number",
        [JSON_REAL] = "a number",    [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };
    return cadre_fail(CADRE_EINVALID, "must be %s, not %s", wanted, found[json_typeof(value)]);
}

/* Sets the devices of workers from an array of names: as one text with commas between them. */
static int
set_devices(cadre_job_t *self, const cadre_setting_t *setting, const json_t *array)
{
    size_t index;
    const json_t *item;
    cadre_auto(cadre_free) char *list = cadre_strdup("");
    json_array_foreach(array, index, item)
    {
        int device = 0;
        if (!json_is_string(item)) {
            return fail_type("a string, or an array of strings", item);
        }
        if (cadre_device_name_parse(json_string_value(item), &device) < 0) {
            return CADRE_EINVALID; /* a comma in a name would be taken for two */
        }
        char *longer =
            cadre_asprintf("%s%s%s", list, index > 0 ? "," : "", json_string_value(item));
        free(list);
        list = longer;
    }
    return set_text(self, setting, list);
}

/* Sets a setting of any kind from a JSON value. An integer whose range begins
 * below 0 may also be the string "unlimited". */
static int
set_any_json(cadre_job_t *self, const cadre_setting_t *setting, const json_t *value)
{
    switch (setting->kind) {
    case CADRE_SETTING_INTEGER:
        if (setting->low < 0 && json_is_string(value)) {
            return parse_integer(self, setting, json_string_value(value));
        }
        return json_is_integer(value) ? set_integer(self, setting, json_integer_value(value))
                                      : fail_type("a whole number", value);
    case CADRE_SETTING_NUMBER:
        return json_is_number(value) ? set_number(self, setting, json_number_value(value))
                                     : fail_type("a number", value);
    case CADRE_SETTING_SWITCH:
        if (!json_is_boolean(value)) {
            return fail_type("true or false", value);
        }
        *(bool *)field(self, setting) = json_is_true(value);
        return 0;
    case CADRE_SETTING_DEVICE:
        if (json_is_array(value)) {
            return set_devices(self, setting, value);
        }
        return json_is_string(value) ? set_text(self, setting, json_string_value(value))
                                     : fail_type("a string, or an array of strings", value);
    case CADRE_SETTING_TEXT:
    case CADRE_SETTING_CHOICE:
        return json_is_string(value) ? set_any(self, setting, json_string_value(value))
                                     : fail_type("a string", value);
    }

    return CADRE_EINVALID;
}

int
cadre_job_set_json(cadre_job_t *self, const cadre_setting_t *setting, const json_t *value)
{
    int status = set_any_json(self, setting, value);
    if (status < 0) {
        return status;
    }
    self->origins[setting - settings] = CADRE_ORIGIN_FILE;
    return 0;
}

/* Sets every setting whose environment variable is set; an empty variable counts as not set. */
int
cadre_job_set_environment(cadre_job_t *self)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(settings); i++) {
        const char *variable = settings[i].environment;
        const char *text = variable ? getenv(variable) : NULL;
        if (text && *text) {
            int status =
                cadre_job_set(self, settings[i].name, text, CADRE_ORIGIN_ENVIRONMENT, variable);
            if (status < 0) {
                return status;
            }
        }
    }

    return 0;
}

/* --- a job: defaults, final checks, places --- */

/* Fills in a job with every setting at its default. */
void
cadre_job_init(cadre_job_t *self)
{
    *self = (cadre_job_t){0};
    for (size_t i = 0; i < CADRE_COUNT_OF(settings); i++) {
        if (settings[i].initial) {
            set_any(self, &settings[i], settings[i].initial);
        }
    }
    self->optimizer_parameters = json_object();
}

/* Frees what the job holds; a zeroed struct holds nothing. */
void
cadre_job_fini(cadre_job_t *self)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(settings); i++) {
        if (settings[i].kind == CADRE_SETTING_TEXT || settings[i].kind == CADRE_SETTING_DEVICE) {
            cadre_free(field(self, &settings[i]));
        }
    }

    free(self->file);
    free(self->folder);
    free(self->overruled);
    json_decref(self->train);
    json_decref(self->test);
    json_decref(self->layer_list);
    json_decref(self->lookup_table);
    json_decref(self->optimizer_parameters);
    *self = (cadre_job_t){0};
}

/* Checks the job's name by the rule for all names in Cadre; it also names a folder, so '/' is
 * refused. */
static int
check_name(const char *name)
{
    static const char rest[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (!name || !*name || strchr("._-", *name) || name[strspn(name, rest)]) {
        return cadre_fail(CADRE_ECONFIG,
                          "the job's name \"%.64s\" must be letters, digits, '.', '_' and '-', "
                          "beginning with a letter or digit",
                          name ? name : "");
    }
    return 0;
}

/* Returns where the value of a setting, which must exist, is from. */
static cadre_origin_t
origin_of(const cadre_job_t *self, const char *name)
{
    size_t i = 0;
    while (strcmp(settings[i].name, name) != 0) {
        i++;
    }
    return self->origins[i];
}

/* Returns whether a setting was given, by file, environment or flag. */
static bool
is_given(const cadre_job_t *self, const char *name)
{
    return origin_of(self, name) != CADRE_ORIGIN_DEFAULT;
}

/* Checks that evaluations compute the metric that setting `name` refers to, and that there are
 * evaluations while training goes on. */
static int
check_watched(const cadre_job_t *self, const char *name, cadre_metric_t metric)
{
    if (!self->test && self->test_fraction == 0) {
        return cadre_fail(CADRE_ECONFIG, "%s: %s needs held-out rows: data.test", self->file, name);
    }
    if (self->evaluate_every == 0) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: %s looks at evaluations on the way: say after how many epochs "
                          "each, as \"evaluate_every\": 1 in training",
                          self->file, name);
    }
    if (metric == CADRE_METRIC_ACCURACY && self->label == CADRE_JOB_VALUE) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: %s: test_accuracy needs classes, but label_kind is \"value\"",
                          self->file, name);
    }
    if (cadre_metric_is_extra(metric) && !self->metrics[metric]) {
        return cadre_fail(CADRE_ECONFIG, "%s: %s: name \"%s\" in training.metrics too", self->file,
                          name, cadre_metric_word(metric));
    }
    return 0;
}

/* Sets the target from at_least (for a metric of which higher is better) or at_most (for others);
 * refuses the other of the two. */
static int
take_target(cadre_job_t *self)
{
    cadre_stop_conditions_t *stop = &self->stop;
    bool higher = cadre_metric_is_higher_better(stop->metric);
    bool has_least = is_given(self, "training.stop.at_least");
    bool has_most = is_given(self, "training.stop.at_most");
    if ((has_least && !higher) || (has_most && higher)) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: training.stop.%s: of %s %s values are better: \"%s\" is meant",
                          self->file, has_least && !higher ? "at_least" : "at_most",
                          cadre_metric_text(stop->metric), higher ? "higher" : "lower",
                          higher ? "at_least" : "at_most");
    }

    stop->has_target = has_least || has_most;
    stop->target = has_least ? self->stop_at_least : self->stop_at_most;
    return 0;
}

/* Sets the conditions from the settings of training.stop. */
static int
take_stop(cadre_job_t *self)
{
    self->stop = (cadre_stop_conditions_t){.metric = (cadre_metric_t)self->stop_metric,
                                           .patience = self->stop_patience,
                                           .min_delta = self->stop_min_delta};
    int status = take_target(self);
    if (status < 0) {
        return status;
    }

    if (self->stop_min_delta > 0 && self->stop_patience == 0) {
        return cadre_fail(CADRE_ECONFIG, "%s: training.stop.min_delta goes with patience",
                          self->file);
    }

    if (!self->stop.has_target && self->stop_patience == 0) {
        return is_given(self, "training.stop.metric")
                   ? cadre_fail(CADRE_ECONFIG,
                                "%s: training.stop.metric: say when it stops training: "
                                "\"at_least\", \"at_most\" or \"patience\"",
                                self->file)
                   : 0;
    }

    return check_watched(self, "training.stop", self->stop.metric);
}

/* Refuses the setting `name`, which says when checkpoints are taken, where none are. A "none" that
 * counts more, as that of a flag, overrules it. */
static int
check_checkpoint_every(const cadre_job_t *self, const char *name, const char *flag, int64_t every)
{
    if (every == 0 || cadre_job_checkpoints(self) ||
        origin_of(self, name) < origin_of(self, "checkpoint.dir")) {
        return 0;
    }
    cadre_auto(cadre_free) char *place = cadre_job_place(self, name, flag);
    return cadre_fail(CADRE_ECONFIG, "%s needs checkpoints, but checkpoint.dir is \"none\"", place);
}

/* Checks that checkpoints are taken where the job says when. */
static int
check_checkpoints(const cadre_job_t *self)
{
    int status = check_checkpoint_every(self, "checkpoint.every_steps", "checkpoint-every-steps",
                                        self->checkpoint_every_steps);
    return status < 0
               ? status
               : check_checkpoint_every(self, "checkpoint.every_epochs", "checkpoint-every-epochs",
                                        self->checkpoint_every_epochs);
}

/* Checks, if the best checkpoint is to be kept, that checkpoints are taken and evaluations compute
 * its metric. */
static int
check_keep_best(const cadre_job_t *self)
{
    if (self->checkpoint_keep_best == 0) {
        return 0;
    }
    if (!cadre_job_checkpoints(self)) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: checkpoint.keep_best needs checkpoints, but checkpoint.dir is "
                          "\"none\"",
                          self->file);
    }
    return check_watched(self, "checkpoint.keep_best",
                         (cadre_metric_t)(self->checkpoint_keep_best - 1));
}

/* Sets which metrics evaluations find: loss, accuracy where labels are classes, and those that
 * training.metrics names. */
void
cadre_job_metrics(const cadre_job_t *self, bool found[CADRE_METRICS])
{
    const bool evaluates = self->test || self->test_fraction > 0;
    for (cadre_metric_t i = 0; i < CADRE_METRICS; i++) {
        found[i] = evaluates && cadre_metric_is_extra(i) && self->metrics[i];
    }
    found[CADRE_METRIC_LOSS] = evaluates;
    found[CADRE_METRIC_ACCURACY] = evaluates && self->label != CADRE_JOB_VALUE;
}

cadre_plateau_conditions_t
cadre_job_plateau(const cadre_job_t *self)
{
    return (cadre_plateau_conditions_t){.metric = (cadre_metric_t)self->plateau_metric,
                                        .patience = self->plateau_patience,
                                        .min_delta = self->plateau_min_delta,
                                        .factor = self->plateau_factor,
                                        .min_rate = self->plateau_min_rate};
}

/* Checks, if the learning rate is to be lowered, that it is a constant one of an optimizer on the
 * ps, and that evaluations compute the metric. */
static int
check_plateau(const cadre_job_t *self)
{
    if (self->plateau_patience == 0) {
        return is_given(self, "training.plateau.factor") ||
                       is_given(self, "training.plateau.metric") ||
                       is_given(self, "training.plateau.min_delta") ||
                       is_given(self, "training.plateau.min_rate")
                   ? cadre_fail(CADRE_ECONFIG,
                                "%s: training.plateau: say after how many evaluations without an "
                                "improvement, as \"patience\": 5",
                                self->file)
                   : 0;
    }

    if (self->optimizer_spec.schedule.kind != 0) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: training.plateau lowers a learning rate that is constant otherwise: "
                          "optimizer.learning_rate must be a number",
                          self->file);
    }

    if (cadre_job_is_local(self) && !self->inner) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: training.plateau lowers the learning rate on the ps, but closures "
                          "run the optimizer: name the one that they run as training.inner, and "
                          "\"optimizer\" is that on the ps",
                          self->file);
    }

    return check_watched(self, "training.plateau", (cadre_metric_t)self->plateau_metric);
}

bool
cadre_job_counts_confusion(const cadre_job_t *self)
{
    return self->confusion_matrix || self->metrics[CADRE_METRIC_PRECISION] ||
           self->metrics[CADRE_METRIC_RECALL] || self->metrics[CADRE_METRIC_F1];
}

bool
cadre_job_counts_scores(const cadre_job_t *self)
{
    return self->metrics[CADRE_METRIC_AUC] || self->metrics[CADRE_METRIC_CALIBRATION_ERROR];
}

bool
cadre_job_watches(const cadre_job_t *self)
{
    return self->stop.has_target || self->stop.patience > 0 || self->checkpoint_keep_best > 0 ||
           self->plateau_patience > 0;
}

/* Refuses delay compensation where nothing that is pushed is a late gradient. */
static int
check_delay_compensation(const cadre_job_t *self)
{
    if (self->delay_compensation == 0) {
        return 0;
    }
    if ((cadre_consistency_t)self->consistency == CADRE_SYNC) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: training.delay_compensation is for consistency async and bounded: "
                          "with sync no gradient is late",
                          self->file);
    }
    if (cadre_job_is_local(self)) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: training.delay_compensation does not go with local steps: what "
                          "closures push is no gradient",
                          self->file);
    }
    if (self->lazy) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: training.delay_compensation does not go with optimizer.lazy: it "
                          "takes gradients of all rows",
                          self->file);
    }
    if (self->optimizer_spec.kind == CADRE_OPTIMIZER_ADD) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: training.delay_compensation is for gradients: the optimizer add "
                          "takes what is pushed as it is",
                          self->file);
    }
    return 0;
}

/* Returns whether the layer, or the model over items that this is, has penalties of its own. Those
 * of the model are of its other layers' weights, too. */
static bool
has_penalty(const cadre_job_t *self, const cadre_layer_t *layer)
{
    const bool is_model = layer == &self->lookup;
    return layer->l1 > 0 || layer->l2 > 0 || (is_model && (self->l1 > 0 || self->l2 > 0));
}

/* Refuses settings that need all rows of a variable, of a job in which `layer`, called `name`, has
 * a table. */
static int
check_table(const cadre_job_t *self, const cadre_layer_t *layer, const char *name)
{
    const char *why = NULL;
    if (!layer->table.is_table) {
        return 0;
    }
    if (self->use_ema) {
        why = "optimizer.use_ema: a table keeps no averages";
    } else if (self->delay_compensation > 0) {
        why = "training.delay_compensation: a table does not keep what was pulled";
    } else if (has_penalty(self, layer)) {
        why =
            "l1 and l2, which are of all rows and leave tables out: those of optimizer ftrl are of "
            "the rows that it moves, and so is the table's group_lasso";
    } else if (cadre_job_is_local(self) && layer->table.has_optimizer) {
        why = "an optimizer of its own and local steps: closures run one for all variables";
    } else if (cadre_job_is_local(self) && cadre_job_inner(self).kind == CADRE_OPTIMIZER_ADAMW) {
        why = "local steps of adamw, whose weight decay moves all rows: take adam";
    }
    if (why) {
        return cadre_fail(CADRE_ECONFIG, "%s: %s.table does not go with %s", self->file, name, why);
    }
    /* Of a linear model a row has a number for each class, which only the data say. */
    const int64_t units = cadre_max_i64(1, layer->units);
    const cadre_optimizer_spec_t optimizer =
        cadre_job_is_local(self) ? cadre_job_outer(self) : self->optimizer_spec;
    return cadre_layer_table_check(&layer->table, units, &optimizer) < 0
               ? cadre_fail_within(CADRE_ECONFIG, "%s: %s.table", self->file, name)
               : 0;
}

/* Checks the tables of all layers, and that of a model over items. */
static int
check_tables(const cadre_job_t *self)
{
    int status = check_table(self, &self->lookup, "model");
    for (size_t i = 0; i < self->layer_count && status == 0; i++) {
        char name[32];
        snprintf(name, sizeof(name), "model.layers[%zu]", i);
        status = check_table(self, &self->layers[i], name);
    }
    return status;
}

/* Fills in what follows from other settings, and checks that the settings go together. */
int
cadre_job_finish(cadre_job_t *self)
{
    int status = check_name(self->name);
    if (status < 0) {
        return status;
    }
    if (!self->checkpoint_dir) {
        self->checkpoint_dir = cadre_asprintf("cadre-checkpoints/%s", self->name);
    }

    status = cadre_job_local_check(self);
    if (status < 0) {
        return status;
    }

    status = check_delay_compensation(self);
    if (status < 0) {
        return status;
    }

    status = check_tables(self);
    if (status < 0) {
        return status;
    }

    status = take_stop(self);
    if (status < 0) {
        return status;
    }

    status = check_checkpoints(self);
    if (status < 0) {
        return status;
    }

    status = check_keep_best(self);
    if (status < 0) {
        return status;
    }

    status = check_plateau(self);
    if (status < 0) {
        return status;
    }

    if (self->evaluate_average && !self->use_ema) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: training.evaluate_average needs averages: optimizer.use_ema",
                          self->file);
    }

    if (self->target_accuracy > 0 && !self->test && self->test_fraction == 0) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: training.target_accuracy needs held-out rows: data.test",
                          self->file);
    }

    if (self->target_accuracy > 0 && self->label == CADRE_JOB_VALUE) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: training.target_accuracy needs classes, but label_kind is \"value\"",
                          self->file);
    }

    return 0;
}

const char *
cadre_job_checkpoints(const cadre_job_t *self)
{
    bool none = !self->checkpoint_dir || strcmp(self->checkpoint_dir, "none") == 0;
    return none ? NULL : self->checkpoint_dir;
}

int
cadre_job_check_checkpoints(const cadre_job_t *self)
{
    struct stat about;
    const char *folder = cadre_job_checkpoints(self);
    if (!folder || stat(folder, &about) < 0 || S_ISDIR(about.st_mode)) {
        return 0;
    }
    cadre_auto(cadre_free) char *place = cadre_job_place(self, "checkpoint.dir", "checkpoint-dir");
    return cadre_fail(CADRE_EIO, "%s: %s is no folder", place, folder);
}

/* Returns where the value of a setting is from, for messages; the name of the setting alone if the
 * user wrote it nowhere: it is a default, or follows from other settings. The setting must exist.
 * Freed by the caller. */
char *
cadre_job_place(const cadre_job_t *self, const char *name, const char *flag)
{
    size_t i = 0;
    while (strcmp(settings[i].name, name) != 0) {
        i++;
    }

    switch (self->origins[i]) {
    case CADRE_ORIGIN_FLAG:
        return cadre_asprintf("--%s", flag);
    case CADRE_ORIGIN_ENVIRONMENT:
        return cadre_strdup(settings[i].environment);
    case CADRE_ORIGIN_FILE:
        return cadre_asprintf("%s: %s", self->file, name);
    case CADRE_ORIGIN_DEFAULT:
    case CADRE_ORIGIN_STRATEGY:
    case CADRE_ORIGIN_CONSISTENCY:
        break;
    }

    return cadre_strdup(name);
}

/* Returns the value of a setting as text, "" where it has none. */
char *
cadre_job_text(const cadre_job_t *self, const cadre_setting_t *setting)
{
    const void *place = field(self, setting);
    char word[32];

    if (!setting->initial && self->origins[setting - settings] == CADRE_ORIGIN_DEFAULT &&
        setting->kind == CADRE_SETTING_NUMBER) {
        return cadre_strdup("");
    }

    switch (setting->kind) {
    case CADRE_SETTING_INTEGER:
        return cadre_asprintf("%lld", (long long)*(const int64_t *)place);
    case CADRE_SETTING_NUMBER:
        return cadre_asprintf("%.15g", *(const double *)place);
    case CADRE_SETTING_SWITCH:
        return cadre_strdup(*(const bool *)place ? "true" : "false");
    case CADRE_SETTING_TEXT:
    case CADRE_SETTING_DEVICE:
        return cadre_strdup(*(char *const *)place ? *(char *const *)place : "");
    case CADRE_SETTING_CHOICE:
        return cadre_strdup(
            cadre_choice_text(setting->choices, *(const int64_t *)place, word, sizeof(word)));
    }

    return cadre_strdup("");
}
