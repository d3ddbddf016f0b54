#include "coordinator/cli/train/layer_words.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/cli/train/job_file.h"

TestSuite(layer_words, .timeout = 240);

/* Reads a job with `data` as data.train. */
static int
read_over(cadre_job_t *job, const char *data, const char *model)
{
    cadre_job_init(job);
    cadre_auto(cadre_free) char *text = cadre_asprintf(
        "{\"data\": {\"train\": {%s, \"path\": \"a\"}}, \"model\": \n{%s}}", data, model);
    return cadre_job_file_parse(job, "j.json", text);
}

/* Data whose rows are a number, the ids and weights of a bag of two, and a word. */
#define WORDS                                                                                      \
    "\"format\": \"csv\", \"columns\": [\"n\", {\"column\": \"g\", \"items\": 2, \"hash\": 7}, "   \
    "{\"column\": "                                                                                \
    "\"w\", \"hash\": 9}]"
#define CLICKS "\"format\": \"criteo\", \"label_kind\": \"binary\", \"buckets\": 100"

#define TEXT  "\"format\": \"text\", \"label_kind\": \"binary\", \"vocabulary\": 100"
#define ITEMS "\"format\": \"libsvm\", \"label_kind\": \"binary\", \"items\": 2, \"features\": 10"

#define EMBEDDING(more)                                                                            \
    "\"type\": \"layers\", \"layers\": [{\"type\": \"embedding\", \"units\": 2, " more "}]"
#define BAG(more)                                                                                  \
    "\"type\": \"layers\", \"layers\": [{\"type\": \"embedding_bag\", \"units\": 2, " more "}]"

Test(layer_words, are_as_many_as_the_words_of_a_column)
{
    static const struct {
        const char *data;
        const char *model;
        const char *error; /* NULL: it is read */
    } cases[] = {
        {WORDS, EMBEDDING("\"ids\": 9, \"columns\": \"w\""), NULL},
        {WORDS, EMBEDDING("\"table\": true, \"columns\": \"w\""), NULL},
        {WORDS, EMBEDDING("\"ids\": 2, \"columns\": \"n\""), NULL},
        {WORDS, EMBEDDING("\"ids\": 8, \"columns\": \"w\""),
         "model.layers[0].ids: 8 ids, but column \"w\" of data.train has \"hash\": 9: an id"},
        {WORDS, BAG("\"ids\": 7, \"columns\": \"g\""), NULL},
        {WORDS, BAG("\"ids\": 6, \"columns\": \"g\""),
         "ids: 6 ids, but column \"g\" of data.train has \"hash\": 7"},
        {WORDS, EMBEDDING("\"fields\": [9], \"columns\": [5, 1]"), NULL},
        {WORDS, EMBEDDING("\"fields\": [8], \"columns\": [5, 1]"),
         "model.layers[0].fields[0]: 8 ids, but column \"w\""},
        {WORDS, EMBEDDING("\"ids\": 8"), "ids: 8 ids, but column \"w\""},
        {CLICKS, EMBEDDING("\"ids\": 100, \"columns\": [13, 26]"), NULL},
        {CLICKS, EMBEDDING("\"ids\": 99, \"columns\": [13, 26]"),
         "ids: 99 ids, but data.train has \"buckets\": 100: an id"},
        {CLICKS, EMBEDDING("\"ids\": 3, \"columns\": [0, 13]"), NULL},
        {CLICKS, EMBEDDING("\"fields\": [100, 99], \"columns\": [37, 2]"),
         "fields[1]: 99 ids, but data.train"},
        {TEXT, "\"type\": \"factorization_machine\", \"factors\": 2, \"fields\": [100, 100]", NULL},
        {TEXT, "\"type\": \"factorization_machine\", \"factors\": 2, \"fields\": [100, 99]",
         "model.fields[1]: 99 ids, but data.train has \"vocabulary\": 100: an id"},
        {TEXT, EMBEDDING("\"ids\": 99"), "ids: 99 ids, but data.train has \"vocabulary\": 100"},
        {ITEMS, "\"type\": \"logistic\", \"ids\": 11", NULL},
        {ITEMS, "\"type\": \"logistic\", \"ids\": 10",
         "model.ids: 10 ids, but data.train has \"features\": 10: an id beyond would fail "
         "training; "
         "make it 11"},
        {ITEMS, BAG("\"ids\": 10, \"columns\": [0, 4]"), "ids: 10 ids, but data.train"},
        {ITEMS, "\"type\": \"logistic\", \"table\": true", NULL},
        {"\"format\": \"csv\", \"columns\": [{\"column\": \"u\", \"hash\": 5}, {\"column\": 4, "
         "\"hash\": 6}], \"label_kind\": \"value\"",
         "\"type\": \"factorization_machine\", \"factors\": 2, \"fields\": [5, 5]",
         "model.fields[1]: 5 ids, but column \"4\" of data.train has \"hash\": 6"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        const int status = read_over(&job, cases[i].data, cases[i].model);
        cr_expect_eq(status, cases[i].error ? CADRE_ECONFIG : 0, "%zu: %s", i, cadre_error_text());
        cr_expect(!cases[i].error || strstr(cadre_error_text(), cases[i].error), "%zu: %s", i,
                  cadre_error_text());
    }
}
