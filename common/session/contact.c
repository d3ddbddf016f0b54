#include "common/session/contact.h"

/* Notes that a question (HELLO or HEARTBEAT) is sent now, and returns its number. */
uint64_t
cadre_contact_ask(cadre_contact_t *self, uint64_t now_ms)
{
    uint64_t number = ++self->asked;
    self->asked_ms[number % CADRE_CONTACT_KEPT] = now_ms;
    return number;
}

/* Records the answer to question `number`: contact counts as of the time at which the question was
 * sent. Ignores 0, a message that answers nothing, and questions too old to be remembered. */
void
cadre_contact_answered(cadre_contact_t *self, uint64_t number)
{
    if (number == 0 || number > self->asked || self->asked - number >= CADRE_CONTACT_KEPT) {
        return;
    }
    uint64_t asked_ms = self->asked_ms[number % CADRE_CONTACT_KEPT];
    self->heard_ms = asked_ms > self->heard_ms ? asked_ms : self->heard_ms;
    self->answers = true;
}

uint64_t
cadre_contact_lost_ms(const cadre_contact_t *self, uint64_t lease_ms)
{
    bool known = self->answers && lease_ms > 0;
    return known ? self->heard_ms + lease_ms * CADRE_LEASE_TRUST_PERCENT / 100 : UINT64_MAX;
}
