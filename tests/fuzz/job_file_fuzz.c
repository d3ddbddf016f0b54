/*
 * Job files as untrusted text: parsing refuses or accepts, and of what it accepts the strategy can
 * be followed and every program can be built, or is refused in words.
 */
#include <stdint.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "coordinator/cli/train/job_file.h"
#include "coordinator/cli/train/job_strategy.h"
#include "coordinator/cli/train/model.h"

enum { FEATURES = 64, CLASSES = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    cadre_auto(cadre_free) char *text = cadre_strndup((const char *)bytes, size_bytes);
    cadre_job_t job;
    cadre_job_init(&job);
    int status = cadre_job_file_parse(&job, "folder/job.json", text);
    const cadre_job_places_t places = {.devices = 2};
    status = status == 0 ? cadre_job_follow_strategy(&job, &places) : status;
    status = status == 0 ? cadre_job_finish(&job) : status;
    status = status == 0 ? cadre_model_check(&job) : status;
    for (int training = 0; status == 0 && training < 2; training++) {
        cadre_program_t *program = NULL;
        status = cadre_model_program(&job, FEATURES, CLASSES, training == 1, &program);
        if (status == 0) {
            cadre_program_destroy(&program);
        }
    }
    cadre_job_fini(&job);
    return 0;
}
