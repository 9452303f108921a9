/* A stream of Arrow arrays, which DuckDB reads as a table. */
#ifndef TRACEKIT_EVENT_STREAM_H
#define TRACEKIT_EVENT_STREAM_H

#include "python_api.h"

#include "layout.h"

/* Return the capsule of an Arrow stream; NULL with an exception set where there is no memory.
 *
 * `get_next` is called without arguments from any thread; it returns the capsule of the next array,
 * None for the end. `columns` is the object that `layout` is a part of. */
PyObject *new_event_stream(PyObject *columns, const Layout *layout, PyObject *get_next);

#endif
