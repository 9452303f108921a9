/* Reads JSON text (RFC 8259) strictly from place to place of its structure, and copies it without
 * white space. */
#ifndef TRACEKIT_WALKER_H
#define TRACEKIT_WALKER_H

#include "json_text.h"
#include "structure.h"

/* Where reading is: at a place, before which everything has been read. */
typedef struct {
    const char *text;
    const char *end;
    const uint32_t *at;
    const uint32_t *last; /* behind the last place that is known */
} Walker;

/* Text that is being copied: what has been put, and the piece of the text that comes behind it. */
typedef struct {
    Column *out;
    const char *from;
    const char *to;
    const char *end; /* of the text */
} Copy;

/* What there is room for behind what is copied. */
#define COPY_SLACK_BYTES 16

static inline bool has_place(const Walker *w)
{
    return w->at < w->last;
}

/* The byte at the next place, of which there is one. */
static inline char next_byte(const Walker *w)
{
    return w->text[*w->at];
}

/* Go over the byte that must come next. */
static inline Outcome walk_byte(Walker *w, char byte)
{
    if (!has_place(w))
        return MORE;
    if (next_byte(w) != byte)
        return ODD;
    w->at++;
    return FINE;
}

/* Read what stands between two members or items: a comma, or the bracket that `closes`. There is a
 * place behind a comma. */
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

/* Read a string that asks for a closer look. */
Outcome walk_unusual_string(Walker *w, Token *token);

/* Read a string, at whose quote the next place is. */
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

/* Read a word or a number, whatever it looks like. */
Outcome walk_unusual_scalar(Walker *w, Token *token);

/* Read a value that is no object or array. */
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
    /* The next place ends it at the latest: no byte behind that is looked at. */
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

/* Read the key of a member and the colon behind it; there is a place for the value. */
static inline Outcome walk_key(Walker *w, Token *key)
{
    if (next_byte(w) != '"')
        return ODD;
    Outcome outcome = walk_string(w, key);
    if (outcome == FINE)
        outcome = walk_byte(w, ':');
    return outcome == FINE && !has_place(w) ? MORE : outcome;
}

/* Put the piece that is still to be copied. */
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

/* Copy a part of the text. What follows on the part before is copied with it. */
static inline void copy_text(Copy *copy, const char *start, const char *end)
{
    if (start != copy->to) {
        copy_piece(copy);
        copy->from = start;
    }
    copy->to = end;
}

/* Copy a scalar as JSON; numbers keep all their digits, strings the escapes that they need. */
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

/* Go over the byte that has been found at the next place, and copy it. */
static inline void copy_byte(Walker *w, Copy *copy)
{
    const char *byte = w->text + *w->at++;
    copy_text(copy, byte, byte + 1);
}

/* Copy a key that was just read, and the colon behind it. */
static inline void copy_key(const Walker *w, Copy *copy, const Token *key)
{
    const char *colon = w->text + w->at[-1];
    copy_token(copy, key);
    copy_text(copy, colon, colon + 1);
}

/* Read what stands between two members or items, and copy it. */
static inline Outcome copy_separator(Walker *w, Copy *copy, char closes, bool *is_closed)
{
    Outcome outcome = walk_separator(w, closes, is_closed);
    if (outcome == FINE)
        copy_text(copy, w->text + w->at[-1], w->text + w->at[-1] + 1);
    return outcome;
}

/* Read any value and copy it without white space. `copy` has room for the rest of the text. */
Outcome copy_value(Walker *w, Copy *copy, int depth);

#endif
