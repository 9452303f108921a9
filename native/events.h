/* Reads usual events, one row of the columns each.
 *
 * Whatever is out of the ordinary (a member twice, a number in a form that is seldom seen, a phase that
 * is not read) is odd, and the caller has that event read by tracekit/ingest/event_reader.py, which
 * judges what is wrong. Where the text is malformed, reading stops.
 */
#ifndef TRACEKIT_EVENTS_H
#define TRACEKIT_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "columns.h"
#include "json_text.h"
#include "layout.h"
#include "structure.h"

/* Why reading stopped. */
typedef enum {
    TEXT_ENDS,    /* where the next event begins, or in it */
    ARRAY_ENDS,   /* behind the bracket that closes the array */
    ODD_EVENT,    /* at a well-formed object that another event or the bracket follows */
    DAMAGED,      /* at what is no event, or not followed by one */
    OUT_OF_MEMORY,
} Stop;

typedef struct {
    Stop stop;
    size_t used;     /* bytes up to the next event, or behind the bracket */
    size_t odd_end;  /* of an odd event: where it ends, */
    size_t behind;   /* where the next event begins, or behind the bracket, */
    bool is_last;    /* and whether that was the bracket */
} Run;

/* Read events up to the end of the array, or the last one that is surely followed by another.
 *
 * `at` is where the first event begins, or white space before it. The event of number
 * `first_event_id` is the first one; a row is added for each.
 * `structure` is worked with; its memory is kept for the next time. */
Run read_events(const char *text, size_t bytes, size_t at, int64_t first_event_id,
                const Layout *layout, Batch *batch, Structure *structure);

#endif
