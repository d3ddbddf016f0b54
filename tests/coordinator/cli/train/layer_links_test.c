#include "coordinator/cli/train/layer_links.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/cli/train/job_file.h"

TestSuite(layer_links, .timeout = 240);

/* Reads a job with these layers, from line 2 on. */
static int
read_layers(cadre_job_t *job, const char *layers)
{
    cadre_job_init(job);
    cadre_auto(cadre_free) char *text = cadre_asprintf(
        "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\"}}, \"model\": {\"type\": "
        "\"layers\", \"layers\": [\n%s]}}",
        layers);
    return cadre_job_file_parse(job, "j.json", text);
}

#define DENSE(more) "{\"type\": \"dense\", \"units\": 4" more "}"

Test(layer_links, are_names_of_earlier_layers_and_columns)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    int status = read_layers(
        &job,
        DENSE(", \"name\": \"a\", \"columns\": [3, 5]") "," DENSE(", \"name\": \"b.1\"") "," DENSE(
            ", \"from\": \"input\", \"name\": \"c\"") ","
                                                      "{\"type\": \"add\", \"from\": [\"a\", "
                                                      "\"b.1\", \"c\", \"a\"]}," DENSE(""));
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    const cadre_layer_t *layers = job.layers;
    cr_expect(layers[0].first_column == 3 && layers[0].column_count == 5);
    cr_expect_str_eq(layers[1].name, "b.1");
    cr_expect_eq(layers[1].from_count, 0);
    cr_expect(layers[2].from_count == 1 && layers[2].from[0] == CADRE_LAYER_ROW);
    cr_expect_eq(layers[3].from_count, 4);
    cr_expect(layers[3].from[0] == 0 && layers[3].from[1] == 1 && layers[3].from[2] == 2 &&
              layers[3].from[3] == 0);
}

/* Reads a job whose data have four columns: a number, a bag of two, a word and a number. */
static int
read_named(cadre_job_t *job, const char *layers)
{
    cadre_job_init(job);
    cadre_auto(cadre_free) char *text = cadre_asprintf(
        "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\", \"columns\": [\"n\", "
        "{\"column\": \"g\", \"items\": 2}, {\"column\": \"w\", \"hash\": 9}, \"m\"]}}, \"model\": "
        "{\"type\": \"layers\", \"layers\": [\n%s]}}",
        layers);
    return cadre_job_file_parse(job, "j.json", text);
}

Test(layer_links, are_columns_by_the_names_that_the_data_give_them)
{
    static const struct {
        const char *columns;
        int64_t first;
        int64_t count;
    } cases[] = {{"\"n\"", 0, 1},          {"\"g\"", 1, 4},
                 {"\"w\"", 5, 1},          {"[\"m\"]", 6, 1},
                 {"[\"w\", \"m\"]", 5, 2}, {"[\"n\", \"g\", \"w\", \"m\"]", 0, 7}};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_auto(cadre_free) char *layers =
            cadre_asprintf(DENSE(", \"columns\": %s"), cases[i].columns);
        cr_assert_eq(read_named(&job, layers), 0, "%s", cadre_error_text());
        cr_expect_eq(job.layers[0].first_column, cases[i].first, "%s", cases[i].columns);
        cr_expect_eq(job.layers[0].column_count, cases[i].count, "%s", cases[i].columns);
    }

    static const struct {
        const char *columns;
        const char *error;
    } wrong[] = {
        {"\"x\"", "j.json:2:42: model.layers[0].columns must be the name of a column in "
                  "data.train.columns"},
        {"[\"n\", 3]", "j.json:2:48: model.layers[0].columns[1] must be the name of a column"},
        {"[\"n\", \"w\"]", "j.json:2:48: model.layers[0].columns[1] must be the column that "
                           "data.train.columns has behind the one before it"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(wrong); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_auto(cadre_free) char *layers =
            cadre_asprintf(DENSE(", \"columns\": %s"), wrong[i].columns);
        cr_expect_eq(read_named(&job, layers), CADRE_ECONFIG);
        cr_expect(strstr(cadre_error_text(), wrong[i].error) == cadre_error_text(), "%s",
                  cadre_error_text());
    }
}

Test(layer_links, a_bag_is_for_layers_that_take_bags)
{
    static const char start[] = "{\"type\": \"%s\", \"ids\": 9, \"units\": 4, \"columns\": \"%s\"}";
    static const struct {
        const char *type;
        const char *column;
        int status;
    } cases[] = {
        {"embedding", "w", 0}, {"embedding", "g", CADRE_ECONFIG}, {"embedding_bag", "g", 0}};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_auto(cadre_free) char *layers = cadre_asprintf(start, cases[i].type, cases[i].column);
        const int status = read_named(&job, layers);
        cr_expect_eq(status, cases[i].status, "%zu: %s", i, cadre_error_text());
        cr_expect(status == 0 || strstr(cadre_error_text(), "which a layer of type embedding_bag"));
    }
}

Test(layer_links, columns_of_keys_are_for_layers_that_take_keys)
{
    static const char data[] =
        "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\", \"columns\": [\"n\", "
        "{\"column\": \"u\", \"key\": \"id\"}, {\"column\": \"g\", \"key\": \"word\", \"items\": "
        "2}]}}, \"model\": {\"type\": \"layers\", \"layers\": [\n{\"type\": \"%s\", \"units\": 4, "
        "\"columns\": \"%s\"%s}]}}";
    static const struct {
        const char *type;
        const char *column;
        const char *more;
        const char *error; /* NULL: none */
    } cases[] = {
        {"embedding", "u", ", \"table\": true, \"keys\": true", NULL},
        {"embedding_bag", "g", ", \"table\": true, \"keys\": true", NULL},
        {"embedding", "u", ", \"table\": true", "is a column with \"key\", three numbers"},
        {"dense", "u", "", "is a column with \"key\", three numbers"},
        {"embedding", "n", ", \"table\": true, \"keys\": true", "is no column with \"key\""},
        {"embedding", "u", ", \"ids\": 9, \"keys\": true",
         "\"keys\" in model.layers[0] (embedding): only a \"table\" has rows by keys"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_job_init(&job);
        cadre_auto(cadre_free) char *text =
            cadre_asprintf(data, cases[i].type, cases[i].column, cases[i].more);
        const int status = cadre_job_file_parse(&job, "j.json", text);
        const char *error = cases[i].error;
        cr_expect_eq(status, error ? CADRE_ECONFIG : 0, "%zu: %s", i, cadre_error_text());
        cr_expect(!error || strstr(cadre_error_text(), error), "%zu: %s", i, cadre_error_text());
        cr_expect(error || job.layers[0].column_count == (i == 0 ? 3 : 8), "%zu", i);
    }
}

static const struct {
    const char *layers;
    const char *error;
} mistakes[] = {
    {DENSE(", \"name\": 3"),
     "j.json:2:39: model.layers[0].name must be 1 to 31 letters, digits, \"_\", \"-\" or \".\""},
    {DENSE(", \"name\": \"\""), "j.json:2:39: model.layers[0].name must be 1 to 31"},
    {DENSE(", \"name\": \"a b\""), "j.json:2:39: model.layers[0].name must be 1 to 31"},
    {DENSE(", \"name\": \"12345678901234567890123456789012\""),
     "j.json:2:39: model.layers[0].name must be 1 to 31"},
    {DENSE(", \"name\": \"input\""),
     "j.json:2:39: model.layers[0].name is \"input\", which is the row itself"},
    {DENSE(", \"name\": \"a\"") "," DENSE(", \"name\": \"a\""),
     "j.json:2:82: model.layers[1].name is the name of an earlier layer"},
    {DENSE(", \"name\": \"conv\"") "," DENSE(", \"from\": \"conf\""),
     "j.json:2:85: model.layers[1].from: no layer before it has the name \"conf\"; did you mean "
     "\"conv\"?"},
    {DENSE(", \"name\": \"a\", \"from\": \"a\""),
     "j.json:2:52: model.layers[0].from: no layer before it has the name \"a\""},
    {DENSE(", \"from\": 1"), "j.json:2:39: model.layers[0].from must be the name of a layer"},
    {DENSE(", \"from\": []"), "j.json:2:39: model.layers[0].from must be one name"},
    {DENSE(", \"from\": [\"input\", \"input\"]"),
     "j.json:2:39: model.layers[0].from must be one name: only add, concat and interaction take "
     "several"},
    {"{\"type\": \"add\"}", "j.json:2:1: \"from\" is missing in model.layers[0] (add)"},
    {"{\"type\": \"concat\", \"columns\": [0, 3]}",
     "j.json:2:1: \"from\" is missing in model.layers[0] (concat)"},
    {"{\"type\": \"add\", \"from\": \"input\"}",
     "j.json:2:25: model.layers[0].from must be an array of 2 to 32 names"},
    {"{\"type\": \"add\", \"from\": [\"input\"]}",
     "j.json:2:25: model.layers[0].from must be an array of 2 to 32 names"},
    {"{\"type\": \"add\", \"from\": [\"input\", true]}",
     "j.json:2:35: model.layers[0].from[1] must be the name of a layer before it, or \"input\""},
    {DENSE(", \"from\": \"input\", \"columns\": [0, 1]"),
     "j.json:2:59: model.layers[0].columns and \"from\" do not go together"},
    {DENSE(", \"columns\": 4"), "j.json:2:42: model.layers[0].columns must be [first, count]"},
    {DENSE(", \"columns\": [4]"), "j.json:2:42: model.layers[0].columns must be [first, count]"},
    {DENSE(", \"columns\": [-1, 2]"), "j.json:2:42: model.layers[0].columns must be [first"},
    {DENSE(", \"columns\": [0, 0]"), "j.json:2:42: model.layers[0].columns must be [first, count]"},
    {DENSE(", \"columns\": [16777215, 2]"), "j.json:2:42: model.layers[0].columns must be [first"},
    {DENSE(", \"name\": \"a\"") "," DENSE(", \"from\": \"input\""),
     "j.json:2:1: model.layers[0] (dense): no layer after it takes what it makes"},
    {DENSE("") "," DENSE(", \"columns\": [0, 2]"),
     "j.json:2:1: model.layers[0] (dense): no layer after it takes what it makes"},
    {"{\"type\": \"reshape\"}", "j.json:2:1: \"shape\" is missing in model.layers[0] (reshape)"},
    {"{\"type\": \"reshape\", \"shape\": []}",
     "j.json:2:30: model.layers[0].shape must be an array of 1 to 3 whole numbers in 1 to 1048576"},
    {"{\"type\": \"reshape\", \"shape\": [1, 2, 3, 4]}", "j.json:2:30: model.layers[0].shape must"},
    {"{\"type\": \"reshape\", \"shape\": [1, 0]}", "j.json:2:30: model.layers[0].shape must be"},
    {"{\"type\": \"reshape\", \"shape\": 4}", "j.json:2:30: model.layers[0].shape must be an"},
};

Test(layer_links, that_are_none_are_told_with_their_place)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(mistakes); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cr_expect_eq(read_layers(&job, mistakes[i].layers), CADRE_ECONFIG, "%zu", i);
        const char *error = mistakes[i].error;
        cr_expect(strncmp(cadre_error_text(), error, strlen(error)) == 0, "%zu: %s\n instead of %s",
                  i, cadre_error_text(), error);
    }
}

/* An add of `count` times the row. */
static int
read_sum(int count)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    char names[512] = "";
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        length +=
            (size_t)snprintf(names + length, sizeof(names) - length, "%s\"input\"", i ? ", " : "");
    }
    cadre_auto(cadre_free) char *layer =
        cadre_asprintf("{\"type\": \"add\", \"from\": [%s]}", names);
    return read_layers(&job, layer);
}

Test(layer_links, are_at_most_thirty_two)
{
    cr_expect_eq(read_sum(31), 0, "%s", cadre_error_text());
    cr_expect_eq(read_sum(32), 0, "%s", cadre_error_text());
    cr_expect_eq(read_sum(33), CADRE_ECONFIG);
}
