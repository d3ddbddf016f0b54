/*
 * keyring - the keys of one process: its own pair, and which others may take part.
 *
 * Owner:   the context that it is given to (cadre_context_guard), which closes it.
 * Thread:  any; a lock. The ZAP handler asks it on its own thread, sockets on theirs.
 *
 * A directory as `cadre keygen` makes it: ROLE.key, the pair of this process, and allowed/, the
 * public keys of all who may take part (docs/keys.md).
 */
#ifndef CADRE_COMMON_KEYRING_H
#define CADRE_COMMON_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/certificate.h"

enum { CADRE_KEYRING_PORTS_MAX = 8 }; /* that one context binds */

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

/* Looks whether the directory of allowed keys has changed, and reads it again. Returns how many
 * keys are not allowed any more, 0 when nothing changed, or the error that
 * cadre_allowed_keys_reload ends with, once for each change: the keys then stay what they were.
 * `told`, which is called under the lock, gets each key that is not allowed any more, and each new
 * one. */
typedef void (*cadre_keyring_told_t)(void *context, const cadre_certificate_t *key, bool allowed);
int cadre_keyring_look(cadre_keyring_t *self, cadre_keyring_told_t told, void *context);

/* Counts the times that keys were withdrawn: who connected under an older count asks
 * cadre_keyring_find whether the other's key still stands. */
uint64_t cadre_keyring_withdrawals(cadre_keyring_t *self);

/* A tcp port that was bound with these keys: its connections end when a key is withdrawn. */
void cadre_keyring_bound(cadre_keyring_t *self, uint16_t port);

/* Those ports into `ports` of CADRE_KEYRING_PORTS_MAX; how many. */
size_t cadre_keyring_ports(cadre_keyring_t *self, uint16_t *ports);

#endif
