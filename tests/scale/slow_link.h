/*
 * slow_link - a link that takes so many bytes a second in each direction, shared by whoever uses
 * it, or one for each.
 *
 * It takes the place of a Unix socket that somebody listens at, and passes on what comes there, all
 * connections at one rate: first come, first served, as on one wire. Or each connection has a wire
 * of its own, as workers on hosts of their own have: a worker makes one connection to a ps. One
 * thread with poll(2).
 *
 * Owner:   an experiment.
 * Thread:  its main one; the link has its own.
 */
#ifndef CADRE_TESTS_SCALE_SLOW_LINK_H
#define CADRE_TESTS_SCALE_SLOW_LINK_H

#include <stdint.h>

typedef struct slow_link slow_link_t;

/* Takes the place of the socket at `path`, whose connections until now go on as they are. */
slow_link_t *slow_link_open(const char *path, uint64_t bytes_per_second);

/* The same place, but so many bytes a second for each connection. */
slow_link_t *slow_link_open_each(const char *path, uint64_t bytes_per_second);

/* Ends every connection. */
void slow_link_close(slow_link_t **self_p);

/* Bytes of all connections that have passed to who listens, and back. */
uint64_t slow_link_up_bytes(const slow_link_t *self);
uint64_t slow_link_down_bytes(const slow_link_t *self);

#endif
