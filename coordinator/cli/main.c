/* The `cadre` command. */
#include "coordinator/cli/commands.h"

int
main(int argc, char **argv)
{
    return cadre_command(argc, argv);
}
