/* Parser of trace events: one row per event.
 *
 * An unusual event (a duplicate member, a rare number format, an unsupported phase) is odd:
 * tracekit/ingest/event_reader.py reads it and decides whether it is valid. Malformed text stops the
 * parser.
 */
#ifndef TRACEKIT_EVENTS_H
#define TRACEKIT_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "columns.h"
#include "text/json_text.h"
#include "layout.h"
#include "text/structure.h"

/* Why reading stopped. */
typedef enum {
    TEXT_ENDS,    /* at the next event, or inside it */
    ARRAY_ENDS,   /* after the closing bracket of the array */
    ODD_EVENT,    /* at a well-formed object, followed by another event or the bracket */
    DAMAGED,      /* at text that is not an event, or is not followed by one */
    OUT_OF_MEMORY,
} Stop;

typedef struct {
    Stop stop;
    size_t used;     /* number of bytes before the next event, or through the bracket */
    size_t odd_end;  /* odd event: its end */
    size_t behind;   /* odd event: start of the next event, or end of the closing bracket */
    bool is_last;    /* odd event: whether the closing bracket follows */
} Run;

/* Read events up to the end of the array, or up to the last event that is followed by another.
 *
 * `at` is the offset of the first event, or of white space before it, and `first_event_id` is its
 * number. Append one row per event to `batch`. `structure` is scratch memory, reused between calls.
 * Return why and where reading stopped. */
Run read_events(const char *text, size_t bytes, size_t at, int64_t first_event_id,
                const Layout *layout, Batch *batch, Structure *structure);

#endif
