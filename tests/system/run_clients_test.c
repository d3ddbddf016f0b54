/* `cadre run` with clients: a second program looks at its variables, and has it evaluate. */
#include <cadre/client.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/system/digits.h"
#include "tests/system/process.h"

TestSuite(run_clients, .timeout = 900);

enum { EPOCHS = 4000, WAIT_MS = 100000 };

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
