/* Finds where the parts of JSON text begin and end, 64 bytes at once, before anybody reads them. */
#ifndef TRACEKIT_STRUCTURE_H
#define TRACEKIT_STRUCTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Places in a text, in its order: every quote that begins or ends a string; outside of strings
 * every bracket, colon and comma, and the first byte of whatever else is no white space; in strings
 * every byte that asks for a closer look: backslashes, control characters, and beyond ASCII. So
 * between two places there is white space or the rest of a word or number, or a string that stands
 * for itself. Of malformed text too, but for what is inside of strings and outside: who reads it has
 * to follow it from outside of a string on, and to look at what stands there. */
typedef struct {
    const char *text;
    size_t bytes;
    size_t end;      /* behind the last byte that was looked at */
    size_t piece;    /* how many were, at once, the last time */
    uint32_t *at;
    size_t count;
    size_t capacity;
    uint64_t in_string;   /* of the byte at the end: all bits or none */
    uint64_t is_escaped;  /* 1 or 0 */
    uint64_t in_scalar;   /* of the byte before */
} Structure;

/* Look at a text from `at` on, which is outside of a string. Nothing is found yet. */
void structure_begin(Structure *structure, const char *text, size_t bytes, size_t at);

/* Look further. The text from `start` on is still needed, which is the last so many places. False at
 * the end of the text, where what is kept would be too much, and where there is no memory. */
bool structure_more(Structure *structure, size_t start, size_t kept);

void structure_free(Structure *structure);

/* Have bytes looked at in the way of this name from now on, "avx2" or "plain", for tests: both find
 * the same. False where the machine does not have it. */
bool structure_use(const char *way);

#endif
