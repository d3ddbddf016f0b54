/*
 * process - a program that a test starts, and that dies with the test.
 *
 * Owner:   a test.
 * Thread:  the test's main one: the kernel kills the program when the thread that started it ends.
 */
#ifndef CADRE_TESTS_SYSTEM_PROCESS_H
#define CADRE_TESTS_SYSTEM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    const char *const *arguments;   /* the program's path first, then NULL-ended */
    const char *const *environment; /* "NAME=value" beside the test's own, NULL-ended; or NULL */
    const char *output;             /* file that stdout is appended to; NULL: the test's own */
    const char *errors;             /* and stderr; NULL: where stdout goes, or the test's own */
} process_t;

/* Starts it; ends the test when that is not possible. */
pid_t process_start(const process_t *process);

/* Waits for the end: true with what waitpid said, false when the deadline passed. */
bool process_wait(pid_t pid, int64_t timeout_ms, int *wait_status);

/* Waits until a process that was sent SIGSTOP stands still: kill() returns before every thread
 * does, and what runs meanwhile on another core may still answer. One that has ended stands still,
 * too. False when the deadline passed. */
bool process_wait_stopped(pid_t pid, int64_t timeout_ms);

/* Starts the program, waits for its end and gives its exit status (-1: a signal's) and the
 * beginning of what it wrote to stdout and stderr. Ends the test when the deadline passes. */
int process_output(const char *const *arguments, const char *const *environment, int64_t timeout_ms,
                   char *text, size_t size_bytes);

/* CPU time that the process has used, in ms; -1 when there is none. */
int64_t process_cpu_ms(pid_t pid);

/* A size of it in KiB, "VmRSS:" (resident now) or "VmHWM:" (the most ever); -1 when there is none.
 */
int64_t process_memory_kib(pid_t pid, const char *which);

/* The program NAME of this build, freed by the caller. */
char *program_path(const char *name);

/* A file of the source tree, freed by the caller. */
char *source_path(const char *name);

#endif
