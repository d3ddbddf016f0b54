/*
 * sanitizer - whether this build has one that is slow and keeps freed memory for a while. The
 * programs of $CADRE_BIN_DIR are of the same build as the test.
 */
#ifndef CADRE_TESTS_SANITIZER_H
#define CADRE_TESTS_SANITIZER_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZER = 1 };
#else
enum { SANITIZER = 0 };
#endif

#endif
