/*
 * exit_code - the exit codes of the `cadre` command.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COORDINATOR_CLI_TERMINAL_EXIT_CODE_H
#define CADRE_COORDINATOR_CLI_TERMINAL_EXIT_CODE_H

#include <stdbool.h>
#include <stddef.h>

/* Name, number, text. Numbers from 64 on are those of sysexits.h, from 124 on those of shells. */
#define CADRE_EXIT_LIST(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(FAILED, 1, "training failed")                                                                \
    X(USAGE, 2, "wrong usage")                                                                     \
    X(DATA, 65, "bad data")                                                                        \
    X(NO_INPUT, 66, "input missing")                                                               \
    X(UNAVAILABLE, 69, "a needed task stayed away")                                                \
    X(BUG, 70, "a bug in Cadre")                                                                   \
    X(MEMORY, 71, "memory ran out")                                                                \
    X(CANNOT_WRITE, 73, "cannot write")                                                            \
    X(IO, 74, "input or output failed")                                                            \
    X(TEMPORARY, 75, "temporary, try again")                                                       \
    X(PROTOCOL, 76, "protocol or build versions differ")                                           \
    X(REFUSED, 77, "refused")                                                                      \
    X(CONFIG, 78, "bad configuration")                                                             \
    X(TIMEOUT, 124, "timed out")                                                                   \
    X(INTERRUPTED, 130, "stopped by Ctrl-C")                                                       \
    X(TERMINATED, 143, "stopped by SIGTERM")

enum {
#define X(name, number, text) CADRE_EXIT_##name = number,
    CADRE_EXIT_LIST(X)
#undef X
};

/* Returns the exit code for a status; 0 for 0. */
int cadre_exit_code(int status);

/* How a process ended. */
typedef struct {
    bool signalled;
    int number; /* exit code, or signal */
} cadre_process_end_t;

/* Returns how a process ended, by the status that waitpid gave. */
cadre_process_end_t cadre_process_end(int wait_status);

/* Writes how a process ended, "was killed by SIGKILL, often because memory ran out" or "exited with
 * 78, bad configuration", into `text` of `size_bytes`; returns `text`. `is_users_program`: it was
 * the user's program and not a task of Cadre, which changes the likely causes. */
const char *cadre_process_end_text(cadre_process_end_t end, bool is_users_program, char *text,
                                   size_t size_bytes);

#endif
