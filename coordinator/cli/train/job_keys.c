#include "coordinator/cli/train/job_keys.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/keys/certificate_file.h"

enum {
    FILES = 2 * CADRE_KEY_ROLES, /* first the secret ones, then the public ones */
    NAME_SIZE_MAX = 253 - (int)sizeof("-allowed") + 1,
};

/* The files and folders made so far below the directory of the keys. */
typedef struct {
    const char *directory;
    char *allowed;
    bool made_directory;
    bool made_allowed;
    int files;
} written_t;

static void
written_fini(written_t *self)
{
    cadre_free(&self->allowed);
}

/* Makes a new pair of keys for each role; after a failure the keys made so far are wiped. */
int
cadre_job_keys_make(cadre_job_keys_t *out)
{
    cadre_auto(cadre_job_keys_fini) cadre_job_keys_t keys = {0};
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        int status =
            cadre_certificate_make(role, cadre_key_role_text(role), &keys.certificates[role]);
        if (status < 0) {
            return status;
        }
    }

    *out = keys;
    return 0;
}

void
cadre_job_keys_fini(cadre_job_keys_t *self)
{
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        cadre_certificate_fini(&self->certificates[role]);
    }
}

char *
cadre_job_keys_path(const char *directory, cadre_key_role_t role, bool secret)
{
    return secret ? cadre_asprintf("%s/%s.key", directory, cadre_key_role_text(role))
                  : cadre_asprintf("%s/allowed/%s.pub", directory, cadre_key_role_text(role));
}

/* Fails with the system's reason for `path`, and the status that goes with that error. */
static int
fail_system(const char *path, int error)
{
    char reason[256];
    int status = CADRE_EIO;
    if (error == EEXIST || error == ENOTDIR) {
        status = CADRE_EEXISTS;
    } else if (error == ENOENT) {
        status = CADRE_ENOTFOUND;
    } else if (error == EACCES || error == EPERM) {
        status = CADRE_EREFUSED;
    }

    return cadre_fail(status, "%s: %s", path, strerror_r(error, reason, sizeof(reason)));
}

static void
close_directory(DIR **directory_p)
{
    if (*directory_p) {
        closedir(*directory_p);
    }
}

/* Checks a directory that existed before: it must be empty, and nobody else may be able to replace
 * files in it. */
static int
check_directory(const char *path)
{
    cadre_auto(close_directory) DIR *directory = opendir(path);
    struct stat about;
    if (!directory || fstat(dirfd(directory), &about) < 0) {
        return fail_system(path, errno);
    }

    const struct dirent *entry;
    while ((entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            return cadre_fail(CADRE_EEXISTS,
                              "%s is not empty, and keys are never written over: name a directory "
                              "that is not there yet",
                              path);
        }
    }

    if (about.st_uid != geteuid() || (about.st_mode & 022)) {
        return cadre_fail(CADRE_EREFUSED,
                          "%s: others may write to it: name a directory that is not there yet, or "
                          "make it yours alone (chmod 700 %s)",
                          path, path);
    }

    return 0;
}

/* Makes the directory of the keys, unless it exists and is empty, and "allowed" in it. */
static int
write_folders(written_t *self)
{
    self->made_directory = mkdir(self->directory, 0700) == 0;
    int status = 0;
    if (!self->made_directory) {
        status = errno == EEXIST ? check_directory(self->directory)
                                 : fail_system(self->directory, errno);
    }

    if (status < 0) {
        return status;
    }

    self->made_allowed = mkdir(self->allowed, 0755) == 0;
    return self->made_allowed ? 0 : fail_system(self->allowed, errno);
}

static cadre_key_role_t
file_role(int file)
{
    return (cadre_key_role_t)(file % CADRE_KEY_ROLES);
}

static char *
file_path(const written_t *self, int file)
{
    return cadre_job_keys_path(self->directory, file_role(file), file < CADRE_KEY_ROLES);
}

/* Writes the files of the keys in the order of their numbers; self->files counts those that are
 * written. */
static int
write_files(written_t *self, const cadre_job_keys_t *keys)
{
    for (; self->files < FILES; self->files++) {
        cadre_auto(cadre_free) char *path = file_path(self, self->files);
        int status = cadre_certificate_file_write(&keys->certificates[file_role(self->files)], path,
                                                  self->files < CADRE_KEY_ROLES);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Removes the files and folders that this call made, and nothing else. */
static void
remove_written(written_t *self)
{
    while (self->files > 0) {
        self->files--;
        cadre_auto(cadre_free) char *path = file_path(self, self->files);
        unlink(path);
    }

    if (self->made_allowed) {
        rmdir(self->allowed);
    }
    if (self->made_directory) {
        rmdir(self->directory);
    }
}

/* Writes the keys as files below the directory; after a failure removes what was written. */
int
cadre_job_keys_write(const cadre_job_keys_t *self, const char *directory)
{
    cadre_auto(written_fini) written_t written = {
        .directory = directory,
        .allowed = cadre_asprintf("%s/allowed", directory),
    };
    int status = write_folders(&written);

    status = status < 0 ? status : write_files(&written, self);
    if (status < 0) {
        remove_written(&written);
    }

    return status;
}

/* Returns whether the name suits a Secret and, with "-allowed" behind it, a ConfigMap: parts of
 * a-z, 0-9 and "-" with dots between them, each of which begins and ends with a letter or digit. */
bool
cadre_kubernetes_name_valid(const char *name)
{
    size_t length = strnlen(name, NAME_SIZE_MAX + 1);
    size_t label = 0; /* characters so far of the current part between two dots */
    for (size_t i = 0; i < length; i++) {
        bool letter = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9');
        bool inside = label > 0 && name[i] == '-';
        bool end = label > 0 && name[i] == '.' && name[i - 1] != '-';
        if (!letter && !inside && !end) {
            return false;
        }
        label = end ? 0 : label + 1;
    }

    return length <= NAME_SIZE_MAX && label > 0 && name[length - 1] != '-';
}

/* Prints one entry of a YAML object: the text of a file, each line indented. */
static void
print_file(const cadre_certificate_t *certificate, bool secret, FILE *to)
{
    const char *role = cadre_key_role_text(certificate->role);
    char text[CADRE_CERTIFICATE_SIZE_MAX];

    cadre_certificate_text(certificate, secret, text);
    fprintf(to, secret ? "  %s.key: |\n" : "  %s.pub: |\n", role);
    for (const char *line = text; *line;) {
        size_t size = strcspn(line, "\n");
        fprintf(to, "    %.*s\n", (int)size, line);
        line += size + (line[size] == '\n');
    }

    explicit_bzero(text, sizeof(text));
}

/* Prints the secret keys as a Secret and the public keys as a ConfigMap, both in YAML. */
void
cadre_job_keys_print_kubernetes(const cadre_job_keys_t *self, const char *name, FILE *to)
{
    fprintf(to,
            "apiVersion: v1\n"
            "kind: Secret\n"
            "metadata:\n"
            "  name: \"%s\"\n"
            "type: Opaque\n"
            "stringData:\n",
            name);
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        print_file(&self->certificates[role], true, to);
    }

    fprintf(to,
            "---\n"
            "apiVersion: v1\n"
            "kind: ConfigMap\n"
            "metadata:\n"
            "  name: \"%s-allowed\"\n"
            "data:\n",
            name);
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        print_file(&self->certificates[role], false, to);
    }
}
