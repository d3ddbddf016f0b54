#include "coordinator/cli/model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/status.h"
#include "coordinator/cli/job_file.h"

TestSuite(model, .timeout = 20);

enum { FEATURES = 36, CLASSES = 3 };

static int
build(const char *label_kind, const char *model, bool training)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    cadre_auto(cadre_free) char *text = cadre_asprintf(
        "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\", \"label_kind\": \"%s\"}}, "
        "\"model\": {%s}}",
        label_kind, model);
    cr_assert_eq(cadre_job_file_parse(&job, "j.json", text), 0, "%s", cadre_error_text());
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

static void
expect_refused(const char *model, int status, const char *text)
{
    cr_expect_eq(build("class", model, true), status, "%s", text);
    cr_expect_str_eq(cadre_error_text(), text);
}

Test(model, names_the_layer_that_does_not_fit)
{
    expect_refused("\"type\": \"cnn\", \"input\": [28, 28, 1], \"filters\": [2]", CADRE_ECONFIG,
                   "the model: model.input: a row has 36 numbers, its shape there has 784");
    expect_refused("\"type\": \"layers\", \"input\": [6, 6], \"layers\": [{\"type\": \"flatten\"}, "
                   "{\"type\": \"max_pool2d\"}]",
                   CADRE_ESHAPE,
                   "the model: layer 2 (max_pool2d): im2col: needs [batch,height,width,channels], "
                   "the last three numbers, not [B,36]");
    expect_refused(
        "\"type\": \"layers\", \"input\": [6, 6], \"layers\": [{\"type\": \"transformer\", "
        "\"heads\": 4}]",
        CADRE_ESHAPE,
        "the model: layer 1 (transformer): attention: 4 heads do not divide the last "
        "axis of [B,6,6]");
    expect_refused("\"type\": \"layers\", \"input\": [6, 6], \"layers\": []", CADRE_ECONFIG,
                   "the model: the last layer gives [B,6,6], not rows of numbers: add "
                   "{\"type\": \"flatten\"} or {\"type\": \"mean\"}");
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
    cr_expect_str_eq(cadre_error_text(), "the model: more than 256 variables");
}
