/*
 * peer_key - id and role of the key that the peer of a connection has shown, as the ZAP handler
 * passes it to the socket: libzmq's User-Id.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_KEYS_PEER_KEY_H
#define CADRE_COMMON_KEYS_PEER_KEY_H

#include "common/keys/certificate.h"
#include "common/wire/task.h"

enum {
    CADRE_PEER_KEY_TEXT_SIZE = 32,
    CADRE_KEY_ID_TEXT_SIZE = 17,
};

typedef struct {
    uint64_t id; /* hash of the public key; 0: the connection is not guarded by keys */
    cadre_key_role_t role;
} cadre_peer_key_t;

/* Returns id and role of an allowed key, by which messages of its connections are known. */
cadre_peer_key_t cadre_peer_key_of(const cadre_certificate_t *certificate);

/* Writes "worker 9f0c2b1d4e550000" into `text` of CADRE_PEER_KEY_TEXT_SIZE bytes; returns
 * `text`. */
const char *cadre_peer_key_text(const cadre_peer_key_t *self, char *text);

/* Reads a text as cadre_peer_key_text writes it. CADRE_EMALFORMED for any other. */
int cadre_peer_key_parse(const char *text, cadre_peer_key_t *out);

/* Writes the id of a key as the log has it: "9f0c2b1d4e550000", or "none" for 0; returns `text`. */
const char *cadre_key_id_text(uint64_t id, char text[CADRE_KEY_ID_TEXT_SIZE]);

/* Returns CADRE_EREFUSED unless a task of this role may have this key, with a text that names both.
 * Without keys every task may. */
int cadre_peer_key_check(const cadre_peer_key_t *self, const cadre_task_t *task);

#endif
