#include "coordinator/cli/terminal/exit_code.h"

#include <criterion/criterion.h>
#include <signal.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(exit_code, .timeout = 240);

Test(exit_code, is_zero_for_success_only)
{
#define CHECK(name, number, text) cr_assert_eq(cadre_exit_code(name) == 0, (name) == 0, #name);
    CADRE_STATUS_LIST(CHECK)
#undef CHECK
}

Test(exit_code, tells_scripts_what_kind_of_failure_it_was)
{
    static const struct {
        int status;
        int code;
    } examples[] = {
        {CADRE_EFUNCTION, 1},      {CADRE_ENOTFINITE, 1},
        {CADRE_EPOISON, 1},        {CADRE_EINVALID, 2},
        {CADRE_EDATA, 65},         {CADRE_ENOTFOUND, 66},
        {CADRE_EUNAVAILABLE, 69},  {CADRE_ESTATE, 70},
        {CADRE_EIO, 74},           {CADRE_EEXISTS, 77},
        {CADRE_EPROTOCOL, 76},     {CADRE_EREFUSED, 77},
        {CADRE_ECONFIG, 78},       {CADRE_ETIMEOUT, 124},
        {CADRE_EINTERRUPTED, 130}, {-1, 1},
        {CADRE_EAGAIN, 75},        {CADRE_EFULL, 78},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(examples); i++) {
        cr_expect_eq(cadre_exit_code(examples[i].status), examples[i].code, "%d",
                     examples[i].status);
    }
}

Test(exit_code, says_how_a_process_ended_and_why_probably)
{
    char text[128];
    cadre_process_end_t end = {.signalled = true, .number = SIGKILL};
    cr_assert_str_eq(cadre_process_end_text(end, false, text, sizeof(text)),
                     "was killed by SIGKILL, often because memory ran out");
    end.number = SIGUSR1;
    cr_assert_str_eq(cadre_process_end_text(end, false, text, sizeof(text)),
                     "was killed by SIGUSR1");
    end = (cadre_process_end_t){.number = 78};
    cr_assert_str_eq(cadre_process_end_text(end, false, text, sizeof(text)),
                     "exited with 78, bad configuration");
    end.number = 3;
    cr_assert_str_eq(cadre_process_end_text(end, false, text, sizeof(text)), "exited with 3");
}

Test(exit_code, blames_neither_cadre_for_a_program_nor_a_bug_for_lack_of_memory)
{
    char text[128];
    cadre_process_end_t end = {.signalled = true, .number = SIGSEGV};
    cr_expect_str_eq(
        cadre_process_end_text(end, true, text, sizeof(text)),
        "was killed by SIGSEGV, a wrong memory access: a bug in it, or in a library it uses");
    cr_expect_str_eq(
        cadre_process_end_text(end, false, text, sizeof(text)),
        "was killed by SIGSEGV, a wrong memory access: a bug, ours or of a native function");
    end.number = SIGABRT; /* libzmq has no other way to say that there is no memory */
    cr_expect_str_eq(cadre_process_end_text(end, false, text, sizeof(text)),
                     "was killed by SIGABRT, it gave up: a check failed, or a library got no "
                     "memory or descriptor");
    end = (cadre_process_end_t){.number = CADRE_EXIT_OUT_OF_MEMORY};
    cr_expect_str_eq(cadre_process_end_text(end, false, text, sizeof(text)),
                     "exited with 71, memory ran out");
}
