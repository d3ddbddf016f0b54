/*
 * job_keys - the keys of one job: a pair for each role, as files or as objects of Kubernetes.
 *
 * Owner:   whoever made them; cadre_job_keys_fini wipes the secrets from memory.
 * Thread:  any; the functions keep no state.
 *
 *     DIR/coordinator.key          ps.key  worker.key  client.key   secret: each for its role
 *     DIR/allowed/coordinator.pub  ps.pub  worker.pub  client.pub   public: for every task
 *
 * All tasks of a role share a key, because they are replaced and added while a job runs: a key for
 * each would have to be made and spread at that moment. Whoever has the workers' key can take part
 * as any worker, but not as a ps.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_JOB_KEYS_H
#define CADRE_COORDINATOR_CLI_TRAIN_JOB_KEYS_H

#include <stdbool.h>
#include <stdio.h>

#include "common/keys/certificate.h"

typedef struct {
    cadre_certificate_t certificates[CADRE_KEY_ROLES];
} cadre_job_keys_t;

/* Makes a new pair of keys for each role. CADRE_ECONFIG when libzmq was built without CURVE. */
int cadre_job_keys_make(cadre_job_keys_t *out);

/* Wipes the secrets. Zeroed memory is no keys. */
void cadre_job_keys_fini(cadre_job_keys_t *self);

/* Writes the keys as files below `directory`, which is made with mode 0700 or exists and is empty.
 * After a failure everything that was made is removed.
 *
 * CADRE_EEXISTS  it is not empty, or no directory: nothing is ever written over.
 * CADRE_EREFUSED others may write to it, or this user may not.
 * CADRE_ENOTFOUND, CADRE_EIO  the system's reason. */
int cadre_job_keys_write(const cadre_job_keys_t *self, const char *directory);

/* Returns the path of a role's file below `directory`, the secret or the public one; freed by the
 * caller. */
char *cadre_job_keys_path(const char *directory, cadre_key_role_t role, bool secret);

/* Returns whether Kubernetes takes `name` for a Secret, and `name` with "-allowed" behind it for a
 * ConfigMap: a DNS subdomain (RFC 1123) of a-z, 0-9, "-" and ".", each part of which begins and
 * ends with a letter or digit, of at most 245 characters, which makes 253 with "-allowed". */
bool cadre_kubernetes_name_valid(const char *name);

/* Prints two objects as YAML: a Secret `name` with the entries `coordinator.key` and so on, and a
 * ConfigMap `name`-allowed with `coordinator.pub` and so on. The public keys are an object of their
 * own because a pod mounts all of it as the directory `allowed`: the kubelet then adds and removes
 * files as entries come and go, which it does not where a volume names its items. */
void cadre_job_keys_print_kubernetes(const cadre_job_keys_t *self, const char *name, FILE *to);

#endif
