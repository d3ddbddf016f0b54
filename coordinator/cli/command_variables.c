#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/client.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/whole_number.h"
#include "common/net/security.h"
#include "common/system/startup.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/terminal/exit_code.h"
#include "coordinator/cli/verb.h"

enum {
    KEY_COORDINATOR = 0x1000,
    KEY_KEYS,
    KEY_INSECURE_TRANSPORT,
    KEY_WAIT,
    KEY_AVERAGE,

    WAIT_S = 10, /* default of --wait */
    WAIT_S_MAX = 86400,
};

typedef struct {
    cadre_client_options_t options;
    const char *name; /* of the variable to read; NULL: list them */
    int64_t wait_s;
    bool average;
    bool json;
} flags_t;

/* Takes one option, or the name of a variable; called by argp. */
static error_t
parse(int key, char *argument, struct argp_state *state)
{
    flags_t *self = state->input;
    switch (key) {
    case KEY_COORDINATOR:
        self->options.address = argument;
        break;
    case KEY_KEYS:
        self->options.keys = argument;
        break;
    case KEY_INSECURE_TRANSPORT:
        self->options.insecure_transport = true;
        break;
    case KEY_WAIT:
        if (cadre_whole_number_parse(argument, 1, WAIT_S_MAX, &self->wait_s) < 0) {
            argp_error(state, "--wait: %s", cadre_error_text());
        }
        break;
    case KEY_AVERAGE:
        self->average = true;
        break;
    case 'o':
        self->json = cadre_verb_is_json(argument, state);
        break;
    case ARGP_KEY_ARG:
        if (self->name) {
            argp_error(state, "unexpected argument \"%s\": one variable is read at a time",
                       argument);
        }
        self->name = argument;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }

    return 0;
}

/* --- the list --- */

static json_t *
shape_json(const int64_t *shape, int rank)
{
    json_t *list = json_array();
    for (int i = 0; i < rank; i++) {
        json_array_append_new(list, json_integer((json_int_t)shape[i]));
    }
    return list;
}

/* Prints a JSON object on one line, and frees it. */
static void
print_json(json_t *object)
{
    cadre_auto(cadre_free) char *text = json_dumps(object, JSON_COMPACT);
    printf("%s\n", text);
    json_decref(object);
}

/* Returns whether the variable is a table, which has no number of rows. */
static bool
is_table(const cadre_client_variable_t *variable)
{
    return variable->rank == 2 && variable->shape[0] == 0;
}

static void
print_list_json(const cadre_client_variable_t *variables, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const cadre_client_variable_t *variable = &variables[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:o, s:I, s:b, s:b}", "name", variable->name, "dtype",
                            cadre_dtype_text(variable->dtype), "shape",
                            shape_json(variable->shape, variable->rank), "partitions",
                            (json_int_t)variable->partitions, "average", (int)variable->has_average,
                            "table", (int)is_table(variable)));
    }
    print_json(json_pack("{s:s, s:o}", "schema", "cadre.variables/v1", "variables", list));
}

static void
print_list(const cadre_client_variable_t *variables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const cadre_client_variable_t *variable = &variables[i];
        const int first = is_table(variable) ? 1 : 0;
        printf("%-24s %s %s[", variable->name, cadre_dtype_text(variable->dtype),
               first > 0 ? "table of rows " : "");
        for (int k = first; k < variable->rank; k++) {
            printf("%s%" PRId64, k > first ? "," : "", variable->shape[k]);
        }
        printf("], %" PRIu32 " partition%s%s\n", variable->partitions,
               variable->partitions == 1 ? "" : "s",
               variable->has_average ? ", with an average" : "");
    }
}

static int
list(cadre_client_t *client, const flags_t *flags)
{
    cadre_auto(cadre_free) cadre_client_variable_t *variables = NULL;
    size_t count = 0;
    int status = cadre_client_variables(client, 1000 * flags->wait_s, &variables, &count);
    if (status < 0) {
        return status;
    }

    if (flags->json) {
        print_list_json(variables, count);
    } else {
        print_list(variables, count);
    }
    return 0;
}

/* --- the values of one --- */

/* Returns the number at a place of a tensor whose dtype variables may have. */
static double
number_at(const cadre_tensor_t *value, int64_t index)
{
    cadre_tensor_t one = {.dtype = value->dtype,
                          .data =
                              (char *)value->data + cadre_dtype_size(value->dtype) * (size_t)index};
    double number = 0;
    return cadre_tensor_number(&one, &number) == 0 ? number : 0;
}

/* Prints one row of the tensor on each line: its last axis. */
static void
print_values(const cadre_tensor_t *value)
{
    int64_t count = cadre_tensor_count(value);
    int64_t columns = value->rank > 1 ? value->shape[value->rank - 1] : 1;
    for (int64_t i = 0; i < count; i++) {
        bool ends = (i + 1) % columns == 0;
        printf("%.9g%c", number_at(value, i), ends ? '\n' : ' ');
    }
}

/* Prints the tensor as JSON: its values as one list, row-major. Integers keep all their digits. */
static void
print_values_json(const char *name, const cadre_tensor_t *value)
{
    json_t *values = json_array();
    for (int64_t i = 0; i < cadre_tensor_count(value); i++) {
        json_t *number = value->dtype == CADRE_I64
                             ? json_integer((json_int_t)((const int64_t *)value->data)[i])
                             : json_real(number_at(value, i));
        json_array_append_new(values, number ? number : json_null()); /* null: not finite */
    }
    print_json(json_pack("{s:s, s:s, s:s, s:o, s:o}", "schema", "cadre.variable/v1", "name", name,
                         "dtype", cadre_dtype_text(value->dtype), "shape",
                         shape_json(value->shape, value->rank), "values", values));
}

static int
read_one(cadre_client_t *client, const flags_t *flags)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t value = {0};
    int64_t timeout_ms = 1000 * flags->wait_s;
    int status = flags->average ? cadre_client_read_average(client, flags->name, &value, timeout_ms)
                                : cadre_client_read(client, flags->name, &value, timeout_ms);
    if (status < 0) {
        return status;
    }

    if (flags->json) {
        print_values_json(flags->name, &value);
    } else {
        print_values(&value);
    }
    return 0;
}

/* --- the command --- */

/* Attaches to the job, prints what is asked for, and leaves. */
static int
look(flags_t *flags)
{
    cadre_security_t security = {.keys = flags->options.keys,
                                 .insecure = flags->options.insecure_transport};
    cadre_client_t *client = NULL;
    int status = cadre_security_read(&security);
    if (status < 0) {
        return status;
    }
    if (security.keys) {
        cadre_startup_hold_secrets(); /* no core dumps of a process with secret keys */
    }

    flags->options.timeout_ms = 1000 * flags->wait_s;
    status = cadre_client_open(&flags->options, &client);
    if (status < 0) {
        return status;
    }

    status = flags->name ? read_one(client, flags) : list(client, flags);
    cadre_client_close(&client);
    return status;
}

/* Runs `cadre variables`: lists the variables of a running job, or prints the values of one. */
int
cadre_command_variables(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"coordinator", KEY_COORDINATOR, "ENDPOINT", 0,
         "Where the coordinator is: tcp://HOST:PORT, HOST:PORT or ipc:///PATH (default: as "
         "CADRE_CLUSTER or TF_CONFIG says)",
         0},
        {"keys", KEY_KEYS, "DIR", 0,
         "Directory with client.key and allowed/, as `cadre keygen` makes it (default: CADRE_KEYS)",
         0},
        {"insecure-transport", KEY_INSECURE_TRANSPORT, 0, 0, CADRE_SECURITY_INSECURE_HELP, 0},
        {"wait", KEY_WAIT, "S", 0, "Seconds to wait for each answer (default: 10)", 0},
        {"average", KEY_AVERAGE, 0, 0, "Print the running average of the values instead", 0},
        {"output", 'o', "json|text", 0, "As JSON on one line", 0},
        {0}};
    static const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = "[NAME]",
        .doc = "Lists the variables of a running job, or prints the values of NAME, a row of the "
               "last axis on each line. It changes nothing, and needs the key of a client only.",
    };
    flags_t flags = {.wait_s = WAIT_S, .options = cadre_client_options()};
    argv[0] = "cadre variables";
    argp_parse(&parser, argc, argv, 0, NULL, &flags);
    int status = look(&flags);
    if (status == CADRE_EFULL) {
        cadre_verb_fail(status);
        return CADRE_EXIT_TEMPORARY; /* the job has all its clients, of which some will leave */
    }
    return status < 0 ? cadre_verb_fail(status) : CADRE_EXIT_OK;
}
