#include "coordinator/cli/verb.h"

#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/cli/terminal/exit_code.h"
#include "coordinator/cli/train/job_file.h"

/* Returns whether -o asks for json. Anything but json and text is a usage error, which ends the
 * process. */
bool
cadre_verb_is_json(const char *argument, const struct argp_state *state)
{
    bool is_json = strcmp(argument, "json") == 0;
    if (!is_json && strcmp(argument, "text") != 0) {
        argp_error(state, "-o: \"%s\" is neither json nor text", argument);
    }
    return is_json;
}

int
cadre_verb_fail(int status)
{
    fprintf(stderr, "cadre: %s\n", cadre_error_text());
    return cadre_exit_code(status);
}

/* Takes the next word behind the verb: the first says what to do, the second with which file.
 * Returns false when the word is one too many. */
bool
cadre_verb_words_take(cadre_verb_words_t *self, const char *word)
{
    if (self->object) {
        return false;
    }
    *(self->what ? &self->object : &self->what) = word;
    return true;
}

void
cadre_verb_words_check(const cadre_verb_words_t *self, const char *const *known,
                       const struct argp_state *state)
{
    char words[128] = "";
    size_t end = 0;
    for (size_t i = 0; known[i]; i++) {
        if (self->what && strcmp(self->what, known[i]) == 0) {
            return;
        }
        const char *between = known[i + 1] ? ", " : " or ";
        end += (size_t)snprintf(words + end, sizeof(words) - end, "%s%s", i > 0 ? between : "",
                                known[i]);
        cadre_assert(end < sizeof(words));
    }
    argp_error(state, "say %s", words);
}

/* Keeps why the newest checkpoint is damaged: the first of which it hears. */
static void
note_damage(void *context, uint64_t id, const char *reason)
{
    char **why = context;
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    if (!*why) {
        *why = cadre_asprintf("%s: %s", cadre_checkpoint_name(id, name), reason);
    }
}

int
cadre_verb_newest(cadre_checkpoint_directory_t *directory, uint64_t *id)
{
    cadre_auto(cadre_free) char *why = NULL;
    const int status = cadre_checkpoint_directory_newest(directory, note_damage, &why, id);
    if (status == CADRE_ENOTFOUND && why) {
        return cadre_fail(CADRE_ECORRUPT, "no checkpoint is sound; the newest, %s", why);
    }
    if (status == 0 && why) {
        char name[CADRE_CHECKPOINT_NAME_SIZE];
        fprintf(stderr, "cadre: warning: the newest checkpoint is damaged, %s; this is %s\n", why,
                cadre_checkpoint_name(*id, name));
    }
    return status;
}

/* Fills the job from its file (NULL: none), then from the environment, then from flags: later
 * sources overrule earlier ones. */
int
cadre_verb_read_job(cadre_job_t *job, const char *file, const cadre_verb_setting_t *settings,
                    size_t count)
{
    int status = file ? cadre_job_file_read(job, file) : 0;
    if (status < 0) {
        return status;
    }
    if (cadre_job_set_environment(job) < 0) {
        return cadre_fail_within(CADRE_ECONFIG, "the environment");
    }

    for (size_t i = 0; i < count; i++) {
        char from[32];
        snprintf(from, sizeof(from), "--%s", settings[i].flag);
        status = cadre_job_set(job, settings[i].setting, settings[i].text, CADRE_ORIGIN_FLAG, from);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}
