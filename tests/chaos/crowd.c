#include "tests/chaos/crowd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/system/clock.h"
#include "common/system/descriptors.h"
#include "tests/system/scratch.h"

enum {
    ADDRESSES = 10,
    TURN_MS = 10,
    PAUSE_MS = 1000, /* between two things that one stranger says or does, at most */
    PIECE = 4096,
    PRIORITY = 10,
    GREETING_SIZE = 64,
};

/* What a stranger does. */
typedef enum {
    GARBAGE,   /* random bytes, on and on */
    HALF,      /* half a greeting, and then nothing */
    SILENT,    /* nothing at all */
    BROWSER,   /* HTTP */
    PLAIN,     /* ZMTP without keys, and then a message without end */
    OVERSIZED, /* a frame of a size that no frame has */
    FORGED,    /* CURVE with a first command that nobody has a secret for */
    IMPATIENT, /* goes again at once */
    BEHAVIOURS,
} behaviour_t;

typedef struct {
    int fd; /* -1: not connected */
    behaviour_t behaviour;
    int said; /* times */
    int64_t due_ms;
} stranger_t;

typedef struct {
    const crowd_target_t *targets;
    int target_count;
    stranger_t *strangers;
    struct pollfd *items; /* [count] */
    int count;
    cadre_random_t random;
} crowd_t;

static int64_t
pause_from(crowd_t *self, int64_t now_ms)
{
    return now_ms + 1 + (int64_t)(cadre_random_next_u64(&self->random) % PAUSE_MS);
}

static void
leave(crowd_t *self, stranger_t *stranger, int64_t now_ms)
{
    close(stranger->fd);
    stranger->fd = -1;
    stranger->due_ms = pause_from(self, now_ms);
}

static void
come(crowd_t *self, int index, int64_t now_ms)
{
    stranger_t *stranger = &self->strangers[index];
    const crowd_target_t *target = &self->targets[index % self->target_count];
    struct sockaddr_in own = {.sin_family = AF_INET};
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(target->port)};
    own.sin_addr.s_addr = htonl(0x7f5e0001U + (uint32_t)(index % ADDRESSES)); /* 127.94.0.1 on */
    inet_pton(AF_INET, target->host, &there.sin_addr);
    stranger->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    stranger->said = 0;
    stranger->due_ms = pause_from(self, now_ms) / 4;
    stranger->behaviour = (behaviour_t)(cadre_random_next_u64(&self->random) % BEHAVIOURS);
    if (stranger->fd < 0 || bind(stranger->fd, (struct sockaddr *)&own, sizeof(own)) < 0 ||
        (connect(stranger->fd, (struct sockaddr *)&there, sizeof(there)) < 0 &&
         errno != EINPROGRESS)) {
        leave(self, stranger, now_ms);
    }
}

static size_t
greeting(uint8_t *bytes, const char *mechanism)
{
    static const uint8_t signature[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0};
    memset(bytes, 0, GREETING_SIZE);
    memcpy(bytes, signature, sizeof(signature));
    memcpy(bytes + sizeof(signature), mechanism, strlen(mechanism));
    return GREETING_SIZE;
}

/* What it says now; 0: nothing. */
static size_t
next_words(crowd_t *self, const stranger_t *stranger, uint8_t *bytes)
{
    static const char ready[] = "\4\x1c\5READY\x0bSocket-Type\0\0\0\6DEALER";
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    size_t size = 0;
    bool first = stranger->said == 0;
    switch (stranger->behaviour) {
    case HALF:
        greeting(bytes, "CURVE");
        return first ? 11 : 0;
    case BROWSER:
        memcpy(bytes, request, sizeof(request) - 1);
        return sizeof(request) - 1;
    case PLAIN:
        if (first) {
            size = greeting(bytes, "NULL");
            memcpy(bytes + size, ready, sizeof(ready) - 1);
            return size + sizeof(ready) - 1;
        }
        memset(bytes, 0, PIECE);
        for (size_t i = 0; i < PIECE; i += 4) {
            bytes[i] = 1; /* more follows */
            bytes[i + 1] = 2;
        }
        return PIECE;
    case OVERSIZED:
        size = greeting(bytes, "CURVE");
        memset(bytes + size, 0x7f, 9);
        bytes[size] = 6; /* a long command */
        return first ? size + 9 : 0;
    case FORGED:
        size = greeting(bytes, "CURVE");
        memcpy(bytes + size, "\4\xc8\5HELLO\1\0", 10);
        for (size_t i = 10; i < 202; i++) {
            bytes[size + i] = (uint8_t)cadre_random_next_u64(&self->random);
        }
        return first ? size + 202 : 0;
    case GARBAGE:
        for (size_t i = 0; i < PIECE; i++) {
            bytes[i] = (uint8_t)cadre_random_next_u64(&self->random);
        }
        return PIECE;
    case SILENT:
    case IMPATIENT:
    case BEHAVIOURS:
        break;
    }
    return 0;
}

static void
act(crowd_t *self, stranger_t *stranger, int64_t now_ms)
{
    uint8_t words[PIECE];
    size_t size = next_words(self, stranger, words);
    bool gone = stranger->behaviour == IMPATIENT;
    if (!gone && size > 0) {
        gone = send(stranger->fd, words, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
               errno != EAGAIN && errno != ENOTCONN;
    }
    stranger->said++;
    stranger->due_ms = pause_from(self, now_ms);
    if (gone) {
        leave(self, stranger, now_ms);
    }
}

/* Waits a moment; reads what they are told, and finds who was thrown out. */
static void
listen_to(crowd_t *self)
{
    for (int i = 0; i < self->count; i++) {
        self->items[i] = (struct pollfd){.fd = self->strangers[i].fd, .events = POLLIN};
    }
    poll(self->items, (nfds_t)self->count, TURN_MS);
    int64_t now_ms = cadre_clock_now_ms();
    for (int i = 0; i < self->count; i++) {
        char answer[256];
        if (self->items[i].fd < 0 || !self->items[i].revents) {
            continue;
        }
        ssize_t size = recv(self->items[i].fd, answer, sizeof(answer), MSG_DONTWAIT);
        if (size == 0 || (size < 0 && errno != EAGAIN)) {
            leave(self, &self->strangers[i], now_ms);
        }
    }
}

static _Noreturn void
be_crowd(const crowd_target_t *targets, int target_count, int strangers, uint64_t seed)
{
    crowd_t self = {.targets = targets, .target_count = target_count, .count = strangers};
    self.strangers = cadre_calloc((size_t)strangers, sizeof(*self.strangers));
    self.items = cadre_calloc((size_t)strangers, sizeof(*self.items));
    cadre_random_init(&self.random, seed, 0);
    cadre_descriptors_raise();
    setpriority(PRIO_PROCESS, 0, PRIORITY);
    for (int i = 0; i < strangers; i++) {
        self.strangers[i].fd = -1;
        self.strangers[i].due_ms = pause_from(&self, cadre_clock_now_ms());
    }
    for (;;) {
        int64_t now_ms = cadre_clock_now_ms();
        for (int i = 0; i < strangers; i++) {
            if (self.strangers[i].due_ms > now_ms) {
                continue;
            }
            if (self.strangers[i].fd < 0) {
                come(&self, i, now_ms);
            } else {
                act(&self, &self.strangers[i], now_ms);
            }
        }
        listen_to(&self);
    }
}

pid_t
crowd_start(const crowd_target_t *targets, int target_count, int strangers, uint64_t seed)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    require(pid >= 0, "a process for the strangers");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        be_crowd(targets, target_count, strangers, seed);
    }
    return pid;
}

void
crowd_stop(pid_t pid)
{
    int end = 0;
    kill(pid, SIGKILL);
    waitpid(pid, &end, 0);
    require(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL, "strangers that go on to the end");
}
