/* cadre-bench-gpu-resident: trains a model on one device where everything stays (resident.h); with
 * --dump DIR it only writes the model there. See runner.h. */
#include <stdio.h>

#include "bench/gpu/dump.h"
#include "bench/gpu/resident.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/graph/program.h"

static int
dump(const gpu_options_t *options)
{
    gpu_model_t model;
    cadre_auto(cadre_program_destroy) cadre_program_t *program = NULL;
    int status = gpu_model_make(&options->size, GPU_PUSH_VALUES, &model, &program);
    if (status < 0) {
        return status;
    }
    return gpu_dump(&model, &options->size, options->dump);
}

static int
serve(const gpu_options_t *options)
{
    cadre_auto(gpu_resident_close) gpu_resident_t *resident = NULL;
    int status = gpu_resident_open(options, &resident);
    if (status < 0) {
        return status;
    }
    const gpu_runner_t runner = {
        .context = resident, .reset = gpu_resident_reset, .train = gpu_resident_train};
    return gpu_runner_serve(&runner, gpu_resident_device_name(resident));
}

int
main(int argc, char **argv)
{
    gpu_options_t options;
    int status = gpu_options_parse(argc, argv, &options);
    if (status == 0) {
        status = options.dump ? dump(&options) : serve(&options);
    }
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", argv[0], cadre_error_text());
    }
    return status < 0;
}
