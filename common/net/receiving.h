/*
 * receiving - how much of one message a connection may bring before the message is whole.
 *
 * Owner:   the programs that listen, cadre and cadre-ps (accept.c); it does nothing in others.
 * Thread:  a connection belongs to the I/O thread that reads it. The admitted processes and the
 *          count of refused connections are atomic: actors write and read them.
 *
 * libzmq keeps the frames of a message until the last one has come. It bounds the size of each
 * frame and not their number, and no option or event tells of them. So this class follows the bytes
 * as they are read: ZMTP 3 (RFC 23) is a greeting of 64 bytes, and then frames of flags, size and
 * body; the flags say whether another frame of the same message follows. Neither time nor the
 * reader's progress counts, so no peer is refused because our reader stands still: whole messages
 * are bounded by the high-water mark, and then by TCP.
 *
 * Under CURVE the size of a frame can be seen, but not whether another frame follows. But the
 * reader of the socket reports which messages it has taken, by connection, and when there were no
 * more: bytes that had come by then and were not taken belong to an incomplete message.
 */
#ifndef CADRE_COMMON_NET_RECEIVING_H
#define CADRE_COMMON_NET_RECEIVING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"

enum {
    /* Most frames of a message, the header included. */
    CADRE_RECEIVING_FRAMES_MAX = CADRE_MESSAGE_CHUNKS_MAX + 1,
    CADRE_RECEIVING_STRANGER_MAX =
        CADRE_PUSH_PART_SIZE + CADRE_CHUNK_SIZE_MAX, /* the most bytes of a message from a peer that
                                                        was not admitted: the largest message that a
                                                        worker sends to a ps, and more than any
                                                        HELLO */
    CADRE_RECEIVING_CONTROL_MAX = CADRE_RESULT_SIZE_MAX + CADRE_CHUNK_SIZE_MAX,
    CADRE_RECEIVING_DESCRIPTORS_MAX = 65536, /* a connection with a higher descriptor is not
                                                accepted */
    /* Most admitted processes; beyond it some count as strangers again. */
    CADRE_RECEIVING_ADMITTED_MAX = 16384,
    CADRE_GREETING_SIZE = 64,
    CADRE_READY_SIZE_MAX = 255, /* the READY of a peer that names itself; a peer with a longer one
                                   is a stranger */
    CADRE_RECEIVING_FRAME_COST = 64, /* bytes that libzmq spends on a frame besides its own */
    CADRE_RECEIVING_LOOK_MS = 100,   /* time between two looks at what encrypted connections hold */
};

/* The most bytes that the coordinator sends to a ps in one message: a partition. */
#define CADRE_RECEIVING_DATA_MAX                                                                   \
    ((uint64_t)CADRE_MESSAGE_CHUNKS_MAX * CADRE_CHUNK_SIZE_MAX + CADRE_CHUNK_SIZE_MAX)

/* What is known of one connection. Zeroed at its start. */
typedef struct {
    uint64_t inode;       /* inode of its socket; 0: not accepted by this process */
    uint64_t incarnation; /* incarnation of the peer, as its READY says; 0: it names none */
    uint64_t body_left;   /* bytes of the present frame that are still to come */
    uint64_t size_bytes;  /* bytes of the present message so far */
    uint32_t frames;      /* frames of the present message that have begun */
    uint8_t greeted;      /* how many bytes of the greeting have come */
    uint8_t head_size;
    uint8_t head[9];
    uint8_t ready_size;
    bool was_ready;   /* the READY was read to its end */
    bool is_hidden;   /* encrypted (CURVE) */
    uint64_t brought; /* cost of all frames of a hidden connection (cadre_receiving_cost) */
    uint8_t ready[CADRE_READY_SIZE_MAX];
} cadre_receiving_t;

/* Follows bytes that were read from a connection. Returns false when they are not ZMTP 3, or the
 * message that they belong to is beyond what may come: the connection must end. */
bool cadre_receiving_take(cadre_receiving_t *self, const void *bytes, size_t size_bytes);

/* Admits a process: trusts it with messages of up to `size_bytes`, on this and every later
 * connection under its incarnation. The largest size of any call holds for all admitted. */
void cadre_receiving_admit(uint64_t incarnation, uint64_t size_bytes);

/* Exempts the connections that `listener` accepts from now on: they are the HTTP server's and carry
 * no ZMTP. There is one such listener at a time; -1: none. */
void cadre_receiving_pass(int listener);

/* Begins to follow a connection that `listener` accepted; false when its descriptor is beyond
 * CADRE_RECEIVING_DESCRIPTORS_MAX. */
bool cadre_receiving_accepted(int listener, int descriptor);

/* Follows bytes that were read from `descriptor`, as cadre_receiving_take does. Returns true for a
 * connection that was not accepted here. */
bool cadre_receiving_read(int descriptor, const void *bytes, size_t size_bytes);

/* Returns what a frame of `size_bytes` costs in memory while it waits for the others of its
 * message. */
static inline uint64_t
cadre_receiving_cost(uint64_t size_bytes)
{
    return size_bytes + CADRE_RECEIVING_FRAME_COST;
}

/* Records a message taken off the guarded socket: the cost of its frames, the descriptor by which
 * it came, and the peer's routing id. Thread: the one that reads the socket; a program has one
 * guarded socket. */
void cadre_receiving_taken(int descriptor, const void *from, size_t from_size, uint64_t cost);

/* Records that the guarded socket is empty. Every CADRE_RECEIVING_LOOK_MS this finds the
 * connections that hold more than twice the size of one message: they are closed with the next
 * bytes that they bring. Twice, because the latest bytes may be a whole message that the socket did
 * not have yet. Thread: as cadre_receiving_taken. */
void cadre_receiving_drained(int64_t now_ms);

/* Returns how many connections were closed since the last call. */
uint64_t cadre_receiving_refused(void);

#endif
