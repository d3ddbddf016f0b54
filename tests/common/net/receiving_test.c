#include "common/net/receiving.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

static const char GREETING[CADRE_GREETING_SIZE + 1] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL";

static bool
take_frame(cadre_receiving_t *self, int flags, const char *body, size_t size)
{
    uint8_t head[9] = {(uint8_t)(flags | 2)};
    for (int i = 0; i < 8; i++) {
        head[1 + i] = (uint8_t)((uint64_t)size >> (56 - 8 * i));
    }
    bool is_good = cadre_receiving_take(self, head, sizeof(head));
    static const char zeros[PIECE];
    for (size_t at = 0; is_good && at < size; at += PIECE) {
        is_good =
            cadre_receiving_take(self, body ? body : zeros, size - at < PIECE ? size - at : PIECE);
    }
    return is_good;
}

static void
greet(cadre_receiving_t *self, const char *identity)
{
    char ready[64] = "\5READY\10Identity\0\0";
    size_t size = 6 + 9;
    memset(self, 0, sizeof(*self));
    ready[size + 3] = (char)strlen(identity);
    memcpy(ready + size + 4, identity, strlen(identity));
    cr_assert(cadre_receiving_take(self, GREETING, CADRE_GREETING_SIZE));
    cr_assert(take_frame(self, 4, ready, size + 4 + strlen(identity)));
}

Test(receiving, bounds_the_frames_of_a_message_and_not_of_all)
{
    cadre_receiving_t one;
    greet(&one, "worker/0/00000000000000aa");
    cr_expect_eq(one.incarnation, 0xaa);
    for (int message = 0; message < 3; message++) {
        for (int i = 0; i < CADRE_RECEIVING_FRAMES_MAX - 1; i++) {
            cr_assert(take_frame(&one, 1, "x", 1), "frame %d of message %d", i, message);
        }
        cr_assert(take_frame(&one, 0, "x", 1));
    }
    bool is_good = true;
    for (int i = 0; i < CADRE_RECEIVING_FRAMES_MAX + 2; i++) {
        is_good = take_frame(&one, 1, "x", 1);
    }
    cr_expect_not(is_good);
}

Test(receiving, counts_a_command_between_frames_and_does_not_take_it_for_the_end)
{
    cadre_receiving_t one;
    bool is_good = true;
    greet(&one, "");
    for (int i = 0; i < CADRE_RECEIVING_FRAMES_MAX + 2; i++) {
        is_good = take_frame(&one, i % 2 ? 4 : 1, "x", 1);
    }
    cr_expect_not(is_good);
}

static size_t
mebibytes(cadre_receiving_t *self)
{
    size_t count = 0;
    while (count < 8192 && take_frame(self, 1, NULL, PIECE)) {
        count++;
    }
    return count;
}

Test(receiving, takes_small_messages_of_strangers_and_large_ones_of_who_is_admitted)
{
    cadre_receiving_t one;
    greet(&one, "worker/0/00000000000000aa");
    cr_expect_lt(mebibytes(&one), 6);
    cadre_receiving_admit(0xaa, CADRE_RECEIVING_CONTROL_MAX);
    greet(&one, "worker/0/00000000000000ab");
    cr_expect_lt(mebibytes(&one), 6);
    greet(&one, "worker/0/00000000000000aa");
    cr_expect_eq(mebibytes(&one), 64);
}

Test(receiving, knows_a_message_however_its_bytes_are_cut)
{
    char all[CADRE_GREETING_SIZE + 12];
    cadre_receiving_t one;
    memcpy(all, GREETING, CADRE_GREETING_SIZE);
    memcpy(all + CADRE_GREETING_SIZE, "\4\6\5READY\1\1x\0", 12);
    for (size_t size = 1; size <= sizeof(all); size++) {
        memset(&one, 0, sizeof(one));
        for (size_t at = 0; at < sizeof(all); at += size) {
            cr_assert(cadre_receiving_take(&one, all + at,
                                           at + size < sizeof(all) ? size : sizeof(all) - at));
        }
        cr_expect_eq(one.frames, 2);
        cr_expect_eq(one.size_bytes, 7);
        cr_expect_eq(one.head_size, 1);
    }
}

Test(receiving, refuses_other_protocols)
{
    cadre_receiving_t one = {.inode = 0};
    cr_expect_not(cadre_receiving_take(&one, "GET / HTTP/1.1\r\n", 16));
    one = (cadre_receiving_t){.inode = 0};
    cr_expect_not(cadre_receiving_take(&one, "\xff\0\0\0\0\0\0\0\1\x7f\1", 11));
}

/* --- encrypted --- */

enum { HIDDEN_SIZE = 33 };

/* A connection that was accepted, under CURVE; returns its descriptor. */
static int
open_hidden(void)
{
    static const char greeting[CADRE_GREETING_SIZE + 1] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE";
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert(fd >= 0 && cadre_receiving_accepted(0, fd));
    cr_assert(cadre_receiving_read(fd, greeting, CADRE_GREETING_SIZE));
    return fd;
}

/* Brings a frame of a mebibyte. */
static bool
bring(int fd)
{
    static char frame[9 + HIDDEN_SIZE + PIECE] = "\2\0\0\0\0\0\x10\0\x21";
    return cadre_receiving_read(fd, frame, sizeof(frame));
}

static size_t
bring_and_take_none(int fd, const char *from)
{
    int64_t now_ms = 0;
    size_t count = 0;
    cadre_receiving_taken(fd, from, strlen(from), 0);
    while (count < 1000 && bring(fd)) {
        count++;
        cadre_receiving_drained(now_ms += 2 * CADRE_RECEIVING_LOOK_MS);
    }
    return count;
}

Test(receiving, ends_an_encrypted_connection_that_holds_more_than_its_messages_may)
{
    int fd = open_hidden();
    size_t few = bring_and_take_none(fd, "worker/0/00000000000000aa");
    cr_expect(few > 10 && few < 16, "%zu", few);
    cr_expect_eq(cadre_receiving_refused(), 1);
    int next = open_hidden();
    cadre_receiving_admit(0xaa, CADRE_RECEIVING_CONTROL_MAX);
    size_t many = bring_and_take_none(next, "worker/0/00000000000000aa");
    cr_expect(many > 130 && many < 136, "%zu", many);
    close(fd);
    close(next);
}

Test(receiving, ends_no_encrypted_connection_whose_messages_are_taken)
{
    int fd = open_hidden();
    for (int i = 0; i < 1000; i++) {
        cr_assert(bring(fd), "%d", i);
        cadre_receiving_drained((int64_t)i * CADRE_RECEIVING_LOOK_MS);
        cadre_receiving_taken(fd, "worker/0/00000000000000aa", 25, cadre_receiving_cost(PIECE));
    }
    cr_expect_eq(cadre_receiving_refused(), 0);
    close(fd);
}

/* A reader that stands still says nothing of what is whole. */
Test(receiving, ends_no_encrypted_connection_while_nobody_has_looked)
{
    int fd = open_hidden();
    for (int i = 0; i < 1000; i++) {
        cr_assert(bring(fd), "%d", i);
    }
    cadre_receiving_taken(fd, "worker/0/00000000000000aa", 25, 1000 * cadre_receiving_cost(PIECE));
    cadre_receiving_drained(0);
    cadre_receiving_drained(CADRE_RECEIVING_LOOK_MS);
    cr_expect(bring(fd));
    close(fd);
}
