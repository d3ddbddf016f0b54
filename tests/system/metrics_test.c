/* --http of the programs: figures of a run, checked as Prometheus reads them; what strangers send;
 * and addresses that cannot be. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "tests/system/digits.h"
#include "tests/system/metrics_page.h"
#include "tests/system/process.h"

TestSuite(metrics, .timeout = 900);

enum {
    EPOCHS = 100000, /* the run ends when the test has seen all */
    SLOW = 40,
    WAIT_MS = 120000,
};

/* --- a run --- */

/* The port that the first line of a run names. */
static int
port_of_run(const digits_t *run)
{
    return page_port(run->command.errors, " http=");
}

static void
send_what_is_no_request(int port)
{
    static const char greeting[] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL\0\0\r\n\r\n"; /* ZMTP's */
    enum { SIZE = 1 << 20 };
    cadre_auto(cadre_free) char *large = cadre_calloc(SIZE + 64, 1);
    int head = snprintf(large, 64, "GET /livez HTTP/1.1\r\nHost: a\r\nX: ");
    memset(large + head, 'x', SIZE);
    for (int round = 0; round < 3; round++) {
        cadre_auto(http_answer_fini) http_answer_t refused =
            http_send(port, greeting, sizeof(greeting));
        cr_expect(refused.code == 0 || refused.code >= 400, "%d", refused.code);
        cadre_auto(http_answer_fini) http_answer_t long_one = http_send(port, large, SIZE);
        cr_expect(long_one.code == 0 || long_one.code >= 400, "%d", long_one.code);
        cadre_auto(http_answer_fini) http_answer_t post = http_ask(port, "POST", "/metrics");
        cr_expect_eq(post.code, 405);
        page_expect(port, "/livez", 200, "alive\n");
    }
}

static void
begin_what_never_ends(int port, int slow[SLOW])
{
    for (int i = 0; i < SLOW; i++) {
        slow[i] = http_connect(port);
        cr_assert_geq(slow[i], 0);
        (void)!send(slow[i], "GET /livez HT", 13, MSG_NOSIGNAL);
    }
}

/* A task of a run listens for its peers alone. */
static void
expect_tasks_answer_nothing(const digits_t *run)
{
    cadre_auto(cadre_free) char *said = command_errors(&run->command);
    const char *session = strstr(said, "session=");
    cr_assert(session, "%s", said);
    session += strlen("session=");
    for (int i = 0; i < 2; i++) {
        cadre_auto(cadre_free) char *path = cadre_asprintf(
            "%.*s/%s-0.log", (int)strcspn(session, " "), session, i == 0 ? "ps" : "worker");
        page_wait_said(path, "\"connected\"");
        cadre_auto(cadre_free) char *log = file_text(path);
        cr_expect_not(strstr(log, "http_listening"), "%s: %s", path, log);
    }
}

Test(metrics, a_run_answers_and_strangers_change_nothing)
{
    setenv("CADRE_HTTP", "0", 1); /* the coordinator's alone */
    digits_t run;
    int slow[SLOW];
    digits_open(&run, EPOCHS);
    digits_start(&run);
    int port = port_of_run(&run);
    page_wait(port, "/readyz", 200, "ready\n");
    page_expect(port, "/livez", 200, "alive\n");
    expect_tasks_answer_nothing(&run);
    send_what_is_no_request(port);
    begin_what_never_ends(port, slow);
    digits_wait_said(&run, "epoch=10/");
    command_signal(&run.command, SIGINT);
    digits_expect_end(&run, 128 + SIGINT);
    json_t *result = command_result(&run.command);
    cr_expect_geq(json_number_at(result, "closures.finished"), 9 * DIGITS_CLOSURES);
    cr_expect_leq(json_number_at(result, "closures.attempts"),
                  json_number_at(result, "closures.scheduled"), "none ran twice");
    digits_expect_number(result, "failures.worker", 0);
    digits_expect_number(result, "failures.ps", 0);
    json_decref(result);
    for (int i = 0; i < SLOW; i++) {
        close(slow[i]);
    }
    digits_close(&run);
}

/* --- promtool --- */

/* Whether promtool finds nothing wrong with a text; what it says goes to `words`. */
static int
check_with_promtool(const scratch_t *scratch, const char *text, char **words)
{
    cadre_auto(cadre_free) char *input = scratch_path(scratch, "metrics");
    cadre_auto(cadre_free) char *output = scratch_path(scratch, "promtool");
    cadre_auto(cadre_free) char *command = cadre_asprintf("exec promtool check metrics <%s", input);
    const char *arguments[] = {"/bin/sh", "-c", command, NULL};
    FILE *file = fopen(input, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
    int end = 0;
    pid_t pid = process_start(&(process_t){.arguments = arguments, .output = output});
    cr_assert(process_wait(pid, WAIT_MS, &end));
    *words = file_text(output);
    return WIFEXITED(end) ? WEXITSTATUS(end) : -1;
}

static void
expect_sound(const scratch_t *scratch, int port)
{
    cadre_auto(cadre_free) char *text = page_metrics(port);
    cadre_auto(cadre_free) char *words = NULL;
    cr_assert(strstr(text, "cadre_build_info{"), "%s", text);
    cr_assert(strstr(text, "transport=\"plain\"} 1"), "%s", text);
    int code = check_with_promtool(scratch, text, &words);
    if (code == 127) {
        cr_skip_test("there is no promtool (package prometheus): the figures are not checked");
    }
    cr_expect_eq(code, 0, "%s", words);
    cr_expect_str_empty(words);
}

/* A daemon that waits for its coordinator, whose port is in its log. */
static pid_t
start_lone(const scratch_t *scratch, const char *name, int *port)
{
    cadre_auto(cadre_free) char *program = program_path(name);
    cadre_auto(cadre_free) char *log = scratch_path(scratch, name);
    const char *arguments[] = {program, "--coordinator", "ipc:///none", "--http", "0", NULL};
    pid_t pid = process_start(&(process_t){.arguments = arguments, .output = log});
    *port = page_port_of_log(log);
    page_wait(*port, "/readyz", 503, "it has no connection to the coordinator\n");
    return pid;
}

static void
expect_daemon_sound(const char *name)
{
    scratch_t scratch;
    scratch_open(&scratch);
    int port = 0;
    int end = 0;
    pid_t pid = start_lone(&scratch, name, &port);
    send_what_is_no_request(port);
    expect_sound(&scratch, port);
    kill(pid, SIGTERM);
    cr_assert(process_wait(pid, WAIT_MS, &end));
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == 143, "%d", end);
    scratch_close(&scratch);
}

Test(metrics, promtool_takes_the_figures_of_a_ps)
{
    expect_daemon_sound("cadre-ps");
}

Test(metrics, promtool_takes_the_figures_of_a_worker)
{
    expect_daemon_sound("cadre-worker");
}

Test(metrics, promtool_takes_the_figures_of_a_coordinator)
{
    digits_t run;
    digits_open(&run, EPOCHS);
    digits_add(&run, "--http", "0");
    digits_start_to_checkpoint(&run, "0.1");
    int port = port_of_run(&run);
    page_wait(port, "/readyz", 200, "ready\n");
    expect_sound(&run.command.scratch, port);
    command_signal(&run.command, SIGINT);
    digits_expect_end(&run, 128 + SIGINT);
    digits_close(&run);
}

/* --- addresses that cannot be --- */

/* A program with these arguments ends with `code` and says `words`. */
static void
expect_refused(const char *const *arguments, const char *variable, int code, const char *words)
{
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_auto(cadre_free) char *output = scratch_path(&scratch, "output");
    const char *const environment[] = {variable, NULL};
    int end = 0;
    pid_t pid = process_start(&(process_t){
        .arguments = arguments, .environment = variable ? environment : NULL, .output = output});
    cr_assert(process_wait(pid, WAIT_MS, &end));
    cadre_auto(cadre_free) char *said = file_text(output);
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == code, "%s: %x: %s", arguments[0], end, said);
    cr_expect(strstr(said, words), "%s: \"%s\" is not in \"%s\"", arguments[0], words, said);
    scratch_close(&scratch);
}

static void
expect_daemon_refuses(const char *name)
{
    cadre_auto(cadre_free) char *program = program_path(name);
    const char *flag[] = {program, "--coordinator", "ipc:///none", "--http", "http://x", NULL};
    const char *none[] = {program, "--coordinator", "ipc:///none", NULL};
    expect_refused(flag, NULL, 2, "--http: \"http://x\" is none of PORT, HOST:PORT");
    expect_refused(none, "CADRE_HTTP=:", 78, "CADRE_HTTP: \":\" is none of PORT, HOST:PORT");
    scratch_t scratch;
    scratch_open(&scratch);
    int port = 0;
    int end = 0;
    pid_t pid = start_lone(&scratch, name, &port);
    cadre_auto(cadre_free) char *taken = cadre_asprintf("%d", port);
    flag[4] = taken;
    cadre_auto(cadre_free) char *words =
        cadre_asprintf("--http: %s cannot be listened on: Address already in use", taken);
    expect_refused(flag, NULL, 69, words);
    kill(pid, SIGTERM);
    cr_assert(process_wait(pid, WAIT_MS, &end));
    scratch_close(&scratch);
}

Test(metrics, a_ps_refuses_an_address_that_cannot_be)
{
    expect_daemon_refuses("cadre-ps");
}

Test(metrics, a_worker_refuses_an_address_that_cannot_be)
{
    expect_daemon_refuses("cadre-worker");
}

Test(metrics, a_run_refuses_an_address_that_cannot_be)
{
    cadre_auto(cadre_free) char *program = program_path("cadre");
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *bad[] = {program, "run", job, "--http", "1:2:3", NULL};
    const char *none[] = {program, "run", job, NULL};
    const char *own[] = {program, "run", "--http", "0", "--", "/bin/true", NULL};
    expect_refused(bad, NULL, 2, "--http: \"1:2:3\" is none of PORT, HOST:PORT");
    expect_refused(none, "CADRE_HTTP=x", 78, "CADRE_HTTP: \"x\" is none of PORT, HOST:PORT");
    expect_refused(own, NULL, 2, "--http is for a job file");
}

Test(metrics, a_run_whose_port_is_in_use_says_so)
{
    scratch_t scratch;
    scratch_open(&scratch);
    int port = 0;
    int end = 0;
    pid_t pid = start_lone(&scratch, "cadre-ps", &port);
    cadre_auto(cadre_free) char *program = program_path("cadre");
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    cadre_auto(cadre_free) char *taken = cadre_asprintf("%d", port);
    cadre_auto(cadre_free) char *words = cadre_asprintf("%s cannot be listened on: Address", taken);
    const char *arguments[] = {program, "run",    job,   "--checkpoint-dir",
                               "none",  "--http", taken, NULL};
    expect_refused(arguments, NULL, 69, words);
    kill(pid, SIGTERM);
    cr_assert(process_wait(pid, WAIT_MS, &end));
    scratch_close(&scratch);
}
