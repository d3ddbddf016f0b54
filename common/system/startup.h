/*
 * startup - called first by each of our programs: makes sure of the descriptors 0 to 2, and checks
 * the limits under which the program was started.
 *
 * Thread:  main, before any other thread of ours.
 */
#ifndef CADRE_COMMON_SYSTEM_STARTUP_H
#define CADRE_COMMON_SYSTEM_STARTUP_H

enum {
    CADRE_EXIT_OUTPUT = 74, /* exit status of a program whose stdout has not taken all its output */
    /* Least stack of a thread: with 64 KiB OpenBLAS crashes, with 128 KiB a small job ran. */
    CADRE_STACK_SIZE_MIN = 512 << 10,
};

/* Opens /dev/null as each of the descriptors 0 to 2 that is closed: otherwise the next file or
 * socket gets that number, and output to stdout or stderr is written into it. Has exit() end the
 * process with CADRE_EXIT_OUTPUT and a text when stdout has not taken all output. Raises the soft
 * limit of open files (ulimit -n) to the hard one. Fails with CADRE_ECONFIG
 * and a text when that is below CADRE_DESCRIPTORS_MIN, or when the limit of the stack (ulimit -s),
 * which every thread gets, is below CADRE_STACK_SIZE_MIN. */
int cadre_startup(void);

/* Forbids core dumps of this process, and unprivileged processes to inspect it, unless the variable
 * CADRE_ALLOW_CORE_DUMPS is 1. Called before a program reads or makes secret keys. */
void cadre_startup_hold_secrets(void);

#endif
