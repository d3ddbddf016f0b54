/* cadre-bench: measures Cadre beside the limits of the machine it runs on. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/raw.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/endpoint.h"
#include "common/system/cpu_quota.h"
#include "common/system/float_mode.h"

enum {
    THREADS_MAX = 256,
    ROWS_MIN = 4096, /* of a table: one for each key of a batch */
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    KEY_ONLY = 0x1000,
    KEY_QUICK,
    KEY_DIRECTORY,
    KEY_DIGITS,
    KEY_THREADS,
    KEY_ROWS,
    KEY_DIM,
    KEY_PEER,
};

static const struct {
    const char *name;
    int (*run)(cadre_bench_t *bench);
    bool when_named; /* not run unasked: takes too long, or says nothing of Cadre */
} sections[] = {
    {"closures", cadre_bench_closures, false}, {"values", cadre_bench_values, false},
    {"apply", cadre_bench_apply, false},       {"checkpoint", cadre_bench_checkpoint, false},
    {"training", cadre_bench_training, false}, {"local", cadre_bench_local, false},
    {"idle", cadre_bench_idle, false},         {"ops", cadre_bench_ops, false},
    {"mlp", cadre_bench_wide_mlp, false},      {"lanes", cadre_bench_lanes, false},
    {"keys", cadre_bench_keys, false},         {"tables", cadre_bench_tables, false},
    {"rows", cadre_bench_rows, false},         {"sparse", cadre_bench_sparse, true},
    {"loops", cadre_bench_loops, true},
};

typedef struct {
    cadre_bench_t bench;
    bool json;
    bool chosen[CADRE_COUNT_OF(sections)];
    bool all;
    const char *peer;
} program_t;

/* --- flags --- */

static void
choose(program_t *self, const char *names, struct argp_state *state)
{
    self->all = false;
    while (*names) {
        size_t length = strcspn(names, ",");
        size_t found = CADRE_COUNT_OF(sections);
        for (size_t i = 0; i < CADRE_COUNT_OF(sections); i++) {
            bool same =
                strlen(sections[i].name) == length && strncmp(sections[i].name, names, length) == 0;
            found = same ? i : found;
        }

        if (found == CADRE_COUNT_OF(sections)) {
            argp_error(state, "there is no section \"%.*s\"", (int)length, names);
            return;
        }

        self->chosen[found] = true;
        names += length + (names[length] == ',');
    }
}

/* Returns the number from `least` to `most` that `argument` says; ends with usage otherwise. */
static long
parse_number(const char *flag, const char *argument, long least, long most,
             struct argp_state *state)
{
    char *end = NULL;
    errno = 0;
    long number = strtol(argument, &end, 10);
    if (end == argument || *end || errno || number < least || number > most) {
        argp_error(state, "%s takes %ld to %ld, not \"%s\"", flag, least, most, argument);
    }
    return number;
}

static error_t
parse(int key, char *argument, struct argp_state *state)
{
    program_t *self = state->input;
    switch (key) {
    case 'o':
        self->json = strcmp(argument, "json") == 0;
        if (!self->json && strcmp(argument, "table") != 0) {
            argp_error(state, "-o takes json or table, not \"%s\"", argument);
        }
        return 0;
    case 'v':
        self->bench.verbose = true;
        return 0;
    case KEY_ONLY:
        choose(self, argument, state);
        return 0;
    case KEY_QUICK:
        self->bench.quick = true;
        return 0;
    case KEY_DIRECTORY:
        self->bench.directory = argument;
        return 0;
    case KEY_DIGITS:
        self->bench.digits = argument;
        return 0;
    case KEY_THREADS:
        self->bench.threads = (int)parse_number("--threads", argument, 1, THREADS_MAX, state);
        return 0;
    case KEY_ROWS:
        self->bench.table_rows =
            (uint64_t)parse_number("--rows", argument, ROWS_MIN, CADRE_TABLE_ROWS_MAX, state);
        return 0;
    case KEY_DIM:
        self->bench.table_dim =
            (size_t)parse_number("--dim", argument, 1, CADRE_TABLE_DIM_MAX, state);
        return 0;
    case KEY_PEER:
        self->peer = argument;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {NULL, 'o', "FORMAT", 0, "table (default), or json: one object at the end", 0},
    {"only", KEY_ONLY, "NAME,...", 0,
     "of closures, values, apply, checkpoint, training, local, idle, ops, mlp, lanes, keys, "
     "tables, rows, sparse, loops; "
     "default: all but sparse and loops",
     0},
    {"quick", KEY_QUICK, NULL, 0, "a tenth of the work: figures to look at, not to quote", 0},
    {"directory", KEY_DIRECTORY, "DIR", 0, "where checkpoint files go; default: /var/tmp", 0},
    {"digits", KEY_DIGITS, "FILE", 0, "the data of the training section", 0},
    {"threads", KEY_THREADS, "N", 0,
     "of the device in ops and mlp, loops at once in loops; default: usable CPUs", 0},
    {"rows", KEY_ROWS, "N", 0, "of the table in tables; default: 8000000, with --quick 800000", 0},
    {"dim", KEY_DIM, "N", 0, "numbers of a row in tables; default: 64", 0},
    {"verbose", 'v', NULL, 0, "show what the tasks print", 0},
    {"peer", KEY_PEER, "ADDRESS", OPTION_HIDDEN, "be the other end of a raw ZeroMQ pair", 0},
    {0},
};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .doc = "Measures Cadre beside the limits of this machine.\v"
           "Exit codes: 0 measured, 1 a section failed, 2 usage. A target that is missed is marked "
           "and is no failure.",
};

/* --- running --- */

static void
run_section(program_t *self, size_t number)
{
    cadre_bench_report_t *report = &self->bench.report;
    int first = report->figure_count;
    int status = sections[number].run(&self->bench);

    if (!self->json) {
        cadre_bench_report_table(report, first, stdout);
    }

    if (status < 0) {
        cadre_bench_report_fail(report, sections[number].name, status);
        fprintf(stderr, "cadre-bench: %s: %s\n", sections[number].name, cadre_error_text());
    }
}

static int
run(program_t *self)
{
    int status = cadre_ipc_directory_new(getenv("XDG_RUNTIME_DIR"), &self->bench.socket_directory);
    if (status < 0) {
        fprintf(stderr, "cadre-bench: %s\n", cadre_error_text());
        return EXIT_FAILED;
    }

    for (size_t i = 0; i < CADRE_COUNT_OF(sections); i++) {
        if (self->chosen[i] || (self->all && !sections[i].when_named)) {
            run_section(self, i);
        }
    }

    cadre_ipc_directory_remove(&self->bench.socket_directory);
    if (self->json) {
        cadre_bench_report_json(&self->bench.report, self->bench.quick, stdout);
    }

    return self->bench.report.failure_count > 0 ? EXIT_FAILED : 0;
}

int
main(int argc, char **argv)
{
    cadre_memory_keep_freed(); /* as ps and workers do; the raw pair shall have it no worse */
    cadre_flush_subnormals();
    argp_program_version = "cadre-bench " CADRE_VERSION;
    argp_err_exit_status = EXIT_USAGE;
    program_t *self = cadre_calloc(1, sizeof(*self));
    self->all = true;
    self->bench.directory = "/var/tmp";
    self->bench.digits = CADRE_BENCH_DIGITS;
    self->bench.threads = cadre_cpu_count();
    int result = argp_parse(&argp, argc, argv, 0, NULL, self);
    if (result == 0 && self->peer) {
        result = cadre_bench_raw_peer(self->peer) < 0 ? EXIT_FAILED : 0;
    } else if (result == 0) {
        result = run(self);
    }

    free(self);
    return result;
}
