/*
 * Certificates as untrusted text: what is accepted is written and read again as the same, and a
 * secret is accepted only beside its public key.
 */
#include "common/keys/certificate.h"

#include <stdint.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    cadre_certificate_t read = {0};
    if (cadre_certificate_parse((const char *)bytes, size_bytes, &read) != 0) {
        return 0;
    }
    cadre_assert(strlen(read.public_key) == CADRE_KEY_TEXT_LENGTH);
    cadre_assert(read.name[0] && cadre_utf8_valid(read.name, strlen(read.name)));

    char text[CADRE_CERTIFICATE_SIZE_MAX];
    cadre_certificate_t again = {0};
    cadre_certificate_text(&read, read.secret_key[0] != '\0', text);
    cadre_assert(cadre_certificate_parse(text, strlen(text), &again) == 0);
    cadre_assert(again.role == read.role && strcmp(again.name, read.name) == 0);
    cadre_assert(strcmp(again.public_key, read.public_key) == 0);
    cadre_assert(strcmp(again.secret_key, read.secret_key) == 0);
    return 0;
}
