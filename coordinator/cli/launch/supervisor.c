#include "coordinator/cli/launch/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
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
#include "coordinator/cli/launch/data_path.h"
#include "coordinator/cli/launch/hosted.h"
#include "coordinator/cli/launch/run_summary.h"
#include "coordinator/cli/launch/silence.h"
#include "coordinator/cli/launch/task_end.h"
#include "coordinator/cli/launch/trace_folder.h"
#include "coordinator/cli/terminal/console.h"
#include "coordinator/cli/terminal/display.h"
#include "coordinator/cli/terminal/events.h"
#include "coordinator/cli/terminal/history.h"
#include "coordinator/cli/terminal/notice.h"
#include "coordinator/cli/train/job_strategy.h"
#include "coordinator/cli/train/trainer.h"

typedef struct {
    const cadre_supervisor_options_t *options;
    cadre_console_t console;
    cadre_events_t events;
    cadre_history_t history;
    cadre_launcher_t *launcher;
    cadre_coordinator_t *coordinator;
    char *trace;   /* file of a worker in this process; NULL: none */
    json_t *train; /* dataset descriptions as sent to workers */
    json_t *test;
    int signals;              /* descriptor of signals (signalfd) */
    cadre_notices_t *notices; /* notices of the trainer and the coordinator */
    int commands[2];          /* pipe for commands: the trainer reads [0], this thread writes [1] */
    pthread_t trainer;
    bool trainer_started;
    bool trainer_done;
    cadre_trainer_options_t trainer_options;
    cadre_trainer_outcome_t outcome;
    int stop_signal; /* the first SIGINT or SIGTERM; 0: none */
    int64_t stop_ms; /* when that signal came */
    cadre_silence_t silence;
    bool unsaved;      /* the trainer knows that the last checkpoint cannot be taken */
    bool kill;         /* a second signal came: ends at once */
    bool events_said;  /* the user was warned that the events file cannot be written any more */
    bool history_said; /* and that the history cannot be */
    bool cannot_write; /* an output that the user chose cannot be written: for the exit code */
    /* The launcher ended the run: a task is gone for good, or the program has ended. */
    bool ended;
    int exit_code; /* exit code if `ended` */
    char reason[CADRE_NOTICE_TEXT_SIZE];
    cadre_display_t display;
} supervisor_t;

/* --- notices of other threads --- */

/* Is the main function of the trainer's thread. */
static void *
run_trainer(void *context)
{
    supervisor_t *self = context;
    cadre_trainer_run(&self->trainer_options, &self->outcome);
    return NULL;
}

/* Shows the notices that other threads have sent: at most 256, so that signals are not kept
 * waiting. */
static void
take_notices(supervisor_t *self, int64_t now_ms)
{
    cadre_notice_t notice;
    for (int i = 0; i < 256 && cadre_notice_receive(self->notices, &notice); i++) {
        self->trainer_done = self->trainer_done || notice.kind == CADRE_NOTICE_DONE;
        cadre_display_notice(&self->display, &notice, now_ms);
    }
}

/* --- stopping --- */

/* Sends a command (CADRE_TRAINER_STOP and so on) to the trainer's thread, and interrupts the call
 * to the coordinator that it may be blocked in. */
static void
command_trainer(supervisor_t *self, char command)
{
    if (self->trainer_started && !self->trainer_done) {
        ssize_t written = write(self->commands[1], &command, 1);
        (void)written; /* a full pipe holds an earlier command */
        cadre_coordinator_interrupt(self->coordinator, true);
    }
}

/* Takes a signal to stop: the first stops the trainer, after a checkpoint where any are taken (or
 * goes to the user's program), a second one kills. */
static void
take_stop_signal(supervisor_t *self, const struct signalfd_siginfo *info, int64_t now_ms)
{
    if (self->stop_signal) {
        /* timeout(1) and other supervisors signal the process and then its group: that is one
         * request. */
        self->kill = self->kill || now_ms - self->stop_ms >= CADRE_SUPERVISOR_SECOND_MS;
        return;
    }

    self->stop_signal = (int)info->ssi_signo;
    self->stop_ms = now_ms;
    cadre_events_write(&self->events, "signal", json_pack("{s:i}", "signal", self->stop_signal));
    if (self->options->job) {
        const bool saves = cadre_job_checkpoints(self->options->job) != NULL;
        cadre_console_say(&self->console, "stopping %s; %s kills",
                          saves ? "after a checkpoint" : "without a checkpoint",
                          self->stop_signal == SIGINT ? "Ctrl-C again" : "a second signal");
        command_trainer(self, CADRE_TRAINER_STOP);
    } else if (info->ssi_code != SI_KERNEL) {
        /* The terminal's Ctrl-C reaches the program by itself. */
        cadre_launcher_signal_program(self->launcher, self->stop_signal);
    }
}

static cadre_task_end_view_t
task_end_view(supervisor_t *self)
{
    return (cadre_task_end_view_t){&self->console, &self->events, self->launcher};
}

/* Shows that a task has ended. If that ends the job, notes exit code and reason and lets the
 * trainer end without a checkpoint; later ends of tasks do not change them. */
static void
take_report(supervisor_t *self, const cadre_launcher_report_t *report)
{
    cadre_task_end_view_t view = task_end_view(self);
    cadre_task_end_show(&view, report, self->options->launch->restarts_max);
    if (report->decision.outcome == CADRE_LAUNCH_END_JOB && !self->ended) {
        char ended[CADRE_TASK_END_TEXT_SIZE];
        /* A program that exits by itself has told its reason on the terminal. */
        if (report->role != CADRE_LAUNCH_PROGRAM || report->end.signalled) {
            snprintf(self->reason, sizeof(self->reason), "%s", cadre_task_end_text(report, ended));
        }
        self->ended = true;
        self->exit_code = report->decision.exit_code;
        command_trainer(self, CADRE_TRAINER_ABORT);
    }
}

/* Takes all signals that have come. Signals of one kind may be merged, so after any of them every
 * task is asked whether it has ended. */
static void
take_signals(supervisor_t *self, int64_t now_ms)
{
    struct signalfd_siginfo info;
    while (read(self->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGCHLD) {
            take_stop_signal(self, &info, now_ms);
        }
    }

    cadre_launcher_report_t report;
    while (self->launcher && cadre_launcher_reap(self->launcher, now_ms, &report)) {
        take_report(self, &report);
    }
}

/* --- one turn --- */

/* Warns, once, that the events file cannot be written any more: as soon as that is known, because a
 * run may go on for days. */
static void
say_events(supervisor_t *self)
{
    if (self->events.error && !self->events_said) {
        self->events_said = true;
        cadre_console_say(&self->console, "warning: --events %s: %s; nothing more is written to it",
                          self->events.path, strerror(self->events.error));
    }
}

/* Warns, once, that the history cannot be written any more. */
static void
say_history(supervisor_t *self)
{
    if (self->history.error && !self->history_said) {
        self->history_said = true;
        cadre_console_say(&self->console,
                          "warning: --history %s: %s; nothing more is written to it",
                          self->history.path, strerror(self->history.error));
    }
}

/* Kills tasks that run but have not been heard for too long, so that they are replaced. When the
 * run is to stop and no worker is heard, lets the trainer end without its last checkpoint, which
 * would wait for a worker. */
static void
look_for_silence(supervisor_t *self, int64_t now_ms)
{
    if (!self->trainer_started || self->trainer_done) {
        return;
    }
    cadre_silence_look(&self->silence, self->coordinator, self->launcher, now_ms);
    if (self->stop_signal && !self->unsaved && now_ms - self->stop_ms >= CADRE_SILENCE_STOP_MS &&
        self->silence.no_worker_ms >= CADRE_SILENCE_STOP_MS) {
        self->unsaved = true;
        command_trainer(self, CADRE_TRAINER_UNSAVED);
    }
}

/* One turn: starts tasks that are due, waits for notices and signals, and handles them. */
static int
turn(supervisor_t *self)
{
    int64_t now_ms = cadre_clock_now_ms();
    int status = 0;
    if (self->launcher) {
        status = cadre_launcher_start(self->launcher, now_ms);
    }

    int64_t wait_ms = self->launcher ? cadre_launcher_wait_ms(self->launcher, now_ms) : -1;
    wait_ms = wait_ms < 0 || wait_ms > 1000 ? 1000 : wait_ms;
    struct pollfd items[] = {
        {.fd = self->signals, .events = POLLIN},
        {.fd = cadre_notices_fd(self->notices), .events = POLLIN},
    };
    poll(items, CADRE_COUNT_OF(items), (int)wait_ms);
    now_ms = cadre_clock_now_ms();
    take_notices(self, now_ms);
    take_signals(self, now_ms);
    look_for_silence(self, now_ms);
    cadre_display_wait(&self->display, now_ms);
    say_events(self);
    say_history(self);
    return status;
}

/* Waits until the tasks have left. Those of a job were told to by their coordinator, and get
 * SIGTERM after CADRE_SUPERVISOR_LEAVE_MS; those of a user's program wait for a next session, and
 * get it at once. */
static void
wait_for_tasks(supervisor_t *self)
{
    int64_t begin_ms = cadre_clock_now_ms();
    int64_t insist_ms = begin_ms + (self->options->job ? CADRE_SUPERVISOR_LEAVE_MS : 0);
    bool insisted = false;
    while (!self->kill && cadre_launcher_running(self->launcher) > 0) {
        int64_t now_ms = cadre_clock_now_ms();
        if (now_ms >= insist_ms && !insisted) {
            insisted = true;
            cadre_launcher_signal(self->launcher, SIGTERM);
        }
        if (now_ms - begin_ms >= CADRE_SUPERVISOR_KILL_MS) {
            return; /* cadre_launcher_close kills the tasks that still run */
        }
        struct pollfd item = {.fd = self->signals, .events = POLLIN};
        poll(&item, 1, 100);
        take_signals(self, cadre_clock_now_ms());
    }
}

/* --- opening --- */

/* Blocks the signals that the main thread reads from a descriptor, before any other thread is
 * started, as threads inherit the mask; opens that descriptor, the trainer's pipe and the queue of
 * notices. */
static int
open_signals(supervisor_t *self)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    /* Writing beyond a file size limit is then an error like a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    self->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (self->signals < 0 || pipe2(self->commands, O_CLOEXEC | O_NONBLOCK) < 0) {
        return cadre_fail(CADRE_EIO, "signalfd or pipe: %s", strerror(errno));
    }

    return cadre_notices_open(&self->notices);
}

/* Sets the coordinator's resume options from the word in the job: "auto", "never" or a path. */
static void
set_resume(cadre_coordinator_options_t *options, const char *word)
{
    bool is_auto = strcmp(word, "auto") == 0;
    options->resume = is_auto ? CADRE_RESUME_AUTO : CADRE_RESUME_NEVER;
    options->resume_path = is_auto || strcmp(word, "never") == 0 ? NULL : word;
}

/* Returns whether ps and worker are threads of this process. */
static bool
is_hosted(const supervisor_t *self)
{
    return self->options->launch && self->options->launch->hosted;
}

/* Opens the coordinator with the settings of the job. Under the launcher, its address and number of
 * ps are those of the tasks that are started, and the lease is short, as all tasks are on this
 * machine; threads of this process cannot be lost alone. */
static int
open_coordinator(supervisor_t *self)
{
    const cadre_job_t *job = self->options->job;
    cadre_coordinator_options_t options = cadre_coordinator_options();

    options.job = job->name;
    options.address =
        self->launcher ? cadre_launcher_address(self->launcher) : self->options->address;
    options.ps_count = self->launcher ? (int)job->ps : self->options->ps_count;
    options.seed = (uint64_t)job->seed;
    options.lease_ms = self->launcher && !is_hosted(self) ? CADRE_LOCAL_LEASE_MS : 0;
    /* A short queue under a time limit: what is queued when the time is over is still trained. */
    options.queue_capacity = job->stop_seconds > 0 ? CADRE_TRAINER_TIMED_QUEUE : 0;
    options.ps_timeout_ms = (int64_t)(job->ps_timeout_s * 1000);
    options.closure_deadline_ms = (int64_t)ceil(job->closure_deadline_s * 1000);
    options.backup_attempts = (uint32_t)job->backup_attempts;
    options.client_closures = job->client_closures;
    options.recovery = (cadre_recovery_t)job->recovery;
    options.consistency = (cadre_consistency_t)job->consistency;
    options.step_closures = (uint32_t)job->step_closures;
    options.staleness_bound = (uint32_t)job->staleness_bound;
    options.strategy = cadre_job_strategy(job);
    options.checkpoint_dir = cadre_job_checkpoints(job);
    options.checkpoint_every_ms = (int64_t)(job->checkpoint_every_s * 1000);
    options.checkpoint_every_steps = job->checkpoint_every_steps;
    options.checkpoint_keep = (int)job->checkpoint_keep;
    options.checkpoint_full_every = (uint32_t)job->checkpoint_full_every;
    set_resume(&options, job->resume);
    options.placement = job->placement ? CADRE_PLACEMENT_ROUND_ROBIN : CADRE_PLACEMENT_BYTES;
    options.keys = self->options->keys;
    options.insecure_transport = self->options->insecure;
    options.http = self->options->http;
    options.log = cadre_notice_log;
    options.log_context = self->notices;
    if (is_hosted(self)) {
        cadre_hosted_set(&options, self->options->launch, self->trace);
    }
    return cadre_coordinator_open(&options, &self->coordinator);
}

/* Finds the data files of the job, then opens the coordinator. */
static int
open_job(supervisor_t *self)
{
    const cadre_job_t *job = self->options->job;
    bool local = self->launcher != NULL;
    int status = cadre_data_resolve(job, job->train, local, &self->train);
    if (status < 0) {
        return status;
    }
    if (job->test) {
        status = cadre_data_resolve(job, job->test, local, &self->test);
    }
    if (status < 0) {
        return status;
    }

    status = cadre_job_check_checkpoints(job);
    status = status < 0 ? status : open_coordinator(self);
    self->cannot_write =
        status == CADRE_EIO; /* an I/O error here is one of the checkpoint folder */
    return status;
}

/* Starts the trainer in a thread of its own. */
static int
start_trainer(supervisor_t *self)
{
    self->trainer_options = (cadre_trainer_options_t){
        .job = self->options->job,
        .coordinator = self->coordinator,
        .launched = self->launcher,
        .train = self->train,
        .test = self->test,
        .notices = self->notices,
        .commands = self->commands[0],
    };
    int error = pthread_create(&self->trainer, NULL, run_trainer, self);

    self->trainer_started = error == 0;
    return error ? cadre_fail(CADRE_EIO, "no thread can be started: %s", strerror(error)) : 0;
}

/* Returns `status`, that of a call on the folder of traces: a failure is one of an output. */
static int
trace_status(supervisor_t *self, int status)
{
    if (status < 0) {
        self->cannot_write = true;
        cadre_fail_within(status, "%s", self->options->trace_place);
    }
    return status;
}

/* Makes the folder of traces and tries to write there before any worker is started: otherwise each
 * worker would fail by itself, in its log only. */
static int
make_trace_folder(supervisor_t *self)
{
    const char *folder = self->options->launch ? self->options->launch->trace : NULL;
    if (folder && is_hosted(self)) {
        self->trace = cadre_trace_folder_file(folder, 0, 1);
    }
    return folder ? trace_status(self, cadre_trace_folder_make(folder)) : 0;
}

/* Removes the traces of earlier runs, once the coordinator holds its locks: a run that is refused
 * because another one goes on removes nothing. */
static int
sweep_trace_folder(supervisor_t *self)
{
    const char *folder = self->options->launch ? self->options->launch->trace : NULL;
    return folder ? trace_status(self, cadre_trace_folder_sweep(folder, self->trace)) : 0;
}

/* Warns, in a job without checkpoints, that a lost ps can be restored only until the replay log is
 * full. */
static void
say_recovery(supervisor_t *self)
{
    const cadre_job_t *job = self->options->job;
    if (cadre_job_checkpoints(job)) {
        return;
    }

    if (is_hosted(self)) {
        cadre_console_say(&self->console, "no checkpoints are taken: what is trained is lost when "
                                          "this process is");
        return;
    }

    if (job->recovery == CADRE_RECOVERY_RELAXED) {
        cadre_console_say(&self->console, "no checkpoints are taken: the shard of a lost ps begins "
                                          "again with its initial values");
        return;
    }

    cadre_console_say(&self->console,
                      "no checkpoints are taken: a lost ps is recovered from its initial values "
                      "until %d closures or %d MiB of them have run, and loses its updates "
                      "afterwards",
                      CADRE_REPLAY_CLOSURES_MAX, CADRE_REPLAY_SIZE_MAX >> 20);
}

/* Opens the history, where the job has one: before any task is started, so that a file of other
 * columns, or one that cannot be written, costs no training. */
static int
open_history(supervisor_t *self)
{
    const cadre_job_t *job = self->options->job;
    if (!job || !job->history) {
        return 0;
    }

    bool columns[CADRE_METRICS];
    cadre_job_metrics(job, columns);
    bool resumes = strcmp(job->resume, "never") != 0;
    int status = cadre_history_open(&self->history, job->history, columns, resumes);
    self->cannot_write = status == CADRE_EIO;
    if (status < 0) {
        cadre_auto(cadre_free) char *place = cadre_job_place(job, "training.history", "history");
        return cadre_fail_within(status, "%s", place);
    }

    return 0;
}

/* Opens the launcher, whose session a hosted job uses too. */
static int
open_launcher(supervisor_t *self)
{
    int status = cadre_launcher_open(self->options->launch, &self->launcher);
    if (status < 0 || !is_hosted(self)) {
        return status;
    }
    return cadre_hosted_prepare(cadre_launcher_session(self->launcher));
}

/* Opens events file, history, signals, launcher, trace folder and coordinator, in this order: the
 * launcher makes the session, whose folder holds the coordinator's socket. */
static int
open_all(supervisor_t *self)
{
    const cadre_supervisor_options_t *options = self->options;
    int status = options->events ? cadre_events_open(&self->events, options->events) : 0;

    self->cannot_write = status < 0;
    if (status < 0) {
        return status;
    }

    status = open_history(self);
    if (status < 0) {
        return status;
    }

    status = open_signals(self);
    if (status < 0) {
        return status;
    }

    status = options->launch ? open_launcher(self) : 0;
    if (status < 0) {
        return status;
    }

    status = make_trace_folder(self);
    if (status < 0) {
        return status;
    }

    if (options->job) {
        status = open_job(self);
        if (status < 0) {
            return status;
        }
    }

    return sweep_trace_folder(self);
}

/* Prints how many tasks and closures for each step the strategy of the job means on this machine,
 * and which settings of its file are not for it; nothing for the default, parameter servers. */
static void
announce_strategy(supervisor_t *self)
{
    const cadre_job_t *job = self->options->job;
    if (is_hosted(self)) {
        cadre_console_say(&self->console,
                          "strategy %s: in this process, slots=%lld step_closures=%lld",
                          cadre_job_strategy_word(job), (long long)(job->workers * job->slots),
                          (long long)job->step_closures);
    } else if (cadre_job_strategy(job) != CADRE_STRATEGY_PARAMETER_SERVER) {
        cadre_console_say(&self->console, "strategy %s: ps=%lld workers=%lld step_closures=%lld",
                          cadre_job_strategy_word(job), (long long)job->ps, (long long)job->workers,
                          (long long)job->step_closures);
    }
    if (job->overruled) {
        cadre_console_say(&self->console, "strategy %s: has no use for %s of %s",
                          cadre_job_strategy_word(job), job->overruled, job->file);
    }
}

/* Warns where closures run one after the other, and the user may have expected otherwise; of a
 * cluster that exists already nobody knows here how many slots it has. */
static void
say_pace(supervisor_t *self)
{
    cadre_auto(cadre_free) char *warning =
        self->options->launch ? cadre_job_pace_warning(self->options->job) : NULL;
    if (warning) {
        cadre_console_say(&self->console, "%s", warning);
    }
}

/* Prints, and writes to the events file, where the run's session and coordinator are. */
static void
announce(supervisor_t *self)
{
    const char *session = self->launcher ? cadre_launcher_session(self->launcher)->path : "none";
    const char *address = self->coordinator ? cadre_coordinator_address(self->coordinator)
                                            : cadre_launcher_address(self->launcher);
    const char *http = self->coordinator ? cadre_coordinator_http(self->coordinator) : NULL;
    cadre_auto(cadre_free) char *pages = http ? cadre_asprintf(" http=%s", http) : cadre_strdup("");

    cadre_console_say(&self->console, "session=%s coordinator=%s%s", session, address, pages);
    cadre_events_write(
        &self->events, "started",
        json_pack("{s:s, s:s, s:s*}", "session", session, "coordinator", address, "http", http));
    if (self->options->job) {
        announce_strategy(self);
        say_pace(self);
        say_recovery(self);
    }
}

/* Opens everything, then starts the tasks and, for a job, the trainer. */
static int
start(supervisor_t *self)
{
    int status = open_all(self);
    if (status < 0) {
        return status;
    }

    announce(self);
    if (self->launcher) {
        status = cadre_launcher_start(self->launcher, cadre_clock_now_ms());
        if (status < 0) {
            return status;
        }
    }

    return self->options->job ? start_trainer(self) : 0;
}

/* --- one run, from start to end --- */

/* Runs the main loop until the trainer is done, or a program of the user has ended, or a second
 * signal kills. After a failure sends the trainer the command to end, and waits for it. */
static int
run(supervisor_t *self)
{
    int status = start(self);
    while (status == 0 && !self->kill && !self->trainer_done &&
           (!self->ended || self->trainer_started)) {
        status = turn(self);
        if (status < 0) {
            command_trainer(self, CADRE_TRAINER_ABORT);
        }
    }

    while (!self->kill && self->trainer_started && !self->trainer_done) {
        turn(self); /* even after a failure here the trainer ends first */
    }

    cadre_console_clear(&self->console);
    return status;
}

/* Ends the trainer's thread, the coordinator and the tasks, in this order: a coordinator that
 * closes tells its tasks to leave. */
static void
close_all(supervisor_t *self)
{
    if (self->trainer_started) {
        pthread_join(self->trainer, NULL);
    }

    /* The trainer gave up because ps did not come: the launcher knows why. */
    if (self->launcher && !self->ended && self->outcome.status == CADRE_EUNAVAILABLE) {
        cadre_task_end_view_t view = task_end_view(self);
        cadre_task_end_show_absent(&view, self->outcome.text);
    }

    if (self->launcher) {
        cadre_launcher_stop(self->launcher);
    }

    cadre_coordinator_close(&self->coordinator);
    /* What the coordinator logged while it closed; there are no notices where the start failed. */
    if (self->notices) {
        take_notices(self, cadre_clock_now_ms());
    }
    if (self->launcher) {
        wait_for_tasks(self);
        cadre_launcher_close(&self->launcher);
    }
}

/* Kills the tasks and ends the process. Nothing is freed, as other threads still run. */
static _Noreturn void
kill_all(supervisor_t *self)
{
    cadre_console_clear(&self->console);
    cadre_console_say(&self->console, "killed");
    cadre_launcher_close(&self->launcher);
    _exit(128 + self->stop_signal);
}

/* Prints how the run ended and what to type next; returns the exit code. `status`: of the
 * supervisor's own calls. */
static int
conclude(supervisor_t *self, int status)
{
    cadre_run_summary_t summary = {
        .job = self->options->job,
        .outcome = self->trainer_started ? &self->outcome : NULL,
        .command = self->options->command,
        .json = self->options->json,
        .status = status,
        .cannot_write = self->cannot_write,
        .stop_signal = self->stop_signal,
        .ended = self->ended,
        .exit_code = self->exit_code,
        .reason = self->reason,
    };
    snprintf(summary.text, sizeof(summary.text), "%s", status < 0 ? cadre_error_text() : "");
    int code = cadre_run_summary_print(&summary, &self->console, &self->events);
    say_history(self);
    /* A run that went well but could not write its history has failed for who reads that. */
    return code == CADRE_EXIT_OK && self->history.error ? CADRE_EXIT_IO : code;
}

/* Runs the job or the user's program from start to end, prints every error, and returns the exit
 * code. */
int
cadre_supervise(const cadre_supervisor_options_t *options)
{
    supervisor_t self = {.options = options, .signals = -1, .commands = {-1, -1}};
    cadre_result_init(&self.outcome.result);
    cadre_console_init(&self.console);
    self.display = (cadre_display_t){.console = &self.console,
                                     .events = &self.events,
                                     .history = &self.history,
                                     .log_level = options->log_level,
                                     .line_ms = cadre_clock_now_ms()};
    /* Cleaning up may fail with error texts of its own; the first one is to be shown. */
    int status = run(&self);
    char text[CADRE_ERROR_TEXT_SIZE];
    snprintf(text, sizeof(text), "%s", cadre_error_text());
    if (self.kill) {
        kill_all(&self);
    }

    close_all(&self);
    if (status < 0) {
        cadre_fail(status, "%s", text);
    }

    int code = conclude(&self, status);
    const int descriptors[] = {self.signals, self.commands[0], self.commands[1]};
    for (size_t i = 0; i < CADRE_COUNT_OF(descriptors); i++) {
        if (descriptors[i] >= 0) {
            close(descriptors[i]);
        }
    }

    cadre_notices_close(&self.notices);
    cadre_events_close(&self.events);
    cadre_history_close(&self.history);
    cadre_trainer_outcome_fini(&self.outcome);
    free(self.trace);
    json_decref(self.train);
    json_decref(self.test);
    return code;
}
