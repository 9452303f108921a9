/* Description of events, built by one call per column, key, and kind; and rows that Python has read. */
#ifndef TRACEKIT_DESCRIPTION_H
#define TRACEKIT_DESCRIPTION_H

#include "layout.h"

/* A layout that is being built. */
typedef struct {
    Layout layout;
    int order[MAX_COLUMNS]; /* column of each position in a row */
    int count;              /* number of positions */
    bool has_value[MAX_COLUMNS];
} Description;

/* Start an empty description. */
void description_begin(Description *description);

/* The functions below return NULL, or the reason why the parser does not support the description. */

/* Add a column, in row order. `source` is "member", "argument", or "reader". `none` points to the number
 * that means NULL, or is a null pointer. */
const char *describe_column(Description *description, const char *name, const char *type,
                            const char *source, const int64_t *none);

/* Add a key to the last column. */
const char *describe_key(Description *description, const char *key);

/* Add a kind of events: one letter per phase, and the required event name, or NULL. */
const char *describe_kind(Description *description, const char *name, const char *phases,
                          const char *event_name);

/* Check that the description is complete. */
const char *description_end(const Description *description);

/* Append a row: for each position, whether it has a value, and its number or the length of its text. `texts`
 * contains all texts, concatenated. */
const char *append_row(const Description *description, Batch *batch, const uint8_t *has_value,
                       const int64_t *numbers, const char *texts);

#endif
