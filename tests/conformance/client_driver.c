/* A client as a process of its own, which tests kill: attaches to the job at an address, schedules
 * calls of "hold" with the files given, and waits.
 *
 *   conformance_client ADDRESS STARTED RELEASE COUNT
 */
#include <cadre/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 600000, CLOSURES_MAX = 16 };

static cadre_tensor_t
text(const char *value)
{
    return cadre_tensor_view(CADRE_U8, value, (const int64_t[]){(int64_t)strlen(value)}, 1);
}

int
main(int argc, char **argv)
{
    cadre_client_t *client = NULL;
    cadre_client_closure_t *closures[CLOSURES_MAX] = {NULL};
    cadre_client_options_t options = cadre_client_options();
    if (argc != 5) {
        return 2;
    }

    long wanted = strtol(argv[4], NULL, 10);
    long count = wanted < CLOSURES_MAX ? wanted : CLOSURES_MAX;
    cadre_tensor_t started = text(argv[2]);
    cadre_tensor_t release = text(argv[3]);
    const cadre_client_argument_t arguments[] = {{"started", &started}, {"release", &release}};
    cadre_client_call_t call = cadre_client_call();
    call.tensors = arguments;
    call.tensor_count = 2;
    options.address = argv[1];
    int s = cadre_client_open(&options, &client);
    for (long i = 0; i < count && !s; i++) {
        s = cadre_client_schedule(client, "hold", &call, &closures[i]);
    }
    for (long i = 0; i < count && !s; i++) {
        s = cadre_client_closure_wait(closures[i], WAIT_MS);
    }
    if (s) {
        fprintf(stderr, "%s: %s\n", cadre_status_text(s), cadre_error_text());
    }
    for (long i = 0; i < count; i++) {
        cadre_client_closure_destroy(&closures[i]);
    }
    cadre_client_close(&client);
    return s != 0;
}
