#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/table_rows.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/npy_file.h"
#include "coordinator/cli/setting_flags.h"
#include "coordinator/cli/table_export.h"
#include "coordinator/cli/terminal/exit_code.h"
#include "coordinator/cli/verb.h"

typedef struct {
    cadre_verb_words_t words; /* the command's words: what to do, and a directory */
    bool json;
    const char *to;      /* folder that export writes into */
    uint64_t checkpoint; /* the one to look into; 0: the newest that is sound */
    bool slots;
    bool as_text; /* tables as text */
} flags_t;

enum { TO = 256, CHECKPOINT, SLOTS, TEXT };

/* The entries of a listing, which are freed together. */
typedef struct {
    cadre_checkpoint_entry_t *items;
    size_t count;
} entries_t;

static void
entries_fini(entries_t *entries)
{
    cadre_checkpoint_entries_free(&entries->items, entries->count);
}

/* What a checkpoint holds but for tables; the names belong to its reader. */
typedef struct {
    cadre_checkpoint_content_t *items;
    size_t count;
} contents_t;

static void
contents_fini(contents_t *contents)
{
    free(contents->items);
}

/* Returns the number of a checkpoint that was given; ends the process where it is none. */
static uint64_t
number_of(const char *argument, const struct argp_state *state)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long number = strtoull(argument, &end, 10);
    if (errno || *end || number == 0 || argument[0] < '0' || argument[0] > '9') {
        argp_error(state, "--checkpoint: \"%s\" is no number of a checkpoint", argument);
    }
    return number;
}

/* Ends the process with a usage error unless the words and flags belong together. */
static void
check_end(const flags_t *self, const struct argp_state *state)
{
    cadre_verb_words_check(
        &self->words, (const char *const[]){"list", "verify", "variables", "export", NULL}, state);
    if (!self->words.object) {
        argp_error(state, "a directory of checkpoints is missing");
    }
    const bool exports = strcmp(self->words.what, "export") == 0;
    if (exports && !self->to) {
        argp_error(state, "export writes into a folder: --to FOLDER");
    }
    if (!exports && (self->to || self->slots || self->as_text)) {
        argp_error(state, "--to, --slots and --text are of export");
    }
    if (self->checkpoint && !exports && strcmp(self->words.what, "variables") != 0) {
        argp_error(state, "--checkpoint is of export and variables");
    }
}

/* Takes one option, one of the two words behind the verb, or the end of the command line; called by
 * argp. */
static error_t
parse(int key, char *argument, struct argp_state *state)
{
    flags_t *self = state->input;
    switch (key) {
    case 'o':
        self->json = cadre_verb_is_json(argument, state);
        break;
    case TO:
        self->to = argument;
        break;
    case CHECKPOINT:
        self->checkpoint = number_of(argument, state);
        break;
    case SLOTS:
        self->slots = true;
        break;
    case TEXT:
        self->as_text = true;
        break;
    case ARGP_KEY_ARG:
        if (!cadre_verb_words_take(&self->words, argument)) {
            argp_error(state, "one directory, not also \"%s\"", argument);
        }
        break;
    case ARGP_KEY_END:
        check_end(self, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }

    return 0;
}

/* Returns a checkpoint of the listing as a JSON object. What a damaged one consists of is not
 * known. */
static json_t *
entry_object(const cadre_checkpoint_entry_t *entry)
{
    json_t *object = json_pack("{s:I, s:b, s:s?}", "id", (json_int_t)entry->id, "valid",
                               entry->valid, "reason", entry->reason);
    if (entry->valid) {
        json_object_update_new(object, json_pack("{s:I, s:s, s:I, s:I}", "cut",
                                                 (json_int_t)entry->cut, "created", entry->created,
                                                 "shards", (json_int_t)entry->shard_count,
                                                 "size_bytes", (json_int_t)entry->size_bytes));
    }
    if (entry->since > 0) {
        json_object_set_new(object, "since", json_integer((json_int_t)entry->since));
    }
    if (entry->is_best) {
        json_object_set_new(object, "best", json_true());
    }
    return object;
}

/* Prints a checkpoint of the listing as one line of text. */
static void
print_entry(const cadre_checkpoint_entry_t *entry)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_checkpoint_name(entry->id, name);
    const char *best = entry->is_best ? "  best" : "";
    if (entry->valid) {
        char since[CADRE_CHECKPOINT_NAME_SIZE + 8] = "";
        if (entry->since > 0) {
            char base[CADRE_CHECKPOINT_NAME_SIZE];
            snprintf(since, sizeof(since), "  since %s", cadre_checkpoint_name(entry->since, base));
        }
        printf("%-16s %s  cut %llu  %zu shards  %llu bytes%s%s\n", name, entry->created,
               (unsigned long long)entry->cut, entry->shard_count,
               (unsigned long long)entry->size_bytes, since, best);
    } else {
        printf("%-16s damaged: %s%s\n", name, entry->reason, best);
    }
}

/* Prints the entries as text, or adds them to `checkpoints`. Returns an exit code. */
static int
list(const entries_t *entries, bool json, json_t *checkpoints)
{
    for (size_t i = 0; i < entries->count; i++) {
        if (json) {
            json_array_append_new(checkpoints, entry_object(&entries->items[i]));
        } else {
            print_entry(&entries->items[i]);
        }
    }
    return CADRE_EXIT_OK;
}

/* Verifies every byte of the checkpoints; prints the result for each, or adds it to `checkpoints`.
 * Returns an exit code. */
static int
verify(cadre_checkpoint_directory_t *directory, const entries_t *entries, bool json,
       json_t *checkpoints)
{
    int code = CADRE_EXIT_OK;
    for (size_t i = 0; i < entries->count; i++) {
        char name[CADRE_CHECKPOINT_NAME_SIZE];
        cadre_checkpoint_name(entries->items[i].id, name);
        bool valid = cadre_checkpoint_directory_verify(directory, entries->items[i].id) == 0;
        const char *reason = valid ? NULL : cadre_error_text();

        json_array_append_new(checkpoints,
                              json_pack("{s:I, s:b, s:s?}", "id", (json_int_t)entries->items[i].id,
                                        "valid", valid, "reason", reason));
        if (!valid) {
            code = CADRE_EXIT_DATA;
        }

        if (!json && valid) {
            printf("%-16s OK\n", name);
        } else if (!json) {
            printf("%-16s damaged: %s\n", name, reason);
        }
    }

    return code;
}

/* Prints the array of checkpoints in an object on one line. */
static void
print_json(json_t *checkpoints)
{
    json_t *object =
        json_pack("{s:s, s:O}", "schema", "cadre.checkpoints/v1", "checkpoints", checkpoints);
    cadre_auto(cadre_free) char *text = json_dumps(object, JSON_COMPACT);
    printf("%s\n", text);
    json_decref(object);
}

/* Opens the directory and lists its checkpoints; CADRE_ENOTFOUND when it has none. */
static int
open_directory(const char *path, cadre_checkpoint_directory_t **directory, entries_t *entries)
{
    int status = cadre_checkpoint_directory_open(path, false, directory);
    if (status < 0) {
        return status;
    }

    status = cadre_checkpoint_directory_list(*directory, &entries->items, &entries->count);
    if (status < 0) {
        return status;
    }
    if (entries->count == 0) {
        return cadre_fail(CADRE_ENOTFOUND, "%s holds no checkpoint", path);
    }

    return 0;
}

/* Opens the checkpoint that is named, or the newest sound one, and sets its number. */
static int
open_reader(const flags_t *flags, cadre_checkpoint_directory_t *directory, uint64_t *id,
            cadre_checkpoint_reader_t **reader)
{
    *id = flags->checkpoint;
    int status = *id ? 0 : cadre_verb_newest(directory, id);
    if (status < 0) {
        return status;
    }
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_checkpoint_name(*id, name);
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", flags->words.object, name);
    return cadre_checkpoint_reader_open(path, reader);
}

/* --- variables --- */

/* Returns the type in which a table keeps its values, as the checkpoint says; NULL of a dense
 * variable. */
static const char *
storage_of(const cadre_manifest_variable_t *variable)
{
    return json_string_value(json_object_get(variable->table, "storage"));
}

/* Returns a variable of the checkpoint as a JSON object; of a table with its number of rows and its
 * storage. */
static json_t *
variable_object(const cadre_manifest_variable_t *variable, uint64_t rows)
{
    json_t *shape = json_array();
    for (int i = 0; i < variable->rank; i++) {
        json_array_append_new(shape, json_integer((json_int_t)variable->shape[i]));
    }
    json_t *object =
        json_pack("{s:s, s:s, s:o, s:I, s:b}", "name", variable->name, "dtype",
                  cadre_dtype_text(variable->dtype), "shape", shape, "partitions",
                  (json_int_t)variable->partition_count, "table", variable->table != NULL);
    if (variable->table) {
        json_object_set_new(object, "rows", json_integer((json_int_t)rows));
        json_object_set_new(object, "storage", json_string(storage_of(variable)));
    }
    return object;
}

/* Prints a variable of the checkpoint as one line of text, as `cadre variables` does. */
static void
print_variable(const cadre_manifest_variable_t *variable, uint64_t rows)
{
    const int first = variable->table ? 1 : 0;
    printf("%-24s %s ", variable->name, cadre_dtype_text(variable->dtype));
    if (variable->table) {
        printf("table of %llu rows ", (unsigned long long)rows);
    }
    for (int k = first; k < variable->rank; k++) {
        printf("%s%lld", k > first ? "," : "[", (long long)variable->shape[k]);
    }
    const char *storage = storage_of(variable);
    const bool tell = storage && strcmp(storage, cadre_dtype_text(variable->dtype)) != 0;
    printf("%s, %zu partition%s%s%s\n", variable->rank > first ? "]" : "[]",
           variable->partition_count, variable->partition_count == 1 ? "" : "s",
           tell ? ", stored as " : "", tell ? storage : "");
}

/* Prints the variables as text, or adds them to `list`. */
static int
list_variables(cadre_checkpoint_reader_t *reader, bool json, json_t *list)
{
    const cadre_manifest_t *manifest = cadre_checkpoint_reader_manifest(reader);
    for (size_t i = 0; i < manifest->variable_count; i++) {
        const cadre_manifest_variable_t *variable = &manifest->variables[i];
        uint64_t rows = 0;
        uint32_t dim = 0;
        int status =
            variable->table ? cadre_table_rows_count(reader, variable->name, &rows, &dim) : 0;
        if (status < 0) {
            return status;
        }
        if (json) {
            json_array_append_new(list, variable_object(variable, rows));
        } else {
            print_variable(variable, rows);
        }
    }
    return 0;
}

/* Lists the variables and tables of a checkpoint. Returns an exit code. */
static int
variables(const flags_t *flags, cadre_checkpoint_directory_t *directory)
{
    uint64_t id = 0;
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    /* The newest sound one was found by its hashes; one that is named may be any. */
    int status =
        flags->checkpoint ? cadre_checkpoint_directory_verify(directory, flags->checkpoint) : 0;
    status = status < 0 ? status : open_reader(flags, directory, &id, &reader);
    if (status < 0) {
        return cadre_verb_fail(status);
    }

    if (!flags->json) {
        char name[CADRE_CHECKPOINT_NAME_SIZE];
        printf("%s:\n", cadre_checkpoint_name(id, name));
    }
    json_auto_t *list = json_array();
    status = list_variables(reader, flags->json, list);
    if (status < 0) {
        return cadre_verb_fail(status);
    }
    if (flags->json) {
        json_auto_t *object = json_pack("{s:s, s:I, s:O}", "schema", "cadre.stored_variables/v1",
                                        "checkpoint", (json_int_t)id, "variables", list);
        cadre_auto(cadre_free) char *text = json_dumps(object, JSON_COMPACT);
        printf("%s\n", text);
    }
    return CADRE_EXIT_OK;
}

/* --- export --- */

/* Returns whether what is listed is exported: the values, and slots where they are wanted. */
static bool
is_exported(const flags_t *flags, const cadre_checkpoint_content_t *content)
{
    return flags->slots || strcmp(content->kind, CADRE_CHECKPOINT_KIND_VALUE) == 0;
}

/* Returns the name of the file of one kind of a variable, which the caller frees. No name of a
 * variable has an '@' in it, so that the slot "average" of w1 and a variable w1.average have two
 * files. */
static char *
file_of(const cadre_checkpoint_content_t *content)
{
    const bool is_value = strcmp(content->kind, CADRE_CHECKPOINT_KIND_VALUE) == 0;
    return is_value ? cadre_asprintf("%s.npy", content->variable)
                    : cadre_asprintf("%s@%s.npy", content->variable, content->kind);
}

/* Reads one kind of a variable, its values or a slot, and writes it to a new file of the folder. */
static int
export_content(cadre_checkpoint_reader_t *reader, const cadre_checkpoint_content_t *content,
               int folder)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t value = {0};
    int status = cadre_tensor_init(&value, content->dtype, content->shape, content->rank);
    if (status < 0) {
        return status;
    }
    const cadre_checkpoint_range_t range = {.variable = content->variable,
                                            .kind = content->kind,
                                            .dtype = content->dtype,
                                            .count = content->count};
    status = cadre_checkpoint_reader_read(reader, &range, value.data, NULL);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_free) char *name = file_of(content);
    return cadre_npy_file_write(folder, name, &value);
}

/* Writes the rows of each table. */
static int
export_tables(const flags_t *flags, cadre_checkpoint_reader_t *reader, int folder)
{
    const cadre_manifest_t *manifest = cadre_checkpoint_reader_manifest(reader);
    int status = 0;
    for (size_t i = 0; i < manifest->variable_count && status == 0; i++) {
        const cadre_manifest_variable_t *variable = &manifest->variables[i];
        status = variable->table
                     ? cadre_table_export(reader, variable->name, folder, flags->as_text)
                     : 0;
    }
    return status;
}

/* Adds the names of all files that are going to be written to `files`, and checks that the folder
 * has none of them: so that none is written where not all can be. */
static int
plan_files(const flags_t *flags, const contents_t *contents, const cadre_manifest_t *manifest,
           int folder, json_t *files)
{
    for (size_t i = 0; i < contents->count; i++) {
        if (is_exported(flags, &contents->items[i])) {
            cadre_auto(cadre_free) char *name = file_of(&contents->items[i]);
            json_array_append_new(files, json_string(name));
        }
    }
    for (size_t i = 0; i < manifest->variable_count; i++) {
        if (manifest->variables[i].table) {
            cadre_table_export_files(manifest->variables[i].name, flags->as_text, files);
        }
    }

    for (size_t i = 0; i < json_array_size(files); i++) {
        struct stat about;
        const char *name = json_string_value(json_array_get(files, i));
        if (fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) == 0) {
            return cadre_fail(CADRE_EEXISTS, "%s exists, and is not overwritten", name);
        }
    }
    return 0;
}

/* Writes a file for each variable, and for each slot where they are wanted; of tables keys and
 * values. */
static int
export_contents(const flags_t *flags, cadre_checkpoint_reader_t *reader, json_t *files)
{
    cadre_auto(contents_fini) contents_t contents = {0};
    int status = cadre_checkpoint_reader_contents(reader, &contents.items, &contents.count);
    if (status < 0) {
        return status;
    }
    int folder = -1;
    if (mkdir(flags->to, 0777) == 0 || errno == EEXIST) {
        folder = open(flags->to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (folder < 0) {
        return cadre_fail(CADRE_EIO, "%s: %s", flags->to, strerror(errno));
    }

    status = plan_files(flags, &contents, cadre_checkpoint_reader_manifest(reader), folder, files);
    for (size_t i = 0; i < contents.count && status == 0; i++) {
        if (is_exported(flags, &contents.items[i])) {
            status = export_content(reader, &contents.items[i], folder);
        }
    }
    if (status == 0) {
        status = export_tables(flags, reader, folder);
    }
    close(folder);
    return status < 0 ? cadre_fail_within(status, "%s", flags->to) : 0;
}

/* Prints which files were written, from which checkpoint. */
static void
print_files(const flags_t *flags, uint64_t id, json_t *files)
{
    if (flags->json) {
        json_t *object = json_pack("{s:s, s:I, s:O}", "schema", "cadre.export/v1", "checkpoint",
                                   (json_int_t)id, "files", files);
        cadre_auto(cadre_free) char *text = json_dumps(object, JSON_COMPACT);
        printf("%s\n", text);
        json_decref(object);
        return;
    }
    for (size_t i = 0; i < json_array_size(files); i++) {
        printf("%s/%s\n", flags->to, json_string_value(json_array_get(files, i)));
    }
}

/* Writes the variables of a checkpoint as files for NumPy. Returns an exit code. */
static int export(const flags_t *flags, cadre_checkpoint_directory_t *directory)
{
    uint64_t id = 0;
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    json_t *files = json_array();
    int status = open_reader(flags, directory, &id, &reader);
    if (status == 0) {
        status = export_contents(flags, reader, files);
    }
    if (status == 0) {
        print_files(flags, id, files);
    }
    json_decref(files);
    return status < 0 ? cadre_verb_fail(status) : CADRE_EXIT_OK;
}

/* Runs `cadre checkpoint`: lists, verifies, looks into or exports checkpoints of a directory, and
 * returns the exit code. */
int
cadre_command_checkpoint(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"output", 'o', "json|text", 0, "As JSON on one line", 0},
        {"to", TO, "FOLDER", 0, "export: write the files there; it is made if need be", 0},
        {"checkpoint", CHECKPOINT, "N", 0,
         "variables, export: this one, not the newest that is sound", 0},
        {"slots", SLOTS, NULL, 0, "export: what the optimizer keeps, too, but for tables", 0},
        {"text", TEXT, NULL, 0, "export: tables as text, as word2vec writes vectors", 0},
        {0}};
    static const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = "list DIR\nverify DIR\nvariables DIR\nexport DIR --to FOLDER",
        .doc = "Lists the checkpoints in DIR, newest first, with the word \"best\" behind the one "
               "that "
               "a run has kept for being that, and with \"since\" and the one to which it leaves "
               "rows of tables that have not changed; or reads every byte of them and checks "
               "each hash, or lists the variables and tables of one, or writes them as "
               "FOLDER/VARIABLE.npy, for NumPy; the "
               "rows of a table stand there in no order, and VARIABLE@keys.npy has their keys. "
               "Exit 65 when one is damaged, 66 when there is none.",
    };
    flags_t flags = {0};

    argv[0] = "cadre checkpoint";
    if (cadre_flags_check_written_out(options, argc, argv) < 0) {
        return cadre_verb_fail(CADRE_EINVALID);
    }
    argp_parse(&parser, argc, argv, 0, NULL, &flags);
    cadre_auto(cadre_checkpoint_directory_destroy) cadre_checkpoint_directory_t *directory = NULL;
    cadre_auto(entries_fini) entries_t entries = {0};
    int status = open_directory(flags.words.object, &directory, &entries);
    if (status < 0) {
        return cadre_verb_fail(status);
    }

    if (strcmp(flags.words.what, "export") == 0) {
        return export(&flags, directory);
    }
    if (strcmp(flags.words.what, "variables") == 0) {
        return variables(&flags, directory);
    }

    json_t *checkpoints = json_array();
    int code = strcmp(flags.words.what, "list") == 0
                   ? list(&entries, flags.json, checkpoints)
                   : verify(directory, &entries, flags.json, checkpoints);

    if (flags.json) {
        print_json(checkpoints);
    }

    json_decref(checkpoints);
    return code;
}
