#include "arrow_batches.h"

#include <stdbool.h>
#include <string.h>

#define CAPSULE_NAME "arrow_array_stream"

typedef struct {
    PyObject_HEAD
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    PyObject *error, *batch_type;
    bool is_busy;
} Batches;

typedef struct {
    PyObject_HEAD
    struct ArrowArray array;
    PyObject *source; /* the Batches whose schema it has */
} Batch;

static void batch_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Batch *batch = (Batch *)self;
    if (batch->array.release != NULL)
        batch->array.release(&batch->array);
    Py_XDECREF(batch->source);
    PyObject_Free(self);
    Py_DECREF(type);
}

static Batch *batch_of(PyObject *object)
{
    if (PyType_GetSlot(Py_TYPE(object), Py_tp_dealloc) == (void *)batch_dealloc)
        return (Batch *)object;
    PyErr_SetString(PyExc_TypeError, "this is no batch of a stream");
    return NULL;
}

const struct ArrowArray *batch_array(PyObject *object)
{
    Batch *batch = batch_of(object);
    return batch == NULL ? NULL : &batch->array;
}

const struct ArrowSchema *batch_schema(PyObject *object)
{
    Batch *batch = batch_of(object);
    return batch == NULL ? NULL : &((Batches *)batch->source)->schema;
}

static PyObject *batch_type(void)
{
    static PyType_Slot slots[] = {{Py_tp_dealloc, batch_dealloc}, {0, NULL}};
    static PyType_Spec spec = {
        .name = "tracekit.export._encoders.Batch",
        .basicsize = sizeof(Batch),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    return PyType_FromSpec(&spec);
}

/* Let go of the stream: the connection behind it is free then. */
static void batches_end(Batches *batches)
{
    if (batches->stream.release == NULL)
        return;
    Py_BEGIN_ALLOW_THREADS
    batches->stream.release(&batches->stream);
    Py_END_ALLOW_THREADS
    batches->stream.release = NULL;
}

static void raise_of(Batches *batches)
{
    const char *said = batches->stream.get_last_error(&batches->stream);
    PyErr_SetString(batches->error, said == NULL ? "the rows cannot be read" : said);
}

static PyObject *batches_next(PyObject *self)
{
    Batches *batches = (Batches *)self;
    if (batches->is_busy) {
        PyErr_SetString(PyExc_ValueError, "another thread reads the stream");
        return NULL;
    }
    if (batches->stream.release == NULL)
        return NULL;
    Batch *batch = (Batch *)PyType_GenericAlloc((PyTypeObject *)batches->batch_type, 0);
    if (batch == NULL)
        return NULL;
    batch->source = Py_NewRef(self);
    int status;
    batches->is_busy = true;
    Py_BEGIN_ALLOW_THREADS
    status = batches->stream.get_next(&batches->stream, &batch->array);
    Py_END_ALLOW_THREADS
    batches->is_busy = false;
    if (status != 0) {
        batch->array.release = NULL;
        raise_of(batches);
    }
    if (status == 0 && batch->array.release != NULL)
        return (PyObject *)batch;
    Py_DECREF(batch);
    batches_end(batches);
    return NULL;
}

static PyObject *batches_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
    PyObject *capsule, *error;
    (void)options;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &error))
        return NULL;
    struct ArrowArrayStream *given = PyCapsule_GetPointer(capsule, CAPSULE_NAME);
    if (given == NULL)
        return NULL;
    if (given->release == NULL) {
        PyErr_SetString(PyExc_ValueError, "the stream has been read already");
        return NULL;
    }
    Batches *batches = (Batches *)PyType_GenericAlloc(type, 0);
    if (batches == NULL)
        return NULL;
    batches->stream = *given;
    given->release = NULL;
    batches->error = Py_NewRef(error);
    batches->batch_type = batch_type();
    bool is_good = batches->batch_type != NULL;
    if (is_good && batches->stream.get_schema(&batches->stream, &batches->schema) != 0) {
        batches->schema.release = NULL;
        raise_of(batches);
        is_good = false;
    }
    if (!is_good)
        Py_CLEAR(batches);
    return (PyObject *)batches;
}

static void batches_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Batches *batches = (Batches *)self;
    batches_end(batches);
    if (batches->schema.release != NULL)
        batches->schema.release(&batches->schema);
    Py_XDECREF(batches->error);
    Py_XDECREF(batches->batch_type);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyObject *batches_type(void)
{
    static PyType_Slot slots[] = {
        {Py_tp_new, batches_new},
        {Py_tp_dealloc, batches_dealloc},
        {Py_tp_iter, PyObject_SelfIter},
        {Py_tp_iternext, batches_next},
        {0, NULL},
    };
    static PyType_Spec spec = {
        .name = "tracekit.export._encoders.Batches",
        .basicsize = sizeof(Batches),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = slots,
    };
    return PyType_FromSpec(&spec);
}
