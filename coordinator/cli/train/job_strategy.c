#include "coordinator/cli/train/job_strategy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/device_list.h"
#include "common/spec/strategy_spec.h"

/* Returns the position of a setting in the table of cadre_job_settings; its name must be there. */
static size_t
position(const char *name)
{
    size_t i = 0;
    size_t count;
    const cadre_setting_t *settings = cadre_job_settings(&count);
    while (i < count && strcmp(settings[i].name, name) != 0) {
        i++;
    }
    cadre_assert(i < count);
    return i;
}

static cadre_origin_t
origin(const cadre_job_t *self, const char *name)
{
    return self->origins[position(name)];
}

static const cadre_strategy_spec_t *
spec_of(const cadre_job_t *self)
{
    return cadre_strategy_spec((int64_t)cadre_job_strategy(self));
}

cadre_strategy_t
cadre_job_strategy(const cadre_job_t *self)
{
    return (cadre_strategy_t)(self->strategy + CADRE_STRATEGY_PARAMETER_SERVER);
}

const char *
cadre_job_strategy_word(const cadre_job_t *self)
{
    return spec_of(self)->word;
}

bool
cadre_job_counts_devices(const cadre_job_t *self)
{
    return spec_of(self)->workers == CADRE_STRATEGY_TASKS_LIKE_DEVICES;
}

bool
cadre_job_is_of_one_host(const cadre_job_t *self)
{
    return spec_of(self)->is_of_one_host;
}

bool
cadre_job_insists_on_shards(const cadre_job_t *self)
{
    cadre_origin_t rank = origin(self, "cluster.ps");
    bool is_obeyed = rank > CADRE_ORIGIN_FILE || spec_of(self)->ps != CADRE_STRATEGY_TASKS_ONE;
    return self->ps > 1 && rank != CADRE_ORIGIN_DEFAULT && is_obeyed &&
           rank >= origin(self, "strategy.type");
}

bool
cadre_job_is_in_one_process(const cadre_job_t *self)
{
    return self->tasks == CADRE_JOB_TASKS_THREADS;
}

/* Where the strategy of a job was given. */
typedef struct {
    cadre_job_t *job;
    cadre_origin_t rank; /* its origin: higher wins over lower (job.h) */
    char *place;         /* for messages, such as "--strategy" */
} word_t;

static void
word_fini(word_t *self)
{
    free(self->place);
}

/* Finds where the strategy was given. Where the job names none and the cluster has a shard beside
 * each worker, sets the strategy to multi_worker. */
static word_t
find_word(cadre_job_t *self, const cadre_job_places_t *places)
{
    word_t word = {.job = self, .rank = origin(self, "strategy.type")};
    if (word.rank == CADRE_ORIGIN_DEFAULT && places->has_shards_beside_workers) {
        const char *name = cadre_strategy_spec(CADRE_STRATEGY_MULTI_WORKER)->word;
        word.rank = CADRE_ORIGIN_ENVIRONMENT;
        cadre_job_set(self, "strategy.type", name, word.rank, "the description of the cluster");
        word.place = cadre_strdup("the strategy of a cluster of workers alone");
        return word;
    }
    word.place = cadre_job_place(self, "strategy.type", "strategy");
    return word;
}

/* Returns whether the setting `name` is one of `cluster` in the job file, as the strategy is: how
 * many tasks a file counts is for the strategies that count them, so that its word may change
 * alone. */
static bool
is_count_beside_word(const word_t *word, const char *name)
{
    return word->rank == CADRE_ORIGIN_FILE && origin(word->job, name) == CADRE_ORIGIN_FILE &&
           strncmp(name, "cluster.", strlen("cluster.")) == 0;
}

/* Returns whether the strategy replaces what was given of the setting `name`: its word stands in a
 * place that counts more, or beside a count. */
static bool
overrules(const word_t *word, const char *name)
{
    return origin(word->job, name) < word->rank || is_count_beside_word(word, name);
}

/* Notes that the strategy replaces the value `text` of the setting `name`, where that is of the
 * job file. */
static void
note_overruled(cadre_job_t *self, const char *name, const char *text)
{
    if (origin(self, name) != CADRE_ORIGIN_FILE) {
        return;
    }
    char *before = self->overruled;
    self->overruled =
        cadre_asprintf("%s%s%s %s", before ? before : "", before ? ", " : "", name, text);
    free(before);
}

/* Sets the setting `name`, whose flag is `flag`, to `text`, which the strategy implies. A setting
 * that was given with another value fails with CADRE_ECONFIG, unless its origin is lower than that
 * of the strategy, as a file is lower than a flag, or it is a count beside the strategy's word. */
static int
imply(const word_t *word, const char *name, const char *flag, const char *text)
{
    cadre_job_t *self = word->job;
    size_t count;
    size_t at = position(name);
    const cadre_setting_t *setting = &cadre_job_settings(&count)[at];
    cadre_auto(cadre_free) char *present = cadre_job_text(self, setting);
    bool is_default = self->origins[at] == CADRE_ORIGIN_DEFAULT;
    if (!is_default && strcmp(present, text) == 0) {
        return 0;
    }

    if (is_default || overrules(word, name)) {
        note_overruled(self, name, present);
        return cadre_job_set(self, name, text, CADRE_ORIGIN_STRATEGY, name);
    }

    cadre_auto(cadre_free) char *place = cadre_job_place(self, name, flag);
    return cadre_fail(CADRE_ECONFIG,
                      "%s is %s, but %s is %s, which means %s: leave it out, or choose another "
                      "strategy",
                      place, present, word->place, cadre_job_strategy_word(self), text);
}

static int
imply_number(const word_t *word, const char *name, const char *flag, int64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)number);
    return imply(word, name, flag, text);
}

/* Gives the setting `name`, which is for another consistency than the strategy's, its default back
 * where it was given in a place that counts less than the strategy's. */
static int
leave_out(const word_t *word, const char *name)
{
    size_t count;
    const cadre_origin_t rank = origin(word->job, name);
    const bool is_given = rank > CADRE_ORIGIN_CONSISTENCY;
    const cadre_setting_t *setting = &cadre_job_settings(&count)[position(name)];
    return is_given && rank < word->rank ? imply(word, name, "", setting->initial) : 0;
}

/* Sets what becomes of a lost ps in a job with synchronous steps, which lose no update: the steps
 * since the checkpoint run again. A setting that asks for less fails with CADRE_ECONFIG, unless the
 * strategy overrules it. */
static int
follow_steps(const word_t *word)
{
    static const char name[] = "cluster.recovery";
    cadre_job_t *self = word->job;
    if (self->consistency != CADRE_SYNC || self->recovery == CADRE_RECOVERY_ROLLBACK ||
        !self->file) {
        return 0;
    }

    const bool is_implied = spec_of(self)->is_synchronous;
    const bool is_left_out = is_implied && origin(self, name) < word->rank;
    if (self->recovery == CADRE_RECOVERY_RELAXED && !is_left_out) {
        cadre_auto(cadre_free) char *place = cadre_job_place(self, name, "recovery");
        cadre_auto(cadre_free) char *consistency =
            cadre_job_place(self, "training.consistency", "consistency");
        return cadre_fail(CADRE_ECONFIG,
                          "%s is relaxed, but %s is %s, which loses no update: leave it out", place,
                          is_implied ? word->place : consistency,
                          is_implied ? cadre_job_strategy_word(self) : "sync");
    }

    if (self->recovery == CADRE_RECOVERY_RELAXED) {
        note_overruled(self, name, "relaxed");
    }
    return cadre_job_set(self, name, "rollback", CADRE_ORIGIN_CONSISTENCY, name);
}

/* Returns the number of workers of a strategy with one for each device: the number of devices, or
 * fewer where the job says so and may choose. Where the job says more, that is not returned: the
 * caller then finds that the setting contradicts the strategy. */
static int64_t
count_devices(const cadre_job_t *self, const cadre_job_places_t *places)
{
    bool says = origin(self, "cluster.workers") != CADRE_ORIGIN_DEFAULT;
    if (places->devices == 0) {
        return says ? self->workers : 1;
    }
    bool takes_fewer = says && places->is_choice && self->workers < places->devices;
    return takes_fewer ? self->workers : places->devices;
}

/* Returns how many workers the strategy has: one, those of the cluster that runs already, one for
 * each device, or as many as the job says. */
int64_t
cadre_job_workers(const cadre_job_t *self, const cadre_job_places_t *places)
{
    const cadre_strategy_spec_t *spec = spec_of(self);
    if (spec->workers == CADRE_STRATEGY_TASKS_ONE) {
        return 1;
    }
    if (places->workers > 0) {
        return places->workers;
    }
    return spec->workers == CADRE_STRATEGY_TASKS_LIKE_DEVICES ? count_devices(self, places)
                                                              : self->workers;
}

/* Fails where a strategy has more workers than there may be ps, one for each, or closures in a
 * step. */
static int
check_workers(const word_t *word, int64_t workers, bool has_ps_for_each)
{
    const int64_t most = has_ps_for_each ? CADRE_SHARDS_MAX : CADRE_STEP_CLOSURES_MAX;
    if (workers <= most) {
        return 0;
    }
    cadre_auto(cadre_free) char *place = cadre_job_place(word->job, "cluster.workers", "workers");
    return cadre_fail(CADRE_ECONFIG, "%s is %lld, but %s is %s, which has %s: at most %lld", place,
                      (long long)workers, word->place, cadre_job_strategy_word(word->job),
                      has_ps_for_each ? "a ps for each worker"
                                      : "a closure of each worker in a step",
                      (long long)most);
}

/* Takes the first of several devices for the one worker of a strategy. */
int
cadre_job_choose_device(cadre_job_t *self)
{
    static const char name[] = "cluster.device";
    const size_t count = cadre_device_list_count(self->device);
    if (count < 2 || spec_of(self)->workers != CADRE_STRATEGY_TASKS_ONE) {
        return 0;
    }

    cadre_auto(word_fini) word_t word = find_word(self, &(cadre_job_places_t){.workers = 0});
    if (!overrules(&word, name)) {
        cadre_auto(cadre_free) char *place = cadre_job_place(self, name, "device");
        return cadre_fail(CADRE_ECONFIG,
                          "%s lists %zu devices, but %s is %s, which has one worker: list one, or "
                          "choose another strategy",
                          place, count, word.place, cadre_job_strategy_word(self));
    }

    cadre_auto(cadre_free) char *rest = cadre_asprintf("%s (but for the first)", self->device);
    cadre_auto(cadre_free) char *first = cadre_device_list_item(self->device, 0);
    note_overruled(self, name, rest);
    return cadre_job_set(self, name, first, CADRE_ORIGIN_STRATEGY, name);
}

/* One closure of each step for each worker: a second slot would have nothing to run. */
int64_t
cadre_job_slots(const cadre_job_t *self)
{
    return origin(self, "cluster.slots") != CADRE_ORIGIN_DEFAULT ? self->slots : 1;
}

/* The number that goes with a consistency. */
typedef struct {
    cadre_consistency_t consistency;
    const char *word;
    const char *setting;
    const char *flag;
    int64_t unset; /* its default, with which closures run one after the other */
} pace_t;

static const pace_t paces[] = {
    {CADRE_SYNC, "sync", "training.step_closures", "step-closures", 1},
    {CADRE_BOUNDED, "bounded", "training.staleness_bound", "staleness-bound", 0},
};

static int64_t
number_of(const cadre_job_t *self, const pace_t *pace)
{
    return pace->consistency == CADRE_SYNC ? self->step_closures : self->staleness_bound;
}

/* Fails when the number was given and is for another consistency than the job's. One that is
 * overruled, as the file's by a flag --consistency, is left alone. */
static int
check_pace(const cadre_job_t *self, const pace_t *pace)
{
    static const char *const words[] = {
        [CADRE_ASYNC] = "async", [CADRE_BOUNDED] = "bounded", [CADRE_SYNC] = "sync"};
    const cadre_origin_t rank = origin(self, pace->setting);
    if (self->consistency == (int64_t)pace->consistency || number_of(self, pace) == pace->unset ||
        rank <= CADRE_ORIGIN_STRATEGY || rank < origin(self, "training.consistency")) {
        return 0;
    }
    cadre_auto(cadre_free) char *place = cadre_job_place(self, pace->setting, pace->flag);
    const char *word = words[self->consistency];
    /* Who typed a flag knows of it; a variable may stand there for another job. */
    const bool is_variable = rank == CADRE_ORIGIN_ENVIRONMENT;
    return cadre_fail(
        CADRE_ECONFIG, "%s is for \"consistency\": \"%s\", but training.consistency is %s%s%s",
        place, pace->word, word, is_variable ? ": unset this variable of the environment for " : "",
        is_variable ? word : "");
}

/* Checks that what is given of the consistency goes with it; a program, which has no file, says
 * both itself. */
static int
check_consistencies(const cadre_job_t *self)
{
    int status = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(paces) && status == 0 && self->file; i++) {
        status = check_pace(self, &paces[i]);
    }
    return status;
}

/* Returns the warning about a consistency whose number nobody gave, by its default: it leaves all
 * slots but one without work. */
char *
cadre_job_pace_warning(const cadre_job_t *self)
{
    const int64_t slots = cadre_min_i64(self->workers * self->slots, CADRE_STEP_CLOSURES_MAX);
    for (size_t i = 0; i < CADRE_COUNT_OF(paces) && self->workers > 1; i++) {
        const pace_t *pace = &paces[i];
        if (self->consistency == (int64_t)pace->consistency &&
            origin(self, pace->setting) == CADRE_ORIGIN_DEFAULT) {
            return cadre_asprintf(
                "consistency %s: closures run one after the other, as %s is %lld; --%s %lld keeps "
                "%lld workers of %lld slots busy",
                pace->word, pace->setting, (long long)pace->unset, pace->flag, (long long)slots,
                (long long)self->workers, (long long)self->slots);
        }
    }
    return NULL;
}

/* Sets the consistency of the strategy, with a closure of each worker in a step, and leaves out
 * what is for another one. */
static int
imply_steps(const word_t *word, int64_t workers)
{
    static const char *const others[] = {"training.staleness_bound", "training.delay_compensation"};
    int status = imply(word, "training.consistency", "consistency", "sync");
    if (status < 0) {
        return status;
    }

    status = imply_number(word, "training.step_closures", "step-closures", workers);
    for (size_t i = 0; i < CADRE_COUNT_OF(others) && status == 0; i++) {
        status = leave_out(word, others[i]);
    }
    return status;
}

/* Sets what the job's strategy implies: numbers of workers, ps and slots, and synchronous steps. Of
 * one that is not synchronous, parameter_server, only checks what goes with the consistency. */
int
cadre_job_follow_strategy(cadre_job_t *self, const cadre_job_places_t *places)
{
    cadre_auto(word_fini) word_t word = find_word(self, places);
    const cadre_strategy_spec_t *spec = spec_of(self);
    if (!spec->is_synchronous) {
        const int status = check_consistencies(self);
        return status < 0 ? status : follow_steps(&word);
    }

    if (spec->workers == CADRE_STRATEGY_TASKS_ONE && places->workers > 1) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s is %s, which has one worker, but the cluster has %lld: choose "
                          "another strategy",
                          word.place, spec->word, (long long)places->workers);
    }

    int64_t workers = cadre_job_workers(self, places);
    bool has_one = places->is_one_process || spec->ps == CADRE_STRATEGY_TASKS_ONE;
    int64_t ps = has_one ? 1 : workers;
    int status = check_workers(&word, workers, !has_one && !places->has_shards);
    if (status < 0) {
        return status;
    }

    status = imply_number(&word, "cluster.workers", "workers", workers);
    if (status < 0) {
        return status;
    }

    status = places->has_shards ? 0 : imply_number(&word, "cluster.ps", "ps", ps);
    if (status < 0) {
        return status;
    }

    status = imply_steps(&word, workers);
    if (status < 0) {
        return status;
    }

    status = follow_steps(&word);
    if (status < 0) {
        return status;
    }

    bool says = origin(self, "cluster.slots") != CADRE_ORIGIN_DEFAULT;
    status = says ? 0 : imply_number(&word, "cluster.slots", "slots", cadre_job_slots(self));
    return status < 0 ? status : check_consistencies(self);
}
