#include "json_text.h"

int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Read the four digits of \uXXXX at `at`. */
static Outcome read_hex4(const char *at, const char *end, unsigned *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        if (at + i >= end)
            return MORE;
        int digit = hex_value(at[i]);
        if (digit < 0)
            return ODD;
        *unit = *unit << 4 | (unsigned)digit;
    }
    return FINE;
}

/* Read the escape after a backslash. Set `code` to the character, and `at` to the end of the escape. */
static Outcome read_escape(const char **at, const char *end, uint32_t *code)
{
    const char *p = *at;
    if (p >= end)
        return MORE;
    switch (*p++) {
    case '"': *code = '"'; break;
    case '\\': *code = '\\'; break;
    case '/': *code = '/'; break;
    case 'b': *code = '\b'; break;
    case 'f': *code = '\f'; break;
    case 'n': *code = '\n'; break;
    case 'r': *code = '\r'; break;
    case 't': *code = '\t'; break;
    case 'u': {
        unsigned high, low;
        Outcome outcome = read_hex4(p, end, &high);
        if (outcome != FINE)
            return outcome;
        p += 4;
        if (high == 0 || (high >= 0xDC00 && high < 0xE000))
            return ODD;
        *code = high;
        if (high >= 0xD800 && high < 0xDC00) {
            if (end - p < 6)
                return MORE;
            if (p[0] != '\\' || p[1] != 'u' || read_hex4(p + 2, end, &low) != FINE ||
                low < 0xDC00 || low >= 0xE000)
                return ODD;
            p += 6;
            *code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        }
        break;
    }
    default: return ODD;
    }
    *at = p;
    return FINE;
}

/* Return the length of a UTF-8 character beyond ASCII (Table 3-7 of the Unicode standard), 0 if it is
 * malformed, or -1 if the text ends inside it. */
static int utf8_bytes(const unsigned char *p, const unsigned char *end)
{
    unsigned char first = p[0], low = 0x80, high = 0xBF;
    int bytes;
    if (first >= 0xC2 && first <= 0xDF) {
        bytes = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
        bytes = 3;
        low = first == 0xE0 ? 0xA0 : low;
        high = first == 0xED ? 0x9F : high;
    } else if (first >= 0xF0 && first <= 0xF4) {
        bytes = 4;
        low = first == 0xF0 ? 0x90 : low;
        high = first == 0xF4 ? 0x8F : high;
    } else {
        return 0;
    }
    for (int i = 1; i < bytes; i++) {
        if (p + i >= end)
            return -1;
        if (p[i] < low || p[i] > high)
            return 0;
        low = 0x80;
        high = 0xBF;
    }
    return bytes;
}

/* Return a lower bound, at most 8, for the number of plain characters at `p`: ASCII without quotes,
 * backslashes, and control characters. Eight bytes must be readable. */
static inline size_t count_plain(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    uint64_t quote = word ^ EIGHT('"'), slash = word ^ EIGHT('\\');
    /* The borrow sets the top bit of a zero byte, or of one below 0x20, and maybe of the byte after it. */
    uint64_t marks = (quote - EIGHT(1)) | (slash - EIGHT(1)) | (word - EIGHT(0x20)) | word;
    return bytes_before_mark(marks & EIGHT(0x80));
}

/* Read a string from its opening quote through its closing quote. */
static Outcome read_string(Reader *r, Token *token)
{
    const char *p = r->at + 1, *end = r->end;
    token->start = p;
    token->type = STRING;
    token->has_escape = false;
    for (;;) {
        size_t plain = 8;
        while (plain == 8 && end - p >= 8) {
            plain = count_plain(p);
            p += plain;
        }
        while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
               *p != '\\')
            p++;
        if (p >= end)
            return MORE;
        if (*p == '"')
            break;
        if (*p == '\\') {
            uint32_t code;
            p++;
            Outcome outcome = read_escape(&p, end, &code);
            if (outcome != FINE)
                return outcome;
            token->has_escape = true;
        } else if ((unsigned char)*p < 0x20) {
            return ODD;
        } else {
            int bytes = utf8_bytes((const unsigned char *)p, (const unsigned char *)end);
            if (bytes <= 0)
                return bytes < 0 ? MORE : ODD;
            p += bytes;
        }
    }
    token->end = p;
    r->at = p + 1;
    return FINE;
}

/* Read a number; RFC 8259, section 6. */
static Outcome read_number(Reader *r, Token *token)
{
    const char *p = r->at, *end = r->end;
    token->start = p;
    token->type = INTEGER;
    token->has_escape = false;
    if (*p == '-')
        p++;
    if (p >= end)
        return MORE;
    if (*p == '0') {
        /* DuckDB writes -0 without a sign. */
        if (p > token->start)
            token->type = NUMBER;
        p++;
    } else if (is_digit(*p)) {
        while (p < end && is_digit(*p))
            p++;
    } else {
        return ODD;
    }
    if (p < end && *p == '.') {
        token->type = NUMBER;
        const char *fraction = ++p;
        while (p < end && is_digit(*p))
            p++;
        if (p == fraction)
            return p < end ? ODD : MORE;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        token->type = NUMBER;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        const char *exponent = p;
        while (p < end && is_digit(*p))
            p++;
        if (p == exponent)
            return p < end ? ODD : MORE;
    }
    if (p >= end)
        return MORE; /* The number may continue. */
    token->end = p;
    r->at = p;
    return FINE;
}

static Outcome read_word(Reader *r, Token *token, const char *word, TokenType type)
{
    size_t bytes = strlen(word), there = (size_t)(r->end - r->at);
    if (memcmp(r->at, word, there < bytes ? there : bytes) != 0)
        return ODD;
    if (there < bytes)
        return MORE;
    token->start = r->at;
    token->end = r->at += bytes;
    token->type = type;
    token->has_escape = false;
    return FINE;
}

Outcome read_scalar(Reader *r, Token *token)
{
    switch (*r->at) {
    case '"': return read_string(r, token);
    case 't': return read_word(r, token, "true", OTHER);
    case 'f': return read_word(r, token, "false", OTHER);
    case 'n': return read_word(r, token, "null", NULL_TOKEN);
    default: return read_number(r, token);
    }
}

Outcome read_key(Reader *r, Token *key)
{
    if (*r->at != '"')
        return ODD;
    Outcome outcome = read_string(r, key);
    if (outcome != FINE)
        return outcome;
    if (!skip_space(r))
        return MORE;
    if (*r->at != ':')
        return ODD;
    r->at++;
    return skip_space(r) ? FINE : MORE;
}

Outcome read_separator(Reader *r, char closes, bool *is_closed)
{
    if (!skip_space(r))
        return MORE;
    *is_closed = *r->at == closes;
    if (!*is_closed && *r->at != ',')
        return ODD;
    r->at++;
    if (*is_closed)
        return FINE;
    return skip_space(r) ? FINE : MORE;
}

/* Append a character as UTF-8. */
static void put_character(Column *out, uint32_t code)
{
    char utf8[4];
    size_t bytes;
    if (code < 0x80) {
        utf8[0] = (char)code;
        bytes = 1;
    } else if (code < 0x800) {
        utf8[0] = (char)(0xC0 | code >> 6);
        utf8[1] = (char)(0x80 | (code & 0x3F));
        bytes = 2;
    } else if (code < 0x10000) {
        utf8[0] = (char)(0xE0 | code >> 12);
        utf8[1] = (char)(0x80 | (code >> 6 & 0x3F));
        utf8[2] = (char)(0x80 | (code & 0x3F));
        bytes = 3;
    } else {
        utf8[0] = (char)(0xF0 | code >> 18);
        utf8[1] = (char)(0x80 | (code >> 12 & 0x3F));
        utf8[2] = (char)(0x80 | (code >> 6 & 0x3F));
        utf8[3] = (char)(0x80 | (code & 0x3F));
        bytes = 4;
    }
    put(out, utf8, bytes);
}

/* Append a character of a JSON string, escaped only if necessary. */
static void put_escaped(Column *out, uint32_t code)
{
    static const char short_names[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *name = code < 0x80 && code != 0 ? strchr(short_names, (int)code) : NULL;
    if (name != NULL) {
        char escape[2] = {'\\', letters[name - short_names]};
        put(out, escape, 2);
    } else if (code < 0x20) {
        static const char digits[] = "0123456789ABCDEF";
        char escape[6] = {'\\', 'u', '0', '0', digits[code >> 4], digits[code & 15]};
        put(out, escape, 6);
    } else {
        put_character(out, code);
    }
}

void put_escaped_string(Column *out, const Token *token, bool is_resolved)
{
    for (const char *p = token->start; p < token->end;) {
        if (*p != '\\') {
            put(out, p++, 1);
            continue;
        }
        uint32_t code = 0;
        p++;
        read_escape(&p, token->end, &code);
        if (is_resolved)
            put_character(out, code);
        else
            put_escaped(out, code);
    }
}

void put_token(Column *out, const Token *token)
{
    bool is_quoted = token->type == STRING;
    if (token->has_escape) {
        put(out, "\"", 1);
        put_string(out, token, false);
        put(out, "\"", 1);
    } else {
        put(out, token->start - is_quoted, (size_t)(token->end - token->start) + 2 * is_quoted);
    }
}

Outcome skip_value(Reader *r, int depth)
{
    Token token;
    Outcome outcome;
    char opens = *r->at;
    if (opens != '{' && opens != '[')
        return read_scalar(r, &token);
    char closes = opens == '{' ? '}' : ']';
    if (depth >= MAX_DEPTH)
        return ODD;
    r->at++;
    if (!skip_space(r))
        return MORE;
    bool is_closed = *r->at == closes;
    r->at += is_closed;
    while (!is_closed) {
        if (opens == '{' && (outcome = read_key(r, &token)) != FINE)
            return outcome;
        if ((outcome = skip_value(r, depth + 1)) != FINE)
            return outcome;
        if ((outcome = read_separator(r, closes, &is_closed)) != FINE)
            return outcome;
    }
    return FINE;
}
