#include "coordinator/cli/model.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "common/memory.h"
#include "common/status.h"
#include "coordinator/cli/job_file.h"

TestSuite(model, .timeout = 20);

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
    int status = cadre_model_program(&job, 5, 3, training, &program);
    cadre_program_destroy(&program);
    return status;
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
