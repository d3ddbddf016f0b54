#include "coordinator/lock_file.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(lock_file, .timeout = 240);

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
    cadre_lock_file_t first = {0};
    cadre_lock_file_t second = {0};
    char host[256] = "";
    char process[32];
    snprintf(process, sizeof(process), "process %d on", (int)getpid());
    gethostname(host, sizeof(host) - 1);
    cr_assert_eq(cadre_lock_file_open(&first, path, "the place", "digits"), 0);
    cr_assert_eq(cadre_lock_file_open(&second, path, "the place", "other"), CADRE_EEXISTS);
    cr_expect_null(second.path);
    const char *text = cadre_error_text();
    cr_expect_eq(strncmp(text, "the place is in use by", 22), 0, "%s", text);
    cr_expect(strstr(text, "job digits"), "%s", text);
    cr_expect(strstr(text, process), "%s", text);
    cr_expect(strstr(text, host), "%s", text);
    cadre_lock_file_close(&first);
    cr_expect_neq(access(path, F_OK), 0, "it is tidied up");
}

Test(lock_file, is_free_again_when_its_holder_lets_go, .init = set_up, .fini = tear_down)
{
    cadre_lock_file_t lock = {0};
    cr_assert_eq(cadre_lock_file_open(&lock, path, "x", "a_job_with_a_long_name"), 0);
    cadre_lock_file_close(&lock);
    cr_assert_eq(cadre_lock_file_open(&lock, path, "x", "short"), 0);
    cadre_lock_file_t second = {0};
    cr_assert_eq(cadre_lock_file_open(&second, path, "x", "y"), CADRE_EEXISTS);
    cr_expect(strstr(cadre_error_text(), "job short, process"), "%s", cadre_error_text());
    cr_expect_not(strstr(cadre_error_text(), "long"), "%s", cadre_error_text());
    cadre_lock_file_close(&lock);
    cadre_lock_file_close(&lock); /* harmless */
}

Test(lock_file, is_free_again_when_its_holder_is_killed, .init = set_up, .fini = tear_down)
{
    int ready[2];
    cadre_lock_file_t lock = {0};
    cr_assert_eq(pipe(ready), 0);
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        bool taken = cadre_lock_file_open(&lock, path, "x", "y") == 0;
        ssize_t written = write(ready[1], taken ? "+" : "-", 1);
        while (written == 1 && getppid() == parent) {
            pause();
        }
        _exit(1);
    }
    char answer = 0;
    cr_assert_eq(read(ready[0], &answer, 1), 1);
    cr_assert_eq(answer, '+');
    cr_expect_eq(cadre_lock_file_open(&lock, path, "x", "y"), CADRE_EEXISTS);
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_expect_eq(cadre_lock_file_open(&lock, path, "x", "y"), 0, "%s", cadre_error_text());
    cadre_lock_file_close(&lock);
}

Test(lock_file, is_never_reached_through_a_link, .init = set_up, .fini = tear_down)
{
    cadre_lock_file_t lock = {0};
    cr_assert_eq(symlink("elsewhere", path), 0);
    cr_expect_eq(cadre_lock_file_open(&lock, path, "x", "y"), CADRE_EIO);
    cr_expect(strstr(cadre_error_text(), path), "%s", cadre_error_text());
}

/* A file under two names would be emptied under the other one, too. */
Test(lock_file, is_never_one_that_is_not_the_users_alone, .init = set_up, .fini = tear_down)
{
    cadre_lock_file_t lock = {0};
    cadre_auto(cadre_free) char *other = cadre_asprintf("%s/other", folder);
    FILE *file = fopen(other, "w");
    fputs("precious", file);
    fclose(file);
    cr_assert_eq(link(other, path), 0);
    cr_expect_eq(cadre_lock_file_open(&lock, path, "x", "y"), CADRE_EREFUSED);
    struct stat about;
    cr_assert_eq(stat(other, &about), 0);
    cr_expect_eq(about.st_size, 8, "it is emptied");
    unlink(path);
    unlink(other);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(cadre_lock_file_open(&lock, path, "x", "y"), CADRE_EREFUSED);
    unlink(path);
    if (geteuid() == 0) {
        file = fopen(path, "w");
        fputs("\033[31mYOUR DISK FAILS", file);
        fclose(file);
        cr_assert_eq(chown(path, 12345, 12345), 0);
        cr_expect_eq(cadre_lock_file_open(&lock, path, "x", "y"), CADRE_EREFUSED);
        cr_expect_not(strstr(cadre_error_text(), "DISK"), "%s", cadre_error_text());
    }
}

Test(lock_file, is_taken_again_where_its_directory_was_replaced, .init = set_up, .fini = tear_down)
{
    cadre_lock_file_t lock = {0};
    cadre_lock_file_t other = {0};
    cr_assert_eq(cadre_lock_file_open(&lock, path, "x", "y"), 0);
    cr_expect_eq(cadre_lock_file_keep(&lock, "x", "y"), 0);
    cr_assert_eq(unlink(path), 0);
    cr_expect_eq(cadre_lock_file_keep(&lock, "x", "y"), 0);
    cr_expect_eq(cadre_lock_file_open(&other, path, "x", "z"), CADRE_EEXISTS);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(cadre_lock_file_open(&other, path, "x", "z"), 0);
    cr_expect_eq(cadre_lock_file_keep(&lock, "x", "y"), CADRE_EEXISTS);
    cr_expect(strstr(cadre_error_text(), "job z"), "%s", cadre_error_text());
    cadre_lock_file_close(&lock);
    cr_expect_eq(access(path, F_OK), 0, "it is the other's");
    cadre_lock_file_close(&other);
    cr_expect_eq(access(path, F_OK), -1);
}

/* Many take it, look whether they are alone, and let go: the file comes and goes under them. */
Test(lock_file, has_one_holder_while_others_come_and_go, .init = set_up, .fini = tear_down)
{
    enum { PROCESSES = 4, ROUNDS = 200 };
    pid_t children[PROCESSES];
    cadre_auto(cadre_free) char *alone = cadre_asprintf("%s/alone", folder);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (int taken = 0; taken < ROUNDS;) {
                cadre_lock_file_t lock = {0};
                if (cadre_lock_file_open(&lock, path, "x", "y") == 0) {
                    if (mkdir(alone, 0700) < 0 || rmdir(alone) < 0) {
                        _exit(2);
                    }
                    taken++;
                    cadre_lock_file_close(&lock);
                }
            }
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int end = 0;
        cr_assert_eq(waitpid(children[i], &end, 0), children[i]);
        cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == 0, "%x", end);
    }
    rmdir(alone);
}
