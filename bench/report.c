#include "bench/report.h"

#include <jansson.h>
#include <stdarg.h>
#include <string.h>

#include <cadre/status.h>

#include "common/base/assert.h"
#include "common/system/cpu_quota.h"

void
cadre_bench_report_add(cadre_bench_report_t *self, const cadre_bench_figure_t *figure,
                       const char *name_format, ...)
{
    cadre_assert(self->figure_count < CADRE_BENCH_FIGURES_MAX);
    cadre_bench_figure_t *copy = &self->figures[self->figure_count++];
    *copy = *figure;
    va_list arguments;
    va_start(arguments, name_format);
    vsnprintf(copy->name, sizeof(copy->name), name_format, arguments);
    va_end(arguments);
}

void
cadre_bench_report_fail(cadre_bench_report_t *self, const char *section, int status)
{
    cadre_assert(self->failure_count < CADRE_BENCH_FAILURES_MAX);
    cadre_bench_failure_t *failure = &self->failures[self->failure_count++];
    *failure = (cadre_bench_failure_t){.section = section, .status = status};
    snprintf(failure->text, sizeof(failure->text), "%s", cadre_error_text());
}

static double
ratio_of(const cadre_bench_figure_t *figure)
{
    return figure->ceiling > 0 ? figure->value / figure->ceiling : 0;
}

static bool
has_target(const cadre_bench_figure_t *figure)
{
    return figure->least_value > 0 || figure->least_ratio > 0;
}

static bool
is_met(const cadre_bench_figure_t *figure)
{
    return figure->value >= figure->least_value &&
           (figure->least_ratio <= 0 || ratio_of(figure) >= figure->least_ratio);
}

/* --- table --- */

/* Four significant digits, without an exponent for anything a figure can be. */
static const char *
number(double value, char text[32])
{
    double magnitude = value < 0 ? -value : value;
    int decimals = 4;
    if (magnitude >= 1000) {
        decimals = 0;
    } else if (magnitude >= 10) {
        decimals = 1;
    } else if (magnitude >= 1) {
        decimals = 2;
    }

    snprintf(text, 32, "%.*f", decimals, value);
    return text;
}

void
cadre_bench_report_table(const cadre_bench_report_t *self, int first, FILE *file)
{
    char value[32];
    char ceiling[32];

    for (int i = first; i < self->figure_count; i++) {
        const cadre_bench_figure_t *figure = &self->figures[i];
        if (i == first) {
            fprintf(file, "\n%-40s %10s %-12s %10s  %7s  %s\n", figure->section, "figure", "",
                    "ceiling", "ratio", "");
        }

        fprintf(file, "  %-38s %10s %-12s", figure->name, number(figure->value, value),
                figure->unit);
        if (figure->ceiling_name) {
            fprintf(file, " %10s  %7.3f  %s", number(figure->ceiling, ceiling), ratio_of(figure),
                    figure->ceiling_name);
        }

        if (has_target(figure)) {
            fprintf(file, "  [target %s]", is_met(figure) ? "met" : "MISSED");
        }

        fputc('\n', file);
    }

    fflush(file);
}

/* --- JSON --- */

static json_t *
figure_json(const cadre_bench_figure_t *figure)
{
    json_t *object = json_pack("{s:s, s:s, s:s, s:f}", "section", figure->section, "name",
                               figure->name, "unit", figure->unit, "value", figure->value);
    if (figure->ceiling_name) {
        json_object_set_new(
            object, "ceiling",
            json_pack("{s:s, s:f}", "name", figure->ceiling_name, "value", figure->ceiling));
        json_object_set_new(object, "ratio", json_real(ratio_of(figure)));
    }

    if (has_target(figure)) {
        bool by_value = figure->least_value > 0;
        json_object_set_new(object, "target",
                            json_pack("{s:f}", by_value ? "value" : "ratio",
                                      by_value ? figure->least_value : figure->least_ratio));
        json_object_set_new(object, "met", json_boolean(is_met(figure)));
    }

    return object;
}

/* The model name from /proc/cpuinfo, or "unknown". */
static void
cpu_name(char *text, size_t size_bytes)
{
    char line[256];
    snprintf(text, size_bytes, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof(line), file)) {
        const char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0) {
            snprintf(text, size_bytes, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }

    if (file) {
        fclose(file);
    }
}

void
cadre_bench_report_json(const cadre_bench_report_t *self, bool quick, FILE *file)
{
    char cpu[128];
    cpu_name(cpu, sizeof(cpu));
    json_t *figures = json_array();
    json_t *failures = json_array();

    for (int i = 0; i < self->figure_count; i++) {
        json_array_append_new(figures, figure_json(&self->figures[i]));
    }

    for (int i = 0; i < self->failure_count; i++) {
        const cadre_bench_failure_t *failure = &self->failures[i];
        json_array_append_new(failures,
                              json_pack("{s:s, s:s, s:s}", "section", failure->section, "status",
                                        cadre_status_name(failure->status), "text", failure->text));
    }

    json_t *root =
        json_pack("{s:s, s:s, s:b, s:{s:i, s:s}, s:o, s:o}", "schema", "cadre.bench/v1", "version",
                  CADRE_VERSION, "quick", quick, "host", "cpus", cadre_cpu_count(), "cpu", cpu,
                  "figures", figures, "failures", failures);
    json_dumpf(root, file, JSON_COMPACT | JSON_REAL_PRECISION(6));
    fputc('\n', file);
    json_decref(root);
}
