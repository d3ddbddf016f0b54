#include "common/http/http_address.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/status.h"

/* Reads "PORT", "HOST:PORT", "*:PORT" or "[IPV6]:PORT" as a tcp endpoint; a port alone is one of
 * 127.0.0.1. */
int
cadre_http_address_parse(const char *text, cadre_endpoint_t *address)
{
    char whole[CADRE_HTTP_ADDRESS_SIZE];
    bool is_port = text[0] && text[strspn(text, "0123456789")] == '\0';
    int length = snprintf(whole, sizeof(whole), "%s%s", is_port ? "127.0.0.1:" : "", text);
    /* "://": cadre_endpoint_parse takes other transports than tcp, too. */
    if (length >= (int)sizeof(whole) || strstr(text, "://") ||
        cadre_endpoint_parse(whole, address) < 0) {
        return cadre_fail(CADRE_EINVALID,
                          "\"%.100s\" is none of PORT, HOST:PORT, *:PORT and [IPV6]:PORT", text);
    }
    return 0;
}

/* Gives the address of --http, else that of the environment variable CADRE_HTTP, else NULL: then
 * there is no HTTP server. The address is checked here, and stays a text. */
int
cadre_http_address_choose(const char *flag, const char **out)
{
    const char *text = flag ? flag : getenv("CADRE_HTTP");
    cadre_endpoint_t address;

    if (!text || (!flag && !text[0])) { /* an empty variable counts as not set */
        *out = NULL;
        return 0;
    }

    int status = cadre_http_address_parse(text, &address);
    if (status < 0) {
        return cadre_fail_within(status, flag ? "--http" : "CADRE_HTTP");
    }

    *out = text;
    return 0;
}
