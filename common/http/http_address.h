/*
 * http_address - the address at which a process serves its status over HTTP, as flags and options
 * name it.
 *
 * Thread:  any; the function keeps no state.
 */
#ifndef CADRE_COMMON_HTTP_HTTP_ADDRESS_H
#define CADRE_COMMON_HTTP_HTTP_ADDRESS_H

#include "common/net/endpoint.h"

enum { CADRE_HTTP_ADDRESS_SIZE = CADRE_HOST_SIZE_MAX + 16 }; /* "[host]:65535", with the 0 */

/* Reads "PORT", "HOST:PORT", "*:PORT" or "[IPV6]:PORT" as a tcp endpoint. A port alone means
 * 127.0.0.1, port 0 any free one, host "*" every address of the machine. CADRE_EINVALID, with a
 * text that quotes the address, for anything else. */
int cadre_http_address_parse(const char *text, cadre_endpoint_t *address);

/* Gives the address that the user chose: `flag`, the text of --http, or if that is NULL the
 * environment variable CADRE_HTTP; NULL if neither is given. CADRE_EINVALID, with a text that names
 * the one of the two that is no address. */
int cadre_http_address_choose(const char *flag, const char **out);

#endif
