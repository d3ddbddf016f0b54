/*
 * codec - messages to and from header frames, driven by the tables of proto-schemas/messages.h.
 *
 * Thread: any; the functions keep no state.
 *
 * Files: codec_table (the tables as data), codec (encoding, rights), codec_scan and codec_decode
 * (decoding), codec_text (the form for logs).
 *
 * The decoder takes bytes of unknown origin. A scan without allocation bounds values, depth and
 * every declared count; then type, range and presence of every field are checked against the table.
 * It never aborts and never allocates more than a small multiple of the header's size. msgpack-c
 * only writes: its unpacker can be made to reserve gigabytes by five bytes, and what the scan
 * leaves to read is little (codec_scan.h).
 */
#ifndef CADRE_COMMON_WIRE_CODEC_H
#define CADRE_COMMON_WIRE_CODEC_H

#include "common/wire/message.h"

/* Returns the header frame of `message`, a chunk whose one reference is the caller's; `sizes` in it
 * describes message->chunks. Asserts that no field exceeds its limit: callers check user input
 * before they fill in a message. */
cadre_chunk_t *cadre_message_encode(const cadre_message_t *message);

/* Reads a header of `size_bytes` bytes and pairs it with `count` payload chunks. On success
 * `message` owns one reference to each chunk (taken from the caller, whose array entries are
 * nulled); on failure the caller keeps them and `message` is untouched. CADRE_EMALFORMED for
 * anything wrong with the bytes, CADRE_EPROTOCOL for another protocol version; the error text says
 * what and where. */
int cadre_message_decode(const void *header, size_t size_bytes, cadre_chunk_t **chunks,
                         size_t count, cadre_message_t *message);

/* Decodes the part of a HELLO that is the same in all protocol versions: the envelope and the
 * fields `lowest` to `build`; other fields become 0 and "". On success the caller ends `message`
 * with cadre_message_fini. Fails with CADRE_EMALFORMED for bytes that are no HELLO. */
int cadre_message_decode_greeting(const void *header, size_t size_bytes, cadre_message_t *message);

/* Returns a hash of the message tables of this build. Builds with the same protocol version and
 * another hash would misread each other's messages. */
uint64_t cadre_message_schema_hash(void);

/* Returns CADRE_OK when the role `sender` may send messages of `type`, else CADRE_EREFUSED, by the
 * message tables. */
int cadre_message_authorize(cadre_message_type_t type, cadre_role_t sender);

/* Writes a message as one line for logs, such as "PUSH request=3 update=17 ..." with long lists
 * cut, into `text` of `size_bytes`; returns `text`. */
const char *cadre_message_text(const cadre_message_t *message, char *text, size_t size_bytes);

#endif
