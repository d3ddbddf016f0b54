#include "common/net/endpoint.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

static bool
is_ipv6(const char *host)
{
    struct in6_addr address;
    return inet_pton(AF_INET6, host, &address) == 1;
}

/* Returns whether the text has the characters of a host name or an IPv4 address; the resolver finds
 * out whether it exists. */
static bool
is_host(const char *host)
{
    if (strcmp(host, "*") == 0) {
        return true;
    }

    for (const char *c = host; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        bool digit = *c >= '0' && *c <= '9';
        if (!letter && !digit && (c == host || !strchr("-._", *c))) {
            return false;
        }
    }

    return host[0] != '\0';
}

/* Reads the port, a part of `text`: a number, or "*" for any free one, which becomes 0. */
static int
parse_port(const char *text, const char *port, cadre_endpoint_t *endpoint)
{
    if (strcmp(port, "*") == 0) {
        endpoint->port = 0;
        return 0;
    }

    unsigned number = 0;
    const char *c = port;
    for (; *c >= '0' && *c <= '9' && number <= UINT16_MAX; c++) {
        number = number * 10 + (unsigned)(*c - '0');
    }

    if (*c || c == port || number > UINT16_MAX) {
        return cadre_fail(CADRE_EINVALID, "address '%.300s': the port is not in 0..65535", text);
    }

    endpoint->port = (uint16_t)number;
    return 0;
}

/* Reads "host:port", `address`, a part of `text`; an IPv6 address stands in brackets. */
static int
parse_tcp(const char *text, const char *address, cadre_endpoint_t *endpoint)
{
    const char *colon = strrchr(address, ':');
    if (!colon || colon == address) {
        return cadre_fail(CADRE_EINVALID, "address '%.300s' is not host:port", text);
    }

    size_t length = (size_t)(colon - address);
    bool bracketed = address[0] == '[' && colon[-1] == ']';
    if (bracketed) {
        address++;
        length -= 2;
    }

    if (length > CADRE_HOST_SIZE_MAX) {
        return cadre_fail(CADRE_EINVALID, "address '%.60s...': the host has over %d characters",
                          text, CADRE_HOST_SIZE_MAX);
    }

    memcpy(endpoint->host, address, length);
    if (bracketed ? !is_ipv6(endpoint->host) : !is_host(endpoint->host)) {
        return cadre_fail(CADRE_EINVALID, "address '%.300s': the host is no name and no address",
                          text);
    }

    endpoint->kind = CADRE_ENDPOINT_TCP;
    return parse_port(text, colon + 1, endpoint);
}

/* Reads the path of an ipc socket, a part of `text`. */
static int
parse_ipc(const char *text, const char *path, cadre_endpoint_t *endpoint)
{
    if (path[0] != '/') {
        return cadre_fail(CADRE_EINVALID, "address '%.300s': an ipc path starts with /", text);
    }

    size_t length = strlen(path);
    if (length > CADRE_IPC_PATH_SIZE_MAX) {
        return cadre_fail(CADRE_ETOOLARGE,
                          "address '%.300s': the path has %zu characters, a socket's may have %d",
                          text, length, CADRE_IPC_PATH_SIZE_MAX);
    }

    endpoint->kind = CADRE_ENDPOINT_IPC;
    memcpy(endpoint->path, path, length);
    return 0;
}

static const char INPROC[] = "inproc://cadre-job-";

/* Reads the name of a job in this process, a part of `text`. Other inproc names are refused: those
 * are pipes between actors, which no peer is to reach. */
static int
parse_inproc(const char *text, const char *name, cadre_endpoint_t *endpoint)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (length == 0 || name[length] || length > CADRE_IPC_PATH_SIZE_MAX) {
        return cadre_fail(CADRE_EINVALID, "address '%.300s' is of no job in this process", text);
    }
    endpoint->kind = CADRE_ENDPOINT_INPROC;
    memcpy(endpoint->path, name, length);
    return 0;
}

/* Reads an address: "tcp://host:port", "host:port", "ipc:///path", or a job of this process.
 * `endpoint` is written on success only. */
int
cadre_endpoint_parse(const char *text, cadre_endpoint_t *endpoint)
{
    cadre_endpoint_t parsed = {0};
    int status = 0;
    if (strncmp(text, "ipc://", 6) == 0) {
        status = parse_ipc(text, text + 6, &parsed);
    } else if (strncmp(text, INPROC, sizeof(INPROC) - 1) == 0) {
        status = parse_inproc(text, text + sizeof(INPROC) - 1, &parsed);
    } else if (strncmp(text, "tcp://", 6) == 0) {
        status = parse_tcp(text, text + 6, &parsed);
    } else {
        status = parse_tcp(text, text, &parsed);
    }

    if (status < 0) {
        return status;
    }

    *endpoint = parsed;
    return 0;
}

/* Writes the endpoint as ZeroMQ reads it into `text` of CADRE_ENDPOINT_TEXT_SIZE bytes; returns
 * `text`. */
const char *
cadre_endpoint_text(const cadre_endpoint_t *endpoint, char *text)
{
    if (endpoint->kind == CADRE_ENDPOINT_IPC) {
        snprintf(text, CADRE_ENDPOINT_TEXT_SIZE, "ipc://%s", endpoint->path);
        return text;
    }
    if (endpoint->kind == CADRE_ENDPOINT_INPROC) {
        snprintf(text, CADRE_ENDPOINT_TEXT_SIZE, "%s%s", INPROC, endpoint->path);
        return text;
    }

    bool bracketed = strchr(endpoint->host, ':') != NULL;
    int length = snprintf(text, CADRE_ENDPOINT_TEXT_SIZE, "tcp://%s%s%s:", bracketed ? "[" : "",
                          endpoint->host, bracketed ? "]" : "");
    size_t at = (size_t)length;
    if (endpoint->port == 0) {
        snprintf(text + at, CADRE_ENDPOINT_TEXT_SIZE - at, "*");
    } else {
        snprintf(text + at, CADRE_ENDPOINT_TEXT_SIZE - at, "%u", (unsigned)endpoint->port);
    }

    return text;
}

/* Returns whether only this machine can connect to the endpoint: no tcp, or a loopback address. */
bool
cadre_endpoint_is_local(const cadre_endpoint_t *endpoint)
{
    if (endpoint->kind != CADRE_ENDPOINT_TCP || strcasecmp(endpoint->host, "localhost") == 0) {
        return true;
    }
    struct in_addr four;
    if (inet_pton(AF_INET, endpoint->host, &four) == 1) {
        return ntohl(four.s_addr) >> 24 == 127;
    }
    struct in6_addr six;
    return inet_pton(AF_INET6, endpoint->host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool
cadre_endpoint_is_name(const cadre_endpoint_t *endpoint)
{
    struct in6_addr address;
    return endpoint->kind == CADRE_ENDPOINT_TCP && strcmp(endpoint->host, "*") != 0 &&
           inet_pton(AF_INET, endpoint->host, &address) != 1 &&
           inet_pton(AF_INET6, endpoint->host, &address) != 1;
}

/* Returns whether a peer can connect to the endpoint: it names one host, not all interfaces, and a
 * port. */
bool
cadre_endpoint_is_concrete(const cadre_endpoint_t *endpoint)
{
    if (endpoint->kind != CADRE_ENDPOINT_TCP) {
        return true;
    }
    struct in_addr four;
    struct in6_addr six;
    bool any = strcmp(endpoint->host, "*") == 0 ||
               (inet_pton(AF_INET, endpoint->host, &four) == 1 && four.s_addr == INADDR_ANY) ||
               (inet_pton(AF_INET6, endpoint->host, &six) == 1 && IN6_IS_ADDR_UNSPECIFIED(&six));
    return !any && endpoint->port != 0;
}

/* Makes a private directory under `parent` whose path leaves 40 characters for the names of sockets
 * in it. NULL, with errno, on failure. */
static char *
make_directory(const char *parent)
{
    char *path = cadre_asprintf("%s/cadre-XXXXXX", parent);
    if (strlen(path) + 40 > CADRE_IPC_PATH_SIZE_MAX) {
        errno = ENAMETOOLONG;
    } else if (mkdtemp(path)) {
        return path;
    }
    free(path);
    return NULL;
}

/* Makes a private directory for ipc sockets under `parent`, or else under /tmp; the path is freed
 * by the caller. */
int
cadre_ipc_directory_new(const char *parent, char **path)
{
    char *made = parent && parent[0] == '/' ? make_directory(parent) : NULL;
    if (!made) {
        made = make_directory("/tmp");
    }

    if (!made) {
        return cadre_fail(CADRE_EIO, "no directory for local sockets can be made in /tmp: %s",
                          strerror(errno));
    }

    *path = made;
    return 0;
}

/* Removes the sockets in the directory, then the directory, which stays if anything else is in it;
 * frees and nulls the path. */
void
cadre_ipc_directory_remove(char **path_p)
{
    char *path = *path_p;
    if (!path) {
        return;
    }

    *path_p = NULL;
    DIR *directory = opendir(path);
    if (directory) {
        struct dirent *entry = NULL;
        while ((entry = readdir(directory))) {
            struct stat about = {0};
            if (fstatat(dirfd(directory), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISSOCK(about.st_mode)) {
                unlinkat(dirfd(directory), entry->d_name, 0);
            }
        }
        closedir(directory);
    }

    rmdir(path);
    free(path);
}

int
cadre_ipc_endpoint(const char *directory, const char *name, cadre_endpoint_t *endpoint)
{
    cadre_auto(cadre_free) char *text = cadre_asprintf("ipc://%s/%s", directory, name);
    return cadre_endpoint_parse(text, endpoint);
}

void
cadre_inproc_endpoint(const char *name, cadre_endpoint_t *endpoint)
{
    cadre_auto(cadre_free) char *text = cadre_asprintf("%s%s", INPROC, name);
    int status = cadre_endpoint_parse(text, endpoint);
    cadre_assert(status == 0);
}
