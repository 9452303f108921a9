/* Reads JSON text (RFC 8259) strictly, byte by byte. */
#ifndef TRACEKIT_JSON_TEXT_H
#define TRACEKIT_JSON_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "columns.h"

#define MAX_DEPTH 100 /* of nesting in arguments */

/* What reading a piece of text came to. */
typedef enum {
    FINE,      /* read */
    MORE,      /* the text ends inside */
    ODD,       /* not read here; see events.h */
    NO_MEMORY,
} Outcome;

typedef struct {
    const char *at;
    const char *end;
} Reader;

typedef enum { ABSENT, NULL_TOKEN, STRING, INTEGER, NUMBER, OTHER } TokenType;

/* A value that is no object or array, as in the text: of a string what is between the quotes. */
typedef struct {
    const char *start;
    const char *end;
    TokenType type;
    bool has_escape;
} Token;

static inline bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Of eight bytes of which each marked one has its top bit set here, return how many at least come
 * before the first marked one: exactly, where the compiler tells how to look. */
static inline size_t bytes_before_mark(uint64_t marks)
{
    if (marks == 0)
        return 8;
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (size_t)__builtin_ctzll(marks) >> 3;
#else
    return 0;
#endif
}

#define EIGHT(byte) (0x0101010101010101ULL * (byte))

/* Return how many spaces at least stand at `p`, 8 at most; there are eight bytes to look at. */
static inline size_t count_spaces(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    uint64_t other = word ^ EIGHT(' ');
    /* The top bit of each byte that is not zero; above it, bits of the next byte do not matter. */
    return bytes_before_mark((((other & EIGHT(0x7F)) + EIGHT(0x7F)) | other) & EIGHT(0x80));
}

/* Go to the next character that is no white space; false at the end of the text. */
static inline bool skip_space(Reader *r)
{
    const char *p = r->at, *end = r->end;
    if (p < end && !is_space(*p))
        return true;
    while (p < end && is_space(*p)) {
        p++;
        /* Indentation. */
        size_t spaces = 8;
        while (spaces == 8 && end - p >= 8) {
            spaces = count_spaces(p);
            p += spaces;
        }
    }
    r->at = p;
    return p < end;
}

/* Return the value of a hexadecimal digit, -1 for none. */
int hex_value(char c);

/* Read a value that is no object or array. */
Outcome read_scalar(Reader *r, Token *token);

/* Read the key of a member and the colon behind it; `at` ends at the value. */
Outcome read_key(Reader *r, Token *key);

/* Read what stands between two members or items: a comma, or the bracket that `closes`. */
Outcome read_separator(Reader *r, char closes, bool *is_closed);

/* Put what is between the quotes of a string, as put_string does. */
void put_escaped_string(Column *out, const Token *token, bool is_resolved);

/* Put what is between the quotes of a string, which has been read before, with every escape either
 * resolved or in its shortest form. `out` has room: neither is longer than what stands there. */
static inline void put_string(Column *out, const Token *token, bool is_resolved)
{
    if (token->has_escape)
        put_escaped_string(out, token, is_resolved);
    else
        put(out, token->start, (size_t)(token->end - token->start));
}

/* Copy a scalar as JSON; numbers keep all their digits. */
void put_token(Column *out, const Token *token);

/* Read any value, and go behind it. */
Outcome skip_value(Reader *r, int depth);

#endif
