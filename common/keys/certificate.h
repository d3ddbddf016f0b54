/*
 * certificate - one CURVE key with the name and role of its owner: made, written as text, read
 * back.
 *
 * Owner:   whoever made or read it; cadre_certificate_fini wipes the secret from memory.
 * Thread:  any; the functions keep no state.
 *
 * The text is in ZPL (ZeroMQ RFC 4), as czmq's zcert writes and reads it:
 *
 *     metadata
 *         name = "worker"
 *         role = "worker"
 *     curve
 *         public-key = "40 characters of Z85"
 *         secret-key = "the same, where the file is the owner's own"
 *
 * zcert itself is not used: its writer changes the umask of the process, and its reader checks
 * neither keys nor permissions. Sections and metadata of other names are skipped, because tools
 * write more than we read; a key that `curve` does not have is refused, because it is a typing
 * error. A text is at most CADRE_CERTIFICATE_SIZE_MAX bytes.
 */
#ifndef CADRE_COMMON_KEYS_CERTIFICATE_H
#define CADRE_COMMON_KEYS_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/limits.h"

enum {
    CADRE_KEY_TEXT_LENGTH = 40, /* 32 bytes as Z85 */
    CADRE_KEY_TEXT_SIZE = CADRE_KEY_TEXT_LENGTH + 1,
};

/* The role of the tasks that have the key. A client only looks at a job's status. */
typedef enum {
    CADRE_KEY_COORDINATOR = 0,
    CADRE_KEY_PS = 1,
    CADRE_KEY_WORKER = 2,
    CADRE_KEY_CLIENT = 3,
    CADRE_KEY_ROLES = 4,
} cadre_key_role_t;

typedef struct {
    cadre_key_role_t role;
    char name[CADRE_NAME_SIZE_MAX + 1]; /* printable ASCII without quotes, never empty */
    char public_key[CADRE_KEY_TEXT_SIZE];
    char secret_key[CADRE_KEY_TEXT_SIZE]; /* "" in a public certificate */
} cadre_certificate_t;

/* Returns "coordinator", "ps", "worker" or "client". */
const char *cadre_key_role_text(cadre_key_role_t role);

/* Makes a new pair of keys. CADRE_EINVALID when `name` is not 1 to CADRE_NAME_SIZE_MAX printable
 * ASCII characters without quotes; CADRE_ECONFIG when this machine's libzmq was built without
 * CURVE. */
int cadre_certificate_make(cadre_key_role_t role, const char *name, cadre_certificate_t *out);

/* Wipes the secret from memory; frees nothing. Zeroed memory is an empty certificate. */
void cadre_certificate_fini(cadre_certificate_t *self);

/* Writes the certificate as the text of a file into `text` of CADRE_CERTIFICATE_SIZE_MAX bytes,
 * with its secret if `secret` (it must have one then); returns `text`. The caller wipes a text with
 * a secret. */
const char *cadre_certificate_text(const cadre_certificate_t *self, bool secret, char *text);

/* Parses the text of a certificate, of unknown origin and without a NUL at the end.
 *
 * CADRE_EDATA    not ZPL, a value missing, twice or wrong, keys that do not belong together: the
 *                error text begins with the line, "line 4: ...", where one is at fault. It has
 *                nothing of a key.
 * CADRE_ECONFIG  this machine's libzmq was built without CURVE. */
int cadre_certificate_parse(const char *bytes, size_t size_bytes, cadre_certificate_t *out);

#endif
