#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/launch/data_path.h"
#include "coordinator/cli/launch/launcher.h"
#include "coordinator/cli/launch/supervisor.h"
#include "coordinator/cli/launch/task_end.h"
#include "coordinator/cli/setting_flags.h"
#include "coordinator/cli/terminal/console.h"
#include "coordinator/cli/train/evaluator.h"
#include "coordinator/cli/verb.h"

enum { KEY_SETTING = 0x1000, KEY_FOLLOW = 0x2000 };

/* Flags that are settings of the job. */
static const struct {
    const char *setting;
    const char *flag;
} settings[] = {
    {"checkpoint.dir", "checkpoint-dir"}, {"data.dir", "data"},
    {"cluster.workers", "workers"},       {"training.epochs", "epochs"},
    {"cluster.wait_s", "wait"},
};

typedef struct {
    const char *job_file;
    const char *values[CADRE_COUNT_OF(settings)]; /* text of each flag; NULL: not given */
    bool follow;
    bool json;
} flags_t;

/* What the main thread owns: tasks, signals, output. The evaluator runs on a thread of its own. */
typedef struct {
    cadre_console_t console;
    cadre_launcher_t *launcher;
    cadre_coordinator_t *coordinator;
    json_t *train;
    json_t *test;
    int signals;
    cadre_notices_t *notices; /* notices of the evaluator and the coordinator */
    /* Pipe for commands to the evaluator: it reads [0], this thread writes [1]. */
    int commands[2];
    pthread_t evaluator;
    bool started;
    bool done;
    int stop_signal; /* the first signal to stop; 0: none */
    bool kill;       /* there was a second signal: ends at once */
    int exit_code;   /* exit code if the tasks are gone for good; 0: they are not */
    cadre_evaluator_options_t options;
    cadre_evaluator_outcome_t outcome;
} evaluate_t;

/* --- flags --- */

/* Takes one option, the job file, or the end of the command line; called by argp. Flags that are
 * settings of the job are kept as text, to be set after its file. */
static error_t
parse(int key, char *argument, struct argp_state *state)
{
    flags_t *self = state->input;
    size_t number = (size_t)key - KEY_SETTING;
    if (key >= KEY_SETTING && number < CADRE_COUNT_OF(settings)) {
        self->values[number] = argument;
        return 0;
    }

    switch (key) {
    case KEY_FOLLOW:
        self->follow = true;
        break;
    case 'o':
        self->json = cadre_verb_is_json(argument, state);
        break;
    case ARGP_KEY_ARG:
        if (self->job_file) {
            argp_error(state, "one job file, not also \"%s\"", argument);
        }
        self->job_file = argument;
        break;
    case ARGP_KEY_END:
        if (!self->job_file) {
            argp_error(state, "a job file is missing");
        }
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }

    return 0;
}

/* Reads the command line of `cadre evaluate`; ends the process after most usage errors. */
static int
read_flags(int argc, char **argv, flags_t *flags)
{
    static const struct argp_option options[] = {
        {"checkpoint-dir", KEY_SETTING, "DIR", 0,
         "Where the checkpoints are (default cadre-checkpoints/NAME)", 0},
        {"data", KEY_SETTING + 1, "DIR", 0, "Where the job's relative paths and ${DATA} are", 0},
        {"workers", KEY_SETTING + 2, "N", 0, "Workers to start", 0},
        {"epochs", KEY_SETTING + 3, "N", 0, "Epochs after which the job is complete", 0},
        {"wait", KEY_SETTING + 4, "S", 0, "Seconds to wait for tasks at the start", 0},
        {"follow", KEY_FOLLOW, 0, 0, "Go on with newer checkpoints until the job is complete", 0},
        {"output", 'o', "json|text", 0, "One JSON object per checkpoint", 0},
        {0}};
    static const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = "JOB.json",
        .doc = "Tests the newest checkpoint of the job on the rows it holds out, on a ps and "
               "workers of its own. The job may be training meanwhile: nothing of it is touched, "
               "and a checkpoint that is deleted under it is no error. A checkpoint that is "
               "superseded before its turn is left out.",
    };

    argv[0] = "cadre evaluate";
    if (cadre_flags_check_written_out(options, argc, argv) < 0) {
        return CADRE_EINVALID;
    }
    argp_parse(&parser, argc, argv, 0, NULL, flags);
    return 0;
}

/* Reads the job whose checkpoints are tested, with the settings that flags give. */
static int
make_job(const flags_t *flags, cadre_job_t *job)
{
    cadre_verb_setting_t given[CADRE_COUNT_OF(settings)];
    size_t count = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(settings); i++) {
        if (flags->values[i]) {
            given[count++] =
                (cadre_verb_setting_t){settings[i].setting, flags->values[i], settings[i].flag};
        }
    }

    int status = cadre_verb_read_job(job, flags->job_file, given, count);
    if (status < 0) {
        return status;
    }

    job->ps = 1; /* values are only read: one ps is enough, whatever the job has */
    status = cadre_job_finish(job);
    if (status < 0) {
        return status;
    }
    if (!cadre_job_checkpoints(job)) {
        return cadre_fail(CADRE_ECONFIG, "%s takes no checkpoints", flags->job_file);
    }

    return 0;
}

/* --- notices and signals --- */

/* Is the main function of the evaluator's thread. */
static void *
run_evaluator(void *context)
{
    evaluate_t *self = context;
    cadre_evaluator_run(&self->options, &self->outcome);
    return NULL;
}

/* Prints what the evaluator says, and errors of the coordinator; notes when the evaluator is
 * done. */
static void
take_notices(evaluate_t *self)
{
    cadre_notice_t notice;
    while (!self->done && cadre_notice_receive(self->notices, &notice)) {
        if (notice.kind == CADRE_NOTICE_INFO) {
            cadre_console_say(&self->console, "%s", notice.text);
        } else if (notice.kind == CADRE_NOTICE_LOG && notice.level == 'E') {
            cadre_console_say(&self->console, "error: %s %s", notice.event, notice.text);
        }
        self->done = notice.kind == CADRE_NOTICE_DONE;
    }
}

/* Sends the evaluator's thread the command to stop, and interrupts the call to the coordinator that
 * it may be blocked in. */
static void
stop_evaluator(evaluate_t *self)
{
    if (self->started && !self->done) {
        char command = CADRE_TRAINER_ABORT;
        ssize_t written = write(self->commands[1], &command, 1);
        (void)written; /* a full pipe holds an earlier command */
        cadre_coordinator_interrupt(self->coordinator, true);
    }
}

/* Takes signals and ends of tasks. The first signal to stop ends the evaluation, a second one
 * kills. Tasks that are gone for good end the evaluation, too. */
static void
take_signals(evaluate_t *self, int64_t now_ms)
{
    struct signalfd_siginfo info;
    while (read(self->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGCHLD) {
            self->kill = self->stop_signal != 0;
            self->stop_signal = self->kill ? self->stop_signal : (int)info.ssi_signo;
            stop_evaluator(self);
        }
    }

    cadre_launcher_report_t report;
    while (cadre_launcher_reap(self->launcher, now_ms, &report)) {
        if (report.decision.outcome != CADRE_LAUNCH_EXPECTED) {
            char ended[CADRE_TASK_END_TEXT_SIZE];
            cadre_console_say(&self->console, "%s", cadre_task_end_text(&report, ended));
        }
        if (report.decision.outcome == CADRE_LAUNCH_END_JOB) {
            self->exit_code = report.decision.exit_code;
            stop_evaluator(self);
        }
    }
}

/* Starts tasks that are due, waits for notices and signals, and handles them. */
static int
turn(evaluate_t *self)
{
    enum { TURN_MS = 1000 };
    int status = cadre_launcher_start(self->launcher, cadre_clock_now_ms());
    int64_t wait_ms = cadre_launcher_wait_ms(self->launcher, cadre_clock_now_ms());
    struct pollfd items[] = {
        {.fd = self->signals, .events = POLLIN},
        {.fd = cadre_notices_fd(self->notices), .events = POLLIN},
    };

    poll(items, CADRE_COUNT_OF(items), wait_ms < 0 || wait_ms > TURN_MS ? TURN_MS : (int)wait_ms);
    take_notices(self);
    take_signals(self, cadre_clock_now_ms());
    return status;
}

/* --- opening and closing --- */

/* Blocks the signals that the main thread reads from a descriptor, before any other thread is
 * started, as threads inherit the mask; opens that descriptor, the evaluator's pipe and the queue
 * of notices. */
static int
open_signals(evaluate_t *self)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    self->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (self->signals < 0 || pipe2(self->commands, O_CLOEXEC | O_NONBLOCK) < 0) {
        return cadre_fail(CADRE_EIO, "signalfd or pipe: %s", strerror(errno));
    }

    return cadre_notices_open(&self->notices);
}

/* Opens the coordinator of the evaluator's own cluster, which has nothing of the run's but the name
 * of the job. */
static int
open_coordinator(evaluate_t *self, const cadre_job_t *job)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.job = job->name;
    options.address = cadre_launcher_address(self->launcher);
    options.ps_count = (int)job->ps;
    options.lease_ms = CADRE_LOCAL_LEASE_MS;
    options.seed = (uint64_t)job->seed; /* first values of keys that a table has no row for */
    /* Values of a ps that was lost are loaded from the checkpoint again. */
    options.recovery = CADRE_RECOVERY_RELAXED;
    options.strategy = CADRE_STRATEGY_PARAMETER_SERVER; /* nothing is trained */
    options.log = cadre_notice_log;
    options.log_context = self->notices;
    return cadre_coordinator_open(&options, &self->coordinator);
}

/* Finds the data files of the job, opens the coordinator, and starts the tasks and the
 * evaluator. */
static int
start(evaluate_t *self, const cadre_job_t *job, const flags_t *flags)
{
    int status = cadre_data_resolve(job, job->train, true, &self->train);
    if (status < 0) {
        return status;
    }

    if (job->test) {
        status = cadre_data_resolve(job, job->test, true, &self->test);
        if (status < 0) {
            return status;
        }
    }

    status = open_coordinator(self, job);
    if (status < 0) {
        return status;
    }

    status = cadre_launcher_start(self->launcher, cadre_clock_now_ms());
    if (status < 0) {
        return status;
    }

    /* The evaluator blocks in calls of the public API, so it has a thread to itself. */
    self->options = (cadre_evaluator_options_t){
        .trainer = {.job = job,
                    .coordinator = self->coordinator,
                    .train = self->train,
                    .test = self->test,
                    .notices = self->notices,
                    .commands = self->commands[0]},
        .directory = cadre_job_checkpoints(job),
        .follow = flags->follow,
        .json = flags->json,
    };
    int error = pthread_create(&self->evaluator, NULL, run_evaluator, self);
    self->started = error == 0;
    return error ? cadre_fail(CADRE_EIO, "no thread can be started: %s", strerror(error)) : 0;
}

/* Closes the coordinator, which tells its tasks to leave, and waits for them
 * CADRE_SUPERVISOR_LEAVE_MS at most. cadre_launcher_close kills those that still run. */
static void
close_cluster(evaluate_t *self)
{
    cadre_launcher_stop(self->launcher);
    cadre_coordinator_close(&self->coordinator);
    int64_t end_ms = cadre_clock_now_ms() + CADRE_SUPERVISOR_LEAVE_MS;
    while (!self->kill && cadre_launcher_running(self->launcher) > 0 &&
           cadre_clock_now_ms() < end_ms) {
        struct pollfd item = {.fd = self->signals, .events = POLLIN};
        poll(&item, 1, 100);
        take_signals(self, cadre_clock_now_ms());
    }

    cadre_launcher_close(&self->launcher);
}

/* Prints why the evaluation failed, if it did, and returns the exit code. `status` and `text`: the
 * failure of the main thread, 0 if it had none. */
static int
conclude(const evaluate_t *self, int status, const char *text)
{
    if (status == 0 && self->started) {
        status = self->outcome.status;
        text = self->outcome.text;
    }

    if (self->exit_code) {
        fprintf(stderr, "cadre evaluate: the tasks are gone for good\n");
        return self->exit_code;
    }

    if (self->stop_signal && status == CADRE_EINTERRUPTED) {
        return 128 + self->stop_signal;
    }
    if (status < 0) {
        fprintf(stderr, "cadre evaluate: %s\n", text);
    }

    return cadre_exit_code(status);
}

/* Starts everything, and returns when the evaluator has ended or a second signal kills. `text`, of
 * CADRE_ERROR_TEXT_SIZE bytes, gets the text of the first failure, as cleaning up may fail too. */
static int
run(evaluate_t *self, const cadre_launcher_options_t *launch, const cadre_job_t *job,
    const flags_t *flags, char *text)
{
    int status = open_signals(self);
    status = status < 0 ? status : cadre_launcher_open(launch, &self->launcher);
    status = status < 0 ? status : start(self, job, flags);
    snprintf(text, CADRE_ERROR_TEXT_SIZE, "%s", cadre_error_text());

    while (self->started && !self->done && !self->kill) {
        int turned = turn(self);
        if (turned < 0 && status == 0) {
            status = turned;
            snprintf(text, CADRE_ERROR_TEXT_SIZE, "%s", cadre_error_text());
            stop_evaluator(self);
        }
    }

    return status;
}

/* Waits for the evaluator's thread, which uses the coordinator; then closes the cluster and the
 * descriptors. */
static void
close_all(evaluate_t *self)
{
    const int descriptors[] = {self->signals, self->commands[0], self->commands[1]};
    if (self->started) {
        pthread_join(self->evaluator, NULL);
    }
    if (self->launcher) {
        close_cluster(self);
    }

    for (size_t i = 0; i < CADRE_COUNT_OF(descriptors); i++) {
        if (descriptors[i] >= 0) {
            close(descriptors[i]);
        }
    }

    cadre_notices_close(&self->notices);
    json_decref(self->train);
    json_decref(self->test);
}

/* Tests checkpoints of the job on a cluster of its own, from start to end; returns the exit
 * code. */
static int
evaluate(const flags_t *flags, const cadre_job_t *job)
{
    evaluate_t self = {.signals = -1, .commands = {-1, -1}};
    cadre_auto(cadre_free) char *data_dir = cadre_data_folder(job);
    cadre_launcher_options_t launch = cadre_launcher_options(job);
    launch.trace = NULL; /* the folder holds the traces of the training, which must stay */
    launch.data_dir = data_dir;
    launch.checkpoint_dirs[0] = cadre_job_checkpoints(job);

    cadre_console_init(&self.console);
    char text[CADRE_ERROR_TEXT_SIZE];
    int status = run(&self, &launch, job, flags, text);

    if (self.kill) { /* the evaluator's thread still runs: nothing may be freed */
        cadre_launcher_close(&self.launcher);
        _exit(128 + self.stop_signal);
    }

    close_all(&self);
    return conclude(&self, status, text);
}

/* Runs `cadre evaluate`: reads flags and job, tests checkpoints, and returns the exit code. */
int
cadre_command_evaluate(int argc, char **argv)
{
    flags_t flags = {.job_file = NULL};
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    int status = read_flags(argc, argv, &flags);
    status = status < 0 ? status : make_job(&flags, &job);
    return status < 0 ? cadre_verb_fail(status) : evaluate(&flags, &job);
}
