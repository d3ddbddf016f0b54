#include "common/spec/data_spec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(data_spec, .timeout = 240);

/* JSON with ' for ". */
static int
decode(const char *json, cadre_data_spec_t *out)
{
    cadre_auto(cadre_free) char *text = cadre_strdup(json);
    for (char *at = text; *at; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    return cadre_data_spec_decode(text, strlen(text), out);
}

static void
check_refused(const char *json, const char *reason)
{
    cadre_data_spec_t spec = {0};
    int status = decode(json, &spec);
    cr_expect_eq(status, CADRE_ECONFIG, "%s: %s", json, cadre_status_name(status));
    cr_expect_str_eq(cadre_error_text(), reason);
    cr_expect_null(spec.paths.items);
    cadre_data_spec_fini(&spec);
}

Test(data_spec, has_defaults_for_all_but_format_and_path)
{
    cadre_data_spec_t spec = {0};
    cr_assert_eq(decode("{'format':'csv','path':'a.csv'}", &spec), 0, "%s", cadre_error_text());
    cr_assert_eq(spec.format, CADRE_DATA_CSV);
    cr_assert_eq(spec.paths.count, 1);
    cr_assert_str_eq(spec.paths.items[0], "a.csv");
    cr_assert_eq(spec.label_kind, CADRE_LABEL_CLASS);
    cr_assert_eq(spec.label_at, CADRE_LABEL_AT_LAST);
    cr_assert_eq(spec.header, CADRE_HEADER_AUTO);
    cr_assert_eq(spec.delimiter, ',');
    cr_assert_eq(spec.scale, 1);
    cr_assert_eq(spec.classes + spec.first_row + spec.rows + spec.skip_bad + spec.features, 0);
    cadre_data_spec_fini(&spec);
    cr_assert_null(spec.paths.items);
}

Test(data_spec, reads_a_list_of_paths)
{
    cadre_data_spec_t spec = {0};
    cr_assert_eq(decode("{'format':'npy','path':['a','b*'],'labels_path':['c']}", &spec), 0, "%s",
                 cadre_error_text());
    cr_assert_eq(spec.paths.count, 2);
    cr_expect_str_eq(spec.paths.items[1], "b*");
    cr_expect_eq(spec.labels_paths.count, 1);
    cadre_data_spec_fini(&spec);
    check_refused("{'format':'csv','path':[]}",
                  "dataset: key \"path\" must be a path, or a list of paths");
    check_refused("{'format':'csv','path':['a',3]}",
                  "dataset: key \"path\" must be a path, or a list of paths");
}

Test(data_spec, reads_every_key)
{
    cadre_data_spec_t spec = {0};
    cr_assert_eq(decode("{'path':'/a','label':'last','header':false,'delimiter':'\\t','scale':0.5,"
                        "'label_kind':'class','classes':3,'first_row':10,'rows':20,'skip_bad':4,"
                        "'format':'csv'}",
                        &spec),
                 0, "%s", cadre_error_text());
    cr_assert_eq(spec.header, CADRE_HEADER_NO);
    cr_assert_eq(spec.delimiter, '\t');
    cr_assert_eq(spec.scale, 0.5);
    cr_assert_eq(spec.classes, 3);
    cr_assert_eq(spec.first_row, 10);
    cr_assert_eq(spec.rows, 20);
    cr_assert_eq(spec.skip_bad, 4);
    cadre_data_spec_fini(&spec);
    cr_assert_eq(decode("{'format':'libsvm','path':'a','label_kind':'binary','features':9,"
                        "'items':4}",
                        &spec),
                 0);
    cr_assert_eq(spec.label_kind, CADRE_LABEL_BINARY);
    cr_assert_eq(spec.features, 9);
    cr_assert_eq(spec.items, 4);
    cadre_data_spec_fini(&spec);
    cr_assert_eq(
        decode("{'format':'idx','path':'a','labels_path':'b','label_kind':'value'}", &spec), 0);
    cr_assert_str_eq(spec.labels_paths.items[0], "b");
    cr_assert_eq(spec.label_kind, CADRE_LABEL_VALUE);
    cadre_data_spec_fini(&spec);
}

Test(data_spec, reads_what_goes_with_streaming)
{
    cadre_data_spec_t spec = {0};
    cr_assert_eq(decode("{'format':'idx','path':'a','labels_path':'b','streaming':true}", &spec),
                 0);
    cr_expect(spec.is_streamed && spec.shuffle_blocks == CADRE_SHUFFLE_BLOCKS &&
              spec.memory_mib == CADRE_STREAM_MEMORY_MIB && spec.ranges == CADRE_DATA_RANGES);
    cadre_data_spec_fini(&spec);
    cr_assert_eq(decode("{'format':'csv','path':'a','shuffle_blocks':4096,'memory_mib':1,"
                        "'streaming':true}",
                        &spec),
                 0);
    cr_expect(spec.is_streamed && spec.shuffle_blocks == 4096 && spec.memory_mib == 1);
    cadre_data_spec_fini(&spec);
    cr_assert_eq(decode("{'format':'csv','path':'a','shuffle_blocks':256,'ranges':256,"
                        "'streaming':true}",
                        &spec),
                 0);
    cr_expect_eq(spec.ranges, CADRE_DATA_RANGES_MAX);
    cadre_data_spec_fini(&spec);
    cr_assert_eq(decode("{'format':'csv','path':'a','shuffle_blocks':3,'streaming':true}", &spec),
                 0);
    cr_expect_eq(spec.ranges, 3, "no more than blocks");
    cadre_data_spec_fini(&spec);
    cr_assert_eq(decode("{'format':'csv','path':'a','streaming':false}", &spec), 0);
    cr_expect(!spec.is_streamed && spec.shuffle_blocks == 0 && spec.memory_mib == 0);
    cadre_data_spec_fini(&spec);
    check_refused("{'format':'csv','path':'a','streaming':1}",
                  "dataset: key \"streaming\" must be true or false");
    check_refused("{'format':'csv','path':'a','memory_mib':9}",
                  "dataset: key \"memory_mib\" goes with \"streaming\" only");
    check_refused("{'format':'csv','path':'a','streaming':false,'shuffle_blocks':9}",
                  "dataset: key \"shuffle_blocks\" goes with \"streaming\" only");
    check_refused("{'format':'csv','path':'a','streaming':true,'shuffle_blocks':4097}",
                  "dataset: key \"shuffle_blocks\" must be a whole number from 1 to 4096");
    check_refused("{'format':'csv','path':'a','ranges':2}",
                  "dataset: key \"ranges\" goes with \"streaming\" only");
    check_refused("{'format':'csv','path':'a','streaming':true,'ranges':257}",
                  "dataset: key \"ranges\" must be a whole number from 1 to 256");
    check_refused("{'format':'csv','path':'a','streaming':true,'ranges':17}",
                  "dataset: key \"ranges\" must be at most \"shuffle_blocks\", which is 16");
    check_refused("{'format':'csv','path':'a','streaming':true,'memory_mib':0}",
                  "dataset: key \"memory_mib\" must be a whole number from 1 to 1048576");
}

Test(data_spec, reads_the_keys_of_a_text)
{
#define TEXT "{'format':'text','path':'a','label_kind':'binary','vocabulary':100"
    cadre_data_spec_t spec = {0};
    cr_assert_eq(decode(TEXT "}", &spec), 0, "%s", cadre_error_text());
    cr_expect(spec.vocabulary == 100 && spec.min_count == 5 && spec.window == 5);
    cr_expect(spec.negatives == 5 && spec.subsample == 0.001 && spec.sample_seed == 1);
    cadre_data_spec_fini(&spec);
    cr_assert_eq(decode(TEXT ",'min_count':2,'subsample':0,'window':1024,'negatives':0,"
                             "'sample_seed':7}",
                        &spec),
                 0, "%s", cadre_error_text());
    cr_expect(spec.min_count == 2 && spec.window == 1024 && spec.sample_seed == 7);
    cr_expect(spec.negatives == 0 && spec.subsample == 0);
    cadre_data_spec_fini(&spec);
    static const char *const bad[] = {"'window':0",       "'window':1025",   "'negatives':-1",
                                      "'negatives':1025", "'subsample':1.1", "'subsample':-0.1",
                                      "'min_count':0",    "'sample_seed':0", "'subsample':'1'"};
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cadre_auto(cadre_free) char *json = cadre_asprintf(TEXT ",%s}", bad[i]);
        cr_expect_eq(decode(json, &spec), CADRE_ECONFIG, "%s", bad[i]);
    }
}

Test(data_spec, reads_the_four_ways_to_name_a_label)
{
    cadre_data_spec_t spec = {0};
    cr_assert_eq(decode("{'format':'csv','path':'a','label':'first'}", &spec), 0);
    cr_assert_eq(spec.label_at, CADRE_LABEL_AT_FIRST);
    cadre_data_spec_fini(&spec);
    cr_assert_eq(decode("{'format':'csv','path':'a','label':7}", &spec), 0);
    cr_assert_eq(spec.label_at, CADRE_LABEL_AT_INDEX);
    cr_assert_eq(spec.label_index, 7);
    cadre_data_spec_fini(&spec);
    cr_assert_eq(decode("{'format':'csv','path':'a','label':'7','header':true}", &spec), 0);
    cr_assert_eq(spec.label_at, CADRE_LABEL_AT_NAME);
    cr_assert_str_eq(spec.label_name, "7");
    cr_assert_eq(spec.header, CADRE_HEADER_YES);
    cadre_data_spec_fini(&spec);
}

/* The words behind the place are jansson's own. */
Test(data_spec, refuses_what_is_no_json_object)
{
    static const char *const texts[] = {"", "{", "{'format':'csv','path':'a'} x",
                                        "{'format':'csv','path':'a','path':'b'}",
                                        "{'format':'csv','path':'a\\u0000b'}"};
    static const char place[] = "dataset: line 1, column ";
    for (size_t i = 0; i < CADRE_COUNT_OF(texts); i++) {
        cadre_data_spec_t spec = {0};
        cr_expect_eq(decode(texts[i], &spec), CADRE_ECONFIG, "%s", texts[i]);
        cr_expect_arr_eq(cadre_error_text(), place, sizeof(place) - 1, "%s", cadre_error_text());
    }
    check_refused("[]", "dataset: the description must be a JSON object");
}

Test(data_spec, names_the_key_that_is_wrong)
{
    check_refused("{'path':'a'}", "dataset: key \"format\" must be \"csv\", \"libsvm\", \"idx\", "
                                  "\"npy\", \"criteo\" or \"text\"");
    check_refused("{'format':'CSV','path':'a'}",
                  "dataset: key \"format\" must be \"csv\", \"libsvm\", \"idx\", \"npy\", "
                  "\"criteo\" or \"text\"");
    check_refused("{'format':'csv'}", "dataset: key \"path\" is missing");
    check_refused("{'format':'csv','path':''}",
                  "dataset: key \"path\" must be a path, or a list of paths");
    check_refused("{'format':'csv','path':3}",
                  "dataset: key \"path\" must be a path, or a list of paths");
    check_refused("{'format':'idx','path':'a'}", "dataset: key \"labels_path\" is missing");
    check_refused("{'format':'criteo','path':'a'}", "dataset: key \"buckets\" is missing");
    check_refused("{'format':'criteo','path':'a','buckets':1}",
                  "dataset: key \"buckets\" must be a whole number from 2 to 16777216");
    check_refused("{'format':'csv','path':'a','buckets':9}",
                  "dataset: key \"buckets\" does not go with format \"csv\"");
    check_refused("{'format':'csv','path':'a','window':2}",
                  "dataset: key \"window\" does not go with format \"csv\"");
    check_refused("{'format':'text','path':'a','label_kind':'binary'}",
                  "dataset: key \"vocabulary\" is missing");
    check_refused("{'format':'text','path':'a','vocabulary':9}",
                  "dataset: rows of a text have the \"label_kind\" \"binary\"");
    check_refused("{'format':'text','path':'a','vocabulary':9,'label_kind':'binary','scale':2}",
                  "dataset: key \"scale\" does not go with format \"text\", whose rows are ids");
    check_refused("{'format':'npy','path':'a'}", "dataset: key \"labels_path\" is missing");
    check_refused("{'format':'csv','path':'a','pth':'a'}", "dataset: unknown key \"pth\"");
    check_refused("{'format':'csv','path':'a','features':3}",
                  "dataset: key \"features\" does not go with format \"csv\"");
    check_refused("{'format':'csv','path':'a','items':3}",
                  "dataset: key \"items\" does not go with format \"csv\"");
    check_refused("{'format':'libsvm','path':'a','features':9,'items':0}",
                  "dataset: key \"items\" must be a whole number from 1 to 65536");
    check_refused(
        "{'format':'libsvm','path':'a','items':3}",
        "dataset: key \"items\" needs \"features\", the largest index, or \"keys\": true");
    check_refused(
        "{'format':'libsvm','path':'a','items':3,'keys':false}",
        "dataset: key \"items\" needs \"features\", the largest index, or \"keys\": true");
    check_refused("{'format':'libsvm','path':'a','keys':true}",
                  "dataset: key \"keys\" needs \"items\", how many indices a row has at most");
    check_refused(
        "{'format':'libsvm','path':'a','items':3,'keys':true,'features':9}",
        "dataset: keys \"features\" and \"keys\" do not go together: an index that is a key "
        "has all 64 bits");
    check_refused("{'format':'csv','path':'a','keys':true}",
                  "dataset: key \"keys\" does not go with format \"csv\"");
    check_refused("{'format':'libsvm','path':'a','header':true}",
                  "dataset: key \"header\" does not go with format \"libsvm\"");
    check_refused("{'format':'idx','path':'a','labels_path':'b','skip_bad':0}",
                  "dataset: key \"skip_bad\" does not go with format \"idx\"");
    check_refused("{'format':'csv','path':'a','delimiter':'x'}",
                  "dataset: key \"delimiter\" must be one of \",\", \";\", \"|\", \":\", \"tab\" "
                  "or \"space\"");
    check_refused("{'format':'csv','path':'a','delimiter':''}",
                  "dataset: key \"delimiter\" must be one of \",\", \";\", \"|\", \":\", \"tab\" "
                  "or \"space\"");
    check_refused("{'format':'csv','path':'a','header':'yes'}",
                  "dataset: key \"header\" must be true, false or \"auto\"");
    check_refused("{'format':'csv','path':'a','label_kind':'int'}",
                  "dataset: key \"label_kind\" must be \"class\", \"binary\" or \"value\"");
    check_refused("{'format':'csv','path':'a','label':''}",
                  "dataset: key \"label\" must be \"last\", \"first\", the name of a column or its "
                  "number from 0");
    check_refused("{'format':'csv','path':'a','label':'z','header':false}",
                  "dataset: key \"label\" names a column, but \"header\" is false");
    static const char *const lists[] = {"[]", "'a'", "{'column':0}"};
    for (size_t i = 0; i < CADRE_COUNT_OF(lists); i++) {
        cadre_auto(cadre_free) char *json =
            cadre_asprintf("{'format':'csv','path':'a','columns':%s}", lists[i]);
        check_refused(json, "dataset: key \"columns\" must be a list of columns");
    }
    static const char *const columns[] = {"[-1]", "[1.5]", "['']", "[16777217]", "[['a']]"};
    for (size_t i = 0; i < CADRE_COUNT_OF(columns); i++) {
        cadre_auto(cadre_free) char *json =
            cadre_asprintf("{'format':'csv','path':'a','columns':%s}", columns[i]);
        check_refused(json, "dataset: columns[0]: it must be the name of a column, its number "
                            "from 0, or an object with \"column\"");
    }
    check_refused("{'format':'csv','path':'a','columns':[0,'z'],'header':false}",
                  "dataset: key \"columns\" names a column, but \"header\" is false");
    check_refused("{'format':'idx','path':'a','labels_path':'b','columns':[0]}",
                  "dataset: key \"columns\" does not go with format \"idx\"");
    check_refused("{'format':'csv','path':'a','label_kind':'value','classes':2}",
                  "dataset: key \"classes\" goes with \"label_kind\" \"class\" only");
}

Test(data_spec, reads_columns_of_words_and_bags)
{
    cadre_data_spec_t spec = {0};
    cr_assert_eq(
        decode("{'format':'csv','path':'a','columns':['n',{'column':3,'hash':2},"
               "{'column':'t','items':65536,'weights':true,'separator':';','hash':16777216,"
               "'hash_seed':7},{'column':'g','items':1}]}",
               &spec),
        0, "%s", cadre_error_text());
    cr_assert_eq(spec.column_count, 4);
    const cadre_data_column_t *c = spec.columns;
    cr_expect(!cadre_data_column_has_words(&c[0]) && cadre_data_column_width(&c[0]) == 1);
    cr_expect(!c[1].name && c[1].index == 3 && c[1].buckets == 2);
    cr_expect(cadre_data_column_has_words(&c[1]) && cadre_data_column_width(&c[1]) == 1);
    cr_expect(c[2].items == 65536 && c[2].is_weighted && c[2].separator == ';');
    cr_expect(c[2].buckets == 16777216 && c[2].hash_seed == 7);
    cr_expect_eq(cadre_data_column_width(&c[2]), 131072);
    cr_expect(c[3].items == 1 && c[3].separator == '|' && !c[3].is_weighted && c[3].buckets == 0);
    cr_expect(cadre_data_column_has_words(&c[3]));
    cadre_data_spec_fini(&spec);
}

Test(data_spec, reads_columns_of_keys)
{
    cadre_data_spec_t spec = {0};
    cr_assert_eq(decode("{'format':'csv','path':'a','columns':[{'column':'u','key':'id'},"
                        "{'column':'w','key':'word','hash_seed':7},{'column':'g','key':'word',"
                        "'items':5}]}",
                        &spec),
                 0, "%s", cadre_error_text());
    const cadre_data_column_t *c = spec.columns;
    cr_expect(c[0].key == CADRE_DATA_KEY_ID && cadre_data_column_has_words(&c[0]));
    cr_expect(c[1].key == CADRE_DATA_KEY_WORD && c[1].hash_seed == 7);
    cr_expect_eq(cadre_data_column_width(&c[0]), 3);
    cr_expect_eq(cadre_data_column_width(&c[2]), 20);
    cadre_data_spec_fini(&spec);

    cr_assert_eq(decode("{'format':'criteo','path':'a','label_kind':'binary','keys':true}", &spec),
                 0);
    cr_expect(spec.has_keys && spec.buckets == 0);
    cadre_data_spec_fini(&spec);
    check_refused(
        "{'format':'criteo','path':'a','label_kind':'binary','keys':true,'buckets':9}",
        "dataset: keys \"buckets\" and \"keys\" do not go together: a key has all 64 bits "
        "of the hash");
    check_refused("{'format':'criteo','path':'a','label_kind':'binary','keys':false}",
                  "dataset: key \"buckets\" is missing");
}

Test(data_spec, names_the_key_of_a_column_that_is_wrong)
{
    static const struct {
        const char *column;
        const char *reason;
    } cases[] = {
        {"{'hash':9}", "dataset: columns[0]: key \"column\" is missing: its name, or its number "
                       "from 0"},
        {"{'column':-1}", "dataset: columns[0]: key \"column\" must be its name, or its number "
                          "from 0"},
        {"{'column':'a','buckets':9}", "dataset: columns[0]: unknown key \"buckets\""},
        {"{'column':'a','hash':1}",
         "dataset: columns[0]: key \"hash\" must be a whole number from 2 to 16777216"},
        {"{'column':'a','hash':16777217}",
         "dataset: columns[0]: key \"hash\" must be a whole number from 2 to 16777216"},
        {"{'column':'a','hash_seed':1}",
         "dataset: columns[0]: key \"hash_seed\" goes with \"hash\", or \"key\" \"word\", only"},
        {"{'column':'a','hash_seed':1,'key':'id'}",
         "dataset: columns[0]: key \"hash_seed\" goes with \"hash\", or \"key\" \"word\", only"},
        {"{'column':'a','key':true}",
         "dataset: columns[0]: key \"key\" must be \"id\" or \"word\""},
        {"{'column':'a','key':'word','hash':9}",
         "dataset: columns[0]: keys \"hash\" and \"key\" do not go together: a key has all 64 bits "
         "of the hash"},
        {"{'column':'a','items':0}",
         "dataset: columns[0]: key \"items\" must be a whole number from 1 to 65536"},
        {"{'column':'a','items':65537}",
         "dataset: columns[0]: key \"items\" must be a whole number from 1 to 65536"},
        {"{'column':'a','hash':9,'separator':'|'}",
         "dataset: columns[0]: key \"separator\" goes with \"items\" only: how many of them a row "
         "has at most"},
        {"{'column':'a','hash':9,'weights':true}",
         "dataset: columns[0]: key \"weights\" goes with \"items\" only: how many of them a row "
         "has at most"},
        {"{'column':'a','items':2,'separator':'x'}",
         "dataset: columns[0]: key \"separator\" must be one of \"|\", \";\", \",\", \":\", "
         "\"/\", \"&\" or \" \""},
        {"{'column':'a','items':2,'separator':':','weights':true}",
         "dataset: columns[0]: key \"separator\" must be none that \"weights\" have, a colon"},
        {"{'column':'a','items':2,'weights':1}",
         "dataset: columns[0]: key \"weights\" must be true or false"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_free) char *json =
            cadre_asprintf("{'format':'csv','path':'a','columns':[%s]}", cases[i].column);
        check_refused(json, cases[i].reason);
    }
    check_refused("{'format':'csv','path':'a','columns':[{'column':2,'hash':9}]}",
                  "dataset: key \"columns\" has words, which \"auto\" takes for names: say whether "
                  "there is a \"header\"");
    check_refused("{'format':'csv','path':'a','columns':[{'column':'z','hash':9}],'header':false}",
                  "dataset: key \"columns\" names a column, but \"header\" is false");
}

Test(data_spec, bounds_the_numbers_of_a_row)
{
    cadre_auto(cadre_free) char *json = cadre_calloc(CADRE_DATA_SPEC_SIZE_MAX, 1);
    const size_t size = CADRE_DATA_SPEC_SIZE_MAX;
    size_t at =
        (size_t)snprintf(json, size, "{'format':'csv','path':'a','header':true,'columns':[0");
    for (int i = 1; i <= 129; i++) {
        at += (size_t)snprintf(json + at, size - at, ",{'column':%d,'items':65536}", i);
        if (i == 127) {
            cadre_data_spec_t spec = {0};
            snprintf(json + at, size - at, "]}");
            cr_expect_eq(decode(json, &spec), 0, "%s", cadre_error_text());
            cadre_data_spec_fini(&spec);
        }
    }
    snprintf(json + at, size - at, "]}");
    check_refused(json, "dataset: key \"columns\" makes rows of 16908289 numbers, at most 16777216 "
                        "are allowed");
}

Test(data_spec, checks_numbers_at_their_limits)
{
    static const char *const good[] = {
        "'scale':-1e30", "'scale':1e30",         "'scale':3",
        "'rows':1",      "'rows':1099511627776", "'classes':2",
        "'label':0",     "'classes':16777216",   "'skip_bad':0",
    };
    static const char *const bad[] = {
        "'scale':0",  "'scale':1.1e30", "'scale':'1'",  "'rows':0",       "'rows':1099511627777",
        "'rows':1.0", "'classes':1",    "'label':-1",   "'label':1.5",    "'classes':16777217",
        "'rows':'1'", "'skip_bad':-1",  "'scale':null", "'first_row':-1",
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(good); i++) {
        cadre_auto(cadre_free) char *json =
            cadre_asprintf("{'format':'csv','path':'a',%s}", good[i]);
        cadre_data_spec_t spec = {0};
        cr_expect_eq(decode(json, &spec), 0, "%s", cadre_error_text());
        cadre_data_spec_fini(&spec);
    }
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cadre_auto(cadre_free) char *json =
            cadre_asprintf("{'format':'csv','path':'a',%s}", bad[i]);
        cadre_data_spec_t spec = {0};
        cr_expect_eq(decode(json, &spec), CADRE_ECONFIG, "%s", bad[i]);
    }
}

Test(data_spec, refuses_a_description_that_is_too_long)
{
    char text[CADRE_DATA_SPEC_SIZE_MAX + 1];
    memset(text, ' ', sizeof(text));
    static const char json[] = "{\"format\":\"csv\",\"path\":\"a\"}";
    memcpy(text, json, sizeof(json) - 1);
    cadre_data_spec_t spec = {0};
    cr_assert_eq(cadre_data_spec_decode(text, sizeof(text), &spec), CADRE_ECONFIG);
    cr_assert_eq(cadre_data_spec_decode(text, sizeof(text) - 1, &spec), 0);
    cadre_data_spec_fini(&spec);
}

Test(data_spec, survives_random_changes)
{
    static const char json[] =
        "{\"format\":\"csv\",\"path\":\"a\",\"label\":\"last\",\"scale\":0.5,"
        "\"header\":\"auto\",\"rows\":12,\"skip_bad\":3}";
    uint64_t state = 1234567;
    for (int i = 0; i < 20000; i++) {
        char text[sizeof(json)];
        memcpy(text, json, sizeof(json));
        size_t length = sizeof(json) - 1;
        for (int changes = 0; changes <= i % 3; changes++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            text[(state >> 33) % length] = (char)(state >> 24);
        }
        cadre_data_spec_t spec = {0};
        if (cadre_data_spec_decode(text, length, &spec) == 0) {
            cadre_data_spec_fini(&spec);
        }
    }
}
