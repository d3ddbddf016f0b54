/*
 * process - the programs that the bench starts, which never outlive it.
 *
 * Owner:   the section that started one.
 * Thread:  main's: the kernel ends a child when the thread that forked it ends.
 */
#ifndef CADRE_BENCH_PROCESS_H
#define CADRE_BENCH_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

enum { CADRE_BENCH_ARGUMENTS_MAX = 16 };

/* Starts the program `name`, which lies beside our own, with `arguments` (a NULL-terminated list,
 * without the program itself). What it prints goes to stderr when `verbose`, else nowhere.
 * CADRE_EUNAVAILABLE when there is no such program, CADRE_EIO. */
int cadre_bench_process_start(const char *name, const char *const *arguments, bool verbose,
                              pid_t *pid);

/* Waits until the process has ended by itself, for `grace_ms` at most, then kills it; zeroes the
 * id. Harmless on 0. */
void cadre_bench_process_end(pid_t *pid_p, int grace_ms);

#endif
