/* Strict reader of JSON text (RFC 8259) that follows the offsets in the structure index, and copies the text
 * without white space. */
#ifndef TRACEKIT_WALKER_H
#define TRACEKIT_WALKER_H

#include "json_text.h"
#include "structure.h"

/* Position of the reader: everything before offset `*at` has been read. */
typedef struct {
    const char *text;
    const char *end;
    const uint32_t *at;
    const uint32_t *last; /* end of the known offsets */
} Walker;

/* Copy in progress: the output, and the contiguous text to append next. */
typedef struct {
    Column *out;
    const char *from;
    const char *to;
    const char *end; /* of the text */
} Copy;

/* Room that must follow the copied text. */
#define COPY_SLACK_BYTES 16

/* Return whether another offset is known. */
static inline bool has_place(const Walker *w)
{
    return w->at < w->last;
}

/* Return the byte at the next offset. */
static inline char next_byte(const Walker *w)
{
    return w->text[*w->at];
}

/* Skip the byte that must come next. */
static inline Outcome walk_byte(Walker *w, char byte)
{
    if (!has_place(w))
        return MORE;
    if (next_byte(w) != byte)
        return ODD;
    w->at++;
    return FINE;
}

/* Read the separator after a member or item: a comma, or the bracket `closes`. After a comma, another
 * offset is known. */
static inline Outcome walk_separator(Walker *w, char closes, bool *is_closed)
{
    if (!has_place(w))
        return MORE;
    char byte = next_byte(w);
    *is_closed = byte == closes;
    if (!*is_closed && byte != ',')
        return ODD;
    w->at++;
    return *is_closed || has_place(w) ? FINE : MORE;
}

/* Read a string with escapes or characters beyond ASCII. */
Outcome walk_unusual_string(Walker *w, Token *token);

/* Read a string whose quote is at the next offset. */
static inline Outcome walk_string(Walker *w, Token *token)
{
    if (w->last - w->at < 2)
        return MORE;
    const char *close = w->text + w->at[1];
    if (*close != '"')
        return walk_unusual_string(w, token);
    token->start = w->text + *w->at + 1;
    token->end = close;
    token->type = STRING;
    token->has_escape = false;
    w->at += 2;
    return FINE;
}

/* Read a word, or a number in a rare format. */
Outcome walk_unusual_scalar(Walker *w, Token *token);

/* Read a scalar. */
static inline Outcome walk_scalar(Walker *w, Token *token)
{
    const char *p = w->text + *w->at;
    if (*p == '"')
        return walk_string(w, token);
    if (w->last - w->at < 2)
        return MORE;
    token->start = p;
    token->type = INTEGER;
    token->has_escape = false;
    /* The next offset ends the scalar at the latest, so no later byte is read. */
    while (is_digit(*p))
        p++;
    if (p == token->start || (*token->start == '0' && p - token->start > 1))
        return walk_unusual_scalar(w, token);
    if (*p == '.' && is_digit(p[1])) {
        token->type = NUMBER;
        for (p++; is_digit(*p); p++)
            ;
    }
    if (p != w->text + w->at[1] && !is_space(*p))
        return walk_unusual_scalar(w, token);
    token->end = p;
    w->at++;
    return FINE;
}

/* Read the key of a member and its colon; the offset of the value is known. */
static inline Outcome walk_key(Walker *w, Token *key)
{
    if (next_byte(w) != '"')
        return ODD;
    Outcome outcome = walk_string(w, key);
    if (outcome == FINE)
        outcome = walk_byte(w, ':');
    return outcome == FINE && !has_place(w) ? MORE : outcome;
}

/* Append the pending text. */
static inline void copy_piece(Copy *copy)
{
    size_t bytes = (size_t)(copy->to - copy->from);
    Column *out = copy->out;
    if (bytes <= COPY_SLACK_BYTES && copy->end - copy->from >= COPY_SLACK_BYTES) {
        memcpy(out->data + out->size, copy->from, COPY_SLACK_BYTES);
        out->size += bytes;
    } else {
        put(out, copy->from, bytes);
    }
}

/* Copy a part of the text; adjacent parts are copied together. */
static inline void copy_text(Copy *copy, const char *start, const char *end)
{
    if (start != copy->to) {
        copy_piece(copy);
        copy->from = start;
    }
    copy->to = end;
}

/* Copy a scalar as JSON: numbers with all digits, strings with the necessary escapes. */
static inline void copy_token(Copy *copy, const Token *token)
{
    bool is_quoted = token->type == STRING;
    if (token->has_escape) {
        copy_piece(copy);
        put_token(copy->out, token);
        copy->from = copy->to = token->end + 1;
    } else {
        copy_text(copy, token->start - is_quoted, token->end + is_quoted);
    }
}

/* Copy the byte at the next offset and advance. */
static inline void copy_byte(Walker *w, Copy *copy)
{
    const char *byte = w->text + *w->at++;
    copy_text(copy, byte, byte + 1);
}

/* Copy the last key and its colon. */
static inline void copy_key(const Walker *w, Copy *copy, const Token *key)
{
    const char *colon = w->text + w->at[-1];
    copy_token(copy, key);
    copy_text(copy, colon, colon + 1);
}

/* Read a separator and copy it. */
static inline Outcome copy_separator(Walker *w, Copy *copy, char closes, bool *is_closed)
{
    Outcome outcome = walk_separator(w, closes, is_closed);
    if (outcome == FINE)
        copy_text(copy, w->text + w->at[-1], w->text + w->at[-1] + 1);
    return outcome;
}

/* Read a value at nesting depth `depth` and copy it without white space. `copy` must have room for the rest
 * of the text. */
Outcome copy_value(Walker *w, Copy *copy, int depth);

#endif
