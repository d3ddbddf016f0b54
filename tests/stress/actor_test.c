/*
 * actor_test - objects go round between three threads: no object is lost, doubled or seen by two,
 * and ThreadSanitizer must see no race.
 */
#include "common/net/actor.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

#include "common/base/memory.h"

enum { OBJECTS = 64, ROUNDS = 20000, KIND_OBJECT = 1 };

typedef struct {
    uint64_t id;
    uint64_t seen[3];
} object_t;

static void
expect(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "failed: %s\n", what);
        abort();
    }
}

/* Sends every object it gets back, having written to it. */
static void
echo(void *pipe, void *argument)
{
    size_t which = *(const size_t *)argument;
    for (;;) {
        cadre_pipe_message_t message;
        zmq_pollitem_t item = {.socket = pipe, .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, -1);
        while (cadre_pipe_receive(pipe, &message) == 0) {
            if (message.kind == CADRE_PIPE_STOP) {
                return;
            }
            object_t *object = message.pointer;
            object->seen[which]++;
            expect(cadre_pipe_send(pipe, KIND_OBJECT, object) == 0, "a pipe takes all");
        }
    }
}

int
main(void)
{
    cadre_context_t *context = NULL;
    cadre_actor_t *actors[2] = {NULL, NULL};
    size_t which[2] = {0, 1};
    expect(cadre_context_open(&context) == 0, "a context opens");
    for (size_t i = 0; i < 2; i++) {
        expect(cadre_actor_open(context, "echo", echo, &which[i], &actors[i]) == 0, "a thread");
    }
    object_t *objects = cadre_calloc(OBJECTS, sizeof(*objects));
    for (size_t i = 0; i < OBJECTS; i++) {
        objects[i].id = i;
        cadre_pipe_send(cadre_actor_socket(actors[0]), KIND_OBJECT, &objects[i]);
    }
    /* From 0 to 1 and back: whoever gives an object up does not look at it again. */
    for (size_t moved = 0; moved < ROUNDS;) {
        zmq_pollitem_t items[2] = {
            {.socket = cadre_actor_socket(actors[0]), .events = ZMQ_POLLIN},
            {.socket = cadre_actor_socket(actors[1]), .events = ZMQ_POLLIN},
        };
        expect(zmq_poll(items, 2, 10000) > 0, "objects come back");
        for (size_t i = 0; i < 2; i++) {
            cadre_pipe_message_t message;
            while (cadre_pipe_receive(cadre_actor_socket(actors[i]), &message) == 0) {
                object_t *object = message.pointer;
                expect(object == &objects[object->id], "an object is itself");
                object->seen[2]++;
                expect(object->seen[0] + object->seen[1] == object->seen[2], "seen by one a time");
                cadre_pipe_send(cadre_actor_socket(actors[1 - i]), KIND_OBJECT, object);
                moved++;
            }
        }
    }
    for (size_t i = 0; i < 2; i++) {
        expect(cadre_actor_end(actors[i], CADRE_ACTOR_STOP_MS) == 0, "an actor ends");
    }
    uint64_t seen = 0;
    for (size_t i = 0; i < OBJECTS; i++) {
        seen += objects[i].seen[2];
    }
    for (size_t i = 0; i < 2; i++) {
        expect(cadre_actor_stop(&actors[i], CADRE_ACTOR_STOP_MS) == 0, "a pipe closes");
    }
    cadre_context_close(&context);
    free(objects);
    printf("%llu hand-overs of %d objects\n", (unsigned long long)seen, OBJECTS);
    return 0;
}
