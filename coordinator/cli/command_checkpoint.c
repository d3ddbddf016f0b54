#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/terminal/exit_code.h"
#include "coordinator/cli/verb.h"

typedef struct {
    cadre_verb_words_t words; /* the command's words: list or verify, and a directory */
    bool json;
} flags_t;

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
    case ARGP_KEY_ARG:
        if (!cadre_verb_words_take(&self->words, argument)) {
            argp_error(state, "one directory, not also \"%s\"", argument);
        }
        break;
    case ARGP_KEY_END:
        cadre_verb_words_check(&self->words, "list", "verify", state);
        if (!self->words.object) {
            argp_error(state, "a directory of checkpoints is missing");
        }
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
        printf("%-16s %s  cut %llu  %zu shards  %llu bytes%s\n", name, entry->created,
               (unsigned long long)entry->cut, entry->shard_count,
               (unsigned long long)entry->size_bytes, best);
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

/* Runs `cadre checkpoint`: lists or verifies the checkpoints of a directory, and returns the exit
 * code. */
int
cadre_command_checkpoint(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"output", 'o', "json|text", 0, "As JSON on one line", 0}, {0}};
    static const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = "list DIR\nverify DIR",
        .doc = "Lists the checkpoints in DIR, newest first, with the word \"best\" behind the one "
               "that "
               "a run has kept for being that, or reads every byte of them and checks "
               "each hash. Exit 65 when one is damaged, 66 when there is none.",
    };
    flags_t flags = {0};

    argv[0] = "cadre checkpoint";
    argp_parse(&parser, argc, argv, 0, NULL, &flags);
    cadre_auto(cadre_checkpoint_directory_destroy) cadre_checkpoint_directory_t *directory = NULL;
    cadre_auto(entries_fini) entries_t entries = {0};
    int status = open_directory(flags.words.object, &directory, &entries);
    if (status < 0) {
        return cadre_verb_fail(status);
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
