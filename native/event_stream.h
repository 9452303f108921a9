/* Arrow stream of event arrays, which DuckDB reads as a table. */
#ifndef TRACEKIT_EVENT_STREAM_H
#define TRACEKIT_EVENT_STREAM_H

#include "arrow_abi.h"
#include "layout.h"

/* Move the next array to `array`, or leave `array` unchanged at the end. Return 0 on failure. Calls
 * come from any thread, one at a time. */
typedef int (*NextArray)(struct ArrowArray *array);

/* Return a stream of the arrays from `next`, which have this layout, or NULL if memory runs out. The caller
 * frees the stream after releasing it. */
struct ArrowArrayStream *new_event_stream(const Layout *layout, NextArray next);

#endif
