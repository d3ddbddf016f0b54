/* A worker whose device fails: its closures run elsewhere, it leaves with 70, and what is started
 * in its place works on. The device is made up, in a folder of programs of its own. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/copy_file.h"
#include "tests/system/digits.h"
#include "tests/system/process.h"

TestSuite(device_loss, .timeout = 900);

static const struct {
    const char *from;
    const char *name;
} files[] = {
    {"cadre", "cadre"},
    {"cadre-ps", "cadre-ps"},
    {"cadre-worker", "cadre-worker"},
    {"../tests/modules/cadre_device_loses_once.so", "cadre_device_cuda.so"},
    {"../tests/modules/cadre_device_no_symbol.so", "libcuda.so.1"}, /* as good as a driver */
};

/* Programs and modules in a folder of the run's, which are those of this process from then on; and
 * the file that lets one device be lost. */
static char *
move_in(const digits_t *digits)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(files); i++) {
        cadre_auto(cadre_free) char *from = program_path(files[i].from);
        cadre_auto(cadre_free) char *to = scratch_path(&digits->command.scratch, files[i].name);
        copy_file(from, to);
    }
    cadre_auto(cadre_free) char *folder = scratch_path(&digits->command.scratch, ".");
    char *marker = scratch_path(&digits->command.scratch, "loss");
    fclose(fopen(marker, "wb"));
    setenv("CADRE_BIN_DIR", folder, 1);
    setenv("LD_LIBRARY_PATH", folder, 1);
    setenv("CADRE_TEST_LOSS", marker, 1);
    return marker;
}

static void
expect_loss(const char *workers)
{
    digits_t digits;
    digits_open(&digits, 20);
    cadre_auto(cadre_free) char *marker = move_in(&digits);
    digits_add(&digits, "--device", "cuda:0");
    digits_add(&digits, "--workers", workers);
    digits_start(&digits);
    json_t *result = digits_expect_finished(&digits);
    cr_expect_neq(access(marker, F_OK), 0, "no device was lost");
    digits_expect_said(&digits, "\"reason\":\"train_step: the made-up device is gone\"");
    digits_expect_said(&digits, "exited with 70, its device is lost: ");
    digits_expect_said(&digits, "\"event\":\"left\",\"reason\":\"its device is lost\"");
    cr_expect_gt(json_number_at(result, "closures.attempts"),
                 json_number_at(result, "closures.scheduled"));
    json_decref(result);
    digits_close(&digits);
}

Test(device_loss, closures_run_on_another_worker)
{
    expect_loss("2");
}

Test(device_loss, closures_wait_for_another_start_of_the_only_worker)
{
    expect_loss("1");
}
