#include "written_numbers.h"

Outcome to_integer(const Token *token, int64_t *value)
{
    if ((token->type != INTEGER && token->type != STRING) || token->has_escape)
        return ODD;
    const char *p = token->start;
    if (token->end - p > 2 && p[0] == '0' && p[1] == 'x') {
        *value = 0;
        if (token->end - p > 2 + 15)
            return ODD;
        for (p += 2; p < token->end; p++) {
            if (hex_value(*p) < 0)
                return ODD;
            *value = *value << 4 | hex_value(*p);
        }
        return FINE;
    }
    bool is_negative = p < token->end && *p == '-';
    p += is_negative;
    if (p == token->end || token->end - p > 18 || (*p == '0' && token->end - p > 1))
        return ODD;
    int64_t number = 0;
    for (; p < token->end; p++) {
        if (!is_digit(*p))
            return ODD;
        number = 10 * number + (*p - '0');
    }
    *value = is_negative ? -number : number;
    return FINE;
}

Outcome to_ns(const Token *token, int64_t max_us, int64_t *ns)
{
    if ((token->type != INTEGER && token->type != NUMBER && token->type != STRING) ||
        token->has_escape)
        return ODD;
    const char *p = token->start;
    bool is_negative = p < token->end && *p == '-';
    p += is_negative;
    const char *first_digit = p;
    int64_t number = 0;
    for (; p < token->end && is_digit(*p); p++) {
        if (p - first_digit == 16)
            return ODD;
        number = 10 * number + (*p - '0');
    }
    if (p == first_digit || number > max_us)
        return ODD;
    number *= NS_PER_US;
    if (p < token->end) {
        if (*p++ != '.' || p == token->end)
            return ODD;
        int64_t unit = NS_PER_US / 10;
        for (; p < token->end && unit > 0; p++, unit /= 10) {
            if (!is_digit(*p))
                return ODD;
            number += unit * (*p - '0');
        }
        if (p < token->end) {
            /* Round to the nearest nanosecond; a tie is odd. */
            int first = *p - '0';
            bool is_more = false;
            for (const char *rest = p; rest < token->end; rest++) {
                if (!is_digit(*rest))
                    return ODD;
                is_more |= rest > p && *rest != '0';
            }
            if (first == 5 && !is_more)
                return ODD;
            number += first >= 5;
        }
    }
    *ns = is_negative ? -number : number;
    return FINE;
}
