#include "export_encoder.h"

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

PyObject *encoder_rows(Encoder *encoder, PyObject *args, WriteRow write_row)
{
    PyObject *given, *rows;
    Py_ssize_t skip;
    if (!PyArg_ParseTuple(args, "OOn", &given, &rows, &skip))
        return NULL;
    Track *track = (Track *)given;
    if (encoder->track_type != NULL && write_row != NULL
        && PyObject_IsInstance(given, encoder->track_type) != 1) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "this is no track of this encoder");
        return NULL;
    }
    if (encoder->is_busy || skip < 0) {
        PyErr_SetString(PyExc_ValueError, "rows cannot be written while others are");
        return NULL;
    }
    PyObject *iterator = PyObject_GetIter(rows);
    if (iterator == NULL)
        return NULL;
    encoder->is_busy = true;
    long long count = 0;
    PyObject *row;
    bool is_good = true;
    while (is_good && (row = PyIter_Next(iterator)) != NULL) {
        is_good = write_row(encoder, track, row, skip);
        Py_DECREF(row);
        count++;
    }
    encoder->is_busy = false;
    Py_DECREF(iterator);
    return !is_good || PyErr_Occurred() ? NULL : PyLong_FromLongLong(count);
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
    PyObject *packets = encoder_type("tracekit.export._encoders.PacketEncoder", PACKET_METHODS,
                                     packet_encoder_new);
    PyObject *chrome = encoder_type("tracekit.export._encoders.ChromeEncoder", CHROME_METHODS,
                                    chrome_encoder_new);
    int status = -1;
    if (packets != NULL && chrome != NULL
        && PyModule_AddObjectRef(module, "PacketEncoder", packets) == 0)
        status = PyModule_AddObjectRef(module, "ChromeEncoder", chrome);
    Py_XDECREF(packets);
    Py_XDECREF(chrome);
    return status;
}

static PyModuleDef_Slot SLOTS[] = {
    {Py_mod_exec, add_types},
    {0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tracekit.export._encoders",
    .m_doc = "Writes the slices of exports, as tracekit.export.packet_encoder and chrome_encoder do.",
    .m_slots = SLOTS,
};

PyMODINIT_FUNC PyInit__encoders(void)
{
    return PyModuleDef_Init(&MODULE);
}
