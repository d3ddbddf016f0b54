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

/* The header frame of `message`, one reference, owned by the caller; its `sizes` describe
 * message->chunks. A field beyond its limit is our bug and asserts: callers check user input before
 * they fill a message. */
cadre_chunk_t *cadre_message_encode(const cadre_message_t *message);

/* Reads a header of `size_bytes` bytes and pairs it with `count` payload chunks. On success
 * `message` owns one reference to each chunk (taken from the caller, whose array entries are
 * nulled); on failure the caller keeps them and `message` is untouched. CADRE_EMALFORMED for
 * anything wrong with the bytes, CADRE_EPROTOCOL for another protocol version; the error text says
 * what and where. */
int cadre_message_decode(const void *header, size_t size_bytes, cadre_chunk_t **chunks,
                         size_t count, cadre_message_t *message);

/* Reads of the HELLO of any protocol what stands at the same place in all of them: the envelope and
 * the fields `lowest` to `build`; the others are zero and "". On success `message` is to be ended
 * as ever; CADRE_EMALFORMED for anything else than a HELLO. */
int cadre_message_decode_greeting(const void *header, size_t size_bytes, cadre_message_t *message);

/* A number for the tables of this build's messages: two builds that call their protocol the same
 * but lay out messages otherwise would misread each other. */
uint64_t cadre_message_schema_hash(void);

/* CADRE_OK when `sender` may send messages of `type`, else CADRE_EREFUSED: the one table of rights.
 */
int cadre_message_authorize(cadre_message_type_t type, cadre_role_t sender);

/* One line for logs, "PUSH request=3 update=17 ...", long lists cut, into `text` of `size_bytes`;
 * returns `text`. */
const char *cadre_message_text(const cadre_message_t *message, char *text, size_t size_bytes);

#endif
