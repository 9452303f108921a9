/* The bytes of an export that are gathered before they are handed on. */
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
void bytes_free(Bytes *bytes);

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

#endif
