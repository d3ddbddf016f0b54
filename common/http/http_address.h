/*
 * http_address - where a process answers about itself over HTTP, as flags and options say it.
 *
 * Thread:  any; the function keeps no state.
 */
#ifndef CADRE_COMMON_HTTP_HTTP_ADDRESS_H
#define CADRE_COMMON_HTTP_HTTP_ADDRESS_H

#include "common/net/endpoint.h"

enum { CADRE_HTTP_ADDRESS_SIZE = CADRE_HOST_SIZE_MAX + 16 }; /* "[host]:65535", with the 0 */

/* Reads "PORT", "HOST:PORT", "*:PORT" or "[IPV6]:PORT" as an endpoint on tcp. A port alone is of
 * 127.0.0.1, port 0 any free one, host "*" every address of the machine. CADRE_EINVALID, quoting
 * the text. */
int cadre_http_address_parse(const char *text, cadre_endpoint_t *address);

/* What was said of it: `flag`, the text of --http, or where that is NULL what CADRE_HTTP of the
 * environment says; NULL into `out` where neither says anything. CADRE_EINVALID, naming the one of
 * the two that is no address. */
int cadre_http_address_choose(const char *flag, const char **out);

#endif
