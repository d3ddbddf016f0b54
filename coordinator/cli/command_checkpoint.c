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
    const char *what; /* "list" or "verify" */
    const char *directory;
    bool json;
} flags_t;

/* A listing that is freed as one. */
typedef struct {
    cadre_checkpoint_entry_t *items;
    size_t count;
} entries_t;

static void
entries_fini(entries_t *entries)
{
    cadre_checkpoint_entries_free(&entries->items, entries->count);
}

static error_t
parse(int key, char *argument, struct argp_state *state)
{
    flags_t *self = state->input;
    switch (key) {
    case 'o':
        self->json = cadre_verb_is_json(argument, state);
        break;
    case ARGP_KEY_ARG:
        if (self->directory) {
            argp_error(state, "one directory, not also \"%s\"", argument);
        }
        *(self->what ? &self->directory : &self->what) = argument;
        break;
    case ARGP_KEY_END:
        if (!self->what || (strcmp(self->what, "list") != 0 && strcmp(self->what, "verify") != 0)) {
            argp_error(state, "say list or verify");
        }
        if (!self->directory) {
            argp_error(state, "a directory of checkpoints is missing");
        }
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

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
    return object;
}

static void
print_entry(const cadre_checkpoint_entry_t *entry)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_checkpoint_name(entry->id, name);
    if (entry->valid) {
        printf("%-16s %s  cut %llu  %zu shards  %llu bytes\n", name, entry->created,
               (unsigned long long)entry->cut, entry->shard_count,
               (unsigned long long)entry->size_bytes);
    } else {
        printf("%-16s damaged: %s\n", name, entry->reason);
    }
}

static int
list(const flags_t *flags, const entries_t *entries)
{
    json_t *array = json_array();
    for (size_t i = 0; i < entries->count; i++) {
        if (flags->json) {
            json_array_append_new(array, entry_object(&entries->items[i]));
        } else {
            print_entry(&entries->items[i]);
        }
    }
    json_t *object =
        json_pack("{s:s, s:o}", "schema", "cadre.checkpoints/v1", "checkpoints", array);
    if (flags->json) {
        cadre_auto(cadre_free) char *text = json_dumps(object, JSON_COMPACT);
        printf("%s\n", text);
    }
    json_decref(object);
    return CADRE_EXIT_OK;
}

static int
verify(const flags_t *flags, cadre_checkpoint_directory_t *directory, const entries_t *entries)
{
    json_t *array = json_array();
    int code = CADRE_EXIT_OK;
    for (size_t i = 0; i < entries->count; i++) {
        char name[CADRE_CHECKPOINT_NAME_SIZE];
        cadre_checkpoint_name(entries->items[i].id, name);
        int status = cadre_checkpoint_directory_verify(directory, entries->items[i].id);
        const char *reason = status < 0 ? cadre_error_text() : NULL;
        code = status < 0 ? CADRE_EXIT_DATA : code;
        json_array_append_new(array,
                              json_pack("{s:I, s:b, s:s?}", "id", (json_int_t)entries->items[i].id,
                                        "valid", status == 0, "reason", reason));
        if (!flags->json) {
            printf("%-16s %s%s\n", name, status < 0 ? "damaged: " : "OK", reason ? reason : "");
        }
    }
    json_t *object =
        json_pack("{s:s, s:o}", "schema", "cadre.checkpoints/v1", "checkpoints", array);
    if (flags->json) {
        cadre_auto(cadre_free) char *text = json_dumps(object, JSON_COMPACT);
        printf("%s\n", text);
    }
    json_decref(object);
    return code;
}

int
cadre_command_checkpoint(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"output", 'o', "json|text", 0, "As JSON on one line", 0}, {0}};
    static const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = "list DIR\nverify DIR",
        .doc = "Lists the checkpoints in DIR, newest first, or reads every byte of them and checks "
               "each hash. Exit 65 when one is damaged, 66 when there is none.",
    };
    flags_t flags = {0};
    argv[0] = "cadre checkpoint";
    argp_parse(&parser, argc, argv, 0, NULL, &flags);
    cadre_auto(cadre_checkpoint_directory_destroy) cadre_checkpoint_directory_t *directory = NULL;
    cadre_auto(entries_fini) entries_t entries = {0};
    int status = cadre_checkpoint_directory_open(flags.directory, false, &directory);
    if (status == 0) {
        status = cadre_checkpoint_directory_list(directory, &entries.items, &entries.count);
    }
    if (status == 0 && entries.count == 0) {
        status = cadre_fail(CADRE_ENOTFOUND, "%s holds no checkpoint", flags.directory);
    }
    if (status < 0) {
        return cadre_verb_fail(status);
    }
    return strcmp(flags.what, "list") == 0 ? list(&flags, &entries)
                                           : verify(&flags, directory, &entries);
}
