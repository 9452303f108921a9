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

static bool take_text(PyObject *object, Text *to)
{
    if (object == Py_None)
        return true;
    to->data = PyUnicode_AsUTF8AndSize(object, &to->size);
    if (to->data != NULL)
        return true;
    /* A lone surrogate, which no UTF-8 has, becomes a question mark. */
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        return false;
    PyErr_Clear();
    to->owner = PyUnicode_AsEncodedString(object, "utf-8", "replace");
    return to->owner != NULL
        && PyBytes_AsStringAndSize(to->owner, (char **)&to->data, &to->size) == 0;
}

static bool take_number(PyObject *object, int64_t *to)
{
    *to = PyLong_AsLongLong(object);
    return *to != -1 || PyErr_Occurred() == NULL;
}

bool slice_row_take(PyObject *row, Py_ssize_t skip, SliceRow *to)
{
    memset(to, 0, sizeof *to);
    Py_ssize_t count = PyTuple_Size(row);
    if (count < 0)
        return false;
    if (count < skip + 3 || count > skip + 10) {
        PyErr_SetString(PyExc_ValueError, "a row has 3 to 10 columns of a slice");
        return false;
    }
    PyObject *columns[10];
    for (Py_ssize_t i = 0; i < 10; i++)
        columns[i] = skip + i < count ? PyTuple_GetItem(row, skip + i) : Py_None;
    if (!take_number(columns[0], &to->start_ns) || !take_number(columns[1], &to->dur_ns))
        return false;
    to->name = columns[2];
    to->category = columns[3] == Py_None ? NULL : columns[3];
    to->has_event_id = columns[4] != Py_None;
    if (to->has_event_id && !take_number(columns[4], &to->event_id))
        return false;
    to->arrows = columns[8] == Py_None ? NULL : columns[8];
    to->is_inner = columns[9] == Py_True;
    if (take_text(columns[5], &to->args) && take_text(columns[6], &to->extra)
        && take_text(columns[7], &to->facts))
        return true;
    slice_row_clear(to);
    return false;
}

void slice_row_clear(SliceRow *row)
{
    Py_CLEAR(row->args.owner);
    Py_CLEAR(row->extra.owner);
    Py_CLEAR(row->facts.owner);
}

PyObject *known_or_asked(PyObject *known, PyObject *ask, PyObject *text)
{
    PyObject *found = PyDict_GetItemWithError(known, text);
    if (found != NULL)
        return Py_NewRef(found);
    return PyErr_Occurred() ? NULL : PyObject_CallFunctionObjArgs(ask, text, NULL);
}
