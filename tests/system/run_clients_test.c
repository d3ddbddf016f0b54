/* `cadre run` with clients: a second program looks at its variables, and has it evaluate. */
#include <cadre/client.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/system/digits.h"
#include "tests/system/process.h"

TestSuite(run_clients, .timeout = 900);

enum { EPOCHS = 4000, STOPPED_EPOCHS = 400, WAIT_MS = 100000 };

/* Attaches to the run, whose first line on stderr says where its coordinator is. */
static cadre_client_t *
attach(const digits_t *digits)
{
    static const char key[] = "coordinator=";
    cadre_auto(cadre_free) char *said = command_errors(&digits->command);
    char *address = strstr(said, key);
    cr_assert_not_null(address, "%s", said);
    address += strlen(key);
    address[strcspn(address, " \n")] = '\0';
    cadre_client_t *client = NULL;
    cadre_client_options_t options = cadre_client_options();
    options.address = address;
    options.timeout_ms = WAIT_MS;
    cr_assert_eq(cadre_client_open(&options, &client), 0, "%s", cadre_error_text());
    return client;
}

static const cadre_client_evaluation_t evaluation = {"evaluate_step", "test", "loss", 100};

Test(run_clients, who_evaluate_see_the_model_learn)
{
    digits_t digits;
    double loss = 0;
    digits_open(&digits, EPOCHS);
    digits_add(&digits, "--client-closures", "true");
    digits_start_to_checkpoint(&digits, "0.2");
    cadre_client_t *client = attach(&digits);
    cr_assert(cadre_client_may_schedule(client));
    deadline_t deadline = deadline_in(WAIT_MS);
    do { /* ten classes: a model that has learned nothing has 2.3 */
        int status = cadre_client_evaluate(client, &evaluation, WAIT_MS, &loss);
        cr_assert_eq(status, 0, "%s", cadre_error_text());
        cr_assert(again(deadline), "the loss is still %g", loss);
    } while (loss > 1);
    cadre_client_close(&client);
    digits_close(&digits);
}

/* Opens a run of a synchronous job, which ends with the same bits each time; its dropout draws. */
static void
open_synchronous(digits_t *digits)
{
    digits_open(digits, STOPPED_EPOCHS);
    cadre_auto(cadre_free) char *data = source_path("examples");
    char *job = scratch_path(&digits->command.scratch, "job.json");
    FILE *file = fopen(job, "we");
    cr_assert(file);
    fprintf(file,
            "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"%s/data/digits.csv.gz\", "
            "\"scale\": 0.0625}, \"test\": {\"fraction\": 0.2}},\n"
            "\"model\": {\"type\": \"mlp\", \"hidden\": [32], \"dropout\": 0.2}, \"seed\": 5,\n"
            "\"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.003},\n"
            "\"training\": {\"consistency\": \"sync\", \"step_closures\": 4},\n"
            "\"cluster\": {\"ps\": 2, \"workers\": 2, \"client_closures\": true},\n"
            "\"checkpoint\": {\"every_s\": 0.1}}\n",
            data);
    cr_assert_eq(fclose(file), 0);
    free(digits->job);
    digits->job = job;
    digits->arguments[1] = job;
}

static void
start_synchronous(digits_t *digits, const char *resume)
{
    digits_add(digits, "--resume", resume);
    digits_start(digits);
    digits->count -= 2;
    digits->arguments[digits->count] = NULL;
}

/* Has the run evaluate until it has committed so many checkpoints more. */
static void
evaluate_beside(const digits_t *digits, int checkpoints)
{
    double loss = 0;
    cadre_client_t *client = attach(digits);
    const long last = command_wait_checkpoint_after(&digits->command, 0) + checkpoints;
    deadline_t deadline = deadline_in(WAIT_MS);
    do {
        int status = cadre_client_evaluate(client, &evaluation, WAIT_MS, &loss);
        cr_assert_eq(status, 0, "%s", cadre_error_text());
        cr_assert(again(deadline), "no further checkpoint");
    } while (command_wait_checkpoint_after(&digits->command, 0) < last);
    cadre_client_close(&client);
}

static json_t *
end_synchronous(digits_t *digits)
{
    digits_expect_end(digits, 0);
    json_t *result = command_result(&digits->command);
    cr_assert(result);
    return result;
}

/* Closures of clients have ids between those that train. A record that counted them would have the
 * run that resumes leave out rows. */
Test(run_clients, who_evaluate_change_nothing_in_a_run_that_is_stopped_and_resumed)
{
    static const char *const paths[] = {"loss", "examples", "closures.finished",
                                        "closures.scheduled", "updates.0.applied"};
    digits_t quiet;
    open_synchronous(&quiet);
    start_synchronous(&quiet, "never");
    json_t *wanted = end_synchronous(&quiet);

    digits_t digits;
    open_synchronous(&digits);
    long newest = 0;
    for (int i = 0; i < 2; i++) {
        start_synchronous(&digits, i == 0 ? "never" : "auto");
        newest = command_wait_checkpoint_after(&digits.command, newest);
        evaluate_beside(&digits, 3);
        command_signal(&digits.command, SIGTERM);
        digits_expect_end(&digits, 143);
        newest = command_wait_checkpoint_after(&digits.command, 0);
    }
    start_synchronous(&digits, "auto");
    json_t *result = end_synchronous(&digits);
    for (size_t i = 0; i < CADRE_COUNT_OF(paths); i++) {
        const double left = json_number_at(wanted, paths[i]);
        const double right = json_number_at(result, paths[i]);
        cr_expect(left >= right && left <= right, "%s is %.17g, not %.17g", paths[i], right, left);
    }
    json_decref(result);
    json_decref(wanted);
    digits_close(&digits);
    digits_close(&quiet);
}

Test(run_clients, only_read_unless_the_run_lets_them)
{
    digits_t digits;
    cadre_client_variable_t *variables = NULL;
    size_t count = 0;
    double loss = 0;
    digits_open(&digits, EPOCHS);
    digits_start_to_checkpoint(&digits, "0.2");
    cadre_client_t *client = attach(&digits);
    cr_assert_eq(cadre_client_variables(client, WAIT_MS, &variables, &count), 0);
    cr_expect_eq(count, 4);
    free(variables);
    cr_expect_eq(cadre_client_evaluate(client, &evaluation, WAIT_MS, &loss), CADRE_EREFUSED);
    cadre_client_close(&client);
    digits_close(&digits);
}

Test(run_clients, are_let_in_by_true_or_false)
{
    static const char *const values[] = {"perhaps", ""};
    cadre_auto(cadre_free) char *program = program_path("cadre");
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    char text[4096];
    for (size_t i = 0; i < CADRE_COUNT_OF(values); i++) {
        const char *arguments[] = {program, "run", job, "--client-closures", values[i], NULL};
        cr_expect_neq(process_output(arguments, NULL, WAIT_MS, text, sizeof(text)), 0);
        cr_expect(strstr(text, "--client-closures"), "%s", text);
        cr_expect(strstr(text, "neither true nor false"), "%s", text);
    }
}
