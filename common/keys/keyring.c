#include "common/keys/keyring.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/keys/allowed_keys.h"
#include "common/keys/certificate_file.h"
#include "common/keys/peer_key.h"

enum { PAIRS_SIZE = 512 };

struct cadre_keyring {
    pthread_mutex_t lock;
    char *directory;
    cadre_certificate_t own;
    atomic_uint_fast64_t withdrawals;
    atomic_bool unreadable;
    cadre_allowed_keys_t *allowed; /* under the lock, like all fields that follow */
    /* When the log may say again that the allowed keys cannot be read. */
    int64_t unreadable_log_ms;
    uint16_t ports[CADRE_KEYRING_PORTS_MAX];
    size_t port_count;
};

/* Reads this process's pair of keys, the file ROLE.key of the directory, and checks that it is for
 * this role. */
static int
read_own(cadre_keyring_t *self, cadre_key_role_t role)
{
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/%s.key", self->directory, cadre_key_role_text(role));
    int status = cadre_certificate_file_read(path, true, &self->own);

    /* A missing file has two causes with different remedies: no keys at all, or not this role's. */
    if (status == CADRE_ENOTFOUND && access(self->directory, F_OK) < 0) {
        return cadre_fail(status, "%s: there is no such directory: `cadre keygen %s` makes it",
                          self->directory, self->directory);
    }

    if (status == CADRE_ENOTFOUND) {
        const char *name = cadre_key_role_text(role);
        return cadre_fail(status,
                          "%s: there is no such file, and a %s needs its pair: copy %s.key "
                          "from where `cadre keygen` made it",
                          path, name, name);
    }

    if (status < 0) {
        return status;
    }

    if (self->own.role != role) {
        return cadre_fail(CADRE_ECONFIG, "%s: its role is %s, not %s", path,
                          cadre_key_role_text(self->own.role), cadre_key_role_text(role));
    }

    return 0;
}

/* Finds the only allowed key of a role. Called under the lock, or before other threads know the
 * keyring. */
static int
find_server(const cadre_keyring_t *self, cadre_key_role_t role, char *public_key)
{
    size_t count = 0;
    for (size_t i = 0; i < cadre_allowed_keys_count(self->allowed); i++) {
        const cadre_certificate_t *item = cadre_allowed_keys_item(self->allowed, i);
        if (item->role == role) {
            memcpy(public_key, item->public_key, CADRE_KEY_TEXT_SIZE);
            count++;
        }
    }

    return count == 1 ? 0
                      : cadre_fail(CADRE_ECONFIG,
                                   "%s/allowed: %zu keys of the role %s, where there must be one",
                                   self->directory, count, cadre_key_role_text(role));
}

/* Checks that exactly one key is allowed of each role that a task of `role` connects to: every task
 * but the coordinator connects to the coordinator; coordinator and workers connect to ps. */
static int
check_servers(const cadre_keyring_t *self, cadre_key_role_t role)
{
    char public_key[CADRE_KEY_TEXT_SIZE];
    int status = 0;
    if (role != CADRE_KEY_COORDINATOR) {
        status = find_server(self, CADRE_KEY_COORDINATOR, public_key);
    }
    if (status < 0) {
        return status;
    }
    if (role == CADRE_KEY_COORDINATOR || role == CADRE_KEY_WORKER) {
        status = find_server(self, CADRE_KEY_PS, public_key);
    }

    return status;
}

/* Reads the keys of a process of this role: its own pair, and the folder of allowed public keys. */
int
cadre_keyring_open(const char *directory, cadre_key_role_t role, cadre_keyring_t **out)
{
    cadre_auto(cadre_keyring_close) cadre_keyring_t *self = cadre_calloc(1, sizeof(*self));
    pthread_mutex_init(&self->lock, NULL);
    self->directory = cadre_strdup(directory);
    cadre_auto(cadre_free) char *allowed = cadre_asprintf("%s/allowed", directory);
    int status = read_own(self, role);
    if (status < 0) {
        return status;
    }

    status = cadre_allowed_keys_open(allowed, &self->allowed);
    if (status < 0) {
        return status;
    }

    status = check_servers(self, role);
    if (status < 0) {
        return status;
    }

    *out = self;
    self = NULL;
    return 0;
}

/* Frees the keyring, and wipes the secret key from memory. */
void
cadre_keyring_close(cadre_keyring_t **self_p)
{
    cadre_keyring_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    cadre_certificate_fini(&self->own);
    cadre_allowed_keys_close(&self->allowed);
    pthread_mutex_destroy(&self->lock);
    free(self->directory);
    free(self);
}

const cadre_certificate_t *
cadre_keyring_own(const cadre_keyring_t *self)
{
    return &self->own;
}

/* Copies the certificate of an allowed key into `out`; false when the key is not allowed. A copy,
 * because another thread may reload the keys. */
bool
cadre_keyring_find(cadre_keyring_t *self, const char *public_key, cadre_certificate_t *out)
{
    pthread_mutex_lock(&self->lock);
    const cadre_certificate_t *found = cadre_allowed_keys_find(self->allowed, public_key);
    if (found) {
        *out = *found;
    }
    pthread_mutex_unlock(&self->lock);
    return found != NULL;
}

int
cadre_keyring_server(cadre_keyring_t *self, cadre_key_role_t role, char *public_key)
{
    pthread_mutex_lock(&self->lock);
    int status = find_server(self, role, public_key);
    pthread_mutex_unlock(&self->lock);
    return status;
}

typedef struct {
    cadre_certificate_t *items; /* ordered by public key */
    size_t count;
} keys_t;

static void
keys_fini(keys_t *self)
{
    free(self->items);
}

/* Returns a copy of the allowed keys, to compare with them after a reload. */
static keys_t
copy_allowed(const cadre_keyring_t *self)
{
    keys_t keys = {.count = cadre_allowed_keys_count(self->allowed)};
    keys.items = cadre_calloc(keys.count, sizeof(*keys.items));
    for (size_t i = 0; i < keys.count; i++) {
        keys.items[i] = *cadre_allowed_keys_item(self->allowed, i);
    }
    return keys;
}

/* Logs that a key is allowed from now on, or not any more. */
static void
tell(const cadre_certificate_t *key, bool allowed, cadre_audit_t audit, void *context)
{
    char pairs[PAIRS_SIZE];
    snprintf(pairs, sizeof(pairs), "key=\"%s\" role=%s name=\"%s\"%s", key->public_key,
             cadre_key_role_text(key->role), key->name,
             allowed ? "" : " next=\"connections end; who is allowed comes back\"");
    audit(context, allowed ? 'I' : 'W', allowed ? "key_allowed" : "key_revoked", pairs);
}

/* Logs the keys that are in `left` and not in `right`, as keys that are allowed from now on or not
 * any more (`allowed`); returns how many. Both lists are ordered by key. A key whose role has
 * changed counts as another key. */
static size_t
tell_difference(const keys_t *left, const keys_t *right, bool allowed, cadre_audit_t audit,
                void *context)
{
    size_t count = 0;
    size_t at = 0;
    for (size_t i = 0; i < left->count; i++) {
        const cadre_certificate_t *key = &left->items[i];
        while (at < right->count && strcmp(right->items[at].public_key, key->public_key) < 0) {
            at++;
        }
        bool same = at < right->count && key->role == right->items[at].role &&
                    strcmp(right->items[at].public_key, key->public_key) == 0;
        if (!same) {
            count++;
            tell(key, allowed, audit, context);
        }
    }

    return count;
}

/* Notes whether the directory could be read again (`status`), and logs that it cannot, now and
 * then, or that it can again. */
static void
note_readable(cadre_keyring_t *self, int status, int64_t now_ms, cadre_audit_t audit, void *context)
{
    char pairs[PAIRS_SIZE];
    bool was_unreadable = atomic_exchange(&self->unreadable, status < 0);

    if (status < 0 && now_ms >= self->unreadable_log_ms) {
        self->unreadable_log_ms = now_ms + CADRE_KEYS_UNREADABLE_LOG_MS;
        snprintf(pairs, sizeof(pairs),
                 "why=\"%.400s\" next=\"no key is added; one whose file is gone is revoked\"",
                 cadre_error_text());
        audit(context, 'E', "keys_unreadable", pairs);
    } else if (status == 0 && was_unreadable) {
        snprintf(pairs, sizeof(pairs), "count=%zu", cadre_allowed_keys_count(self->allowed));
        audit(context, 'I', "keys_readable", pairs);
    }
}

/* Reads the allowed keys again if their files have changed, and logs the keys that came and went.
 * Returns how many are not allowed any more. */
size_t
cadre_keyring_look(cadre_keyring_t *self, int64_t now_ms, cadre_audit_t audit, void *context)
{
    size_t withdrawn = 0;
    pthread_mutex_lock(&self->lock);
    if (cadre_allowed_keys_changed(self->allowed)) {
        cadre_auto(keys_fini) keys_t before = copy_allowed(self);
        int status = cadre_allowed_keys_reload(self->allowed);
        note_readable(self, status, now_ms, audit, context);
        cadre_auto(keys_fini) keys_t after = copy_allowed(self);
        withdrawn = tell_difference(&before, &after, false, audit, context);
        tell_difference(&after, &before, true, audit, context);
        atomic_fetch_add(&self->withdrawals, withdrawn);
    }

    pthread_mutex_unlock(&self->lock);
    return withdrawn;
}

uint64_t
cadre_keyring_withdrawals(const cadre_keyring_t *self)
{
    return atomic_load(&self->withdrawals);
}

bool
cadre_keyring_unreadable(const cadre_keyring_t *self)
{
    return self && atomic_load(&self->unreadable);
}

/* Writes the ids of all allowed keys into `ids`; returns how many. */
size_t
cadre_keyring_ids(cadre_keyring_t *self, uint64_t *ids)
{
    pthread_mutex_lock(&self->lock);
    size_t count = cadre_allowed_keys_count(self->allowed);
    for (size_t i = 0; i < count; i++) {
        ids[i] = cadre_peer_key_of(cadre_allowed_keys_item(self->allowed, i)).id;
    }
    pthread_mutex_unlock(&self->lock);
    return count;
}

void
cadre_keyring_bound(cadre_keyring_t *self, uint16_t port)
{
    pthread_mutex_lock(&self->lock);
    cadre_assert(self->port_count < CADRE_KEYRING_PORTS_MAX);
    self->ports[self->port_count++] = port;
    pthread_mutex_unlock(&self->lock);
}

size_t
cadre_keyring_ports(cadre_keyring_t *self, uint16_t *ports)
{
    pthread_mutex_lock(&self->lock);
    size_t count = self->port_count;
    memcpy(ports, self->ports, count * sizeof(*ports));
    pthread_mutex_unlock(&self->lock);
    return count;
}
