/*
 * lock_file - a file that one coordinator holds as long as it lives, and that says who it is.
 *
 * Owner:   a coordinator; one for its address, one for its directory of checkpoints.
 * Thread:  any; the functions keep no state.
 *
 * The lock is an open file description's (F_OFD_SETLK): the kernel lets go of it when the process
 * ends, however that goes, it works on network file systems, and it holds against another
 * coordinator in the same process. The file itself stays: removing it would let two hold "the"
 * lock, one on each file. What stands in a file that nobody holds means nothing.
 */
#ifndef CADRE_COORDINATOR_LOCK_FILE_H
#define CADRE_COORDINATOR_LOCK_FILE_H

/* Takes the lock of the file at `path`, which is made when it is missing but never reached through
 * a link, for the coordinator of `job` in this process. `what` names what is locked, for messages.
 * CADRE_EEXISTS when another holds it, with a text that says who; CADRE_EIO. */
int cadre_lock_file_open(const char *path, const char *what, const char *job, int *fd);

/* Lets go of it; -1 is nothing. */
void cadre_lock_file_close(int *fd);

#endif
