/*
 * keyring - the keys of one process: its own pair, and which others may take part.
 *
 * Owner:   the context that it is given to (cadre_context_guard), which closes it.
 * Thread:  any; a lock. The ZAP handler asks it on its own thread, sockets on theirs.
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
    CADRE_KEYRING_PORTS_MAX = 8,          /* that one context binds */
    CADRE_KEYS_LOOK_MS = 1000,            /* between two looks at the allowed keys */
    CADRE_KEYS_UNREADABLE_LOG_MS = 30000, /* the log tells no more often that they are unreadable */
};

typedef struct cadre_keyring cadre_keyring_t;

/* Reads both. `directory` is copied. CADRE_ECONFIG when the pair is of another role, or allowed/
 * has not exactly one key of each role that this one connects to (the coordinator, of a worker the
 * ps as well): all ps share a pair, because who connects must know beforehand whose key to expect.
 * Else as cadre_certificate_file_read and cadre_allowed_keys_open. Every error text begins with a
 * path. */
int cadre_keyring_open(const char *directory, cadre_key_role_t role, cadre_keyring_t **out);

void cadre_keyring_close(cadre_keyring_t **self_p);

/* This process's pair; valid as long as the keyring. */
const cadre_certificate_t *cadre_keyring_own(const cadre_keyring_t *self);

/* The certificate of an allowed key into `out`, without a secret; false when it is not allowed. */
bool cadre_keyring_find(cadre_keyring_t *self, const char *public_key, cadre_certificate_t *out);

/* The one allowed key of that role into `public_key` of CADRE_KEY_TEXT_SIZE bytes. CADRE_ECONFIG
 * when there is none, or are several, by now. */
int cadre_keyring_server(cadre_keyring_t *self, cadre_key_role_t role, char *public_key);

/* Takes a line of who may or may not connect, for the log. */
typedef void (*cadre_audit_t)(void *context, char level, const char *event, const char *pairs);

/* Looks whether the directory of allowed keys has changed, and reads it again. Returns how many
 * keys are not allowed any more. Tells, under the lock: key_revoked and key_allowed of each key;
 * keys_unreadable while the directory cannot be read as a whole, when that begins and every
 * CADRE_KEYS_UNREADABLE_LOG_MS, and keys_readable when it can again. What counts meanwhile says
 * cadre_allowed_keys_reload. */
size_t cadre_keyring_look(cadre_keyring_t *self, int64_t now_ms, cadre_audit_t audit,
                          void *context);

/* Whether the last look could not read the directory as a whole. Takes no lock; false for NULL. */
bool cadre_keyring_unreadable(const cadre_keyring_t *self);

/* A counter that grows whenever keys are withdrawn: whoever holds connections then asks whether the
 * keys of their peers are still allowed. Takes no lock. */
uint64_t cadre_keyring_withdrawals(const cadre_keyring_t *self);

/* The ids of all allowed keys (cadre_peer_key_t) into `ids` of CADRE_ALLOWED_KEYS_MAX, in no order;
 * how many. */
size_t cadre_keyring_ids(cadre_keyring_t *self, uint64_t *ids);

/* A tcp port that was bound with these keys: its connections end when a key is withdrawn. */
void cadre_keyring_bound(cadre_keyring_t *self, uint16_t port);

/* Those ports into `ports` of CADRE_KEYRING_PORTS_MAX; how many. */
size_t cadre_keyring_ports(cadre_keyring_t *self, uint16_t *ports);

#endif
