/* Numbers as trace events write them. */
#ifndef TRACEKIT_WRITTEN_NUMBERS_H
#define TRACEKIT_WRITTEN_NUMBERS_H

#include "json_text.h"

#define NS_PER_US 1000

/* Read an integer of up to 18 digits, also where it is given as a string; there also hexadecimal,
 * as AMD's traces have it. Other forms are odd. */
Outcome to_integer(const Token *token, int64_t *value);

/* Read decimal microseconds, up to max_us, as integer nanoseconds, also where they are given as a
 * string. Other forms are odd. */
Outcome to_ns(const Token *token, int64_t max_us, int64_t *ns);

#endif
