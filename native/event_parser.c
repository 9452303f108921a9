/* The Python module that reads the events of a Chrome trace into Arrow columns. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <errno.h>

#include "events.h"

static void destroy_array(PyObject *capsule)
{
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");
    if (array == NULL)
        return;
    if (array->release != NULL)
        array->release(array);
    free(array);
}

PyDoc_STRVAR(parse_events_doc,
"parse_events(text, first_event_id, /)\n--\n\n"
"Read the events at the beginning of an array of events.\n"
"\n"
"Args:\n"
"    text: bytes; the first one stands for the bracket that opens the array.\n"
"    first_event_id: position in the trace of the first event.\n"
"\n"
"Returns:\n"
"    None where the text holds anything that is not read here. Else a tuple: the capsule of an\n"
"    Arrow array, how many events it holds, how many bytes of the text are used up (to where the\n"
"    next event begins, or behind the closing bracket), and whether that was the bracket.\n");

static PyObject *parse_events(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer view;
    long long first_event_id;
    if (!PyArg_ParseTuple(args, "y*L", &view, &first_event_id))
        return NULL;
    Batch batch = {0};
    Run run = {ODD, 0, false};
    struct ArrowArray *array = NULL;
    size_t count = 0;
    Py_BEGIN_ALLOW_THREADS
    /* Offsets of texts are 32 bits wide. */
    if (view.len > 0 && view.len < (Py_ssize_t)1 << 30)
        run = read_events(view.buf, (size_t)view.len, first_event_id, &batch);
    if (run.outcome == FINE && batch.row_count > 0) {
        count = batch.row_count;
        array = malloc(sizeof *array);
        if (array == NULL || !batch_export(&batch, array)) {
            free(array);
            array = NULL;
            run.outcome = NO_MEMORY;
        }
    }
    batch_free(&batch);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    if (run.outcome == NO_MEMORY)
        return PyErr_NoMemory();
    if (array == NULL)
        Py_RETURN_NONE;
    PyObject *capsule = PyCapsule_New(array, "arrow_array", destroy_array);
    if (capsule == NULL) {
        array->release(array);
        free(array);
        return NULL;
    }
    return Py_BuildValue("(NnnO)", capsule, (Py_ssize_t)count, (Py_ssize_t)run.used,
                         run.is_ended ? Py_True : Py_False);
}

/* A stream of arrays that a Python callable hands out. */
typedef struct {
    PyObject *get_next;
    PyObject *error; /* bytes: what went wrong last, or NULL */
    const char *error_text;
} StreamData;

static int stream_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *schema)
{
    (void)stream;
    return make_schema(schema) ? 0 : ENOMEM;
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

PyDoc_STRVAR(event_stream_doc,
"event_stream(get_next, /)\n--\n\n"
"Make a stream of what :func:`parse_events` returned, which DuckDB reads as a table.\n"
"\n"
"Args:\n"
"    get_next: called without arguments from any thread; returns the capsule of the next array, None\n"
"        for the end. Each array can be read once.\n"
"\n"
"Returns:\n"
"    The capsule of an Arrow stream.\n");

static PyObject *event_stream(PyObject *module, PyObject *get_next)
{
    (void)module;
    struct ArrowArrayStream *stream = calloc(1, sizeof *stream);
    StreamData *data = calloc(1, sizeof *data);
    if (stream == NULL || data == NULL) {
        free(stream);
        free(data);
        return PyErr_NoMemory();
    }
    data->get_next = get_next;
    Py_INCREF(get_next);
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

static PyMethodDef METHODS[] = {
    {"parse_events", parse_events, METH_VARARGS, parse_events_doc},
    {"event_stream", event_stream, METH_O, event_stream_doc},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        long long value;
    } constants[] = {
        {"MAX_TIME_US", MAX_TIME_US}, {"MIN_TIME_US", MIN_TIME_US}, {"MAX_DUR_US", MAX_DUR_US}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        PyObject *value = PyLong_FromLongLong(constants[i].value);
        int status = value == NULL ? -1 : PyModule_AddObjectRef(module, constants[i].name, value);
        Py_XDECREF(value);
        if (status < 0)
            return -1;
    }
    return 0;
}

static PyModuleDef_Slot SLOTS[] = {
    {Py_mod_exec, add_constants},
    {0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tracekit.ingest._event_parser",
    .m_doc = "Reads the usual events of a Chrome trace into Arrow columns.",
    .m_methods = METHODS,
    .m_slots = SLOTS,
};

PyMODINIT_FUNC PyInit__event_parser(void)
{
    return PyModuleDef_Init(&MODULE);
}
