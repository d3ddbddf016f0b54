#include "common/net/receiving.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/bounds.h"
#include "common/wire/task.h"

/* ZMTP's flags of a frame. */
enum { FLAG_MORE = 1, FLAG_LONG = 2, FLAG_COMMAND = 4 };

enum { PROBES = 8, VERSION_AT = 10, VERSION = 3, MECHANISM_AT = 12 };

/* Bytes that CURVE adds to a frame (RFC 26): a name of 8, a nonce of 8, an authentication code of
 * 16, and flags. */
enum { HIDDEN_SIZE = 33 };

/* --- admitted processes --- */

static atomic_uint_fast64_t admitted[CADRE_RECEIVING_ADMITTED_MAX];
static atomic_uint_fast64_t admitted_size_max;

/* Returns a place of an incarnation in the table: open addressing, without a hash, as incarnations
 * are random numbers. */
static atomic_uint_fast64_t *
admitted_at(uint64_t incarnation, size_t probe)
{
    return &admitted[(incarnation + probe) % CADRE_RECEIVING_ADMITTED_MAX];
}

/* Returns whether the process with this incarnation was admitted; 0 names none. */
static bool
is_admitted(uint64_t incarnation)
{
    for (size_t i = 0; i < PROBES && incarnation > 0; i++) {
        if (atomic_load(admitted_at(incarnation, i)) == incarnation) {
            return true;
        }
    }
    return false;
}

/* Admits a process: messages of up to `size_bytes` may come from it. One size, the largest of all
 * calls, holds for all admitted processes. */
void
cadre_receiving_admit(uint64_t incarnation, uint64_t size_bytes)
{
    uint_fast64_t size_max = atomic_load(&admitted_size_max);
    /* Raises the maximum; another thread may raise it at the same time. */
    while (size_max < size_bytes &&
           !atomic_compare_exchange_weak(&admitted_size_max, &size_max, size_bytes)) {
    }

    if (is_admitted(incarnation)) {
        return;
    }

    for (size_t i = 0; i < PROBES; i++) {
        uint_fast64_t nobody = 0;
        if (atomic_compare_exchange_strong(admitted_at(incarnation, i), &nobody, incarnation)) {
            return;
        }
    }

    /* All its places are taken: one process gives way, and counts as a stranger again. */
    atomic_store(admitted_at(incarnation, 0), incarnation);
}

/* --- one connection --- */

/* Takes bytes of the greeting, with which a connection of ZMTP 3 begins: a signature, the version,
 * and the mechanism, which for CURVE begins with "C". Returns false when it is no such greeting. */
static bool
take_greeting(cadre_receiving_t *self, const uint8_t *bytes, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        size_t at = self->greeted++;
        self->is_hidden = self->is_hidden || (at == MECHANISM_AT && bytes[i] == 'C');
        if ((at == 0 && bytes[i] != 0xff) || (at == VERSION_AT - 1 && !(bytes[i] & 1)) ||
            (at == VERSION_AT && bytes[i] < VERSION)) {
            return false;
        }
    }
    return true;
}

/* Reads the peer's incarnation from its READY, which is a list of properties: length of the name
 * (one byte), name, length of the value (four bytes), value. */
static void
read_ready(cadre_receiving_t *self)
{
    static const char command[] = "\5READY";
    static const uint8_t identity[] = "\10Identity";
    const size_t size = self->ready_size;
    size_t at = sizeof(command) - 1;
    if (size < at || memcmp(self->ready, command, at) != 0) {
        return;
    }

    /* A peer that is not admitted writes these bytes: each length is checked before it is used. */
    while (at < size && at + 1 + self->ready[at] + 4 <= size) {
        const uint8_t *name = self->ready + at;
        const uint8_t *length = name + 1 + name[0];
        size_t value_size = (size_t)length[0] << 24 | (size_t)length[1] << 16 |
                            (size_t)length[2] << 8 | (size_t)length[3];

        at += 1 + (size_t)name[0] + 4;
        if (value_size > size - at) {
            return;
        }

        cadre_task_t task;
        if (name[0] == identity[0] && memcmp(name, identity, sizeof(identity) - 1) == 0 &&
            cadre_task_parse(self->ready + at, value_size, &task) == 0) {
            self->incarnation = task.incarnation;
        }

        at += value_size;
    }
}

/* Begins a frame whose head has come whole; false when its message is larger than may come. A
 * command of ZMTP does not end the message: it may come between two frames of one message. */
static bool
begin_frame(cadre_receiving_t *self)
{
    self->body_left = self->head[1];
    if (self->head[0] & FLAG_LONG) {
        self->body_left = 0;
        for (size_t i = 1; i < sizeof(self->head); i++) {
            self->body_left = self->body_left << 8 | self->head[i];
        }
    }

    /* More than any message has; so the sums below cannot overflow. */
    if (self->body_left > CADRE_RECEIVING_DATA_MAX) {
        return false;
    }

    /* Under CURVE the end of a message cannot be seen: what has come is summed up, for the
     * comparison with what the socket has handed out. */
    if (self->is_hidden && !(self->head[0] & FLAG_COMMAND) && self->body_left >= HIDDEN_SIZE) {
        self->brought += cadre_receiving_cost(self->body_left - HIDDEN_SIZE);
    }

    self->frames++;
    self->size_bytes += self->body_left;
    /* One frame more than a message may have: READY comes before the first message, and is counted
     * with it. */
    return self->frames <= CADRE_RECEIVING_FRAMES_MAX + 1 &&
           (self->size_bytes <= CADRE_RECEIVING_STRANGER_MAX ||
            (self->size_bytes <= atomic_load(&admitted_size_max) &&
             is_admitted(self->incarnation)));
}

/* Ends a frame: reads the first one, which is READY, and counts from 0 again after the last frame
 * of a message. */
static void
end_frame(cadre_receiving_t *self)
{
    if (!self->was_ready) {
        self->was_ready = true;
        read_ready(self);
    }
    if (!(self->head[0] & (FLAG_MORE | FLAG_COMMAND))) {
        self->frames = 0;
        self->size_bytes = 0;
    }
    self->head_size = 0;
}

/* Takes a part of the present frame's body. That of the first frame, READY, is kept until it is
 * whole. */
static void
take_body(cadre_receiving_t *self, const uint8_t *bytes, size_t size_bytes)
{
    if (!self->was_ready && self->ready_size + size_bytes <= sizeof(self->ready)) {
        memcpy(self->ready + self->ready_size, bytes, size_bytes);
        self->ready_size = (uint8_t)(self->ready_size + size_bytes);
    }
    self->body_left -= size_bytes;
}

/* Follows the bytes that were read from a connection, frame by frame. Returns false when they are
 * not ZMTP 3, or their message is larger than may come. */
bool
cadre_receiving_take(cadre_receiving_t *self, const void *bytes, size_t size_bytes)
{
    const uint8_t *at = bytes;
    const uint8_t *end = at + size_bytes;
    size_t greeting = cadre_min_u64(size_bytes, CADRE_GREETING_SIZE - (size_t)self->greeted);
    if (!take_greeting(self, at, greeting)) {
        return false;
    }

    /* A read may end anywhere, in the middle of a frame's head too: the state carries over. */
    at += greeting;
    while (at < end) {
        /* A frame's head is its flags and its size, of one byte or, if a flag says so, of 8. */
        size_t head_size = self->head_size > 0 && self->head[0] & FLAG_LONG ? 9 : 2;
        if (self->head_size < head_size) {
            self->head[self->head_size++] = *at++;
            head_size = self->head[0] & FLAG_LONG ? 9 : 2;
            if (self->head_size == head_size && !begin_frame(self)) {
                return false;
            }
        } else {
            size_t part = cadre_min_u64(self->body_left, (size_t)(end - at));
            take_body(self, at, part);
            at += part;
        }

        if (self->head_size == head_size && self->body_left == 0) {
            end_frame(self);
        }
    }

    return true;
}

/* --- all connections of the process --- */

/* An encrypted connection. The I/O thread writes `brought`, the thread that reads the socket writes
 * the other fields. A message of the descriptor's previous connection that is taken late is
 * credited to the present one. */
typedef struct {
    atomic_uint_fast64_t brought;
    atomic_uint_fast64_t taken;
    /* Incarnation of its peer; 0: none of its messages was taken yet. */
    atomic_uint_fast64_t incarnation;
    atomic_bool is_over;    /* its incomplete message is too large */
    atomic_uint connection; /* counts the connections that have had this descriptor */
    uint64_t seen;          /* value of `brought` at the last look */
    unsigned seen_of;       /* value of `connection` at the last look */
} hidden_t;

static cadre_receiving_t connections[CADRE_RECEIVING_DESCRIPTORS_MAX];
static hidden_t hidden[CADRE_RECEIVING_DESCRIPTORS_MAX];
static atomic_int hidden_max; /* one more than the highest descriptor that was accepted */
static int64_t look_ms;       /* when to look next */
/* Whether the fields `seen` are filled in; used, like look_ms, by the thread that reads the socket
 * only. */
static bool is_looking;
static atomic_uint_fast64_t refused;
static atomic_int passed = -1; /* listener whose connections are not followed; -1: none */

/* Returns the inode of a socket, which tells apart sockets that have had the same descriptor.
 * Called only when a connection is to be ended: a system call for each read would cost more than
 * all the rest. */
static uint64_t
inode_of(int descriptor)
{
    struct stat about;
    return fstat(descriptor, &about) == 0 ? about.st_ino : 0;
}

void
cadre_receiving_pass(int listener)
{
    atomic_store(&passed, listener);
}

/* Begins to follow the connection that `listener` accepted as `descriptor`; forgets what the
 * descriptor's previous connection left. False: the descriptor is too high, close the connection.
 */
bool
cadre_receiving_accepted(int listener, int descriptor)
{
    if (descriptor < 0 || descriptor >= CADRE_RECEIVING_DESCRIPTORS_MAX) {
        return false;
    }

    bool is_followed = listener != atomic_load(&passed);
    /* An inode of 0 marks a connection that is not followed. */
    connections[descriptor] = (cadre_receiving_t){.inode = is_followed ? inode_of(descriptor) : 0};
    hidden_t *held = &hidden[descriptor];
    atomic_store(&held->brought, 0);
    atomic_store(&held->taken, 0);
    atomic_store(&held->incarnation, 0);
    atomic_store(&held->is_over, false);
    atomic_fetch_add(&held->connection, 1);
    /* Raises the highest descriptor so far; another thread may do so at the same time. */
    int highest = atomic_load(&hidden_max);
    while (highest <= descriptor &&
           !atomic_compare_exchange_weak(&hidden_max, &highest, descriptor + 1)) {
    }

    return true;
}

/* Records that the socket has handed out a message of an encrypted connection: its cost, and the
 * process that it came from (`from`, a routing id). */
void
cadre_receiving_taken(int descriptor, const void *from, size_t from_size, uint64_t cost)
{
    if (descriptor < 0 || descriptor >= atomic_load(&hidden_max)) {
        return;
    }
    hidden_t *held = &hidden[descriptor];
    cadre_task_t task;
    if (atomic_load(&held->incarnation) == 0 && cadre_task_parse(from, from_size, &task) == 0) {
        atomic_store(&held->incarnation, task.incarnation);
    }
    atomic_fetch_add(&held->taken, cost);
}

/* Marks the connections whose incomplete messages are too large. The socket has been empty since
 * `seen` was filled in, so all messages that were whole then have been taken: the rest is
 * incomplete. */
static void
find_those_over(int count)
{
    for (int i = 0; i < count; i++) {
        hidden_t *held = &hidden[i];
        uint64_t taken = atomic_load(&held->taken);
        uint64_t size_max = is_admitted(atomic_load(&held->incarnation))
                                ? atomic_load(&admitted_size_max)
                                : CADRE_RECEIVING_STRANGER_MAX;
        /* Not where another connection has the descriptor by now. Twice the size, because the
         * latest bytes may be a whole message that the socket did not have yet. */
        bool is_same = held->seen_of == atomic_load(&held->connection);
        if (is_same && held->seen > taken && held->seen - taken > 2 * size_max) {
            atomic_store(&held->is_over, true);
        }
    }
}

/* Records that the socket is empty. Now and then notes how much each encrypted connection has
 * brought (`seen`); by the time the socket is empty again, all that was whole then has been taken,
 * so that find_those_over can tell what is incomplete. */
void
cadre_receiving_drained(int64_t now_ms)
{
    static int looked; /* descriptors that have a `seen` */
    if (is_looking) {
        find_those_over(looked);
        is_looking = false;
    }

    if (now_ms < look_ms) {
        return;
    }

    look_ms = now_ms + CADRE_RECEIVING_LOOK_MS;
    looked = atomic_load(&hidden_max);
    for (int i = 0; i < looked; i++) {
        hidden[i].seen_of = atomic_load(&hidden[i].connection);
        hidden[i].seen = atomic_load(&hidden[i].brought);
    }

    is_looking = true;
}

/* Follows bytes that were read from a descriptor. Returns false when its connection must end; true
 * for a descriptor whose connection is not followed. */
bool
cadre_receiving_read(int descriptor, const void *bytes, size_t size_bytes)
{
    if (descriptor < 0 || descriptor >= CADRE_RECEIVING_DESCRIPTORS_MAX) {
        return true;
    }

    cadre_receiving_t *self = &connections[descriptor];
    if (self->inode == 0) {
        return true;
    }

    bool is_good = cadre_receiving_take(self, bytes, size_bytes);
    if (self->is_hidden) {
        atomic_store(&hidden[descriptor].brought, self->brought);
        /* Under CURVE only the thread that reads the socket can find that a message is too large.
         */
        is_good = is_good && !atomic_load(&hidden[descriptor].is_over);
    }

    if (is_good) {
        return true;
    }

    /* The descriptor may have been closed and given to another connection since: that one must not
     * be refused. */
    bool is_another = self->inode != inode_of(descriptor);
    self->inode = 0; /* what else comes by this descriptor is not followed */
    if (!is_another) {
        /* Counts a connection that brought too much; not one that did not even greet as ZMTP does.
         */
        atomic_fetch_add(&refused, self->greeted == CADRE_GREETING_SIZE);
    }

    return is_another;
}

uint64_t
cadre_receiving_refused(void)
{
    return atomic_exchange(&refused, 0);
}
