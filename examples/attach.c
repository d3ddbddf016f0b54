/*
 * attach - a second program beside a job that runs: it lists the job's variables, reads the first
 * of them, and with a function and a dataset has the job evaluate.
 *
 *     build/release/bin/cadre run examples/digits.json --client-closures true &
 *     build/release/bin/examples/attach ADDRESS
 *     build/release/bin/examples/attach ADDRESS evaluate_step test
 *
 * The first line of `cadre run` says the ADDRESS, as coordinator=. What follows are a function that
 * the job has registered and a dataset that it has opened, here those of the job file; without
 * --client-closures the job refuses to run a function for a client.
 */
#include <cadre/client.h>
#include <stdio.h>
#include <stdlib.h>

enum { WAIT_MS = 30000, BATCH = 64 };

static int
print_variables(cadre_client_t *client)
{
    cadre_client_variable_t *variables = NULL;
    cadre_tensor_t value = {0};
    size_t count = 0;
    double first = 0;
    int s = cadre_client_variables(client, WAIT_MS, &variables, &count);
    for (size_t i = 0; i < count; i++) {
        printf("%s: %s, rank %d, %u partitions\n", variables[i].name,
               cadre_dtype_text(variables[i].dtype), variables[i].rank, variables[i].partitions);
    }
    if (!s && count > 0) {
        s = cadre_client_read(client, variables[0].name, &value, WAIT_MS);
    }
    if (!s && count > 0 && cadre_tensor_count(&value) > 0) {
        cadre_tensor_t element = {.dtype = value.dtype, .data = value.data};
        s = cadre_tensor_number(&element, &first);
        printf("%s begins with %g\n", variables[0].name, first);
    }
    cadre_tensor_fini(&value);
    free(variables);
    return s;
}

int
main(int argc, char **argv)
{
    cadre_client_t *client = NULL;
    cadre_client_options_t options = cadre_client_options();
    double mean = 0;
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: attach ADDRESS [FUNCTION DATASET]\n");
        return 2;
    }

    options.address = argv[1];
    int s = cadre_client_open(&options, &client);
    s = s ? s : print_variables(client);
    if (!s && argc == 4) {
        const cadre_client_evaluation_t what = {argv[2], argv[3], NULL, BATCH};
        s = cadre_client_evaluate(client, &what, WAIT_MS, &mean);
    }
    if (s) {
        fprintf(stderr, "%s: %s\n", cadre_status_text(s), cadre_error_text());
    } else if (argc == 4) {
        printf("%s over %s: %g\n", argv[2], argv[3], mean);
    }
    cadre_client_close(&client);
    return s != 0;
}
