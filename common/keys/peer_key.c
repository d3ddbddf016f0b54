#include "common/keys/peer_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/status.h"

cadre_peer_key_t
cadre_peer_key_of(const cadre_certificate_t *certificate)
{
    uint64_t id = XXH3_64bits(certificate->public_key, CADRE_KEY_TEXT_LENGTH);
    return (cadre_peer_key_t){id ? id : 1, certificate->role}; /* 0 means: no key */
}

const char *
cadre_peer_key_text(const cadre_peer_key_t *self, char *text)
{
    int length = snprintf(text, CADRE_PEER_KEY_TEXT_SIZE, "%s %016" PRIx64,
                          cadre_key_role_text(self->role), self->id);
    cadre_assert(length > 0 && length < CADRE_PEER_KEY_TEXT_SIZE);
    return text;
}

/* Reads a text as cadre_peer_key_text writes it, "worker 9f0c2b1d4e550000". What was read is
 * written again and compared, so that no other spelling is accepted. */
int
cadre_peer_key_parse(const char *text, cadre_peer_key_t *out)
{
    char again[CADRE_PEER_KEY_TEXT_SIZE];
    const char *id = strchr(text, ' ');
    for (cadre_key_role_t role = 0; id && role < CADRE_KEY_ROLES; role++) {
        cadre_peer_key_t read = {strtoull(id + 1, NULL, 16), role};
        if (read.id != 0 && strcmp(cadre_peer_key_text(&read, again), text) == 0) {
            *out = read;
            return 0;
        }
    }

    return cadre_fail(CADRE_EMALFORMED, "a message under no key");
}

const char *
cadre_key_id_text(uint64_t id, char text[CADRE_KEY_ID_TEXT_SIZE])
{
    snprintf(text, CADRE_KEY_ID_TEXT_SIZE, id ? "%016" PRIx64 : "none", id);
    return text;
}

/* Refuses a task whose role is not the role of the key that its connection has shown. A connection
 * without keys (id 0) may be of any role. */
int
cadre_peer_key_check(const cadre_peer_key_t *self, const cadre_task_t *task)
{
    bool same = strcmp(cadre_key_role_text(self->role), cadre_role_text(task->role)) == 0;
    if (self->id == 0 || same) {
        return 0;
    }
    char text[CADRE_TASK_TEXT_SIZE];
    return cadre_fail(CADRE_EREFUSED, "a key of the role %s speaks as %s",
                      cadre_key_role_text(self->role), cadre_task_text(task, text));
}
