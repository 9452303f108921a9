#include "event_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arrow_export.h"

/* A stream of arrays that a Python callable hands out. */
typedef struct {
    PyObject *columns; /* holds the layout */
    PyObject *get_next;
    PyObject *error; /* bytes: what went wrong last, or NULL */
    const char *error_text;
    const Layout *layout;
} StreamData;

static int stream_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *schema)
{
    StreamData *data = stream->private_data;
    return make_schema(data->layout, schema) ? 0 : ENOMEM;
}

/* Keep what a Python exception says for get_last_error. */
static void keep_error(StreamData *data)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *text = value != NULL ? PyObject_Str(value) : NULL;
    PyObject *bytes = text != NULL ? PyUnicode_AsUTF8String(text) : NULL;
    PyErr_Clear();
    Py_XDECREF(data->error);
    data->error = bytes;
    data->error_text = bytes != NULL ? PyBytes_AsString(bytes) : "an error without a text";
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

static int stream_get_next(struct ArrowArrayStream *stream, struct ArrowArray *array)
{
    StreamData *data = stream->private_data;
    int status = 0;
    memset(array, 0, sizeof *array);
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *capsule = PyObject_CallObject(data->get_next, NULL);
    if (capsule == NULL) {
        keep_error(data);
        status = EIO;
    } else if (capsule != Py_None) {
        struct ArrowArray *source = PyCapsule_GetPointer(capsule, "arrow_array");
        if (source != NULL && source->release == NULL)
            PyErr_SetString(PyExc_ValueError, "these events have been taken before");
        if (PyErr_Occurred()) {
            keep_error(data);
            status = EINVAL;
        } else {
            *array = *source;
            source->release = NULL;
        }
    }
    Py_XDECREF(capsule);
    PyGILState_Release(state);
    return status;
}

static const char *stream_get_last_error(struct ArrowArrayStream *stream)
{
    return ((StreamData *)stream->private_data)->error_text;
}

static void stream_release(struct ArrowArrayStream *stream)
{
    StreamData *data = stream->private_data;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(data->get_next);
    Py_DECREF(data->columns);
    Py_XDECREF(data->error);
    PyGILState_Release(state);
    free(data);
    stream->release = NULL;
}

static void destroy_stream(PyObject *capsule)
{
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    if (stream == NULL)
        return;
    if (stream->release != NULL)
        stream->release(stream);
    free(stream);
}

PyObject *new_event_stream(PyObject *columns, const Layout *layout, PyObject *get_next)
{
    struct ArrowArrayStream *stream = calloc(1, sizeof *stream);
    StreamData *data = calloc(1, sizeof *data);
    if (stream == NULL || data == NULL) {
        free(stream);
        free(data);
        return PyErr_NoMemory();
    }
    data->get_next = get_next;
    Py_INCREF(get_next);
    data->columns = columns;
    Py_INCREF(columns);
    data->layout = layout;
    stream->get_schema = stream_get_schema;
    stream->get_next = stream_get_next;
    stream->get_last_error = stream_get_last_error;
    stream->release = stream_release;
    stream->private_data = data;
    PyObject *capsule = PyCapsule_New(stream, "arrow_array_stream", destroy_stream);
    if (capsule == NULL) {
        stream->release(stream);
        free(stream);
    }
    return capsule;
}
