#include "export_encoder.h"

#include "arrow_batches.h"

#include <stdlib.h>
#include <string.h>

PyObject *track_lane(Track *track, size_t lane)
{
    while ((size_t)PyList_Size(track->of_lanes) <= lane) {
        PyObject *found = PyObject_CallFunction(track->new_lane, "n", PyList_Size(track->of_lanes));
        int status = found == NULL ? -1 : PyList_Append(track->of_lanes, found);
        Py_XDECREF(found);
        if (status < 0)
            return NULL;
    }
    return PyList_GetItem(track->of_lanes, (Py_ssize_t)lane);
}

bool encoder_place(Encoder *encoder, Track *track, const SliceRow *row, size_t *lane)
{
    encoder->ended.count = 0;
    int64_t end_ns;
    if (__builtin_add_overflow(row->start_ns, row->dur_ns, &end_ns)) {
        PyErr_SetString(PyExc_OverflowError, "a slice ends beyond 64 bits");
        return false;
    }
    if (lanes_place(&track->lanes, row->start_ns, end_ns, row->is_inner, &encoder->ended, lane))
        return true;
    if (track->lanes.is_out_of_order)
        PyErr_SetString(PyExc_ValueError, "the slices of a track come by their starts");
    else
        PyErr_NoMemory();
    return false;
}

/* Whether rows can be written now, and are given as they have to be. */
static bool may_write(const Encoder *encoder, Py_ssize_t skip)
{
    if (!encoder->is_busy && skip >= 0)
        return true;
    PyErr_SetString(PyExc_ValueError, "rows cannot be written while others are");
    return false;
}

/* Call `take` for each row, of a tuple or else of runs; return how many there were, or -1. */
static long long for_each(Encoder *encoder, PyObject *rows, bool (*take)(void *, PyObject *, Runs *),
                          void *to)
{
    Runs *runs = runs_of(rows);
    PyObject *iterator = runs == NULL ? PyObject_GetIter(rows) : Py_NewRef(rows);
    if (iterator == NULL)
        return -1;
    encoder->is_busy = true;
    long long count = 0;
    bool is_good = true;
    PyObject *row;
    if (runs != NULL) {
        int status;
        for (; is_good && (status = runs_step(runs)) != 0; count++)
            is_good = status == 1 && take(to, NULL, runs);
    } else {
        for (; is_good && (row = PyIter_Next(iterator)) != NULL; count++) {
            is_good = take(to, row, NULL);
            Py_DECREF(row);
        }
    }
    encoder->is_busy = false;
    Py_DECREF(iterator);
    return !is_good || PyErr_Occurred() ? -1 : count;
}

typedef struct {
    Encoder *encoder;
    Track *track;
    PyObject *counter;
    Py_ssize_t skip;
    WriteRow write_row;
    WriteValue write_value;
} Writing;

static bool take_row(void *given, PyObject *tuple, Runs *runs)
{
    Writing *writing = given;
    SliceRow row;
    if (!(runs == NULL ? slice_row_of_tuple(tuple, writing->skip, &row)
                       : slice_row_of_runs(runs, writing->skip, &row)))
        return false;
    bool is_good = writing->write_row(writing->encoder, writing->track, &row);
    slice_row_clear(&row);
    return is_good;
}

static bool take_value(void *given, PyObject *tuple, Runs *runs)
{
    Writing *writing = given;
    int64_t ts_ns;
    double value;
    return (runs == NULL ? value_of_tuple(tuple, writing->skip, &ts_ns, &value)
                         : value_of_runs(runs, writing->skip, &ts_ns, &value))
        && writing->write_value(writing->encoder, writing->counter, ts_ns, value);
}

PyObject *encoder_rows(Encoder *encoder, PyObject *args, WriteRow write_row)
{
    PyObject *track, *rows;
    Writing writing = {.encoder = encoder, .write_row = write_row};
    if (!PyArg_ParseTuple(args, "OOn", &track, &rows, &writing.skip))
        return NULL;
    writing.track = (Track *)track;
    if (PyObject_IsInstance(track, encoder->track_type) != 1) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "this is no track of this encoder");
        return NULL;
    }
    long long count
        = may_write(encoder, writing.skip) ? for_each(encoder, rows, take_row, &writing) : -1;
    return count < 0 ? NULL : PyLong_FromLongLong(count);
}

PyObject *encoder_values(Encoder *encoder, PyObject *args, WriteValue write_value)
{
    PyObject *rows;
    Writing writing = {.encoder = encoder, .write_value = write_value};
    if (!PyArg_ParseTuple(args, "SOn", &writing.counter, &rows, &writing.skip)
        || !may_write(encoder, writing.skip)
        || for_each(encoder, rows, take_value, &writing) < 0)
        return NULL;
    return Py_NewRef(Py_None);
}

PyObject *known_or_asked(PyObject *known, PyObject *ask, PyObject *text)
{
    PyObject *found = PyDict_GetItemWithError(known, text);
    if (found != NULL)
        return Py_NewRef(found);
    return PyErr_Occurred() ? NULL : PyObject_CallFunctionObjArgs(ask, text, NULL);
}

PyObject *encoder_track(PyObject *self, PyObject *args)
{
    PyObject *new_lane;
    int is_flat;
    if (!PyArg_ParseTuple(args, "Op", &new_lane, &is_flat))
        return NULL;
    PyTypeObject *type = (PyTypeObject *)((Encoder *)self)->track_type;
    Track *track = (Track *)PyType_GenericAlloc(type, 0);
    if (track == NULL)
        return NULL;
    lanes_begin(&track->lanes, is_flat);
    track->new_lane = Py_NewRef(new_lane);
    track->of_lanes = PyList_New(0);
    if (track->of_lanes == NULL)
        Py_CLEAR(track);
    return (PyObject *)track;
}

PyObject *encoder_flush(PyObject *self, PyObject *unused)
{
    (void)unused;
    return block_flush(&((Encoder *)self)->block) ? Py_NewRef(Py_None) : NULL;
}

PyObject *encoder_make(PyTypeObject *type, PyObject *write, Py_ssize_t block_bytes,
                       PyObject *const asked[ASKED_COUNT])
{
    Encoder *encoder = (Encoder *)PyType_GenericAlloc(type, 0);
    if (encoder == NULL)
        return NULL;
    encoder->block.limit = (size_t)block_bytes;
    encoder->block.write = Py_NewRef(write);
    for (int i = 0; i < ASKED_COUNT; i++)
        encoder->asked[i] = Py_XNewRef(asked[i]);
    encoder->track_type = track_type();
    if (encoder->track_type == NULL)
        Py_CLEAR(encoder);
    return (PyObject *)encoder;
}

/* Types */

static int track_traverse(PyObject *self, visitproc visit, void *arg)
{
    Track *track = (Track *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(track->new_lane);
    Py_VISIT(track->of_lanes);
    return 0;
}

static int track_forget(PyObject *self)
{
    Track *track = (Track *)self;
    Py_CLEAR(track->new_lane);
    return 0;
}

static void track_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Track *track = (Track *)self;
    PyObject_GC_UnTrack(self);
    track_forget(self);
    Py_CLEAR(track->of_lanes);
    lanes_clear(&track->lanes);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

PyObject *track_type(void)
{
    static PyType_Slot slots[] = {
        {Py_tp_dealloc, track_dealloc}, {Py_tp_traverse, track_traverse},
        {Py_tp_clear, track_forget},    {0, NULL},
    };
    static PyType_Spec spec = {
        .name = "tracekit.export._encoders.Track",
        .basicsize = sizeof(Track),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    return PyType_FromSpec(&spec);
}

static int encoder_traverse(PyObject *self, visitproc visit, void *arg)
{
    Encoder *encoder = (Encoder *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(encoder->block.write);
    Py_VISIT(encoder->track_type);
    for (int i = 0; i < ASKED_COUNT; i++)
        Py_VISIT(encoder->asked[i]);
    return 0;
}

/* Cycles lead through what is asked; the rest is needed as long as the encoder is there. */
static int encoder_forget(PyObject *self)
{
    Encoder *encoder = (Encoder *)self;
    for (int i = 0; i < ASKED_COUNT; i++)
        Py_CLEAR(encoder->asked[i]);
    return 0;
}

static void encoder_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Encoder *encoder = (Encoder *)self;
    PyObject_GC_UnTrack(self);
    encoder_forget(self);
    Py_CLEAR(encoder->block.write);
    Py_CLEAR(encoder->track_type);
    free(encoder->block.bytes.data);
    free(encoder->scratch.data);
    free(encoder->ended.items);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *get_slice_count(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(((Encoder *)self)->slice_count);
}

PyObject *encoder_type(const char *name, PyMethodDef *methods, newfunc make)
{
    static PyGetSetDef attributes[] = {
        {"slice_count", get_slice_count, NULL, "Slices written so far.", NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    PyType_Slot slots[] = {
        {Py_tp_new, make},           {Py_tp_dealloc, encoder_dealloc},
        {Py_tp_methods, methods},    {Py_tp_traverse, encoder_traverse},
        {Py_tp_getset, attributes},  {Py_tp_clear, encoder_forget},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = name,
        .basicsize = sizeof(Encoder),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    return PyType_FromSpec(&spec);
}

/* The module */

static int add_types(PyObject *module)
{
    PyObject *batches = batches_type(), *runs = runs_type();
    PyObject *packets = encoder_type("tracekit.export._encoders.PacketEncoder", PACKET_METHODS,
                                     packet_encoder_new);
    int status = -1;
    if (batches != NULL && runs != NULL && packets != NULL
        && PyModule_AddObjectRef(module, "Batches", batches) == 0
        && PyModule_AddObjectRef(module, "Runs", runs) == 0)
        status = PyModule_AddObjectRef(module, "PacketEncoder", packets);
    Py_XDECREF(batches);
    Py_XDECREF(runs);
    Py_XDECREF(packets);
    return status;
}

static PyModuleDef_Slot SLOTS[] = {
    {Py_mod_exec, add_types},
    {0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tracekit.export._encoders",
    .m_doc = "Writes the slices of exports, as tracekit.export.packet_encoder does.",
    .m_slots = SLOTS,
};

PyMODINIT_FUNC PyInit__encoders(void)
{
    return PyModuleDef_Init(&MODULE);
}
