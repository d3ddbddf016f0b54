/*
 * crowd - a process of many strangers who connect to the same addresses and behave badly: garbage,
 * half greetings, greetings that stop, frames of impossible sizes, messages without end, handshakes
 * with keys that nobody allows.
 *
 * They come from ten loopback addresses, each as fast as it is let in. The process has a low
 * priority, so that what it costs itself is not taken for what it does to others.
 *
 * Owner:   a test; the crowd dies with it.
 * Thread:  the test's main one.
 */
#ifndef CADRE_TESTS_CHAOS_CROWD_H
#define CADRE_TESTS_CHAOS_CROWD_H

#include <stdint.h>
#include <sys/types.h>

typedef struct {
    const char *host; /* an IPv4 address */
    uint16_t port;
} crowd_target_t;

/* Starts `strangers` of them. They begin again whenever they are thrown out. */
pid_t crowd_start(const crowd_target_t *targets, int target_count, int strangers, uint64_t seed);

void crowd_stop(pid_t pid);

#endif
