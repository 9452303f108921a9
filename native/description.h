/* Takes the description of events, call by call, and rows of events that were read elsewhere. */
#ifndef TRACEKIT_DESCRIPTION_H
#define TRACEKIT_DESCRIPTION_H

#include "layout.h"

/* A layout that is being described. */
typedef struct {
    Layout layout;
    int order[MAX_COLUMNS]; /* the column of each place in a row */
    int count;              /* places so far */
    bool is_there[MAX_COLUMNS];
} Description;

void description_begin(Description *description);

/* These return NULL, or why what is described does not fit the code here. */

/* `source` is "member", "argument" or "reader"; `none` is NULL, or the number that says that there is
 * none. Columns come in the order of a row. */
const char *describe_column(Description *description, const char *name, const char *type,
                            const char *source, const int64_t *none);

/* The next key of the column that was described last. */
const char *describe_key(Description *description, const char *key);

/* `phases` has a letter for each; `event_name` is NULL, or the name that such events have. */
const char *describe_kind(Description *description, const char *name, const char *phases,
                          const char *event_name);

/* All is described. */
const char *description_end(const Description *description);

/* Add a row: for each place whether there is a value, and the number, or the length of the text; the
 * texts follow each other. */
const char *append_row(const Description *description, Batch *batch, const uint8_t *is_there,
                       const int64_t *numbers, const char *texts);

#endif
