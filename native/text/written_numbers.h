/* Number formats of trace events. */
#ifndef TRACEKIT_WRITTEN_NUMBERS_H
#define TRACEKIT_WRITTEN_NUMBERS_H

#include "json_text.h"

#define NS_PER_US 1000

/* Read an integer of up to 18 digits, bare or as a string. Strings may be hexadecimal, as in AMD's
 * traces. Other formats are odd. */
Outcome to_integer(const Token *token, int64_t *value);

/* Read decimal microseconds up to `max_us`, bare or as a string, as integer nanoseconds. Other formats
 * are odd. */
Outcome to_ns(const Token *token, int64_t max_us, int64_t *ns);

#endif
