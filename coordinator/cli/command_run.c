#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/http/http_address.h"
#include "common/net/cluster_config.h"
#include "common/net/security.h"
#include "common/system/startup.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/launch/data_path.h"
#include "coordinator/cli/launch/host_devices.h"
#include "coordinator/cli/launch/hosted.h"
#include "coordinator/cli/launch/supervisor.h"
#include "coordinator/cli/run_flags.h"
#include "coordinator/cli/terminal/command_text.h"
#include "coordinator/cli/train/job_strategy.h"
#include "coordinator/cli/train/model.h"
#include "coordinator/cli/verb.h"

/* Returns the options of a run that `cadre run` and `cadre train` have in common. */
static cadre_supervisor_options_t
supervisor_options(const cadre_run_flags_t *flags, const cadre_job_t *job)
{
    return (cadre_supervisor_options_t){
        .job = flags->job_file ? job : NULL,
        .json = flags->json,
        .log_level = flags->log_level,
        .events = flags->events,
        .http = flags->http,
        .command = flags->command,
    };
}

/* Runs the job or the user's program on tasks that are started here (`cadre run`); returns the exit
 * code. */
static int
run(const cadre_run_flags_t *flags, const cadre_job_t *job)
{
    cadre_auto(cadre_free) char *data_dir =
        flags->job_file || job->data_dir ? cadre_data_folder(job) : NULL;
    /* A checkpoint that --resume names may lie outside the job's own folder: ps must be able to
     * read there. */
    bool names_one = strcmp(job->resume, "auto") != 0 && strcmp(job->resume, "never") != 0;
    const char *resumed = flags->job_file && names_one ? job->resume : NULL;
    cadre_launcher_options_t launch = cadre_launcher_options(job);
    launch.natives = (const char *const *)flags->natives;
    launch.native_count = flags->native_count;
    launch.data_dir = data_dir;
    launch.checkpoint_dirs[0] = flags->job_file ? cadre_job_checkpoints(job) : NULL;
    launch.checkpoint_dirs[1] = resumed;
    launch.keep_session = flags->keep_session;
    launch.program = flags->program;
    launch.hosted = cadre_job_is_in_one_process(job);

    cadre_supervisor_options_t options = supervisor_options(flags, job);
    options.launch = &launch;
    cadre_auto(cadre_free) char *trace_place = cadre_job_place(job, "cluster.trace", "trace");
    options.trace_place = trace_place;
    return cadre_supervise(&options);
}

/* Reads the description of the cluster from --address or the environment, and sets what follows
 * from it for the job: the number of ps if it lists them, and what the job's strategy implies. */
static int
read_cluster(const cadre_run_flags_t *flags, cadre_job_t *job)
{
    cadre_endpoint_t endpoint = {.kind = 0};
    int status = flags->address ? cadre_endpoint_parse(flags->address, &endpoint) : 0;
    if (status < 0) {
        return cadre_fail_within(CADRE_ECONFIG, "--address");
    }

    /* An address such as *:4000 can be bound, but nobody can connect to it: it does not name the
     * cluster. */
    bool dialled = flags->address && cadre_endpoint_is_concrete(&endpoint);
    cadre_cluster_sources_t sources = {.role = "coordinator",
                                       .coordinator = dialled ? flags->address : NULL};
    cadre_cluster_sources_from_environment(&sources);
    cadre_auto(cadre_cluster_config_fini) cadre_cluster_config_t config = {0};
    status = cadre_cluster_config_read(&sources, &config);
    /* The address to bind is enough: tasks find the coordinator, and nothing lists them. */
    if (status == CADRE_ENOTFOUND && flags->address) {
        return cadre_job_follow_strategy(job, &(cadre_job_places_t){.workers = 0});
    }

    if (status == CADRE_ENOTFOUND) {
        return cadre_fail(CADRE_ECONFIG,
                          "no cluster is named by CADRE_CLUSTER, TF_CONFIG or "
                          "--address; for one on this machine: %s run %s",
                          cadre_command_name(), job->file);
    }

    if (status < 0) {
        return status;
    }

    cadre_job_places_t places = {.workers = (int64_t)config.workers.count,
                                 .has_shards_beside_workers = config.has_shards_beside_workers,
                                 .has_shards = config.ps.count > 0};
    if (places.has_shards) {
        job->ps = (int64_t)config.ps.count;
    }

    return cadre_job_follow_strategy(job, &places);
}

/* Runs the job on a cluster that exists (`cadre train`); returns the exit code. A process with
 * secret keys forbids core dumps of itself. */
static int
train(const cadre_run_flags_t *flags, cadre_job_t *job)
{
    cadre_security_t security = {.keys = flags->keys, .insecure = flags->insecure};
    if (cadre_security_read(&security) == 0 && security.keys) {
        cadre_startup_hold_secrets();
    }

    cadre_supervisor_options_t options = supervisor_options(flags, job);
    options.address = flags->address;
    options.keys = flags->keys;
    options.insecure = flags->insecure;
    options.ps_count = (int)job->ps;
    return cadre_supervise(&options);
}

/* Chooses the address of the HTTP server from --http or CADRE_HTTP. A user's program opens its
 * coordinator itself, and says there. */
static int
choose_http(cadre_run_flags_t *flags)
{
    int status = flags->program ? 0 : cadre_http_address_choose(flags->http, &flags->http);
    /* A bad address that no flag gave is one of the environment. */
    return status < 0 && !flags->http ? CADRE_ECONFIG : status;
}

/* Reads the command line, and the job that it names. */
static int
read_job(cadre_run_flags_t *flags, bool local, int argc, char **argv, cadre_job_t *job)
{
    int status = cadre_run_flags_read(flags, local, argc, argv);
    if (status < 0) {
        return status;
    }

    status = cadre_run_flags_job(flags, job);
    if (status < 0) {
        return status;
    }

    /* Only `cadre run` starts the tasks, so it decides how many there are for the devices here. */
    const char *native = flags->native_count > 0 ? "--native" : NULL;
    const char *apart = flags->program ? "a program" : native;
    status = local ? cadre_host_devices_place(job, apart) : read_cluster(flags, job);
    if (status < 0) {
        return status;
    }

    if (flags->job_file) { /* else a program of the user is run, which has its own model */
        status = cadre_job_finish(job);
        if (status < 0) {
            return status;
        }

        status = cadre_model_check(job);
        if (status < 0) {
            return status;
        }
    }

    return choose_http(flags);
}

/* Runs `cadre run` (`local`) or `cadre train` from its command line; returns the exit code. */
static int
run_or_train(bool local, int argc, char **argv)
{
    cadre_auto(cadre_run_flags_fini) cadre_run_flags_t flags = {0};
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    int status = read_job(&flags, local, argc, argv, &job);
    if (status < 0) {
        return cadre_verb_fail(status);
    }
    int code = local ? run(&flags, &job) : train(&flags, &job);
    if (local && cadre_job_is_in_one_process(&job)) {
        cadre_hosted_exit(code);
    }
    return code;
}

int
cadre_command_run(int argc, char **argv)
{
    return run_or_train(true, argc, argv);
}

int
cadre_command_train(int argc, char **argv)
{
    return run_or_train(false, argc, argv);
}
