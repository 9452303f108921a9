/* The bytes of an export that are gathered before they are handed on, and the rows they are of. */
#ifndef TRACEKIT_EXPORT_BLOCK_H
#define TRACEKIT_EXPORT_BLOCK_H

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    char *data;
    size_t size, capacity;
} Bytes;

/* These set an exception where there is no memory, and return false. */
bool bytes_add(Bytes *bytes, const char *data, size_t size);
bool bytes_add_object(Bytes *bytes, PyObject *object);

/* What is gathered, and who takes it. */
typedef struct {
    Bytes bytes;
    size_t limit;
    PyObject *write;
} Block;

/* Hand on what has been gathered. */
bool block_flush(Block *block);

/* Hand it on if it is enough. */
bool block_added(Block *block);

/* A text of a row: its bytes, and what keeps them. */
typedef struct {
    const char *data;
    Py_ssize_t size;
    PyObject *owner;
} Text;

/* A row as tracekit/export/scene.py has it; objects are borrowed, NULL stands for None. */
typedef struct {
    int64_t start_ns, dur_ns, event_id;
    bool has_event_id, is_inner;
    PyObject *name, *category, *arrows;
    Text args, extra, facts;
} SliceRow;

/* Take the columns of a row that lie behind `skip` others. */
bool slice_row_take(PyObject *row, Py_ssize_t skip, SliceRow *to);
void slice_row_clear(SliceRow *row);

/* Return what a dictionary holds of a text, else what `ask` returns of it: bytes, a new reference. */
PyObject *known_or_asked(PyObject *known, PyObject *ask, PyObject *text);

#endif
