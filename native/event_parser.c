/* The Python module that reads the events of a Chrome trace into Arrow columns. */
#include "python_api.h"

#include <stdlib.h>

#include "arrow_export.h"
#include "event_stream.h"
#include "events.h"
#include "python_layout.h"

#define MAX_TEXT_BYTES ((Py_ssize_t)1 << 29) /* offsets of texts are 32 bits wide */

typedef struct {
    PyObject_HEAD
    Layout layout;
    int order[MAX_COLUMNS]; /* the column of each place in a row */
    Batch batch;
    Structure structure;
    bool is_reading;
} Columns;

PyDoc_STRVAR(columns_doc,
"Columns(columns, kinds, bounds, /)\n--\n\n"
"Events as columns, one row each, in the order in which they come.\n"
"\n"
"Args:\n"
"    columns: a tuple for each column of a row: name, type in DuckDB, source (member, argument or\n"
"        reader), its keys in the file, and the number that stands for none or None.\n"
"    kinds: a tuple for each kind: name, phases, and the name that such events have or None.\n"
"    bounds: earliest and latest start, and longest duration, in us.\n"
"\n"
"Raises:\n"
"    ValueError: that is not what the code here can read.\n");

static PyObject *columns_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *columns, *kinds, *bounds;
    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "Columns() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyTuple_Type, &columns, &PyTuple_Type, &kinds,
                          &PyTuple_Type, &bounds))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = allocate(type, 0);
    if (self == NULL)
        return NULL;
    Columns *own = (Columns *)self;
    if (!take_layout(columns, kinds, bounds, &own->layout, own->order)) {
        Py_DECREF(self);
        return NULL;
    }
    batch_begin(&own->batch, &own->layout);
    return self;
}

static void columns_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    batch_clear(&((Columns *)self)->batch);
    structure_free(&((Columns *)self)->structure);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* Refuse what another thread would do while one reads without Python's lock. */
static bool is_free(Columns *self)
{
    if (self->is_reading)
        PyErr_SetString(PyExc_RuntimeError, "another thread is reading into these columns");
    return !self->is_reading;
}

PyDoc_STRVAR(read_doc,
"read(text, first_event_id, read_odd, /)\n--\n\n"
"Read the events at the beginning of an array of events.\n"
"\n"
"Args:\n"
"    text: bytes; the first one stands for the bracket that opens the array.\n"
"    first_event_id: position in the trace of the first event.\n"
"    read_odd: called with the bytes of a JSON object that is not read here, its offset in the text\n"
"        and its event_id; returns its row, True for no row, False for what is no event.\n"
"\n"
"Returns:\n"
"    A tuple: how many events there were, how many bytes of the text are used up (to where the next\n"
"    event begins, or behind the closing bracket), and why reading stopped: 'more', the text ends;\n"
"    'ended', the array does; 'damaged', what comes is no event that another one follows.\n");

static PyObject *columns_read(PyObject *object, PyObject *args)
{
    Columns *self = (Columns *)object;
    Py_buffer view;
    long long first_event_id;
    PyObject *read_odd;
    if (!is_free(self) || !PyArg_ParseTuple(args, "y*LO", &view, &first_event_id, &read_odd))
        return NULL;
    const char *text = view.buf;
    size_t bytes = (size_t)view.len;
    Run run = {DAMAGED, 1, 0, 0, false};
    long long event_count = 0;
    /* What is longer is left to whoever reads damaged text. */
    bool is_read = view.len > 0 && view.len < MAX_TEXT_BYTES &&
                   self->batch.columns[ARGS].size < (size_t)MAX_TEXT_BYTES;
    size_t at = 1;
    while (is_read) {
        size_t row_count = self->batch.row_count;
        self->is_reading = true;
        Py_BEGIN_ALLOW_THREADS
        run = read_events(text, bytes, at, first_event_id + event_count, &self->layout,
                          &self->batch, &self->structure);
        Py_END_ALLOW_THREADS
        self->is_reading = false;
        event_count += (long long)(self->batch.row_count - row_count);
        if (run.stop != ODD_EVENT)
            break;
        PyObject *row = PyObject_CallFunction(
            read_odd, "y#nL", text + run.used, (Py_ssize_t)(run.odd_end - run.used),
            (Py_ssize_t)run.used, first_event_id + event_count);
        bool is_fine = row != NULL;
        if (is_fine && row == Py_False)
            run.stop = DAMAGED;
        else if (is_fine && row != Py_True)
            is_fine = take_row(row, &self->layout, self->order, &self->batch);
        Py_XDECREF(row);
        if (!is_fine) {
            PyBuffer_Release(&view);
            return NULL;
        }
        if (run.stop == DAMAGED)
            break;
        event_count++;
        at = run.used = run.behind;
        if (run.is_last) {
            run.stop = ARRAY_ENDS;
            break;
        }
    }
    PyBuffer_Release(&view);
    if (run.stop == OUT_OF_MEMORY)
        return PyErr_NoMemory();
    const char *stop = run.stop == TEXT_ENDS ? "more" : run.stop == ARRAY_ENDS ? "ended" : "damaged";
    return Py_BuildValue("(Lns)", event_count, (Py_ssize_t)run.used, stop);
}

PyDoc_STRVAR(append_doc,
"append(row, /)\n--\n\n"
"Add the row of an event that was read elsewhere.\n"
"\n"
"Args:\n"
"    row: a tuple with a value for each column: a whole number, a text or None.\n");

static PyObject *columns_append(PyObject *object, PyObject *row)
{
    Columns *self = (Columns *)object;
    if (!is_free(self) || !take_row(row, &self->layout, self->order, &self->batch))
        return NULL;
    Py_RETURN_NONE;
}

static void destroy_array(PyObject *capsule)
{
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");
    if (array == NULL)
        return;
    if (array->release != NULL)
        array->release(array);
    free(array);
}

PyDoc_STRVAR(take_doc,
"take()\n--\n\n"
"Return the rows since the last time as the capsule of an Arrow array; None for no rows.\n");

static PyObject *columns_take(PyObject *object, PyObject *unused)
{
    (void)unused;
    Columns *self = (Columns *)object;
    if (!is_free(self))
        return NULL;
    if (self->batch.row_count == 0)
        Py_RETURN_NONE;
    struct ArrowArray *array = malloc(sizeof *array);
    bool is_done = array != NULL;
    self->is_reading = true;
    Py_BEGIN_ALLOW_THREADS
    is_done = is_done && batch_export(&self->batch, &self->layout, array);
    batch_empty(&self->batch);
    Py_END_ALLOW_THREADS
    self->is_reading = false;
    if (!is_done) {
        free(array);
        return PyErr_NoMemory();
    }
    PyObject *capsule = PyCapsule_New(array, "arrow_array", destroy_array);
    if (capsule == NULL) {
        array->release(array);
        free(array);
    }
    return capsule;
}

PyDoc_STRVAR(stream_doc,
"stream(get_next, /)\n--\n\n"
"Make a stream of what :meth:`take` returned, which DuckDB reads as a table.\n"
"\n"
"Args:\n"
"    get_next: called without arguments from any thread; returns the capsule of the next array, None\n"
"        for the end. Each array can be read once.\n"
"\n"
"Returns:\n"
"    The capsule of an Arrow stream.\n");

static PyObject *columns_stream(PyObject *self, PyObject *get_next)
{
    return new_event_stream(self, &((Columns *)self)->layout, get_next);
}

static PyObject *columns_row_count(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((Columns *)self)->batch.row_count);
}

static PyMethodDef COLUMNS_METHODS[] = {
    {"read", columns_read, METH_VARARGS, read_doc},
    {"append", columns_append, METH_O, append_doc},
    {"take", columns_take, METH_NOARGS, take_doc},
    {"stream", columns_stream, METH_O, stream_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef COLUMNS_ATTRIBUTES[] = {
    {"row_count", columns_row_count, NULL, "Rows that were not taken yet.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot COLUMNS_SLOTS[] = {
    {Py_tp_new, columns_new},         {Py_tp_dealloc, columns_dealloc},
    {Py_tp_methods, COLUMNS_METHODS}, {Py_tp_getset, COLUMNS_ATTRIBUTES},
    {Py_tp_doc, (void *)columns_doc}, {0, NULL},
};

static PyType_Spec COLUMNS = {
    .name = "tracekit.ingest._event_parser.Columns",
    .basicsize = sizeof(Columns),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = COLUMNS_SLOTS,
};

PyDoc_STRVAR(look_doc,
"look(way, /)\n--\n\n"
"Have all texts looked at in one way from now on, for tests: the rows are the same.\n"
"\n"
"Args:\n"
"    way: 'avx2' or 'plain'.\n"
"\n"
"Returns:\n"
"    False where this machine does not have it.\n");

static PyObject *look(PyObject *module, PyObject *way)
{
    (void)module;
    const char *name = PyUnicode_AsUTF8AndSize(way, NULL);
    return name == NULL ? NULL : PyBool_FromLong(structure_use(name));
}

static PyMethodDef FUNCTIONS[] = {
    {"look", look, METH_O, look_doc},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module)
{
    if (!structure_use("avx2"))
        structure_use("plain");
    PyObject *type = PyType_FromSpec(&COLUMNS);
    int status = type == NULL ? -1 : PyModule_AddObjectRef(module, "Columns", type);
    Py_XDECREF(type);
    return status;
}

static PyModuleDef_Slot SLOTS[] = {
    {Py_mod_exec, add_type},
    {0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tracekit.ingest._event_parser",
    .m_doc = "Reads the usual events of a Chrome trace into Arrow columns.",
    .m_methods = FUNCTIONS,
    .m_slots = SLOTS,
};

PyMODINIT_FUNC PyInit__event_parser(void)
{
    return PyModuleDef_Init(&MODULE);
}
