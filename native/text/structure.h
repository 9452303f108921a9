/* Index of the structure of JSON text, built 64 bytes at a time before the text is read. */
#ifndef TRACEKIT_STRUCTURE_H
#define TRACEKIT_STRUCTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Offsets in a text, ascending: every quote that begins or ends a string; outside strings, every
 * bracket, colon, and comma, and the first byte of each word or number; inside strings, every
 * backslash, control character, and byte beyond ASCII. Between two offsets there is only white space,
 * the rest of a word or number, or plain characters of a string. In malformed text, strings may be
 * confused with the text between them, so the reader starts outside a string and checks each byte. */
typedef struct {
    const char *text;
    size_t bytes;
    size_t end;      /* end of the indexed text */
    size_t piece;    /* number of bytes indexed by the last call */
    uint32_t *at;
    size_t count;
    size_t capacity;
    uint64_t in_string;   /* whether the end is in a string: all bits, or 0 */
    uint64_t is_escaped;  /* whether the byte at the end is escaped: 1 or 0 */
    uint64_t in_scalar;   /* whether the byte before the end is in a scalar: 1 or 0 */
} Structure;

/* Start an empty index of a text at offset `at`, which is outside a string. */
void structure_begin(Structure *structure, const char *text, size_t bytes, size_t at);

/* Extend the index. The text from `start` and its last `place_count` offsets are still needed. Return
 * false at the end of the text, if the needed text is too long, or if memory runs out. */
bool structure_more(Structure *structure, size_t start, size_t place_count);

/* Free all memory. */
void structure_free(Structure *structure);

/* Select the implementation, "avx2" or "plain", for tests; both give the same index. Return false if the
 * machine does not support it. */
bool structure_use(const char *way);

#endif
