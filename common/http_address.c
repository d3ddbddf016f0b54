#include "common/http_address.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/status.h"

int
cadre_http_address_parse(const char *text, cadre_endpoint_t *address)
{
    char whole[CADRE_HTTP_ADDRESS_SIZE];
    bool is_port = text[0] && text[strspn(text, "0123456789")] == '\0';
    int length = snprintf(whole, sizeof(whole), "%s%s", is_port ? "127.0.0.1:" : "", text);
    if (length >= (int)sizeof(whole) || strstr(text, "://") ||
        cadre_endpoint_parse(whole, address) < 0) {
        return cadre_fail(CADRE_EINVALID,
                          "\"%.100s\" is none of PORT, HOST:PORT, *:PORT and [IPV6]:PORT", text);
    }
    return 0;
}
