#include "common/session/contact.h"

#include <criterion/criterion.h>

TestSuite(contact, .timeout = 240);

enum { LEASE_MS = 10000, TRUST_MS = 8000 };

Test(contact, is_never_lost_before_anything_was_answered)
{
    cadre_contact_t contact = {0};
    cadre_contact_ask(&contact, 5);
    cr_expect_eq(cadre_contact_lost_ms(&contact, LEASE_MS), UINT64_MAX);
    cadre_contact_answered(&contact, 0);
    cr_expect_eq(cadre_contact_lost_ms(&contact, LEASE_MS), UINT64_MAX, "nobody was asked that");
    cadre_contact_answered(&contact, 2);
    cr_expect_eq(cadre_contact_lost_ms(&contact, LEASE_MS), UINT64_MAX, "not asked yet");
}

Test(contact, counts_from_when_the_question_was_sent)
{
    cadre_contact_t contact = {0};
    uint64_t first = cadre_contact_ask(&contact, 1000);
    uint64_t second = cadre_contact_ask(&contact, 2000);
    cadre_contact_answered(&contact, second);
    cr_expect_eq(cadre_contact_lost_ms(&contact, LEASE_MS), 2000 + TRUST_MS);
    cadre_contact_answered(&contact, first);
    cr_expect_eq(cadre_contact_lost_ms(&contact, LEASE_MS), 2000 + TRUST_MS, "a late answer");
    cr_expect_eq(cadre_contact_lost_ms(&contact, 0), UINT64_MAX, "there is no lease");
}

Test(contact, takes_no_answer_to_a_question_that_it_has_forgotten)
{
    cadre_contact_t contact = {0};
    uint64_t first = cadre_contact_ask(&contact, 1000);
    uint64_t second = cadre_contact_ask(&contact, 2000);
    for (uint64_t i = 2; i < CADRE_CONTACT_KEPT + 1; i++) {
        cadre_contact_ask(&contact, 1000 * i);
    }
    cadre_contact_answered(&contact, first);
    cr_expect_eq(cadre_contact_lost_ms(&contact, LEASE_MS), UINT64_MAX);
    cadre_contact_answered(&contact, second);
    cr_expect_eq(cadre_contact_lost_ms(&contact, LEASE_MS), 2000 + TRUST_MS);
}
