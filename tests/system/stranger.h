/*
 * stranger - a plain connection to the Unix socket of a task, for peers that break the protocol.
 *
 * libzmq keeps to ZMTP 3 (RFC 23), so what it would never send is written here byte by byte.
 *
 * Owner:   a test.
 * Thread:  any.
 */
#ifndef CADRE_TESTS_SYSTEM_STRANGER_H
#define CADRE_TESTS_SYSTEM_STRANGER_H

#include <stdbool.h>
#include <stddef.h>

/* What a connection of ZMTP begins with, whatever its version. */
#define STRANGER_SIGNATURE "\xff\0\0\0\0\0\0\0\1\x7f"
#define STRANGER_ZEROS_24  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"

/* The whole greeting of ZMTP 3.0 without keys: version, mechanism, no server, padding. */
#define STRANGER_GREETING STRANGER_SIGNATURE "\3\0NULL" STRANGER_ZEROS_24 STRANGER_ZEROS_24

/* Connects to the Unix socket at `path`. Returns the descriptor, or -1 when nobody listens there.
 */
int stranger_connect(const char *path);

/* Sends all bytes. Returns false when the other side has ended the connection before. */
bool stranger_send(int fd, const void *bytes, size_t size_bytes);

/* Reads the greeting and the READY of the other side, before which ZMTP allows no message. Returns
 * false when something else comes, or the connection ends. */
bool stranger_await_ready(int fd);

#endif
