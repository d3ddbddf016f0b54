#include "coordinator/cli/setting_flags.h"

#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/cli/train/suggest.h"

/* Key of the first flag of the table; the others follow in its order. */
enum { KEY_FIRST = 0x1000, OPTIONS_MAX = CADRE_SETTING_FLAGS_MAX + CADRE_OTHER_FLAGS_MAX + 1 };

#define OPTIONS  "cadre_coordinator_options_t."
#define TRAINING "cadre_training_options_t."

static const cadre_setting_flag_t flags[] = {
    {"strategy", "NAME", "strategy.type", false, NULL,
     "Where shards and workers stand, and when updates count: parameter_server, multi_worker, "
     "mirrored, central or local (default: parameter_server)"},
    {"tasks", "KIND", "cluster.tasks", true, NULL,
     "What ps and workers are: threads of this process, processes, or auto: threads with mirrored, "
     "central and local on the CPU where --threads is 1 or one closure runs at a time, else "
     "processes (default: auto)"},
    {"ps", "N", "cluster.ps", true, NULL, "Parameter servers to start"},
    {"workers", "N", "cluster.workers", false, NULL, "Workers to start, or to expect"},
    {"slots", "N", "cluster.slots", true, NULL, "Closures that a worker has in progress"},
    {"ps-lanes", "N", "cluster.ps_lanes", true, NULL,
     "Threads of a ps for large updates and pulls of rows; 0: half of the CPUs, of two both for "
     "tables"},
    {"threads", "N", "cluster.threads", true, NULL,
     "Compute threads of a worker (default: 0); 0: its share of the CPUs of this machine"},
    {"row-cache", "MIB", "cluster.row_cache", true, NULL,
     "Memory of a worker for rows of tables, which are not sent again while they have not changed "
     "(default: 64); 0: none"},
    {"device", "NAMES", "cluster.device", true, NULL,
     "What workers compute on: cpu, cuda:N, or a list with one for each worker in turn, as "
     "cuda:0,cuda:2; auto: the GPUs of this machine in turn, else cpu (default: auto)"},
    {"math", "MODE", "cluster.math", true, NULL,
     "How CUDA devices multiply matrices: f32, tf32 or bf16 (default: f32)"},
    {"trace", "DIR", "cluster.trace", true, NULL,
     "Where workers write what they do when, as Chrome trace events (default: nowhere)"},
    {"max-restarts", "N", "cluster.max_restarts", true, NULL,
     "Starts of ps and workers that died, in total; or \"unlimited\" (default: 10)"},
    {"recovery", "HOW", "cluster.recovery", false, "says how in " OPTIONS "recovery",
     "Of a ps that was lost: replay, rollback or relaxed (default: replay)"},
    {"ps-timeout", "S", "cluster.ps_timeout_s", false, "says how long in " OPTIONS "ps_timeout_ms",
     "Seconds that a ps may be away before the job ends (default: 60)"},
    {"closure-deadline", "S", "cluster.closure_deadline_s", false,
     "says how long in " OPTIONS "closure_deadline_ms",
     "Seconds that an attempt at a closure may run before another worker gets it (default: 0); "
     "0: as long as it takes"},
    {"backup-attempts", "N", "cluster.backup_attempts", false,
     "says how many in " OPTIONS "backup_attempts",
     "Closures that may be tried a second time at once, when they take much longer than usual "
     "while another worker is idle (default: 0)"},
    {"client-closures", "true|false", "cluster.client_closures", false,
     "says so in " OPTIONS "client_closures",
     "Let clients schedule closures of the job's functions, besides reading (default: false)"},
    {"shard-timeout", "S", "cluster.shard_timeout_s", true, NULL,
     "Seconds for which a ps may not answer a worker before that gives back the closures that need "
     "it (default: 30); 0: as long as it takes"},
    {"epochs", "N", "training.epochs", false, "says how many in " TRAINING "epochs",
     "Times that every row is trained on"},
    {"batch-size", "N", "training.batch_size", false, "says how many in " TRAINING "batch_size",
     "Rows of one step"},
    {"local-steps", "N", "training.local_steps", false,
     "runs them in its closures, by cadre_op_inner_step",
     "Steps that a closure runs by itself before it pushes how far it came (default: 1)"},
    {"history", "FILE", "training.history", false,
     "writes its own, as cadre_training_options_t.hook hears how it goes",
     "Where a CSV file is written with a row for each epoch: loss, metrics, learning rate, "
     "staleness (default: nowhere)"},
    {"consistency", "HOW", "training.consistency", false, "says how in " OPTIONS "consistency",
     "When updates count: async, at once; bounded, as async but none is missed that is older than "
     "--staleness-bound closures; sync, in steps of --step-closures (default: async)"},
    {"step-closures", "N", "training.step_closures", false,
     "says how many in " OPTIONS "step_closures",
     "Of sync: closures whose mean gradient makes one step (default: 1, one closure after the "
     "other)"},
    {"staleness-bound", "N", "training.staleness_bound", false,
     "says how many in " OPTIONS "staleness_bound",
     "Of bounded: how many closures old an update may be that a closure misses (default: 0, one "
     "closure after the other)"},
    {"delay-compensation", "LAMBDA", "training.delay_compensation", false,
     "says how much in cadre_variable_options_t.delay_compensation",
     "Compensates gradients that are late for what others have changed since, by so much (default: "
     "0, not at all)"},
    {"stop-steps", "N", "training.stop.steps", false, "says how many in " TRAINING "stop_steps",
     "Batches after which training ends, in the whole job (default: 0, none)"},
    {"stop-seconds", "S", "training.stop.seconds", false, "says how long in " TRAINING "stop_ms",
     "Seconds of training after which it ends, all runs of the job together (default: 0, none)"},
    {"seed", "N", "seed", false, "says which in " OPTIONS "seed",
     "Of initial values, order and dropout; 0: chosen"},
    {"data", "DIR", "data.dir", false, NULL, "Where the job's relative paths and ${DATA} are"},
    {"checkpoint-dir", "DIR", "checkpoint.dir", false, "says where in " OPTIONS "checkpoint_dir",
     "Where checkpoints go (default: cadre-checkpoints/NAME); none: there are none"},
    {"checkpoint-every", "S", "checkpoint.every_s", false,
     "says how often in " OPTIONS "checkpoint_every_ms",
     "Seconds between checkpoints; 0: none for the time"},
    {"checkpoint-every-steps", "N", "checkpoint.every_steps", false,
     "says how many in " OPTIONS "checkpoint_every_steps",
     "Batches between checkpoints (default: 0, none for their number)"},
    {"checkpoint-every-epochs", "N", "checkpoint.every_epochs", false,
     "says how many in " TRAINING "checkpoint_every_epochs",
     "Epochs between checkpoints that hold exactly these (default: 0, none for them)"},
    {"resume", "WHICH", "checkpoint.resume", false,
     "says which in " OPTIONS "resume or resume_path",
     "auto: from the newest checkpoint if there is one; never; or a checkpoint's path (default: "
     "never)"},
    {"wait", "S", "cluster.wait_s", false, "says how long to cadre_coordinator_wait_ready",
     "Seconds to wait for tasks at the start"},
};

_Static_assert(CADRE_COUNT_OF(flags) <= CADRE_SETTING_FLAGS_MAX, "arrays have a place for each");

const cadre_setting_flag_t *
cadre_setting_flags(size_t *count)
{
    *count = CADRE_COUNT_OF(flags);
    return flags;
}

size_t
cadre_setting_flags_options(bool local, struct argp_option *options)
{
    size_t count = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(flags); i++) {
        if (local || !flags[i].local_only) {
            options[count++] = (struct argp_option){
                flags[i].flag, KEY_FIRST + (int)i, flags[i].argument, 0, flags[i].does, 0};
        }
    }
    return count;
}

const cadre_setting_flag_t *
cadre_setting_flags_take(cadre_given_settings_t *self, int key, const char *argument,
                         const struct argp_state *state)
{
    const size_t number = (size_t)key - KEY_FIRST;
    if (key < KEY_FIRST || number >= CADRE_COUNT_OF(flags)) {
        return NULL;
    }
    if (self->count == CADRE_COUNT_OF(self->list)) {
        argp_error(state, "too many flags");
    }
    self->list[self->count++] = (cadre_verb_setting_t){
        .setting = flags[number].setting, .text = argument, .flag = flags[number].flag};
    return &flags[number];
}

/* Returns the option that `word` ("--name" or "--name=value") gives; NULL when it is none. */
static const struct argp_option *
find_option(const struct argp_option *options, const char *word)
{
    size_t length = strcspn(word + 2, "=");
    for (const struct argp_option *option = options; option->name; option++) {
        if (strlen(option->name) == length && strncmp(option->name, word + 2, length) == 0) {
            return option;
        }
    }
    return NULL;
}

int
cadre_flags_check_written_out(const struct argp_option *options, int argc, char **argv)
{
    static const char *const own[] = {"--help", "--usage", "--version"};
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        bool is_own = false;
        for (size_t k = 0; k < CADRE_COUNT_OF(own); k++) {
            is_own = is_own || strcmp(argv[i], own[k]) == 0;
        }

        if (strncmp(argv[i], "--", 2) != 0 || is_own) {
            continue; /* no long flag, or one that argp has by itself */
        }

        const struct argp_option *option = find_option(options, argv[i]);
        if (!option) {
            const char *names[OPTIONS_MAX];
            size_t count = 0;
            while (options[count].name) {
                names[count] = options[count].name;
                count++;
            }
            const char *near = cadre_suggest(argv[i] + 2, names, count);
            return near ? cadre_fail(CADRE_EINVALID, "%s has no flag %s; did you mean --%s?",
                                     argv[0], argv[i], near)
                        : cadre_fail(CADRE_EINVALID, "%s has no flag %s", argv[0], argv[i]);
        }

        /* Skips the flag's value, which may look like a flag. */
        i += option->arg && !strchr(argv[i], '=');
    }

    return 0;
}
