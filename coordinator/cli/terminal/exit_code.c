#include "coordinator/cli/terminal/exit_code.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/memory.h"
#include "common/base/status.h"

/* Returns the exit code of the command for a status of the library. */
int
cadre_exit_code(int status)
{
    switch (status) {
    case CADRE_OK:
        return CADRE_EXIT_OK;
    case CADRE_EDATA:
    case CADRE_ECORRUPT:
        return CADRE_EXIT_DATA;
    case CADRE_ENOTFOUND:
        return CADRE_EXIT_NO_INPUT;
    case CADRE_EUNAVAILABLE:
        return CADRE_EXIT_UNAVAILABLE;
    case CADRE_EIO:
        return CADRE_EXIT_IO;
    case CADRE_EAGAIN:
        return CADRE_EXIT_TEMPORARY;
    case CADRE_EPROTOCOL:
    case CADRE_EMALFORMED:
        return CADRE_EXIT_PROTOCOL;
    case CADRE_EREFUSED:
    case CADRE_EEXISTS: /* another coordinator has the address or the checkpoints */
    case CADRE_EFENCED:
        return CADRE_EXIT_REFUSED;
    case CADRE_ECONFIG:
    case CADRE_ESHAPE: /* a checkpoint of another model, or a model that does not fit the data */
    case CADRE_EDTYPE:
    case CADRE_ETOOLARGE:
    case CADRE_EFULL: /* a table, or a ps, that is full, will be full again */
        return CADRE_EXIT_CONFIG;
    case CADRE_EINVALID:
        return CADRE_EXIT_USAGE;
    case CADRE_ETIMEOUT:
        return CADRE_EXIT_TIMEOUT;
    case CADRE_EINTERRUPTED:
        return CADRE_EXIT_INTERRUPTED;
    case CADRE_ESTATE:
    case CADRE_ECLOSED:
    case CADRE_EDUPLICATE:
        return CADRE_EXIT_BUG;
    }

    /* All failures of closures: function, device, values not finite, poison. */
    return CADRE_EXIT_FAILED;
}

/* Returns the text of an exit code; "" for one that is not in CADRE_EXIT_LIST. */
static const char *
code_text(int code)
{
    switch (code) {
#define X(name, number, text)                                                                      \
    case number:                                                                                   \
        return text;
        CADRE_EXIT_LIST(X)
#undef X
    }
    return "";
}

/* Returns how a process ended, by a signal or with an exit code, from what waitpid says of it. */
cadre_process_end_t
cadre_process_end(int wait_status)
{
    if (WIFSIGNALED(wait_status)) {
        return (cadre_process_end_t){.signalled = true, .number = WTERMSIG(wait_status)};
    }
    return (cadre_process_end_t){.number = WEXITSTATUS(wait_status)};
}

_Static_assert((int)CADRE_EXIT_MEMORY == (int)CADRE_EXIT_OUT_OF_MEMORY,
               "as common/ ends a process");

/* Returns the likely cause of an end by this signal, with the ", " before it. */
static const char *
signal_cause(int number, bool is_users_program)
{
    switch (number) {
    case SIGKILL:
        return ", often because memory ran out";
    case SIGSEGV:
        return is_users_program ? ", a wrong memory access: a bug in it, or in a library it uses"
                                : ", a wrong memory access: a bug, ours or of a native function";
    case SIGBUS:
        return ", often a full disk or a file that was cut short";
    case SIGABRT:
        return is_users_program
                   ? ", it gave up: an assert or abort() in it, or in a library it uses"
                   : ", it gave up: a check failed, or a library got no memory or descriptor";
    case SIGILL:
        return ", an instruction this CPU does not have";
    case SIGFPE:
        return is_users_program ? ", a wrong integer division: a bug in it, or in a library it uses"
                                : ", a wrong integer division: a bug, ours or of a native function";
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
        return ", somebody asked it to stop";
    case SIGXCPU:
        return ", its CPU time limit is reached";
    }

    return "";
}

/* Writes how a process ended and the likely cause, as "exited with 78, bad configuration"; returns
 * `text`. */
const char *
cadre_process_end_text(cadre_process_end_t end, bool is_users_program, char *text,
                       size_t size_bytes)
{
    if (end.signalled) {
        const char *name = sigabbrev_np(end.number);
        snprintf(text, size_bytes, "was killed by %s%s%s", name ? "SIG" : "a signal",
                 name ? name : "", signal_cause(end.number, is_users_program));
        return text;
    }
    const char *meaning = code_text(end.number);
    snprintf(text, size_bytes, "exited with %d%s%s", end.number, *meaning ? ", " : "", meaning);
    return text;
}
