/*
 * startup - what each of our programs does first: it sees to its descriptors 0 to 2 and looks at
 * the limits it was started under.
 *
 * Thread:  main, before any other thread of ours.
 */
#ifndef CADRE_COMMON_SYSTEM_STARTUP_H
#define CADRE_COMMON_SYSTEM_STARTUP_H

enum {
    CADRE_EXIT_OUTPUT = 74, /* what a program ends with whose stdout did not take what it printed */
    CADRE_STACK_SIZE_MIN =
        512 << 10, /* of a thread: with 64 KiB OpenBLAS dies, with 128 a small job ran */
};

/* Opens /dev/null as each of the descriptors 0 to 2 that is closed: otherwise the next file or
 * socket becomes one of them, and what goes to stdout or stderr ends up in it. Sees to it that
 * exit() ends the process with CADRE_EXIT_OUTPUT and a text when stdout did not take all. Raises
 * the soft limit of open files (ulimit -n) to the hard one. Then CADRE_ECONFIG, with a text, when
 * the stack's limit (ulimit -s), which every thread gets, is under CADRE_STACK_SIZE_MIN. */
int cadre_startup(void);

/* Before a program reads or makes secret keys: no core dump is written of this process from now on,
 * and no other user's process may look into it, unless CADRE_ALLOW_CORE_DUMPS is 1. */
void cadre_startup_hold_secrets(void);

#endif
