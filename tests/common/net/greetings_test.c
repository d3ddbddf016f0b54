#include "common/net/greetings.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/un.h>

TestSuite(greetings, .timeout = 240);

enum { SECOND_US = 1000000 };

static cadre_greetings_t greetings = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int
enter(const char *address, int64_t now_us)
{
    struct sockaddr_storage name = {0};
    struct sockaddr_in *four = (struct sockaddr_in *)&name;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&name;
    if (inet_pton(AF_INET, address, &four->sin_addr) == 1) {
        name.ss_family = AF_INET;
    } else {
        cr_assert_eq(inet_pton(AF_INET6, address, &six->sin6_addr), 1);
        name.ss_family = AF_INET6;
    }
    return cadre_greetings_enter(&greetings, (struct sockaddr *)&name, now_us);
}

/* How many of `tries` at one moment are let in; all of them leave at once. */
static int
burst(const char *address, int tries, int64_t now_us)
{
    int count = 0;
    for (int i = 0; i < tries; i++) {
        int place = enter(address, now_us);
        count += place > 0;
        cadre_greetings_leave(&greetings, place);
    }
    return count;
}

Test(greetings, are_as_many_as_the_bucket_holds_and_then_as_it_fills)
{
    cr_expect_eq(burst("10.0.0.1", 5000, SECOND_US), CADRE_GREETINGS_BURST);
    cr_expect_eq(burst("10.0.0.1", 5000, SECOND_US), 0);
    cr_expect_eq(burst("10.0.0.1", 5000, 2 * SECOND_US), CADRE_GREETINGS_RATE);
    cr_expect_eq(burst("10.0.0.1", 5000, 100 * SECOND_US), CADRE_GREETINGS_BURST);
}

Test(greetings, of_one_address_take_nothing_from_another)
{
    cr_expect_eq(burst("10.0.0.1", 5000, SECOND_US), CADRE_GREETINGS_BURST);
    cr_expect_eq(burst("10.0.0.2", 5000, SECOND_US), CADRE_GREETINGS_BURST);
    cr_expect_eq(burst("2001:db8::1", 5000, SECOND_US), CADRE_GREETINGS_BURST);
    cr_expect_eq(burst("2001:db8::2", 5000, SECOND_US), 0, "it is the same network");
    cr_expect_eq(burst("2001:db8:0:1::1", 5000, SECOND_US), CADRE_GREETINGS_BURST);
}

Test(greetings, leave_room_when_connections_end)
{
    int place = 0;
    int64_t now_us = SECOND_US;
    for (int i = 0; i < CADRE_CONNECTIONS_PER_ADDRESS_MAX; i++) {
        now_us += SECOND_US / CADRE_GREETINGS_RATE;
        place = enter("10.0.0.1", now_us);
        cr_assert_gt(place, 0);
    }
    cr_expect_eq(enter("10.0.0.1", now_us + 100 * SECOND_US), -1);
    cadre_greetings_leave(&greetings, place);
    cr_expect_gt(enter("10.0.0.1", now_us + 100 * SECOND_US), 0);
    cr_expect_eq(enter("10.0.0.1", now_us + 100 * SECOND_US), -1);
}

/* More addresses than there are places: the others share one, and those that have one keep it. */
Test(greetings, of_very_many_addresses_are_bounded_together)
{
    char address[32];
    int count = 0;
    for (int i = 0; i < 100000; i++) {
        snprintf(address, sizeof(address), "10.%d.%d.%d", 1 + i / 62500, i / 250 % 250, i % 250);
        count += enter(address, SECOND_US) > 0;
    }
    cr_expect_leq(count, CADRE_GREETINGS_ADDRESSES + CADRE_GREETINGS_BURST);
    cr_expect_geq(count, CADRE_GREETINGS_BURST);
    cr_expect_gt(enter("10.1.0.0", SECOND_US), 0);
}

Test(greetings, over_a_local_socket_are_not_counted)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    for (int i = 0; i < 5000; i++) {
        cr_assert_eq(cadre_greetings_enter(&greetings, (struct sockaddr *)&local, SECOND_US), 0);
    }
}
