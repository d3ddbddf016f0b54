/*
 * bench - what every section of cadre-bench is given: options, a directory for sockets, the report.
 *
 * Owner:   main.
 * Thread:  main's; the coordinator under measurement has its own.
 *
 * A section measures one part of Cadre beside the best the machine can do at that moment: both are
 * run in turn, several times, and medians are compared, because neighbours on shared cores change
 * absolute figures from minute to minute.
 */
#ifndef CADRE_BENCH_BENCH_H
#define CADRE_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/report.h"

enum {
    CADRE_BENCH_WAIT_MS = 60000, /* every wait of the bench; then the section fails */
    CADRE_BENCH_MESSAGE_SIZE = 64,
};

typedef struct {
    bool quick;            /* a tenth of the work: figures to look at, not to quote */
    bool verbose;          /* what the tasks say goes to stderr instead of nowhere */
    const char *directory; /* where checkpoint files are written */
    const char *digits;    /* CSV file of the training section */
    int threads;           /* of the device, in the sections ops and mlp; loops at once in loops */
    uint64_t table_rows;   /* of the section tables; 0: as many as it has unasked */
    size_t table_dim;      /* numbers of such a row; 0: likewise */
    char *socket_directory;
    uint64_t next_name; /* of sockets and incarnations: each process and session gets a new one */
    cadre_bench_report_t report;
} cadre_bench_t;

/* The sections. Each adds its figures to the report, or fails with a status and a text. */
int cadre_bench_closures(cadre_bench_t *self);
int cadre_bench_values(cadre_bench_t *self);
int cadre_bench_apply(cadre_bench_t *self);
int cadre_bench_lanes(cadre_bench_t *self);
int cadre_bench_tables(cadre_bench_t *self);
int cadre_bench_rows(cadre_bench_t *self);
int cadre_bench_sparse(cadre_bench_t *self);
int cadre_bench_checkpoint(cadre_bench_t *self);
int cadre_bench_training(cadre_bench_t *self);
int cadre_bench_local(cadre_bench_t *self);
int cadre_bench_loops(cadre_bench_t *self);
int cadre_bench_idle(cadre_bench_t *self);
int cadre_bench_keys(cadre_bench_t *self);
int cadre_bench_ops(cadre_bench_t *self);
int cadre_bench_wide_mlp(cadre_bench_t *self);

/* A port of loopback that is free, to be bound. */
#define CADRE_BENCH_TCP "tcp://127.0.0.1:*"

/* A new "ipc://" address, freed by the caller. */
char *cadre_bench_address(cadre_bench_t *self, const char *name);

/* `full`, or `quick` under --quick. */
int cadre_bench_amount(const cadre_bench_t *self, int full, int quick);

#endif
