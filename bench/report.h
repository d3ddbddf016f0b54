/*
 * report - the figures of one run, as a table for people and as JSON for programs.
 *
 * Owner:   main.
 * Thread:  main's.
 *
 * JSON, schema cadre.bench/v1: {"schema", "version", "quick", "host": {"cpus", "cpu"}, "figures":
 * [{"section", "name", "unit", "value", "ceiling": {"name", "value"}, "ratio", "target": {"value"
 * or "ratio"}, "met"}], "failures": [{"section", "status", "text"}]}. `ceiling` and `ratio`,
 * `target` and `met` come in pairs, where there are such.
 */
#ifndef CADRE_BENCH_REPORT_H
#define CADRE_BENCH_REPORT_H

#include <stdbool.h>
#include <stdio.h>

enum {
    CADRE_BENCH_FIGURES_MAX = 128,
    CADRE_BENCH_FAILURES_MAX = 16,
    CADRE_BENCH_NAME_SIZE = 48,
    CADRE_BENCH_TEXT_SIZE = 256,
};

typedef struct {
    const char *section;
    char name[CADRE_BENCH_NAME_SIZE];
    const char *unit;
    double value;
    const char *ceiling_name; /* NULL: there is no ceiling */
    double ceiling;
    double least_value; /* what must be reached; 0: nothing in particular */
    double least_ratio;
} cadre_bench_figure_t;

typedef struct {
    const char *section;
    int status;
    char text[CADRE_BENCH_TEXT_SIZE];
} cadre_bench_failure_t;

/* Zeroed memory is an empty report. */
typedef struct {
    cadre_bench_figure_t figures[CADRE_BENCH_FIGURES_MAX];
    int figure_count;
    cadre_bench_failure_t failures[CADRE_BENCH_FAILURES_MAX];
    int failure_count;
} cadre_bench_report_t;

/* Adds a copy, named by the format; figures beyond the limit are our bug. */
void cadre_bench_report_add(cadre_bench_report_t *self, const cadre_bench_figure_t *figure,
                            const char *name_format, ...) __attribute__((format(printf, 3, 4)));

/* A section has failed: `status` and the calling thread's error text. */
void cadre_bench_report_fail(cadre_bench_report_t *self, const char *section, int status);

/* Prints the figures from number `first` on, with a heading. */
void cadre_bench_report_table(const cadre_bench_report_t *self, int first, FILE *file);

void cadre_bench_report_json(const cadre_bench_report_t *self, bool quick, FILE *file);

#endif
