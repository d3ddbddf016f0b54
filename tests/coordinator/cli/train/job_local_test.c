#include "coordinator/cli/train/job_local.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/cli/train/job_file.h"

TestSuite(job_local, .timeout = 240);

/* Reads and finishes a job with these sections; fails where either does. */
static int
read_job(cadre_job_t *job, const char *optimizer, const char *training)
{
    cadre_auto(cadre_free) char *text =
        cadre_asprintf("{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\"}},\n"
                       "\"model\": {\"type\": \"mlp\", \"hidden\": [4]},\n"
                       "\"optimizer\": {%s},\n\"training\": {%s}}",
                       optimizer, training);
    cadre_job_init(job);
    int status = cadre_job_file_parse(job, "j.json", text);
    return status < 0 ? status : cadre_job_finish(job);
}

static void
expect_optimizers(const char *optimizer, const char *training, cadre_optimizer_kind_t inner,
                  double inner_rate, cadre_optimizer_kind_t outer, double outer_rate)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cr_assert_eq(read_job(&job, optimizer, training), 0, "%s", cadre_error_text());
    cr_assert(cadre_job_is_local(&job));
    cadre_optimizer_spec_t spec = cadre_job_inner(&job);
    cr_expect_eq((int)spec.kind, (int)inner, "%s", training);
    cr_expect_eq(spec.parameters[CADRE_LEARNING_RATE], inner_rate, "%s", training);
    spec = cadre_job_outer(&job);
    cr_expect_eq((int)spec.kind, (int)outer, "%s", training);
    cr_expect_eq(spec.parameters[CADRE_LEARNING_RATE], outer_rate, "%s", training);
    cr_expect_eq(spec.clip_value, 0, "%s", training);
}

#define ADAMW "\"inner\": {\"type\": \"adamw\", \"learning_rate\": 0.004}"

Test(job_local, takes_the_optimizer_for_the_inner_one_unless_another_is_named)
{
    expect_optimizers("\"type\": \"adam\", \"learning_rate\": 0.5, \"clip_value\": 1",
                      "\"local_steps\": 3", CADRE_OPTIMIZER_ADAM, 0.5, CADRE_OPTIMIZER_SGD, 1);
    expect_optimizers("\"type\": \"nesterov\", \"learning_rate\": 0.7, \"clip_value\": 1",
                      "\"local_steps\": 3, " ADAMW, CADRE_OPTIMIZER_ADAMW, 0.004,
                      CADRE_OPTIMIZER_NESTEROV, 0.7);
    expect_optimizers("", ADAMW, CADRE_OPTIMIZER_ADAMW, 0.004, CADRE_OPTIMIZER_SGD, 1);
    expect_optimizers("\"learning_rate\": 0.25", ADAMW, CADRE_OPTIMIZER_ADAMW, 0.004,
                      CADRE_OPTIMIZER_SGD, 0.25);
}

Test(job_local, is_none_with_one_step_and_no_inner_optimizer)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cr_assert_eq(read_job(&job, "\"type\": \"rmsprop\"", "\"local_steps\": 1"), 0);
    cr_expect_not(cadre_job_is_local(&job));
}

static const struct {
    const char *optimizer;
    const char *training;
    const char *text;
} refused[] = {
    {"", "\"local_steps\": 0", "j.json:4:29: training.local_steps: 0 is not in 1 to 1024"},
    {"", "\"inner\": 3", "j.json:4:23: training.inner must be an object, not a whole number"},
    {"", "\"inner\": {}",
     "training.inner needs \"type\": one of sgd, momentum, nesterov, adam and "},
    {"", "\"inner\": {\"type\": \"ftrl\"}",
     "training.inner.type: closures can run sgd, momentum, nesterov, adam and adamw, not \"ftrl\""},
    {"", "\"inner\": {\"type\": \"sgd\", \"momentum\": 0.9}",
     "unknown key \"momentum\" in training.inner"},
    {"", "\"inner\": {\"type\": \"sgd\", \"learning_rate\": -1}", "learning_rate"},
    {"", "\"inner\": {\"type\": \"sgd\", \"learning_rate\": {\"schedule\": \"cosine\"}}",
     "training.inner.learning_rate must be a number: a closure does not know"},
    {"", "\"inner\": {\"type\": \"sgd\", \"learning_rate\": true}",
     "training.inner.learning_rate must be a number, not true"},
    {"\"type\": \"rmsprop\"", "\"local_steps\": 2",
     "j.json: training.local_steps 2: closures can run sgd, momentum, nesterov, adam and adamw, "
     "not rmsprop: name one of them as training.inner"},
    {"\"learning_rate\": {\"schedule\": \"cosine\", \"decay_steps\": 9}", "\"local_steps\": 2",
     "j.json: training.local_steps 2: optimizer.learning_rate must be a number"},
    {"\"scale_with\": \"linear\"", "\"local_steps\": 2",
     "j.json: optimizer.scale_with does not go with local steps"},
    {"", "\"local_steps\": 2, \"delay_compensation\": 0.5",
     "j.json: training.delay_compensation does not go with local steps"},
    {"", "\"consistency\": \"sync\", \"delay_compensation\": 0.5",
     "j.json: training.delay_compensation is for consistency async and bounded"},
    {"\"type\": \"add\"", "\"delay_compensation\": 0.5",
     "j.json: training.delay_compensation is for gradients"},
    {"", "\"delay_compensation\": -1", "training.delay_compensation: -1 is not in 0 to 1000000"},
};

Test(job_local, refuses_what_does_not_go_together)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(refused); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cr_expect_lt(read_job(&job, refused[i].optimizer, refused[i].training), 0, "%s",
                     refused[i].text);
        cr_expect(strstr(cadre_error_text(), refused[i].text), "%s\nis not in: %s", refused[i].text,
                  cadre_error_text());
    }
}

/* A schedule of the outer optimizer is on the ps, by applied update. */
Test(job_local, takes_a_schedule_of_the_outer_optimizer)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cr_assert_eq(read_job(&job, "\"learning_rate\": {\"schedule\": \"cosine\", \"decay_steps\": 9}",
                          "\"local_steps\": 2, " ADAMW),
                 0, "%s", cadre_error_text());
    cr_expect_eq((int)cadre_job_outer(&job).schedule.kind, CADRE_SCHEDULE_COSINE);
    cr_expect_eq((int)cadre_job_inner(&job).schedule.kind, 0);
}
