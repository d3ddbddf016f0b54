/* `cadre run` with "wire": "bf16": the shipped example trains as well as with f32. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/system/command.h"
#include "tests/system/digits.h"
#include "tests/system/process.h"

TestSuite(run_wire, .timeout = 900);

/* A copy of the example in the scratch directory, with `wire`; freed by the caller. */
static char *
write_job(const command_t *command, const char *wire)
{
    cadre_auto(cadre_free) char *example = source_path("examples/digits.json");
    cadre_auto(cadre_free) char *data = source_path("examples/data/digits.csv.gz");
    char *path = cadre_asprintf("%s/digits-%s.json", command->scratch.path, wire);
    json_t *job = json_load_file(example, 0, NULL);
    cr_assert(job);
    json_object_set_new(json_object_get(job, "model"), "wire", json_string(wire));
    json_object_set_new(json_object_get(json_object_get(job, "data"), "train"), "path",
                        json_string(data));
    cr_assert_eq(json_dump_file(job, path, 0), 0);
    json_decref(job);
    return path;
}

static double
accuracy(const char *wire, char **manifest)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = write_job(&command, wire);
    const char *arguments[] = {"run",  job, "--checkpoint-dir", command.checkpoints, "-o",
                               "json", NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    json_t *result = command_result(&command);
    cr_assert(result);
    cr_expect_eq(json_number_at(result, "updates.0.applied"), 40 * DIGITS_CLOSURES);
    cr_expect_eq(json_number_at(result, "updates.1.applied"), 40 * DIGITS_CLOSURES);
    double found = json_number_at(result, "accuracy");
    const char *checkpoint = json_string_value(json_object_get(result, "checkpoint"));
    cr_assert(checkpoint);
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/manifest.json", checkpoint);
    *manifest = file_text(path);
    json_decref(result);
    command_close(&command);
    return found;
}

Test(run_wire, digits_reach_the_accuracy_of_f32)
{
    cadre_auto(cadre_free) char *wide_manifest = NULL;
    cadre_auto(cadre_free) char *narrow_manifest = NULL;
    double wide = accuracy("f32", &wide_manifest);
    double narrow = accuracy("bf16", &narrow_manifest);
    cr_expect_geq(narrow, 0.96);
    cr_expect_geq(narrow, wide - DIGITS_TOLERANCE, "%g, with f32 %g", narrow, wide);
    cr_expect_not(strstr(wide_manifest, "\"wire\""));
    cr_expect(strstr(narrow_manifest, "\"wire\": \"bf16\""));
}

Test(run_wire, a_type_that_is_none_is_told_with_its_place)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = write_job(&command, "bf61");
    const char *arguments[] = {"config", "check", job, NULL};
    int code = command_run(&command, arguments);
    cadre_auto(cadre_free) char *words = command_words(&command);
    cr_expect_eq(code, 78, "%d", code);
    cr_expect(strstr(words, "digits-bf61.json:1:"), "%s", words);
    cr_expect(strstr(words, "model.wire: \"bf61\" is none of f32|bf16"), "%s", words);
    command_close(&command);
}
