/* A shared object that is no module. */
extern int nothing_to_see;
int nothing_to_see;
