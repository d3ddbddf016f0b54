#include "coordinator/cli/train/job_file.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(examples, .timeout = 240);

Test(examples, are_job_files_without_a_fault)
{
    static const char *const names[] = {"digits",           "mnist",           "adult",
                                        "digits_linear",    "digits_logistic", "digits_layers",
                                        "digits_cnn",       "mnist_cnn",       "digits_transformer",
                                        "digits_embedding", "digits_residual", "digits_conv1d",
                                        "digits_gru",       "digits_lstm",     "diloco",
                                        "local_sgd",        "adult_sparse",    "adult_fm",
                                        "ratings",          "movies",          "dlrm",
                                        "dlrm_table",       "skip_gram",       "two_tower",
                                        "wide_deep"};
    const char *source = getenv("CADRE_SOURCE_DIR");
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_auto(cadre_free) char *path =
            cadre_asprintf("%s/examples/%s.json", source ? source : ".", names[i]);
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_job_init(&job);
        cr_expect_eq(cadre_job_file_read(&job, path), 0, "%s", cadre_error_text());
        cr_expect_eq(cadre_job_finish(&job), 0, "%s", cadre_error_text());
        cr_expect_str_eq(job.name, names[i]);
        cr_expect(job.target_accuracy > 0 || job.label == CADRE_JOB_VALUE, "%s", names[i]);
    }
}
