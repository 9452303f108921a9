/* Chrome's JSON, to the byte as tracekit/export/chrome_encoder.py writes it. */
#include "export_encoder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXTS, TEXT_OF };

#define NUMBER_BYTES 32

static bool add_text(Encoder *encoder, const char *text)
{
    return bytes_add(&encoder->scratch, text, strlen(text));
}

/* Add µs with three decimals, from ns. */
static bool add_us(Encoder *encoder, int64_t ns)
{
    char text[NUMBER_BYTES];
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    const char *sign = ns < 0 ? "-" : "";
    if (size % 1000)
        snprintf(text, sizeof text, "%s%" PRIu64 ".%03u", sign, size / 1000,
                 (unsigned)(size % 1000));
    else
        snprintf(text, sizeof text, "%s%" PRIu64, sign, size / 1000);
    return add_text(encoder, text);
}

static bool add_json_of(Encoder *encoder, PyObject *text)
{
    PyObject *json = known_or_asked(encoder->asked[TEXTS], encoder->asked[TEXT_OF], text);
    bool is_good = json != NULL && bytes_add_object(&encoder->scratch, json);
    Py_XDECREF(json);
    return is_good;
}

static bool add_member(Encoder *encoder, const char *key, const Text *text, const char **gap)
{
    if (text->data == NULL)
        return true;
    bool is_good = add_text(encoder, *gap) && add_text(encoder, key)
        && bytes_add(&encoder->scratch, text->data, (size_t)text->size);
    *gap = ", ";
    return is_good;
}

/* What is an event of the file has the category that it had there, or none. */
static bool add_category(Encoder *encoder, const SliceRow *row)
{
    if (row->category != NULL)
        return add_text(encoder, ", \"cat\": ") && add_json_of(encoder, row->category);
    return row->has_event_id || add_text(encoder, ", \"cat\": \"tracekit\"");
}

static bool add_about(Encoder *encoder, const SliceRow *row)
{
    const char *gap = "";
    if (!add_text(encoder, "\"name\": ") || !add_json_of(encoder, row->name)
        || !add_category(encoder, row) || !add_text(encoder, ", \"args\": {"))
        return false;
    if (row->has_event_id) {
        char text[NUMBER_BYTES];
        snprintf(text, sizeof text, "\"event_id\": %" PRId64, row->event_id);
        if (!add_text(encoder, text))
            return false;
        gap = ", ";
    }
    return add_member(encoder, "\"tracekit\": ", &row->facts, &gap)
        && add_member(encoder, "\"args\": ", &row->args, &gap)
        && add_member(encoder, "\"extra\": ", &row->extra, &gap) && add_text(encoder, "}");
}

/* Add what is in encoder->scratch as the next event. */
static bool add_event(Encoder *encoder)
{
    Bytes *block = &encoder->block.bytes;
    return bytes_add(block, ",\n", 2)
        && bytes_add(block, encoder->scratch.data, encoder->scratch.size)
        && block_added(&encoder->block);
}

static bool add_arrows(Encoder *encoder, PyObject *arrows, PyObject *place, int64_t at_ns)
{
    for (Py_ssize_t i = 0; i < PyList_Size(arrows); i++) {
        int64_t number = PyLong_AsLongLong(PyList_GetItem(arrows, i));
        if (number == -1 && PyErr_Occurred())
            return false;
        char text[NUMBER_BYTES];
        uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
        snprintf(text, sizeof text, "%" PRIu64 ", ", size);
        encoder->scratch.size = 0;
        if (!add_text(encoder, "{\"ph\": ")
            || !add_text(encoder, number > 0 ? "\"s\"" : "\"f\", \"bp\": \"e\"")
            || !add_text(encoder, ", \"id\": ") || !add_text(encoder, text)
            || !bytes_add_object(&encoder->scratch, place)
            || !add_text(encoder, ", \"cat\": \"tracekit\", \"name\": \"arrow\", \"ts\": ")
            || !add_us(encoder, at_ns) || !add_text(encoder, "}") || !add_event(encoder))
            return false;
    }
    return !PyErr_Occurred();
}

static bool write_slice(Encoder *encoder, Track *track, const SliceRow *row)
{
    size_t lane;
    PyObject *place
        = encoder_place(encoder, track, row, &lane) ? Py_XNewRef(track_lane(track, lane)) : NULL;
    int64_t at_ns = row->start_ns - encoder->origin_ns;
    encoder->scratch.size = 0;
    bool is_good = place != NULL && add_text(encoder, "{\"ph\": \"X\", ")
        && bytes_add_object(&encoder->scratch, place) && add_text(encoder, ", \"ts\": ")
        && add_us(encoder, at_ns) && add_text(encoder, ", \"dur\": ")
        && add_us(encoder, row->dur_ns) && add_text(encoder, ", ") && add_about(encoder, row)
        && add_text(encoder, "}") && add_event(encoder)
        && (row->arrows == NULL || add_arrows(encoder, row->arrows, place, at_ns));
    Py_XDECREF(place);
    encoder->slice_count += is_good;
    return is_good;
}

static bool write_instant(Encoder *encoder, Track *track, const SliceRow *row)
{
    PyObject *place = Py_XNewRef(track_lane(track, 0));
    encoder->scratch.size = 0;
    bool is_good = place != NULL && add_text(encoder, "{\"ph\": \"i\", \"s\": \"t\", ")
        && bytes_add_object(&encoder->scratch, place) && add_text(encoder, ", \"ts\": ")
        && add_us(encoder, row->start_ns - encoder->origin_ns) && add_text(encoder, ", ")
        && add_about(encoder, row) && add_text(encoder, "}") && add_event(encoder);
    Py_XDECREF(place);
    return is_good;
}

static bool write_value(Encoder *encoder, PyObject *counter, int64_t ts_ns, double value)
{
    char *number = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    encoder->scratch.size = 0;
    bool is_good = number != NULL && bytes_add_object(&encoder->scratch, counter)
        && add_text(encoder, "\"ts\": ") && add_us(encoder, ts_ns - encoder->origin_ns)
        && add_text(encoder, ", \"args\": {\"value\": ") && add_text(encoder, number)
        && add_text(encoder, "}}") && add_event(encoder);
    PyMem_Free(number);
    return is_good;
}

static PyObject *chrome_slices(PyObject *self, PyObject *args)
{
    return encoder_rows((Encoder *)self, args, write_slice);
}

static PyObject *chrome_instants(PyObject *self, PyObject *args)
{
    return encoder_rows((Encoder *)self, args, write_instant);
}

static PyObject *chrome_values(PyObject *self, PyObject *args)
{
    return encoder_values((Encoder *)self, args, write_value);
}

static PyObject *chrome_finish(PyObject *self, PyObject *track)
{
    (void)self, (void)track;
    return Py_NewRef(Py_None);
}

static PyObject *chrome_add(PyObject *self, PyObject *args)
{
    Encoder *encoder = (Encoder *)self;
    PyObject *event, *gap = NULL;
    if (!PyArg_ParseTuple(args, "S|S", &event, &gap))
        return NULL;
    Bytes *block = &encoder->block.bytes;
    bool is_good = gap == NULL ? bytes_add(block, ",\n", 2) : bytes_add_object(block, gap);
    return is_good && bytes_add_object(block, event) && block_added(&encoder->block)
        ? Py_NewRef(Py_None) : NULL;
}

PyMethodDef CHROME_METHODS[] = {
    {"track", encoder_track, METH_VARARGS, "Return a track."},
    {"slices", chrome_slices, METH_VARARGS, "Write slices, and the ends of arrows at them."},
    {"finish", chrome_finish, METH_O, "Nothing is left open."},
    {"instants", chrome_instants, METH_VARARGS, "Write marks on a track."},
    {"values", chrome_values, METH_VARARGS, "Write the values of a counter."},
    {"add", chrome_add, METH_VARARGS, "Gather an event."},
    {"flush", encoder_flush, METH_NOARGS, "Hand on what has been gathered."},
    {NULL, NULL, 0, NULL},
};

PyObject *chrome_encoder_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
    PyObject *write, *asked[ASKED_COUNT] = {NULL};
    Py_ssize_t block_bytes;
    long long origin_ns;
    (void)options;
    if (!PyArg_ParseTuple(args, "OnLO!O", &write, &block_bytes, &origin_ns, &PyDict_Type,
                          &asked[TEXTS], &asked[TEXT_OF]))
        return NULL;
    PyObject *encoder = encoder_make(type, write, block_bytes, asked);
    if (encoder != NULL)
        ((Encoder *)encoder)->origin_ns = origin_ns;
    return encoder;
}
