/*
 * trace - what slots did and when, in a file that trace viewers read.
 *
 * The file is a JSON array of Chrome trace events (docs/tracing.md), complete at every moment: what
 * is added is written over the closing bracket together with a new one, so that a worker which is
 * killed leaves a sound file. Times are of the monotonic clock, which all processes of a machine
 * share: traces of several workers fit together.
 *
 * Bounded: a lane collects CADRE_TRACE_LANE_EVENTS events, and writes them when it is full or a
 * second has passed since it last wrote; a file takes `events_max` events, later ones are only
 * counted.
 *
 * Owner:   main, from before the first thread that records until after the last.
 * Thread:  a lane belongs to the thread of its slot. Lanes share the file under a lock (README.md,
 *          rule 4): slots may wait for the disk here, the network thread never records.
 */
#ifndef CADRE_WORKER_SLOT_TRACE_H
#define CADRE_WORKER_SLOT_TRACE_H

#include <stdint.h>

enum {
    CADRE_TRACE_EVENTS_MAX = 1000000, /* of one file: about 180 MB */
    CADRE_TRACE_LANE_EVENTS = 64,
};

typedef enum {
    CADRE_TRACE_WAIT,    /* a slot had nothing to do, until this closure */
    CADRE_TRACE_BATCH,   /* the reader read the closure's batches */
    CADRE_TRACE_PULL,    /* from asking for values until all are there */
    CADRE_TRACE_COMPUTE, /* a program's run; a native function between its pulls and pushes */
    CADRE_TRACE_PUSH,    /* from sending an update until every shard has answered */
} cadre_trace_kind_t;

typedef struct {
    cadre_trace_kind_t kind;
    uint32_t worker;
    uint64_t closure;
    uint64_t attempt;
    uint64_t size_bytes; /* PULL: of values that came, without unchanged partitions; PUSH: of the
                            gradients */
    int64_t begin_us;
    int64_t end_us;
} cadre_trace_event_t;

typedef struct cadre_trace cadre_trace_t;
typedef struct cadre_trace_lane cadre_trace_lane_t;

/* Creates or replaces the trace file `path` (borrowed), with a lane for each of `slots`.
 * `events_max` is CADRE_TRACE_EVENTS_MAX except in tests. Fails with CADRE_EIO and the path in
 * the text. */
int cadre_trace_open(const char *path, uint32_t slots, uint64_t events_max, cadre_trace_t **out);

/* Checks that cadre_trace_open could open `path`; fails as it would. Leaves an existing file as it
 * is, and creates none. */
int cadre_trace_check(const char *path);

/* Writes the events that lanes still hold, and how many events were dropped; frees the trace. Fails
 * with CADRE_EIO when an event could not be written, now or earlier: the file ends with the event
 * before that. Harmless on a pointer to NULL. */
int cadre_trace_close(cadre_trace_t **self_p);

/* Returns how many events were not written so far, because of the limit or of a failure. */
uint64_t cadre_trace_dropped(cadre_trace_t *self);

/* Returns the lane of a slot; NULL if `self` is NULL (no trace). */
cadre_trace_lane_t *cadre_trace_lane(cadre_trace_t *self, uint32_t slot);

/* Adds an event to the lane; does nothing when `self` is NULL (no trace). */
void cadre_trace_add(cadre_trace_lane_t *self, const cadre_trace_event_t *event);

/* Writes the events that the lane holds; does nothing when `self` is NULL (no trace). */
void cadre_trace_flush(cadre_trace_lane_t *self);

#endif
