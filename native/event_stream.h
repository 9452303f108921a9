/* A stream of Arrow arrays, which DuckDB reads as a table. */
#ifndef TRACEKIT_EVENT_STREAM_H
#define TRACEKIT_EVENT_STREAM_H

#include "arrow_abi.h"
#include "layout.h"

/* Move the next array to `array`, or leave it as it is at the end; 0 where that fails. Called from
 * any thread, by one at a time. */
typedef int (*NextArray)(struct ArrowArray *array);

/* Return a stream that the caller frees once it is released; NULL where there is no memory. */
struct ArrowArrayStream *new_event_stream(const Layout *layout, NextArray next);

#endif
