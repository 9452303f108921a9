#include "export_block.h"

#include <stdlib.h>
#include <string.h>

bool bytes_add(Bytes *bytes, const char *data, size_t size)
{
    if (bytes->capacity - bytes->size < size) {
        size_t capacity = bytes->capacity ? bytes->capacity : 256;
        while (capacity - bytes->size < size)
            capacity *= 2;
        char *grown = realloc(bytes->data, capacity);
        if (grown == NULL) {
            PyErr_NoMemory();
            return false;
        }
        bytes->data = grown;
        bytes->capacity = capacity;
    }
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    return true;
}

bool bytes_add_object(Bytes *bytes, PyObject *object)
{
    char *data;
    Py_ssize_t size;
    return PyBytes_AsStringAndSize(object, &data, &size) == 0
        && bytes_add(bytes, data, (size_t)size);
}

void bytes_free(Bytes *bytes)
{
    free(bytes->data);
    memset(bytes, 0, sizeof *bytes);
}

bool block_flush(Block *block)
{
    PyObject *whole = PyBytes_FromStringAndSize(block->bytes.data, (Py_ssize_t)block->bytes.size);
    if (whole == NULL)
        return false;
    block->bytes.size = 0;
    PyObject *done = PyObject_CallFunctionObjArgs(block->write, whole, NULL);
    Py_DECREF(whole);
    Py_XDECREF(done);
    return done != NULL;
}

bool block_added(Block *block)
{
    return block->bytes.size < block->limit || block_flush(block);
}
