#include "coordinator/cli/train/job.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/cli/train/job_file.h"

#define DATA "\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a.csv\"}}"

TestSuite(job, .timeout = 240);

/* Reads a job file with this section besides data and model, and finishes the job. */
static int
finish_with(cadre_job_t *job, const char *section)
{
    cadre_auto(cadre_free) char *text =
        cadre_asprintf("{" DATA ", \"model\": {\"type\": \"mlp\", \"hidden\": [4]}, %s}", section);
    cadre_job_init(job);
    int status = cadre_job_file_parse(job, "j.json", text);
    return status < 0 ? status : cadre_job_finish(job);
}

/* A "none" of the command counts more than what the file says of when. */
Test(job, takes_no_checkpoints_where_a_flag_says_none)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cr_assert_eq(finish_with(&job, "\"checkpoint\": {\"every_steps\": 5, \"every_epochs\": 1}"), 0);
    cr_assert_eq(cadre_job_set(&job, "checkpoint.dir", "none", CADRE_ORIGIN_FLAG, "it"), 0);
    cr_expect_eq(cadre_job_finish(&job), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_job_set(&job, "checkpoint.every_steps", "5", CADRE_ORIGIN_FLAG, "it"), 0);
    cr_expect_eq(cadre_job_finish(&job), CADRE_ECONFIG, "of one rank");
}

Test(job, finds_that_checkpoints_would_go_into_a_file)
{
    cadre_auto(cadre_job_fini) cadre_job_t file;
    cr_assert_eq(finish_with(&file, "\"checkpoint\": {\"dir\": \"/dev/null\"}"), 0);
    cr_expect_eq(cadre_job_check_checkpoints(&file), CADRE_EIO);
    cr_expect_str_eq(cadre_error_text(), "j.json: checkpoint.dir: /dev/null is no folder");

    static const char *const sound[] = {"/dev", "/dev/not-there", "none"};
    for (size_t i = 0; i < CADRE_COUNT_OF(sound); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cr_assert_eq(finish_with(&job, "\"checkpoint\": {}"), 0);
        cr_assert_eq(cadre_job_set(&job, "checkpoint.dir", sound[i], CADRE_ORIGIN_FLAG, "it"), 0);
        cr_expect_eq(cadre_job_check_checkpoints(&job), 0, "%s", sound[i]);
    }
}

/* What is not trained is not penalised either; the penalties of the model leave it out. */
Test(job, refuses_penalties_of_layers_that_are_not_trained)
{
    static const struct {
        const char *keys;
        const char *error; /* NULL: taken */
    } cases[] = {
        {"\"l1\": 0.1", "j.json:3:"},
        {"\"l1\": 0.1", "model.layers[0].l1: with \"trainable\": false weights stay as they are"},
        {"\"l2\": 0.1", "model.layers[0].l2: with \"trainable\": false weights stay as they are"},
        {"\"l1\": 0, \"l2\": 0", NULL},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_job_init(&job);
        cadre_auto(cadre_free) char *text = cadre_asprintf(
            "{" DATA ",\n\"model\": {\"type\": \"layers\", \"l1\": 0.5, \"layers\": [{\"type\": "
            "\"dense\", \"units\": 4, \"trainable\": false,\n%s}]}}",
            cases[i].keys);
        const int status = cadre_job_file_parse(&job, "j.json", text);
        cr_expect_eq(status < 0, cases[i].error != NULL, "%s", cases[i].keys);
        cr_expect(!cases[i].error || strstr(cadre_error_text(), cases[i].error), "%s",
                  cadre_error_text());
    }
}
