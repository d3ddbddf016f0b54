#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/client.h>

#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/whole_number.h"
#include "common/net/security.h"
#include "common/system/startup.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/setting_flags.h"
#include "coordinator/cli/terminal/exit_code.h"
#include "coordinator/cli/verb.h"

enum {
    KEY_COORDINATOR = 0x1000,
    KEY_KEYS,
    KEY_INSECURE_TRANSPORT,
    KEY_WAIT,
    KEY_AVERAGE,
    KEY_ROWS,
    KEY_SLOT,

    WAIT_S = 10, /* default of --wait */
    WAIT_S_MAX = 86400,
    KEY_SHOWN = 24, /* bytes of a number that is none, in messages */
};

typedef struct {
    cadre_client_options_t options;
    const char *name; /* of the variable to read; NULL: list them */
    uint64_t *keys;   /* of the rows that --rows names; NULL: all values are read */
    size_t key_count;
    const char *slot; /* of the optimizer, that --slot names; NULL: values are read */
    int64_t wait_s;
    bool average;
    bool json;
} flags_t;

/* Reads the numbers of --rows, in the place of those of an earlier one. */
static int
parse_keys(flags_t *self, const char *words)
{
    const char *at = words;
    cadre_auto(cadre_free) uint64_t *read = NULL;
    size_t read_count = 0;
    for (bool more = true; more; at++) {
        at += strspn(at, " ");
        const char *end = NULL;
        uint64_t key = 0;
        if (!cadre_whole_number_scan_key(at, &key, &end) || (*end != ',' && *end)) {
            return cadre_fail(CADRE_EINVALID,
                              "number %zu is \"%.*s\": it takes whole numbers from %" PRId64
                              " to %" PRIu64 ", with a comma between them",
                              read_count + 1, (int)cadre_min_u64(strcspn(at, ","), KEY_SHOWN), at,
                              INT64_MIN, UINT64_MAX);
        }
        read = cadre_realloc(read, read_count + 1, sizeof(*read));
        read[read_count++] = key;
        more = *end == ',';
        at = end;
    }
    free(self->keys);
    self->keys = read;
    self->key_count = read_count;
    read = NULL;
    return 0;
}

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
    case KEY_ROWS:
        if (parse_keys(self, argument) < 0) {
            argp_error(state, "--rows: %s", cadre_error_text());
        }
        break;
    case KEY_SLOT:
        self->slot = argument;
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
    case ARGP_KEY_END:
        if (self->keys && (!self->name || self->average)) {
            argp_error(state, self->name ? "--rows and --average: rows are read as they are"
                                         : "--rows needs the NAME of a variable");
        }
        if (self->slot && !self->keys) {
            argp_error(state, "--slot needs --rows KEY,...: whose rows of the slot are read");
        }
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

/* Returns `count` numbers of a tensor from `first` on. Integers keep all their digits. */
static json_t *
values_json(const cadre_tensor_t *value, int64_t first, int64_t count)
{
    json_t *values = json_array();
    for (int64_t i = first; i < first + count; i++) {
        json_t *number = value->dtype == CADRE_I64
                             ? json_integer((json_int_t)((const int64_t *)value->data)[i])
                             : json_real(number_at(value, i));
        json_array_append_new(values, number ? number : json_null()); /* null: not finite */
    }
    return values;
}

/* Prints the tensor as JSON: its values as one list, row-major. */
static void
print_values_json(const char *name, const cadre_tensor_t *value)
{
    json_t *values = values_json(value, 0, cadre_tensor_count(value));
    print_json(json_pack("{s:s, s:s, s:s, s:o, s:o}", "schema", "cadre.variable/v1", "name", name,
                         "dtype", cadre_dtype_text(value->dtype), "shape",
                         shape_json(value->shape, value->rank), "values", values));
}

/* --- rows of one --- */

/* Prints a line for each row: its key, and its numbers, if there are any. */
static void
print_rows(const uint64_t *keys, const cadre_client_rows_t *rows)
{
    const int64_t count = rows->values.shape[0];
    const int64_t columns = cadre_tensor_count(&rows->values) / count;
    for (int64_t i = 0; i < count; i++) {
        printf("%" PRIu64, keys[i]);
        for (int64_t k = 0; rows->found[i] && k < columns; k++) {
            printf(" %.9g", number_at(&rows->values, i * columns + k));
        }
        printf("%s\n", rows->found[i] ? "" : " has no row");
    }
}

/* Prints the rows as JSON. Keys are texts: a JSON number has 53 bits with many a reader. */
static void
print_rows_json(const char *name, const uint64_t *keys, const cadre_client_rows_t *rows)
{
    json_t *list = json_array();
    const int64_t count = rows->values.shape[0];
    const int64_t columns = cadre_tensor_count(&rows->values) / count;
    for (int64_t i = 0; i < count; i++) {
        char key[24];
        snprintf(key, sizeof(key), "%" PRIu64, keys[i]);
        json_array_append_new(list, json_pack("{s:s, s:b, s:o}", "key", key, "found",
                                              (int)rows->found[i], "values",
                                              values_json(&rows->values, i * columns, columns)));
    }
    print_json(json_pack("{s:s, s:s, s:s, s:o}", "schema", "cadre.rows/v1", "name", name, "dtype",
                         cadre_dtype_text(rows->values.dtype), "rows", list));
}

static int
read_some(cadre_client_t *client, const flags_t *flags)
{
    cadre_auto(cadre_client_rows_fini) cadre_client_rows_t rows = {.found = NULL};
    const cadre_client_slot_rows_t slot = {.variable = flags->name,
                                           .slot = flags->slot,
                                           .keys = flags->keys,
                                           .count = flags->key_count};
    const int64_t timeout_ms = 1000 * flags->wait_s;
    int status = flags->slot ? cadre_client_read_slot_rows(client, &slot, &rows, timeout_ms)
                             : cadre_client_read_rows(client, flags->name, flags->keys,
                                                      flags->key_count, &rows, timeout_ms);
    if (status < 0) {
        return status;
    }

    if (flags->json) {
        print_rows_json(flags->name, flags->keys, &rows);
    } else {
        print_rows(flags->keys, &rows);
    }
    return 0;
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

    if (flags->keys) {
        status = read_some(client, flags);
    } else {
        status = flags->name ? read_one(client, flags) : list(client, flags);
    }
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
        {"rows", KEY_ROWS, "KEY,...", 0,
         "Print these rows of NAME alone, a line each, which begins with the key: of a table the "
         "rows of these keys, and which have none (-1 is the key 2^64 - 1, as in data); else those "
         "with these numbers, from 0 on",
         0},
        {"slot", KEY_SLOT, "SLOT", 0,
         "With --rows: print, in the place of the values, what the optimizer keeps for these rows "
         "under this name, such as adagrad's accumulator (docs/optimizers.md)",
         0},
        {"output", 'o', "json|text", 0, "As JSON on one line", 0},
        {0}};
    static const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = "[NAME]",
        .doc = "Lists the variables of a running job, or prints the values of NAME, a row of the "
               "last axis on each line; of a table, or where --rows says so, some rows. It changes "
               "nothing, and needs the key of a client only.",
    };
    flags_t flags = {.wait_s = WAIT_S, .options = cadre_client_options()};
    argv[0] = "cadre variables";
    if (cadre_flags_check_written_out(options, argc, argv) < 0) {
        return cadre_verb_fail(CADRE_EINVALID);
    }
    argp_parse(&parser, argc, argv, 0, NULL, &flags);
    int status = look(&flags);
    free(flags.keys);
    if (status == CADRE_EFULL) {
        cadre_verb_fail(status);
        return CADRE_EXIT_TEMPORARY; /* the job has all its clients, of which some will leave */
    }
    return status < 0 ? cadre_verb_fail(status) : CADRE_EXIT_OK;
}
