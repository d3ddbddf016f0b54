#include "coordinator/lock_file.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/memory.h"
#include "common/status.h"

TestSuite(lock_file, .timeout = 20);

static char folder[64];
static char path[96];

static void
set_up(void)
{
    snprintf(folder, sizeof(folder), "/tmp/cadre-lock-XXXXXX");
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/lock", folder);
}

static void
tear_down(void)
{
    unlink(path);
    rmdir(folder);
}

Test(lock_file, refuses_a_second_holder_and_names_the_first, .init = set_up, .fini = tear_down)
{
    int first = -1;
    int second = -1;
    char host[256] = "";
    char process[32];
    snprintf(process, sizeof(process), "process %d on", (int)getpid());
    gethostname(host, sizeof(host) - 1);
    cr_assert_eq(cadre_lock_file_open(path, "the place", "digits", &first), 0);
    cr_assert_eq(cadre_lock_file_open(path, "the place", "other", &second), CADRE_EEXISTS);
    cr_expect_eq(second, -1);
    const char *text = cadre_error_text();
    cr_expect_eq(strncmp(text, "the place is in use by", 22), 0, "%s", text);
    cr_expect(strstr(text, "job digits"), "%s", text);
    cr_expect(strstr(text, process), "%s", text);
    cr_expect(strstr(text, host), "%s", text);
    cadre_lock_file_close(&first);
    cr_expect_eq(first, -1);
}

Test(lock_file, is_free_again_when_its_holder_lets_go, .init = set_up, .fini = tear_down)
{
    int fd = -1;
    cr_assert_eq(cadre_lock_file_open(path, "x", "a_job_with_a_long_name", &fd), 0);
    cadre_lock_file_close(&fd);
    cr_assert_eq(cadre_lock_file_open(path, "x", "short", &fd), 0);
    int second = -1;
    cr_assert_eq(cadre_lock_file_open(path, "x", "y", &second), CADRE_EEXISTS);
    cr_expect(strstr(cadre_error_text(), "job short, process"), "%s", cadre_error_text());
    cr_expect_not(strstr(cadre_error_text(), "long"), "%s", cadre_error_text());
    cadre_lock_file_close(&fd);
    cadre_lock_file_close(&fd); /* harmless */
}

Test(lock_file, is_free_again_when_its_holder_is_killed, .init = set_up, .fini = tear_down)
{
    int ready[2];
    int fd = -1;
    cr_assert_eq(pipe(ready), 0);
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        bool taken = cadre_lock_file_open(path, "x", "y", &fd) == 0;
        ssize_t written = write(ready[1], taken ? "+" : "-", 1);
        while (written == 1 && getppid() == parent) {
            pause();
        }
        _exit(1);
    }
    char answer = 0;
    cr_assert_eq(read(ready[0], &answer, 1), 1);
    cr_assert_eq(answer, '+');
    cr_expect_eq(cadre_lock_file_open(path, "x", "y", &fd), CADRE_EEXISTS);
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_expect_eq(cadre_lock_file_open(path, "x", "y", &fd), 0, "%s", cadre_error_text());
    cadre_lock_file_close(&fd);
}

Test(lock_file, is_never_reached_through_a_link, .init = set_up, .fini = tear_down)
{
    int fd = -1;
    cr_assert_eq(symlink("elsewhere", path), 0);
    cr_expect_eq(cadre_lock_file_open(path, "x", "y", &fd), CADRE_EIO);
    cr_expect(strstr(cadre_error_text(), path), "%s", cadre_error_text());
}
