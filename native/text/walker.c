#include "walker.h"

Outcome walk_unusual_string(Walker *w, Token *token)
{
    Reader r = {w->text + *w->at, w->end};
    Outcome outcome = read_scalar(&r, token);
    if (outcome != FINE)
        return outcome;
    while (has_place(w) && w->text + *w->at < r.at)
        w->at++;
    return FINE;
}

Outcome walk_unusual_scalar(Walker *w, Token *token)
{
    Reader r = {w->text + *w->at, w->end};
    Outcome outcome = read_scalar(&r, token);
    if (outcome != FINE)
        return outcome;
    w->at++;
    /* If other characters follow directly, the scalar is odd. */
    if (!has_place(w))
        return MORE;
    return r.at == w->text + *w->at || is_space(*r.at) ? FINE : ODD;
}

Outcome copy_value(Walker *w, Copy *copy, int depth)
{
    Token token;
    Outcome outcome;
    char opens = next_byte(w);
    if (opens != '{' && opens != '[') {
        outcome = walk_scalar(w, &token);
        if (outcome == FINE)
            copy_token(copy, &token);
        return outcome;
    }
    char closes = opens == '{' ? '}' : ']';
    if (depth >= MAX_DEPTH)
        return ODD;
    copy_byte(w, copy);
    if (!has_place(w))
        return MORE;
    bool is_closed = next_byte(w) == closes;
    if (is_closed)
        copy_byte(w, copy);
    while (!is_closed) {
        if (opens == '{') {
            if ((outcome = walk_key(w, &token)) != FINE)
                return outcome;
            copy_key(w, copy, &token);
        }
        if ((outcome = copy_value(w, copy, depth + 1)) != FINE)
            return outcome;
        if ((outcome = copy_separator(w, copy, closes, &is_closed)) != FINE)
            return outcome;
    }
    return FINE;
}
