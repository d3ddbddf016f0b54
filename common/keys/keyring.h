/*
 * keyring - the keys of one process: its own pair, and the public keys of all that may take part.
 *
 * Owner:   the context that it is given to (cadre_context_guard), which closes it.
 * Thread:  any; it has a lock. The ZAP handler uses it on its own thread, sockets on theirs.
 *
 * A directory as `cadre keygen` makes it: ROLE.key, the pair of this process, and allowed/, the
 * public keys of all who may take part (docs/keys.md).
 */
#ifndef CADRE_COMMON_KEYS_KEYRING_H
#define CADRE_COMMON_KEYS_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/keys/certificate.h"

enum {
    CADRE_KEYRING_PORTS_MAX = 8, /* ports that one context binds */
    CADRE_KEYS_LOOK_MS = 1000,   /* between two looks at the allowed keys */
    /* Shortest time between two log lines that the allowed keys are unreadable. */
    CADRE_KEYS_UNREADABLE_LOG_MS = 30000,
};

typedef struct cadre_keyring cadre_keyring_t;

/* Reads the pair of this process and the allowed keys. `directory` is copied. CADRE_ECONFIG when
 * the pair is of another role, or allowed/ has not exactly one key of each role that this process
 * connects to (all but the coordinator connect to the coordinator; the coordinator and workers
 * connect to ps): all ps share a pair, because a connecting task must know beforehand whose key to
 * expect. Other errors are those of cadre_certificate_file_read and cadre_allowed_keys_open. Every
 * error text begins with a path. */
int cadre_keyring_open(const char *directory, cadre_key_role_t role, cadre_keyring_t **out);

void cadre_keyring_close(cadre_keyring_t **self_p);

/* Returns this process's pair; valid as long as the keyring. */
const cadre_certificate_t *cadre_keyring_own(const cadre_keyring_t *self);

/* Copies the certificate of an allowed key, without a secret, into `out`; false when the key is not
 * allowed. */
bool cadre_keyring_find(cadre_keyring_t *self, const char *public_key, cadre_certificate_t *out);

/* Writes the only allowed key of a role into `public_key` of CADRE_KEY_TEXT_SIZE bytes.
 * CADRE_ECONFIG when there is none now, or several. */
int cadre_keyring_server(cadre_keyring_t *self, cadre_key_role_t role, char *public_key);

/* Takes a line for the log about a key that may or may not connect. */
typedef void (*cadre_audit_t)(void *context, char level, const char *event, const char *pairs);

/* Reads the directory of allowed keys again if it has changed. Returns how many keys are not
 * allowed any more. Tells `audit`, under the lock: key_revoked and key_allowed of each key;
 * keys_unreadable when the directory cannot be read as a whole, and again every
 * CADRE_KEYS_UNREADABLE_LOG_MS, and keys_readable when it can be read again.
 * cadre_allowed_keys_reload says which keys are allowed meanwhile. */
size_t cadre_keyring_look(cadre_keyring_t *self, int64_t now_ms, cadre_audit_t audit,
                          void *context);

/* Returns whether the last look could not read the directory as a whole. Takes no lock; false for
 * NULL. */
bool cadre_keyring_unreadable(const cadre_keyring_t *self);

/* Returns a counter that grows whenever keys are withdrawn: the owner of connections then asks
 * whether the keys of its peers are still allowed. Takes no lock. */
uint64_t cadre_keyring_withdrawals(const cadre_keyring_t *self);

/* Writes the ids of all allowed keys (cadre_peer_key_t) into `ids` of CADRE_ALLOWED_KEYS_MAX, in no
 * order; returns how many. */
size_t cadre_keyring_ids(cadre_keyring_t *self, uint64_t *ids);

/* Notes a tcp port that was bound with these keys: its connections end when a key is withdrawn. */
void cadre_keyring_bound(cadre_keyring_t *self, uint16_t port);

/* Writes the ports that were noted as bound into `ports` of CADRE_KEYRING_PORTS_MAX; returns how
 * many. */
size_t cadre_keyring_ports(cadre_keyring_t *self, uint16_t *ports);

#endif
