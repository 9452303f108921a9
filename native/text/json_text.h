/* Strict reader of JSON text (RFC 8259), byte by byte. */
#ifndef TRACEKIT_JSON_TEXT_H
#define TRACEKIT_JSON_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "../columns.h"

#define MAX_DEPTH 100 /* nesting of arguments */

/* Result of reading a piece of text. */
typedef enum {
    FINE,      /* read */
    MORE,      /* the text ends inside it */
    ODD,       /* unusual; see events.h */
    NO_MEMORY,
} Outcome;

typedef struct {
    const char *at;
    const char *end;
} Reader;

typedef enum { ABSENT, NULL_TOKEN, STRING, INTEGER, NUMBER, OTHER } TokenType;

/* A scalar as it is written; for a string, the text between the quotes. */
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

/* Of eight bytes, return the number of bytes before the first one whose top bit is set. Without compiler
 * support, the result is a lower bound. */
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

/* Return a lower bound, at most 8, for the number of spaces at `p`. Eight bytes must be readable. */
static inline size_t count_spaces(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    uint64_t other = word ^ EIGHT(' ');
    /* The top bit of each nonzero byte; later bits do not matter. */
    return bytes_before_mark((((other & EIGHT(0x7F)) + EIGHT(0x7F)) | other) & EIGHT(0x80));
}

/* Skip white space. Return false at the end of the text. */
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

/* Return the value of a hexadecimal digit, or -1. */
int hex_value(char c);

/* Read a scalar. */
Outcome read_scalar(Reader *r, Token *token);

/* Read the key of a member and its colon, up to the value. */
Outcome read_key(Reader *r, Token *key);

/* Read the separator after a member or item: a comma, or the bracket `closes`. */
Outcome read_separator(Reader *r, char closes, bool *is_closed);

/* Slow path of put_string(). */
void put_escaped_string(Column *out, const Token *token, bool is_resolved);

/* Append the text between the quotes of a string token, with its escapes resolved or in their shortest
 * form. `out` must have room for the token; neither form is longer. */
static inline void put_string(Column *out, const Token *token, bool is_resolved)
{
    if (token->has_escape)
        put_escaped_string(out, token, is_resolved);
    else
        put(out, token->start, (size_t)(token->end - token->start));
}

/* Append a scalar as JSON, numbers with all digits. */
void put_token(Column *out, const Token *token);

/* Skip a value. `depth` is its nesting depth. */
Outcome skip_value(Reader *r, int depth);

#endif
