#include "common/checkpoint/manifest.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>

#include <xxhash.h>

#include "tests/checkpoint/sample.h"

TestSuite(manifest, .timeout = 240);

static char *
encode_sample(size_t *size)
{
    cadre_manifest_t manifest;
    sample_manifest(&manifest, 12, 3, 4);
    manifest.shards[1].size_bytes = 4096;
    manifest.shards[1].hash = UINT64_C(0xfedcba9876543210);
    char *text = NULL;
    ok(cadre_manifest_encode(&manifest, &text, size));
    cadre_manifest_fini(&manifest);
    return text;
}

/* The text of a manifest with this content and a right hash, whatever the content is. */
static char *
rehash(json_t *root)
{
    json_object_del(root, "hash");
    char *plain = json_dumps(root, JSON_INDENT(2));
    char *text = cadre_asprintf("{\n  \"hash\": \"%016" PRIx64 "\",\n%s",
                                (uint64_t)XXH3_64bits(plain + 2, strlen(plain) - 2), plain + 2);
    free(plain);
    return text;
}

static int
decode(const char *text)
{
    cadre_manifest_t manifest = {0};
    int status = cadre_manifest_decode("m.json", text, strlen(text), &manifest);
    cadre_manifest_fini(&manifest);
    return status;
}

static json_t *
sample_json(void)
{
    size_t size;
    cadre_auto(cadre_free) char *text = encode_sample(&size);
    json_t *root = json_loads(text, 0, NULL);
    cr_assert(root);
    return root;
}

Test(manifest, comes_back_as_it_was)
{
    size_t size;
    cadre_auto(cadre_free) char *text = encode_sample(&size);
    cr_assert_eq(text[size - 1], '\n');
    cadre_manifest_t want, found = {0};
    sample_manifest(&want, 12, 3, 4);
    ok(cadre_manifest_decode("m.json", text, size, &found));
    cr_assert_str_eq(found.job, "digits");
    cr_assert(found.id == 12 && found.cut == 1200);
    cr_assert(found.epoch == UINT64_MAX && found.seed == UINT64_C(0x8000000000000001));
    cr_assert_str_eq(found.created, want.created);
    cr_assert(json_equal(found.progress, want.progress));
    cr_assert(found.shard_count == 3 && found.variable_count == CADRE_COUNT_OF(SAMPLE));
    cr_assert_str_eq(found.shards[1].file, "shard-1.mdb");
    cr_assert(found.shards[1].size_bytes == 4096 &&
              found.shards[1].hash == UINT64_C(0xfedcba9876543210));
    cr_assert_eq(memcmp(&found.shards[2].state, &want.shards[2].state, sizeof(cadre_shard_state_t)),
                 0);
    for (size_t i = 0; i < found.variable_count; i++) {
        const cadre_manifest_variable_t *a = &found.variables[i], *b = &want.variables[i];
        cr_assert_str_eq(a->name, b->name);
        cr_assert(a->dtype == b->dtype && cadre_shape_equal(a->shape, a->rank, b->shape, b->rank));
        cr_assert(json_equal(a->initializer, b->initializer) &&
                  json_equal(a->optimizer, b->optimizer));
        cr_assert_eq(a->partition_count, b->partition_count);
        for (size_t j = 0; j < a->partition_count; j++) {
            cr_assert_eq(a->partitions[j].shard, b->partitions[j].shard);
            cr_assert_eq(a->partitions[j].first_element, b->partitions[j].first_element);
            cr_assert_eq(a->partitions[j].count, b->partitions[j].count);
        }
    }
    cr_assert_eq(cadre_manifest_find(&found, "fc1"), &found.variables[2]);
    cr_assert_null(cadre_manifest_find(&found, "fc"));
    cadre_manifest_fini(&want);
    cadre_manifest_fini(&found);
}

Test(manifest, notices_every_flipped_bit)
{
    size_t size;
    cadre_auto(cadre_free) char *text = encode_sample(&size);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
        cadre_manifest_t found = {0};
        cr_assert_neq(cadre_manifest_decode("m.json", text, size, &found), 0, "bit %zu", bit);
        text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
    }
}

Test(manifest, notices_that_it_was_cut_short_or_grew)
{
    size_t size;
    cadre_auto(cadre_free) char *text = encode_sample(&size);
    cadre_manifest_t found = {0};
    for (size_t cut = 0; cut < size; cut++) {
        cr_assert_neq(cadre_manifest_decode("m.json", text, cut, &found), 0, "%zu", cut);
    }
    cadre_auto(cadre_free) char *longer = cadre_asprintf("%s\n", text);
    cr_assert_eq(cadre_manifest_decode("m.json", longer, size + 1, &found), CADRE_ECORRUPT);
}

Test(manifest, names_the_line_of_a_syntax_error)
{
    cr_assert_eq(decode("{\n  \"hash\": \"0\",\n  \"job\" 5\n}"), CADRE_EMALFORMED);
    cr_assert(strstr(cadre_error_text(), "m.json:3:"), "%s", cadre_error_text());
    cr_assert_eq(decode("[]"), CADRE_EMALFORMED);
    cr_assert_eq(decode("{\"schema\": \"cadre.checkpoint/v1\", \"schema\": 1}"), CADRE_EMALFORMED);
}

Test(manifest, of_another_schema_is_told_apart_from_a_damaged_one)
{
    cr_assert_eq(decode("{\"schema\": \"cadre.checkpoint/v4\"}"), CADRE_EPROTOCOL);
    cr_assert_eq(decode("{\"schema\": \"cadre.checkpoint/v3\"}"), CADRE_ECORRUPT);
    cr_assert_eq(decode("{\"schema\": \"cadre.checkpoint/v1\"}"), CADRE_ECORRUPT);
    cr_assert_eq(decode("{\"schema\": \"cadre.checkpoint/v2\"}"), CADRE_ECORRUPT);
    cr_assert_eq(decode("{\"schema\": 1}"), CADRE_EMALFORMED);
}

/* The variable of the sample that is f32 and may travel as bf16. */
static size_t
f32_variable(const cadre_manifest_t *manifest)
{
    size_t i = 0;
    while (manifest->variables[i].dtype != CADRE_F32) {
        i++;
    }
    return i;
}

Test(manifest, says_what_travels_otherwise_in_a_schema_of_its_own)
{
    cadre_manifest_t manifest;
    cadre_manifest_t found = {0};
    char *text = NULL;
    size_t size = 0;
    sample_manifest(&manifest, 12, 3, 4);
    size_t number = f32_variable(&manifest);
    ok(cadre_manifest_encode(&manifest, &text, &size));
    cr_assert(strstr(text, "\"cadre.checkpoint/v1\"") && !strstr(text, "\"wire\""));
    ok(cadre_manifest_decode("m.json", text, size, &found));
    cr_assert_eq(found.variables[number].wire, CADRE_F32);
    cadre_manifest_fini(&found);
    cadre_free(&text);
    manifest.variables[number].wire = CADRE_BF16;
    ok(cadre_manifest_encode(&manifest, &text, &size));
    cr_assert(strstr(text, "\"cadre.checkpoint/v2\"") && strstr(text, "\"wire\": \"bf16\""));
    ok(cadre_manifest_decode("m.json", text, size, &found));
    for (size_t i = 0; i < found.variable_count; i++) {
        cr_assert_eq(found.variables[i].wire, i == number ? CADRE_BF16 : found.variables[i].dtype);
    }
    cadre_manifest_fini(&found);
    cadre_free(&text);
    cadre_manifest_fini(&manifest);
}

/* The sample with `wire` as the type on the wire of its f32 variable. */
static int
decode_wire(const char *schema, json_t *wire)
{
    cadre_manifest_t manifest;
    sample_manifest(&manifest, 12, 3, 4);
    json_t *root = sample_json();
    json_t *variables = json_object_get(root, "variables");
    json_object_set_new(root, "schema", json_string(schema));
    json_object_set_new(json_array_get(variables, f32_variable(&manifest)), "wire", wire);
    cadre_auto(cadre_free) char *text = rehash(root);
    json_decref(root);
    cadre_manifest_fini(&manifest);
    return decode(text);
}

Test(manifest, takes_no_other_type_on_the_wire)
{
    cr_assert_eq(decode_wire("cadre.checkpoint/v2", json_string("bf16")), 0, "%s",
                 cadre_error_text());
    cr_assert_eq(decode_wire("cadre.checkpoint/v1", json_string("bf16")), CADRE_EMALFORMED);
    cr_assert(strstr(cadre_error_text(), "wire: unknown field"), "%s", cadre_error_text());
    cr_assert_eq(decode_wire("cadre.checkpoint/v2", json_string("i32")), CADRE_EMALFORMED);
    cr_assert(strstr(cadre_error_text(), "wire: no such type"), "%s", cadre_error_text());
    cr_assert_eq(decode_wire("cadre.checkpoint/v2", json_string("f32")), CADRE_EMALFORMED);
    cr_assert_eq(decode_wire("cadre.checkpoint/v2", json_integer(7)), CADRE_EMALFORMED);
}

/* Makes variable `number` of the sample a table. */
static void
make_table(cadre_manifest_t *manifest, size_t number)
{
    cadre_manifest_variable_t *variable = &manifest->variables[number];
    variable->rank = 2;
    variable->shape[0] = 0;
    variable->shape[1] = 16;
    variable->table = json_pack("{s:s}", "storage", "f32");
    free(variable->partitions);
    variable->partition_count = manifest->shard_count;
    variable->partitions = cadre_calloc(manifest->shard_count, sizeof(*variable->partitions));
    for (uint32_t k = 0; k < manifest->shard_count; k++) {
        variable->partitions[k].shard = k;
    }
}

Test(manifest, tells_tables_and_what_is_in_an_older_checkpoint_in_a_schema_of_its_own)
{
    cadre_manifest_t manifest;
    cadre_manifest_t found = {0};
    char *text = NULL;
    size_t size = 0;
    sample_manifest(&manifest, 12, 3, 4);
    size_t number = f32_variable(&manifest);
    make_table(&manifest, number);
    manifest.since = 11;
    ok(cadre_manifest_encode(&manifest, &text, &size));
    cr_assert(strstr(text, "\"cadre.checkpoint/v3\""));
    ok(cadre_manifest_decode("m.json", text, size, &found));
    cr_assert_eq(found.since, 11);
    for (size_t i = 0; i < found.variable_count; i++) {
        cr_assert_eq(found.variables[i].table != NULL, i == number);
    }
    cr_assert(json_equal(found.variables[number].table, manifest.variables[number].table));
    cr_assert_eq(found.variables[number].shape[1], 16);
    cadre_manifest_fini(&found);
    cadre_free(&text);
    cadre_manifest_fini(&manifest);
}

/* What becomes of a manifest with a table that `spoil_table` has changed. */
static int
encode_spoilt(void (*spoil_table)(cadre_manifest_t *, cadre_manifest_variable_t *))
{
    cadre_manifest_t manifest;
    char *text = NULL;
    size_t size = 0;
    sample_manifest(&manifest, 12, 3, 4);
    size_t number = f32_variable(&manifest);
    make_table(&manifest, number);
    spoil_table(&manifest, &manifest.variables[number]);
    int status = cadre_manifest_encode(&manifest, &text, &size);
    cadre_free(&text);
    cadre_manifest_fini(&manifest);
    return status;
}

static void
has_rows(cadre_manifest_t *manifest, cadre_manifest_variable_t *variable)
{
    (void)manifest;
    variable->shape[0] = 1;
    variable->partitions[variable->partition_count - 1].count = 16;
}

static void
is_too_wide(cadre_manifest_t *manifest, cadre_manifest_variable_t *variable)
{
    (void)manifest;
    variable->shape[1] = CADRE_TABLE_DIM_MAX + 1;
}

static void
is_as_wide_as_may_be(cadre_manifest_t *manifest, cadre_manifest_variable_t *variable)
{
    (void)manifest;
    variable->shape[1] = CADRE_TABLE_DIM_MAX;
}

static void
lacks_a_shard(cadre_manifest_t *manifest, cadre_manifest_variable_t *variable)
{
    (void)manifest;
    variable->partition_count--;
}

static void
is_twice_on_a_shard(cadre_manifest_t *manifest, cadre_manifest_variable_t *variable)
{
    (void)manifest;
    variable->partitions[1].shard = 0;
}

static void
is_since_itself(cadre_manifest_t *manifest, cadre_manifest_variable_t *variable)
{
    (void)variable;
    manifest->since = manifest->id;
}

Test(manifest, takes_no_table_that_is_none)
{
    cr_assert_eq(encode_spoilt(is_as_wide_as_may_be), 0, "%s", cadre_error_text());
    cr_assert_eq(encode_spoilt(has_rows), CADRE_EINVALID);
    cr_assert(strstr(cadre_error_text(), "shape: is not that of a table"), "%s",
              cadre_error_text());
    cr_assert_eq(encode_spoilt(is_too_wide), CADRE_EINVALID);
    cr_assert_eq(encode_spoilt(lacks_a_shard), CADRE_EINVALID);
    cr_assert(strstr(cadre_error_text(), "not one on each of 3 shards"), "%s", cadre_error_text());
    cr_assert_eq(encode_spoilt(is_twice_on_a_shard), CADRE_EINVALID);
    cr_assert(strstr(cadre_error_text(), "on another shard"), "%s", cadre_error_text());
    cr_assert_eq(encode_spoilt(is_since_itself), CADRE_EINVALID);
    cr_assert(strstr(cadre_error_text(), "since: names no older"), "%s", cadre_error_text());
}

/* Gives every field of `object` in turn another type, takes it away, and adds one. The error must
 * name the field. */
static void
spoil(json_t *root, json_t *object, const char *place)
{
    cadre_auto(cadre_free) const char **keys =
        cadre_calloc(json_object_size(object), sizeof(*keys));
    size_t count = 0;
    const char *key;
    json_t *field;
    json_object_foreach(object, key, field)
    {
        if (strcmp(key, "hash") != 0 || object != root) {
            keys[count++] = cadre_strdup(key);
        }
    }
    for (size_t i = 0; i < count; i++) {
        cadre_auto(cadre_free) char *name = cadre_asprintf("m.json: %s%s: ", place, keys[i]);
        json_t *kept = json_incref(json_object_get(object, keys[i]));
        json_t *const wrong[] = {json_null(), json_true(), json_real(1.5),
                                 json_is_string(kept) ? json_integer(1) : json_string("1"),
                                 json_is_object(kept) ? json_array() : json_object()};
        for (size_t j = 0; j <= CADRE_COUNT_OF(wrong); j++) {
            if (j < CADRE_COUNT_OF(wrong)) {
                json_object_set_new(object, keys[i], wrong[j]);
            } else {
                json_object_del(object, keys[i]);
            }
            cadre_auto(cadre_free) char *text = rehash(root);
            cr_assert_eq(decode(text), CADRE_EMALFORMED, "%s %zu", name, j);
            bool named = strstr(cadre_error_text(), name) || strstr(place, "partitions");
            cr_assert(named, "%s: %s", name, cadre_error_text());
        }
        json_object_set_new(object, keys[i], kept);
        free((char *)keys[i]);
    }
    json_object_set_new(object, "surprise", json_integer(1));
    cadre_auto(cadre_free) char *text = rehash(root);
    cr_assert_eq(decode(text), CADRE_EMALFORMED, "%s", place);
    cr_assert(strstr(cadre_error_text(), "surprise: unknown field"), "%s", cadre_error_text());
    json_object_del(object, "surprise");
    cadre_auto(cadre_free) char *good = rehash(root);
    ok(decode(good));
}

Test(manifest, refuses_missing_unknown_and_wrongly_typed_fields)
{
    json_t *root = sample_json();
    spoil(root, root, "");
    json_t *variable = json_array_get(json_object_get(root, "variables"), 2);
    spoil(root, variable, "variables[2].");
    spoil(root, json_array_get(json_object_get(variable, "partitions"), 1),
          "variables[2].partitions.");
    json_t *shard = json_array_get(json_object_get(root, "shards"), 1);
    spoil(root, shard, "shards[1].");
    spoil(root, json_object_get(shard, "counters"), "shards[1].counters.");
    json_decref(root);
}

/* Sets one field of a good manifest and expects the refusal to contain `message`. */
static void
refuses(const char *list, size_t index, const char *key, json_t *value, const char *message)
{
    json_t *root = sample_json();
    json_t *object = list ? json_array_get(json_object_get(root, list), index) : root;
    json_object_set_new(object, key, value);
    cadre_auto(cadre_free) char *text = rehash(root);
    cr_assert_eq(decode(text), CADRE_EMALFORMED, "%s", key);
    cr_assert(strstr(cadre_error_text(), message), "%s: %s", message, cadre_error_text());
    json_decref(root);
}

Test(manifest, refuses_values_out_of_range)
{
    refuses(NULL, 0, "id", json_integer(-1), "m.json: id: -1");
    refuses(NULL, 0, "epoch", json_string("18446744073709551616"), "epoch: must be a number");
    refuses(NULL, 0, "seed", json_string("-1"), "seed: must be a number");
    refuses(NULL, 0, "seed", json_string("01"), "seed: must be a number");
    refuses(NULL, 0, "job", json_string(""), "job: has 0 bytes");
    refuses(NULL, 0, "job", json_string("a\x1b[2J"), "job: holds a control character");
    refuses(NULL, 0, "shards", json_array(), "shards: is empty");
    refuses("shards", 0, "hash", json_string("FEDCBA9876543210"), "shards[0].hash: must be 16");
    refuses("shards", 0, "hash", json_string("1"), "shards[0].hash: must be 16");
    refuses("shards", 2, "size_bytes", json_integer(-5), "shards[2].size_bytes: -5");
    const char *files[] = {"../shard-0.mdb", "/etc/passwd", "shard-0.mdb/", "shard-1.mdb", ".."};
    for (size_t i = 0; i < CADRE_COUNT_OF(files); i++) {
        refuses("shards", 0, "file", json_string(files[i]), "shards[0].file: must be shard-0.mdb");
    }
    refuses("variables", 0, "name", json_string("a/b"), "variables[0].name: is no valid name");
    refuses("variables", 0, "name", json_string("fc1"), "variables: fc1 is there twice");
    refuses("variables", 0, "dtype", json_string("f16"), "variables[0].dtype: no such");
    refuses("variables", 0, "shape", json_pack("[i,i]", 37, -5), "variables[0].shape: ");
    refuses("variables", 0, "shape", json_pack("[s]", "5"), "variables[0].shape: ");
    refuses("variables", 0, "shape", json_pack("[i,i,i,i,i,i,i,i,i]", 1, 1, 1, 1, 1, 1, 1, 1, 1),
            "variables[0].shape: has 9");
    refuses("variables", 0, "shape", json_pack("[I,I]", INT64_MAX, INT64_MAX),
            "variables[0].shape: ");
    refuses("variables", 0, "partitions", json_array(), "variables[0].partitions: hold 0 of 185");
    refuses("variables", 0, "partitions", json_pack("[i]", 1), "partitions: item 0 must be");
    refuses("variables", 0, "partitions",
            json_pack("[{s:i,s:i,s:i}]", "shard", 3, "first_element", 0, "count", 185),
            "variables[0].shard: 3 is not in 0..2");
    refuses("variables", 0, "partitions",
            json_pack("[{s:i,s:i,s:i},{s:i,s:i,s:i}]", "shard", 0, "first_element", 0, "count", 90,
                      "shard", 0, "first_element", 91, "count", 94),
            "variables[0].partitions: item 1 does not continue");
}

Test(manifest, is_never_written_when_it_could_not_be_read)
{
    cadre_manifest_t manifest;
    sample_manifest(&manifest, 1, 2, 2);
    char *text = NULL;
    size_t size;
    manifest.cut = UINT64_MAX;
    cr_assert_eq(cadre_manifest_encode(&manifest, &text, &size), CADRE_EINVALID);
    cr_assert(strstr(cadre_error_text(), "cut"), "%s", cadre_error_text());
    manifest.cut = 1;
    manifest.variables[0].name[3] = '/';
    cr_assert_eq(cadre_manifest_encode(&manifest, &text, &size), CADRE_EINVALID);
    manifest.variables[0].name[3] = '\xff';
    cr_assert_eq(cadre_manifest_encode(&manifest, &text, &size), CADRE_EINVALID);
    manifest.variables[0].name[3] = '.';
    json_t *progress = manifest.progress;
    manifest.progress = NULL;
    cr_assert_eq(cadre_manifest_encode(&manifest, &text, &size), CADRE_EINVALID);
    manifest.progress = json_array();
    cr_assert_eq(cadre_manifest_encode(&manifest, &text, &size), CADRE_EINVALID);
    json_decref(manifest.progress);
    manifest.progress = progress;
    ok(cadre_manifest_encode(&manifest, &text, &size));
    free(text);
    cadre_manifest_fini(&manifest);
}

Test(manifest, is_written_whole_or_not_at_all_and_never_over_another)
{
    cadre_auto(sample_directory_remove) char *path = sample_directory();
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    cadre_manifest_t manifest, again = {0};
    sample_manifest(&manifest, 1, 2, 2);
    ok(cadre_manifest_write(&manifest, fd, path));
    ok(cadre_manifest_read(fd, path, &again));
    cadre_manifest_fini(&again);
    cr_assert_eq(cadre_manifest_write(&manifest, fd, path), CADRE_EEXISTS);
    cr_assert_eq(unlinkat(fd, "manifest.json", 0), 0);
    cr_assert_eq(cadre_manifest_read(fd, path, &again), CADRE_ENOTFOUND);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {100, RLIM_INFINITY};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_eq(cadre_manifest_write(&manifest, fd, path), CADRE_EIO);
    cr_assert_eq(sample_names(path), 0);
    cadre_manifest_fini(&manifest);
    close(fd);
}
