/*
 * golden_headers - the exact bytes of a sample (message_sample.h) of every message.
 *
 * They change only with a reason: other releases would read the new bytes differently or not at
 * all. A failing test prints what it got, to be pasted here once the reason is good.
 */
#ifndef CADRE_TESTS_COMMON_GOLDEN_HEADERS_H
#define CADRE_TESTS_COMMON_GOLDEN_HEADERS_H

/* clang-format off */
#define GOLDEN_HEADERS(G)                                                                          \
    G(HELLO,                                                                                       \
      "dc00110101cd03e8cf0123456789abcdefce00011170c408010000000000000001ccc9d92e612074"           \
      "657874206f66206d6f7265207468616e207468697274792d6f6e652062797465732c20c2bd206f66"           \
      "206974a4686f7374ceffffffffa761646472657373d92e612074657874206f66206d6f7265207468"           \
      "616e207468697274792d6f6e652062797465732c20c2bd206f66206974cd0400cf000000012a05f2"           \
      "08cfffffffffffffffe8c41807000000000000000000000000010000ffffffffffffffff")                  \
    G(WELCOME,                                                                                     \
      "9d0102cd03e8cf0123456789abcdefce00011170c41001000000000000002c0100000000000001a3"           \
      "6a6f62cdea62ce0036ee80ce000927c006ccce")                                                    \
    G(UNKNOWN_PEER,                                                                                \
      "960103cd03e8cf0123456789abcdefce00011170c400")                                              \
    G(HEARTBEAT,                                                                                   \
      "9b0104cd03e8cf0123456789abcdefce00011170c408010000000000000001c41807000000000000"           \
      "000000000000010000ffffffffffffffffc41807000000000000000000000000010000ffffffffff"           \
      "ffffffc41807000000000000000000000000010000ffffffffffffffffc418070000000000000000"           \
      "00000000010000ffffffffffffffff")                                                            \
    G(DRAIN,                                                                                       \
      "960105cd03e8cf0123456789abcdefce00011170c41001000000000000002c01000000000000")              \
    G(STOP,                                                                                        \
      "970106cd03e8cf0123456789abcdefce00011170c400d92e612074657874206f66206d6f72652074"           \
      "68616e207468697274792d6f6e652062797465732c20c2bd206f66206974")                              \
    G(GOODBYE,                                                                                     \
      "970107cd03e8cf0123456789abcdefce00011170c4080100000000000000d92e612074657874206f"           \
      "66206d6f7265207468616e207468697274792d6f6e652062797465732c20c2bd206f66206974")              \
    G(REPLY,                                                                                       \
      "990108cd03e8cf0123456789abcdefce00011170c41001000000000000002c0100000000000001a4"           \
      "74657874c41807000000000000000000000000010000ffffffffffffffff")                              \
    G(SHARD,                                                                                       \
      "9a0110cd03e8cf0123456789abcdefce00011170c408010000000000000001a761646472657373cd"           \
      "ea62cf000000012a05f203")                                                                    \
    G(VARIABLE,                                                                                    \
      "9f0111cd03e8cf0123456789abcdefce00011170c41001000000000000002c0100000000000001a4"           \
      "6e616d65ccffccffc41807000000000000000000000000010000ffffffffffffffff06cccec41807"           \
      "000000000000000000000000010000ffffffffffffffffceffffffff")                                  \
    G(FUNCTION,                                                                                    \
      "9a0112cd03e8cf0123456789abcdefce00011170c4000102d92e612074657874206f66206d6f7265"           \
      "207468616e207468697274792d6f6e652062797465732c20c2bd206f66206974cf000000012a05f2"           \
      "03")                                                                                        \
    G(DATASET,                                                                                     \
      "980113cd03e8cf0123456789abcdefce00011170c408010000000000000001a46e616d65")                  \
    G(DATASET_READY,                                                                               \
      "9e0114cd03e8cf0123456789abcdefce00011170c41001000000000000002c0100000000000001cc"           \
      "c9d92e612074657874206f66206d6f7265207468616e207468697274792d6f6e652062797465732c"           \
      "20c2bd206f66206974cf000000012a05f203ce7fffffff06cccecdea67")                                \
    G(WANT,                                                                                        \
      "980115cd03e8cf0123456789abcdefce00011170c40001ccc9")                                        \
    G(RESOURCE,                                                                                    \
      "9f0116cd03e8cf0123456789abcdefce00011170c408010000000000000001a46e616d65cdea62cf"           \
      "000000012a05f203ceffffffff93a46c6f7373a0a74772c3b6c39f65c41807000000000000000000"           \
      "000000010000ffffffffffffffffcdea67cd1000")                                                  \
    G(CLOSURE,                                                                                     \
      "dc00160120cd03e8cf0123456789abcdefce00011170c41001000000000000002c0100000000000001ccc9cd"   \
      "ea62ceffffffff0106cccec41807000000000000000000000000010000ffffffffffffffff93a46c6f7373a0"   \
      "a74772c3b6c39f65c41807000000000000000000000000010000ffffffffffffffff0bccd3c4180700000000"   \
      "0000000000000000010000ffffffffffffffffc41807000000000000000000000000010000ffffffffffffff"   \
      "ffcfffffffffffffffed10")                                                                    \
    G(CANCEL,                                                                                      \
      "970121cd03e8cf0123456789abcdefce00011170c400c41807000000000000000000000000010000"           \
      "ffffffffffffffff")                                                                          \
    G(CLOSURE_DONE,                                                                                \
      "9f0122cd03e8cf0123456789abcdefce00011170c408010000000000000001ccc9cdea62ceffffff"           \
      "ffcfffffffffffffffe306ccce93a46c6f7373a0a74772c3b6c39f65c41807000000000000000000"           \
      "000000010000ffffffffffffffff")                                                              \
    G(CLOSURE_FAILED,                                                                              \
      "9c0123cd03e8cf0123456789abcdefce00011170c41001000000000000002c0100000000000001cc"           \
      "c904cd270fcd0400a474657874")                                                                \
    G(ACK,                                                                                         \
      "970124cd03e8cf0123456789abcdefce00011170c400c41807000000000000000000000000010000"           \
      "ffffffffffffffff")                                                                          \
    G(CREATE,                                                                                      \
      "dc00160130cd03e8cf0123456789abcdefce00011170c40001a46e616d65cdea62ce00010000ccff"           \
      "06c41807000000000000000000000000010000ffffffffffffffffcdea67cf000000012a05f208cc"           \
      "ffc418000000000000e03f00000000000000809c7500883ce4377eccd3ccffc418000000000000e0"           \
      "3f00000000000000809c7500883ce4377ecfffffffffffffffed10")                                    \
    G(SETTLE,                                                                                      \
      "990131cd03e8cf0123456789abcdefce00011170c408010000000000000001ccc9cd03ff")                  \
    G(SNAPSHOT,                                                                                    \
      "9a0132cd03e8cf0123456789abcdefce00011170c41001000000000000002c0100000000000001cc"           \
      "c9cdea62cd03ff")                                                                            \
    G(SNAPSHOT_TAKEN,                                                                              \
      "990133cd03e8cf0123456789abcdefce00011170c40001ccc9d92e612074657874206f66206d6f72"           \
      "65207468616e207468697274792d6f6e652062797465732c20c2bd206f66206974")                        \
    G(SNAPSHOT_WRITTEN,                                                                            \
      "9d0134cd03e8cf0123456789abcdefce00011170c408010000000000000001ccc9d92e6120746578"           \
      "74206f66206d6f7265207468616e207468697274792d6f6e652062797465732c20c2bd206f662069"           \
      "74a466696c65cf7fffffffffffffff06c41807000000000000000000000000010000ffffffffffff"           \
      "ffff")                                                                                      \
    G(CHECKPOINT_END,                                                                              \
      "980135cd03e8cf0123456789abcdefce00011170c41001000000000000002c010000000000000101")          \
    G(RESTORE,                                                                                     \
      "9a0136cd03e8cf0123456789abcdefce00011170c400d92e612074657874206f66206d6f72652074"           \
      "68616e207468697274792d6f6e652062797465732c20c2bd206f66206974ccc9cdea62cd03ff")              \
    G(COUNT,                                                                                       \
      "960137cd03e8cf0123456789abcdefce00011170c4080100000000000000")                              \
    G(CLOSE_CUT,                                                                                   \
      "9b0138cd03e8cf0123456789abcdefce00011170c41001000000000000002c0100000000000001cc"           \
      "c9d92e612074657874206f66206d6f7265207468616e207468697274792d6f6e652062797465732c"           \
      "20c2bd206f66206974cf000000012a05f203cd03ff")                                                \
    G(DROP,                                                                                        \
      "99013ccd03e8cf0123456789abcdefce00011170c40001ccc9cd03ff")                                  \
    G(PULL,                                                                                        \
      "980140cd03e8cf0123456789abcdefce00011170c408010000000000000001c41807000000000000"           \
      "000000000000010000ffffffffffffffff")                                                        \
    G(VALUES,                                                                                      \
      "9a0141cd03e8cf0123456789abcdefce00011170c41001000000000000002c0100000000000001a4"           \
      "74657874cdea62c41807000000000000000000000000010000ffffffffffffffff")                        \
    G(PUSH,                                                                                        \
      "9c0142cd03e8cf0123456789abcdefce00011170c40001ccc9cdea62c4180700000000000000000000000001"   \
      "0000ffffffffffffffffcfffffffffffffffe306")                                                  \
    G(APPLIED,                                                                                     \
      "9c0143cd03e8cf0123456789abcdefce00011170c408010000000000000001ccc9d92e6120746578"           \
      "74206f66206d6f7265207468616e207468697274792d6f6e652062797465732c20c2bd206f662069"           \
      "74cf000000012a05f203cfffffffffffffffe3c41807000000000000000000000000010000ffffff"           \
      "ffffffffff")                                                                                \
    G(ASSIGN,                                                                                      \
      "9d0144cd03e8cf0123456789abcdefce00011170c41001000000000000002c0100000000000001cc"           \
      "c902ceffffffffcdffff06ccce")                                                                \
    G(PROBE,                                                                                       \
      "980145cd03e8cf0123456789abcdefce00011170c40001c418070000000000000000000000000100"           \
      "00ffffffffffffffff")                                                                        \
    G(PROBED,                                                                                      \
      "970146cd03e8cf0123456789abcdefce00011170c4080100000000000000c4180700000000000000"           \
      "0000000000010000ffffffffffffffff")
/* clang-format on */

#endif
