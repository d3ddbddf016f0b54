/*
 * endpoint - where a socket is bound or connected: tcp://host:port, ipc:///absolute/path, or,
 * between the threads of one process, inproc://cadre-job-name.
 *
 * Thread:  any; the functions keep no state.
 *
 * Text from users, files and peers becomes an endpoint here before ZeroMQ sees it, because ZeroMQ
 * takes more than we want (abstract and wildcard ipc paths, interface names, other transports) and
 * says less when it refuses.
 */
#ifndef CADRE_COMMON_NET_ENDPOINT_H
#define CADRE_COMMON_NET_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CADRE_ENDPOINT_TEXT_SIZE = 288, /* "tcp://[" + host + "]:65535", and any ipc path */
    CADRE_HOST_SIZE_MAX = 253,      /* characters of a host name (RFC 1035) */
    CADRE_IPC_PATH_SIZE_MAX = 107,  /* characters that fit sockaddr_un.sun_path */
};

typedef enum {
    CADRE_ENDPOINT_TCP = 1,
    CADRE_ENDPOINT_IPC = 2,
    /* Between threads of one ZeroMQ context, without sockets of the system. */
    CADRE_ENDPOINT_INPROC = 3,
} cadre_endpoint_kind_t;

typedef struct {
    cadre_endpoint_kind_t kind;
    char host[CADRE_HOST_SIZE_MAX + 1];     /* tcp: name, IPv4, IPv6 without brackets, or "*" */
    uint16_t port;                          /* tcp: 0 stands for "*", any free port */
    char path[CADRE_IPC_PATH_SIZE_MAX + 1]; /* ipc: the path; inproc: the name */
} cadre_endpoint_t;

/* Reads "tcp://host:port", "ipc:///path" or, as TF_CONFIG writes it, a bare "host:port", and the
 * text of what cadre_inproc_endpoint made: other names of inproc are those of pipes, which no peer
 * is to reach. The host may be "*" and the port "*" or 0: whether that makes sense is for the
 * caller to say.
 * CADRE_EINVALID with a text that quotes the address when it is anything else, CADRE_ETOOLARGE for
 * an ipc path over CADRE_IPC_PATH_SIZE_MAX characters. */
int cadre_endpoint_parse(const char *text, cadre_endpoint_t *endpoint);

/* Writes the endpoint as ZeroMQ reads it into `text` of CADRE_ENDPOINT_TEXT_SIZE bytes; returns
 * `text`. */
const char *cadre_endpoint_text(const cadre_endpoint_t *endpoint, char *text);

/* Returns whether only this machine can connect to it: true for ipc and inproc, for 127.0.0.0/8,
 * ::1 and "localhost". */
bool cadre_endpoint_is_local(const cadre_endpoint_t *endpoint);

/* Returns whether the host of a tcp endpoint is a name, neither an address nor "*". */
bool cadre_endpoint_is_name(const cadre_endpoint_t *endpoint);

/* Returns whether a peer can connect to it: it names a host other than "*", 0.0.0.0 and ::, and a
 * port. */
bool cadre_endpoint_is_concrete(const cadre_endpoint_t *endpoint);

/* Makes a directory for ipc sockets that only this user may enter (mode 0700, mkdtemp) under
 * `parent` (XDG_RUNTIME_DIR as the caller read it; NULL, empty, too long or not usable: /tmp) and
 * gives its path, freed by the caller with free(). CADRE_EIO with errno's text on failure. The
 * caller removes it with cadre_ipc_directory_remove. */
int cadre_ipc_directory_new(const char *parent, char **path);

/* Removes the sockets in the directory, then the directory; frees and nulls the path. */
void cadre_ipc_directory_remove(char **path_p);

/* Gives the endpoint "ipc://<directory>/<name>"; CADRE_ETOOLARGE when the path is too long for a
 * socket. */
int cadre_ipc_endpoint(const char *directory, const char *name, cadre_endpoint_t *endpoint);

/* Gives "inproc://cadre-job-<name>" as an endpoint. `name` has lower-case letters, digits and '-',
 * and is used only once in a ZeroMQ context. */
void cadre_inproc_endpoint(const char *name, cadre_endpoint_t *endpoint);

#endif
