#include "coordinator/cli/train/model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/graph/program.h"
#include "coordinator/cli/train/job_file.h"

TestSuite(model, .timeout = 240);

enum { FEATURES = 36, CLASSES = 3 };

static void
read_job(cadre_job_t *job, const char *label_kind, const char *model)
{
    cadre_job_init(job);
    cadre_auto(cadre_free) char *text = cadre_asprintf(
        "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\", \"label_kind\": \"%s\"}}, "
        "\"model\": {%s}}",
        label_kind, model);
    cr_assert_eq(cadre_job_file_parse(job, "j.json", text), 0, "%s", cadre_error_text());
}

static int
build(const char *label_kind, const char *model, bool training)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    read_job(&job, label_kind, model);
    cadre_program_t *program = NULL;
    int status = cadre_model_program(&job, FEATURES, CLASSES, training, &program);
    cadre_program_destroy(&program);
    return status;
}

#define CNN "\"type\": \"cnn\", \"input\": [6, 6, 1], \"filters\": [2, 3]"

/* Every type of layer. */
#define ANY                                                                                        \
    "\"type\": \"layers\", \"input\": [6, 6, 1], \"layers\": ["                                    \
    "{\"type\": \"conv2d\", \"filters\": 4, \"padding\": 1, \"stride\": 2},"                       \
    "{\"type\": \"batch_norm\"}, {\"type\": \"activation\", \"activation\": \"relu\"},"            \
    "{\"type\": \"max_pool2d\", \"stride\": 1}, {\"type\": \"mean_pool2d\", \"size\": 1},"         \
    "{\"type\": \"mean\"}, {\"type\": \"flatten\"}, {\"type\": \"dropout\", \"rate\": 0.5},"       \
    "{\"type\": \"positions\"}, {\"type\": \"layer_norm\"}, {\"type\": \"dense\", \"units\": 2}]"

#define EMBEDDED                                                                                   \
    "\"type\": \"layers\", \"layers\": [{\"type\": \"embedding\", \"ids\": 5, \"units\": 3}, "

#define BRANCHES                                                                                   \
    "\"type\": \"layers\", \"layers\": [{\"type\": \"dense\", \"units\": 4, \"name\": \"a\"}, "    \
    "{\"type\": \"dense\", \"units\": 4, \"name\": \"b\"}, "

/* The variables of a model of layers that travel as bf16, one letter each in the order of layers:
 * n for those, w for the others. */
static void
expect_wires(const char *keys, const char *layer_wire, const char *wanted)
{
    const int64_t widths[] = {FEATURES, CLASSES};
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_auto(cadre_free) cadre_network_t *network = cadre_calloc(1, sizeof(*network));
    cadre_auto(cadre_free) char *text = cadre_asprintf(
        "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\"}}, \"model\": {\"type\": "
        "\"layers\"%s, \"layers\": [{\"type\": \"dense\", \"units\": 4}, {\"type\": "
        "\"layer_norm\"%s}]}}",
        keys, layer_wire);
    cadre_job_init(&job);
    cr_assert_eq(cadre_job_file_parse(&job, "j.json", text), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_model_network(&job, widths, true, network), 0);
    cr_assert_eq(network->variable_count, strlen(wanted));
    for (size_t i = 0; i < network->variable_count; i++) {
        cr_expect_eq(network->variables[i].wire, wanted[i] == 'n' ? CADRE_BF16 : CADRE_F32, "%s %s",
                     keys, network->variables[i].name);
    }
    cadre_program_destroy(&network->program);
}

Test(model, a_layer_travels_as_it_says_or_as_the_model_does)
{
    expect_wires("", "", "wwwwww");
    expect_wires(", \"wire\": \"bf16\"", "", "nnnnnn");
    expect_wires(", \"wire\": \"f32\"", "", "wwwwww");
    expect_wires(", \"wire\": \"bf16\"", ", \"wire\": \"f32\"", "nnwwnn");
    expect_wires("", ", \"wire\": \"bf16\"", "wwnnww");
}

/* The training program's network of a model of layers, which the caller ends. */
static cadre_network_t *
layers_network(cadre_job_t *job, const char *keys, const char *layers)
{
    const int64_t widths[] = {FEATURES, CLASSES};
    cadre_network_t *network = cadre_calloc(1, sizeof(*network));
    cadre_auto(cadre_free) char *text = cadre_asprintf(
        "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\"}}, \"model\": {\"type\": "
        "\"layers\"%s, \"layers\": [%s]}}",
        keys, layers);
    cadre_job_init(job);
    cr_assert_eq(cadre_job_file_parse(job, "j.json", text), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_model_network(job, widths, true, network), 0, "%s", cadre_error_text());
    return network;
}

static bool
is_pushed(const cadre_program_t *program, const char *name)
{
    for (int i = 0; i < cadre_program_push_count(program); i++) {
        int variable = (int)cadre_program_push(program, i)->variable;
        if (strcmp(cadre_program_variable(program, variable)->name, name) == 0) {
            return true;
        }
    }
    return false;
}

Test(model, pushes_nothing_to_the_variables_of_a_frozen_layer)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_auto(cadre_free) cadre_network_t *network = layers_network(
        &job, ", \"l1\": 0.1",
        "{\"type\": \"dense\", \"units\": 4, \"trainable\": false}, "
        "{\"type\": \"batch_norm\", \"trainable\": false}, {\"type\": \"dense\", \"units\": 3}");
    static const char *const frozen[] = {"w1", "b1", "scale2", "shift2", "mean2", "variance2"};
    static const char *const trained[] = {"w3", "b3", "w4", "b4"};
    cr_assert_eq(network->variable_count, CADRE_COUNT_OF(frozen) + CADRE_COUNT_OF(trained));
    for (size_t i = 0; i < CADRE_COUNT_OF(frozen); i++) {
        cr_expect_not(is_pushed(network->program, frozen[i]), "%s", frozen[i]);
    }
    for (size_t i = 0; i < CADRE_COUNT_OF(trained); i++) {
        cr_expect(is_pushed(network->program, trained[i]), "%s", trained[i]);
    }
    cadre_program_destroy(&network->program);
}

Test(model, pushes_the_running_averages_of_batch_norm)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_auto(cadre_free) cadre_network_t *network =
        layers_network(&job, "", "{\"type\": \"batch_norm\"}");
    cr_expect(is_pushed(network->program, "mean1"));
    cr_expect(is_pushed(network->program, "variance1"));
    cr_expect_eq(cadre_program_push_count(network->program), (int)network->variable_count);
    cadre_program_destroy(&network->program);
}

Test(model, of_more_local_steps_than_a_program_has_room_for_is_refused)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    read_job(&job, "class", "\"type\": \"transformer\", \"input\": [6, 6]");
    job.local_steps = CADRE_JOB_LOCAL_STEPS_MAX;
    cr_expect_eq(cadre_model_check(&job), CADRE_ECONFIG);
    cr_expect_not_null(strstr(cadre_error_text(), "j.json: training.local_steps 1024 is too much"),
                       "%s", cadre_error_text());
}

Test(model, a_layer_has_the_penalties_it_says_or_those_of_the_model)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_auto(cadre_free) cadre_network_t *network =
        layers_network(&job, ", \"l1\": 0.1, \"l2\": 0.2",
                       "{\"type\": \"dense\", \"units\": 4, \"l1\": 0, \"l2\": 0.5}, "
                       "{\"type\": \"dense\", \"units\": 3}");
    cr_expect_eq(job.l1, 0.1);
    cr_expect_eq(job.l2, 0.2);
    cr_expect(network->variables[0].l1 == 0 && network->variables[0].l2 == 0.5);
    cr_expect(network->variables[2].l1 < 0 && network->variables[2].l2 < 0, "the model's");
    cr_expect(network->variables[4].l1 < 0 && network->variables[4].l2 < 0, "the last layer too");
    cadre_program_destroy(&network->program);
}

Test(model, is_a_sound_program_for_every_kind_of_label)
{
    static const struct {
        const char *label_kind;
        const char *model;
    } examples[] = {
        {"class", "\"type\": \"mlp\", \"hidden\": [4, 4]"},
        {"class", "\"type\": \"logistic\""},
        {"binary", "\"type\": \"mlp\", \"hidden\": [4]"},
        {"binary", "\"type\": \"logistic\", \"l2\": 0.1"},
        {"value", "\"type\": \"mlp\", \"hidden\": [4]"},
        {"value", "\"type\": \"linear\""},
        {"class", CNN ", \"hidden\": [5], \"dropout\": 0.1, \"kernel\": 5"},
        {"binary", CNN},
        {"value", "\"type\": \"cnn\", \"input\": [2, 2, 9], \"filters\": [2, 3, 4]"},
        {"class", "\"type\": \"transformer\", \"input\": [9, 4], \"blocks\": 2, \"dropout\": 0.1"},
        {"value", "\"type\": \"transformer\", \"input\": [9, 4], \"width\": 6, \"heads\": 3"},
        {"class", "\"type\": \"layers\", \"layers\": []"},
        {"class", "\"type\": \"layers\", \"l2\": 0.1, \"layers\": [{\"type\": \"batch_norm\"}, "
                  "{\"type\": \"activation\", \"activation\": \"tanh\"}, "
                  "{\"type\": \"dense\", \"units\": 3}]"},
        {"class", ANY},
        {"class", EMBEDDED "{\"type\": \"transformer\"}, {\"type\": \"mean\"}]"},
        {"value", EMBEDDED "{\"type\": \"flatten\"}]"},
        {"class", BRANCHES "{\"type\": \"add\", \"from\": [\"a\", \"b\"]}]"},
        {"class", EMBEDDED "{\"type\": \"gru\", \"units\": 4, \"return_sequences\": true}, "
                           "{\"type\": \"lstm\", \"units\": 3}]"},
        {"class", "\"type\": \"layers\", \"input\": [12, 3], \"layers\": [{\"type\": \"conv1d\", "
                  "\"filters\": 4, \"padding\": 1}, {\"type\": \"max_pool1d\"}, {\"type\": "
                  "\"conv1d\", \"filters\": 2, \"kernel\": 4, \"causal\": true, \"activation\": "
                  "\"relu\"}, {\"type\": \"mean_pool1d\", \"size\": 3, \"stride\": 1}, {\"type\": "
                  "\"reshape\", \"shape\": [8]}]"},
        {"class", BRANCHES "{\"type\": \"concat\", \"from\": [\"a\", \"b\", \"input\"]}]"},
        {"value", "\"type\": \"layers\", \"layers\": [{\"type\": \"embedding\", \"ids\": 5, "
                  "\"units\": 3, \"columns\": [2, 4]}, {\"type\": \"mean\", \"name\": \"a\"}, "
                  "{\"type\": \"reshape\", \"columns\": [6, 30], \"shape\": [5, 3, 2]}, "
                  "{\"type\": \"conv2d\", \"filters\": 3}, {\"type\": \"mean\", \"name\": "
                  "\"b\"}, {\"type\": \"add\", \"from\": [\"b\", \"a\"]}]"},
        /* Ids may come through what leaves numbers as they are. */
        {"value", "\"type\": \"layers\", \"layers\": [{\"type\": \"reshape\", \"shape\": [6, "
                  "6], \"name\": \"r\"}, {\"type\": \"concat\", \"from\": [\"r\", \"r\"]}, "
                  "{\"type\": \"flatten\"}, {\"type\": \"embedding\", \"ids\": 5, \"units\": 3}, "
                  "{\"type\": \"mean\"}]"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(examples); i++) {
        for (int training = 0; training < 2; training++) {
            cr_expect_eq(build(examples[i].label_kind, examples[i].model, training), 0, "%s %s: %s",
                         examples[i].label_kind, examples[i].model, cadre_error_text());
        }
    }
}

Test(model, is_a_sound_program_for_every_activation_with_dropout)
{
    static const char *const activations[] = {"relu", "sigmoid", "tanh", "gelu", "softplus"};
    for (size_t i = 0; i < CADRE_COUNT_OF(activations); i++) {
        char model[128];
        snprintf(model, sizeof(model),
                 "\"type\": \"mlp\", \"hidden\": [4], \"activation\": \"%s\", \"dropout\": 0.5",
                 activations[i]);
        cr_expect_eq(build("class", model, true), 0, "%s: %s", activations[i], cadre_error_text());
    }
}

Test(model, names_the_layer_that_does_not_fit)
{
    static const struct {
        const char *model;
        const char *text;
    } cases[] = {
        {"\"type\": \"cnn\", \"input\": [28, 28, 1], \"filters\": [2]",
         "model.input: a row has 36 numbers, its shape there has 784"},
        {"\"type\": \"cnn\", \"input\": [1, 36, 1], \"filters\": [2], \"kernel\": 4",
         "layers[0] (conv2d): conv2d: a window of 4x4 does not fit [B,1,36,1] with padding 1"},
        {"\"type\": \"layers\", \"input\": [6, 6], \"layers\": [{\"type\": \"flatten\"}, "
         "{\"type\": \"max_pool2d\"}]",
         "model.layers[1] (max_pool2d) needs images [B,height,width,channels], but is given "
         "rows of numbers: "
         "the shape of a row is \"input\" in model, such as [28, 28, 1]"},
        {"\"type\": \"layers\", \"layers\": [{\"type\": \"conv2d\", \"filters\": 2}]",
         "model.layers[0] (conv2d) needs images [B,height,width,channels], but is given rows of "
         "numbers: "
         "the shape of a row is \"input\" in model, such as [28, 28, 1]"},
        {"\"type\": \"layers\", \"input\": [6, 6], \"layers\": [{\"type\": \"mean_pool2d\"}]",
         "model.layers[0] (mean_pool2d) needs images [B,height,width,channels], but is given "
         "[B,6,6]: the layers before it, or \"input\" in model, make something else"},
        {"\"type\": \"layers\", \"input\": [12, 3], \"layers\": [{\"type\": \"conv1d\", "
         "\"filters\": 4, \"kernel\": 13}]",
         "model.layers[0] (conv1d): conv1d: a window of 13 does not fit [B,12,3] with padding 0"},
        {"\"type\": \"layers\", \"input\": [6, 6, 1], \"layers\": [{\"type\": \"max_pool1d\"}]",
         "model.layers[0] (max_pool1d) needs sequences [B,positions,numbers], but is given "
         "[B,6,6,1]: the layers before it, or \"input\" in model, make something else"},
        {EMBEDDED "{\"type\": \"lstm\", \"units\": 4}, {\"type\": \"gru\", \"units\": 2}]",
         "model.layers[2] (gru) needs sequences [B,positions,numbers], but is given rows of "
         "numbers: the shape of a row is \"input\" in model, such as [8, 16]"},
        {"\"type\": \"layers\", \"layers\": [{\"type\": \"transformer\"}]",
         "model.layers[0] (transformer) needs sequences [B,positions,numbers], but is given "
         "rows of numbers: "
         "the shape of a row is \"input\" in model, such as [8, 16]"},
        {"\"type\": \"layers\", \"input\": [6, 6, 1], \"layers\": [{\"type\": \"mean_pool2d\", "
         "\"size\": 7}]",
         "model.layers[0] (mean_pool2d): mean_pool2d: a window of 7x7 does not fit [B,6,6,1] with "
         "padding 0"},
        {"\"type\": \"layers\", \"input\": [6, 6], \"layers\": [{\"type\": \"transformer\", "
         "\"heads\": 4}]",
         "model.layers[0] (transformer): attention: 4 heads do not divide the last axis of "
         "[B,6,6]"},
        {"\"type\": \"layers\", \"input\": [6, 6, 1], \"layers\": [{\"type\": \"embedding\", "
         "\"ids\": 5, \"units\": 2}]",
         "model.layers[0] (embedding): take: rows of [5,2] at [B,6,6,1] have more than 4 axes"},
        {"\"type\": \"layers\", \"layers\": [{\"type\": \"embedding_bag\", \"ids\": 5, "
         "\"units\": 2, \"columns\": [0, 3]}]",
         "model.layers[0] (embedding_bag) needs items, ids and then as many values, but is given "
         "[B,3]: \"items\" in data.train makes such rows"},
        {"\"type\": \"layers\", \"layers\": [{\"type\": \"embedding\", \"fields\": [5, 6], "
         "\"units\": 2, \"columns\": [0, 3]}]",
         "model.layers[0] (embedding) has 2 fields, but is given [B,3]: an id for each"},
        {"\"type\": \"layers\", \"layers\": [{\"type\": \"dense\", \"units\": 4}, "
         "{\"type\": \"factorization_machine\", \"ids\": 5}]",
         "model.layers[1] (factorization_machine) needs ids, numbers of a row as they came, but is "
         "given what a layer computes: take them by \"columns\", or from \"input\""},
        {BRANCHES "{\"type\": \"add\", \"from\": [\"a\", \"b\", \"input\"]}]",
         "model.layers[2] (add) takes what has one shape, but from[0] is [B,4] and from[2] "
         "[B,36]"},
        {BRANCHES "{\"type\": \"embedding\", \"ids\": 5, \"units\": 2, \"from\": \"a\"}, "
                  "{\"type\": \"mean\", \"name\": \"c\"}, {\"type\": \"concat\", \"from\": "
                  "[\"b\", \"c\"]}]",
         "model.layers[2] (embedding) needs ids, numbers of a row as they came, but is given what "
         "a "
         "layer computes: take them by \"columns\", or from \"input\""},
        {"\"type\": \"layers\", \"layers\": [{\"type\": \"flatten\", \"columns\": [30, 7]}]",
         "model.layers[0] (flatten): columns 30 to 36 are not all in a row, which has 36"},
        {"\"type\": \"layers\", \"layers\": [{\"type\": \"reshape\", \"shape\": [5, 7]}]",
         "model.layers[0] (reshape): reshape: [B,36] and [B,5,7] have different numbers of "
         "elements"},
        {"\"type\": \"layers\", \"input\": [6, 6], \"layers\": [{\"type\": \"mean\", \"name\": "
         "\"a\"}, {\"type\": \"concat\", \"from\": [\"a\", \"input\"]}]",
         "model.layers[1] (concat): concat: [B,6] and [B,6,6] do not join at axis 1"},
        {"\"type\": \"layers\", \"input\": [6, 6], \"layers\": []",
         "model.layers: the last one gives [B,6,6], not rows of numbers: add {\"type\": "
         "\"flatten\"} or {\"type\": \"mean\"}"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cr_expect_eq(build("class", cases[i].model, true), CADRE_ECONFIG, "%s", cases[i].text);
        cadre_auto(cadre_free) char *text = cadre_asprintf("j.json: %s", cases[i].text);
        cr_expect_str_eq(cadre_error_text(), text);
    }
}

/* A layer with fields that takes whole rows says how many columns these have. */
Test(model, over_fields_is_checked_for_a_row_of_as_many_columns)
{
    static const char *const layers[] = {
        "{\"type\": \"embedding\", \"fields\": [4, 7, 2], \"units\": 3}, {\"type\": \"flatten\"}",
        "{\"type\": \"embedding_bag\", \"fields\": [4, 7, 2], \"units\": 3}",
        "{\"type\": \"embedding\", \"fields\": 3, \"table\": true, \"units\": 3}, {\"type\": "
        "\"flatten\"}",
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(layers); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_auto(cadre_free) char *model =
            cadre_asprintf("\"type\": \"layers\", \"layers\": [%s]", layers[i]);
        read_job(&job, "class", model);
        cr_expect_eq(cadre_model_check(&job), 0, "%s: %s", layers[i], cadre_error_text());
    }
}

Test(model, is_checked_before_the_rows_are_known_when_it_says_their_shape)
{
    static const struct {
        const char *model;
        int status;
    } cases[] = {
        {"\"type\": \"layers\", \"input\": [4, 4, 1], \"layers\": [{\"type\": \"max_pool2d\", "
         "\"size\": 5}, {\"type\": \"flatten\"}]",
         CADRE_ECONFIG},
        {"\"type\": \"layers\", \"input\": [5, 5, 1], \"layers\": [{\"type\": \"max_pool2d\", "
         "\"size\": 5}, {\"type\": \"flatten\"}]",
         0},
        {"\"type\": \"layers\", \"input\": [1048576, 1048576, 1048576], \"layers\": [{\"type\": "
         "\"flatten\"}]",
         CADRE_ECONFIG},
        {"\"type\": \"layers\", \"layers\": [{\"type\": \"max_pool2d\"}]", CADRE_ECONFIG},
        {"\"type\": \"layers\", \"layers\": [{\"type\": \"layer_norm\"}]", 0},
        {"\"type\": \"mlp\", \"hidden\": [1048576, 1048576]", 0},
        /* With rows of one number the gru has one position, and a recurrent kernel all the same. */
        {EMBEDDED "{\"type\": \"gru\", \"units\": 4, \"l2\": 0.1}]", 0},
        {EMBEDDED "{\"type\": \"lstm\", \"units\": 4, \"trainable\": false}]", 0},
        /* Columns and a reshape say enough, a sum with a row of unknown size does not. */
        {"\"type\": \"layers\", \"layers\": [{\"type\": \"dense\", \"units\": 3, \"columns\": "
         "[40, 8]}]",
         0},
        {"\"type\": \"layers\", \"layers\": [{\"type\": \"reshape\", \"shape\": [4, 5]}, "
         "{\"type\": \"flatten\"}]",
         0},
        {"\"type\": \"layers\", \"layers\": [{\"type\": \"reshape\", \"shape\": [4, 5]}]",
         CADRE_ECONFIG},
        {BRANCHES "{\"type\": \"add\", \"from\": [\"b\", \"input\"]}]", 0},
        {"\"type\": \"layers\", \"layers\": [{\"type\": \"dense\", \"units\": 64, \"name\": "
         "\"a\"}, {\"type\": \"add\", \"from\": [\"a\", \"input\"]}]",
         0},
        {"\"type\": \"logistic\"", 0},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        read_job(&job, "class", cases[i].model);
        cr_expect_eq(cadre_model_check(&job), cases[i].status, "%zu: %s", i, cadre_error_text());
    }
}

/* `count` transformers of 12 variables each, and the two of the last layer. */
static int
build_blocks(int count)
{
    cadre_auto(cadre_free) char *layers = cadre_strdup("");
    for (int i = 0; i < count; i++) {
        char *longer = cadre_asprintf("%s%s{\"type\": \"transformer\"}", layers, i ? ", " : "");
        free(layers);
        layers = longer;
    }
    cadre_auto(cadre_free) char *model = cadre_asprintf(
        "\"type\": \"layers\", \"input\": [9, 4], \"layers\": [%s, {\"type\": \"mean\"}]", layers);
    return build("class", model, true);
}

Test(model, limits_its_variables)
{
    cr_expect_eq(build_blocks(21), 0, "%s", cadre_error_text()); /* 254 */
    cr_expect_eq(build_blocks(22), CADRE_ECONFIG);
    cr_expect_str_eq(cadre_error_text(), "j.json: model: more than 256 variables");
}
