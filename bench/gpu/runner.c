#include "bench/gpu/runner.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/measure.h"
#include "common/base/memory.h"
#include "common/base/status.h"

/* ---- the command line ---- */

static const struct option names[] = {{"model", required_argument, NULL, 'm'},
                                      {"batch", required_argument, NULL, 'b'},
                                      {"width", required_argument, NULL, 'w'},
                                      {"rows", required_argument, NULL, 'r'},
                                      {"device", required_argument, NULL, 'd'},
                                      {"math", required_argument, NULL, 'a'},
                                      {"threads", required_argument, NULL, 't'},
                                      {"slots", required_argument, NULL, 's'},
                                      {"dump", required_argument, NULL, 'o'},
                                      {"verbose", no_argument, NULL, 'v'},
                                      {NULL, 0, NULL, 0}};

static int
parse_number(const char *text, int64_t *number)
{
    char *end = NULL;
    *number = strtoll(text, &end, 10);
    return *end || *number < 1 || *number > INT32_MAX
               ? cadre_fail(CADRE_EINVALID, "\"%s\" is no whole number in 1 to %d", text, INT32_MAX)
               : 0;
}

/* The option `name` that has a number. */
static int
set_number(gpu_options_t *options, int name, const char *text)
{
    int64_t number = 0;
    int status = parse_number(text, &number);
    if (status < 0) {
        const struct option *option = names;
        while (option->val != name) {
            option++;
        }
        return cadre_fail_within(status, "--%s", option->name);
    }

    switch (name) {
    case 'b':
        options->size.batch = number;
        break;
    case 'w':
        options->size.width = number;
        break;
    case 'r':
        options->size.rows = number;
        break;
    case 't':
        options->threads = (int)number;
        break;
    default:
        options->slots = (int)number;
        break;
    }

    return 0;
}

int
gpu_options_parse(int argc, char **argv, gpu_options_t *options)
{
    *options =
        (gpu_options_t){.size = {.model = "mlp", .batch = 8192, .width = 4096, .rows = 10000},
                        .device = "cuda:0",
                        .math = "f32",
                        .threads = 1,
                        .slots = 1};
    int status = 0;
    for (int name = 0; status == 0 && (name = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (name) {
        case 'm':
            options->size.model = optarg;
            break;
        case 'd':
            options->device = optarg;
            break;
        case 'a':
            options->math = optarg;
            break;
        case 'o':
            options->dump = optarg;
            break;
        case 'v':
            options->verbose = true;
            break;
        case '?':
            status = cadre_fail(CADRE_EINVALID, "the options stand in bench/gpu/runner.h");
            break;
        default:
            status = set_number(options, name, optarg);
        }
    }

    if (status < 0) {
        return status;
    }
    if (optind < argc) {
        return cadre_fail(CADRE_EINVALID, "\"%s\" is no option", argv[optind]);
    }

    return 0;
}

/* ---- commands ---- */

static int
serve_losses(const gpu_runner_t *self, int count)
{
    float losses[GPU_LOSSES_MAX];
    int status = self->reset(self->context);

    status = status < 0 ? status : self->train(self->context, count, losses);
    for (int i = 0; i < count && status == 0; i++) {
        printf("%s%.9g", i ? ", " : "{\"losses\": [", (double)losses[i]);
    }

    if (status < 0) {
        return status;
    }

    printf("]}\n");
    return 0;
}

static int
cpu_seconds(const gpu_runner_t *self, double *seconds)
{
    return self->cpu_seconds ? self->cpu_seconds(self->context, seconds)
                             : cadre_bench_cpu_seconds(getpid(), seconds);
}

static int
serve_steps(const gpu_runner_t *self, int count)
{
    double before = 0;
    double after = 0;
    int status = cpu_seconds(self, &before);
    double begin = cadre_bench_now();

    status = status < 0 ? status : self->train(self->context, count, NULL);
    double seconds = cadre_bench_now() - begin;
    if (status < 0) {
        return status;
    }

    status = cpu_seconds(self, &after);
    if (status < 0) {
        return status;
    }

    printf("{\"steps\": %d, \"seconds\": %.6f, \"cpu_seconds\": %.6f", count, seconds,
           after - before);
    if (self->more) {
        self->more(self->context);
    }

    printf("}\n");
    return 0;
}

static int
serve(const gpu_runner_t *self, const char *line)
{
    int count = 0;
    char verb[16] = "";
    if (sscanf(line, "%15s %d", verb, &count) == 2 && count >= 1) {
        if (strcmp(verb, "steps") == 0 && count <= GPU_STEPS_MAX) {
            return serve_steps(self, count);
        }
        if (strcmp(verb, "losses") == 0 && count <= GPU_LOSSES_MAX && self->reset) {
            return serve_losses(self, count);
        }
    }

    return cadre_fail(CADRE_EINVALID, "no command: %s", line);
}

int
gpu_runner_serve(const gpu_runner_t *self, const char *name)
{
    char line[64];
    int status = 0;
    printf("{\"ready\": \"%s\"}\n", name);
    fflush(stdout);
    while (status == 0 && fgets(line, sizeof(line), stdin)) {
        status = serve(self, line);
        fflush(stdout);
    }
    return status;
}
