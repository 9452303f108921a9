/* Packets of Perfetto, to the byte as tracekit/export/packet_encoder.py writes them. */
#include "export_encoder.h"

#include <string.h>

enum { NAMES, CATEGORIES, NAME_OF, CATEGORY_OF };
enum { ON_BEGIN, ON_END, ON_INSTANT };
enum { FACTS = 1, ARGS, EXTRA, EVENT_ID };

#define LOW 0x3FFF
#define MAX_VARINT 10

static size_t put_varint(char *to, uint64_t number)
{
    size_t size = 0;
    while (number > 127) {
        to[size++] = (char)(number | 128);
        number >>= 7;
    }
    to[size++] = (char)number;
    return size;
}

static size_t varint_size(uint64_t number)
{
    size_t size = 1;
    while (number >>= 7)
        size++;
    return size;
}

static void put_fixed64(char *to, uint64_t number)
{
    for (int i = 0; i < 8; i++)
        to[i] = (char)(number >> 8 * i);
}

/* Add the packet of the event in encoder->scratch. */
static bool add_event(Encoder *encoder, int64_t ts_ns)
{
    /* timestamp: 28 bits in four bytes, and the rest; sequence 1, which needs interned data; event */
    static const char middle[] = {0x50, 0x01, 0x68, 0x02, 0x5A};
    const Bytes *event = &encoder->scratch;
    uint64_t time = (uint64_t)ts_ns;
    char head[4 * MAX_VARINT], rest[4 * MAX_VARINT];
    size_t at = 0;
    rest[at++] = 0x40;
    for (int shift = 0; shift < 28; shift += 7)
        rest[at++] = (char)(time >> shift | 128);
    at += put_varint(rest + at, (uint64_t)(ts_ns >> 28));
    memcpy(rest + at, middle, sizeof middle);
    at += sizeof middle;
    at += put_varint(rest + at, event->size);
    head[0] = 0x0A;
    size_t head_size = 1 + put_varint(head + 1, at + event->size);
    Bytes *block = &encoder->block.bytes;
    return bytes_add(block, head, head_size) && bytes_add(block, rest, at)
        && bytes_add(block, event->data, event->size) && block_added(&encoder->block);
}

/* Begin an event with the fields that tell its kind and its track. */
static bool begin_event(Encoder *encoder, Track *track, size_t lane, int on)
{
    PyObject *fields = track_lane(track, lane);
    encoder->scratch.size = 0;
    PyObject *field = fields == NULL ? NULL : PyTuple_GetItem(fields, on);
    return field != NULL && bytes_add_object(&encoder->scratch, field);
}

static bool end_slices(Encoder *encoder, Track *track)
{
    for (size_t i = 0; i < encoder->ended.count; i++) {
        LaneEnd end = encoder->ended.items[i];
        if (!begin_event(encoder, track, end.lane, ON_END) || !add_event(encoder, end.end_ns))
            return false;
    }
    encoder->ended.count = 0;
    return true;
}

static bool add_field(Encoder *encoder, int known, int ask, PyObject *text)
{
    PyObject *field = known_or_asked(encoder->asked[known], encoder->asked[ask], text);
    bool is_good = field != NULL && bytes_add_object(&encoder->scratch, field);
    Py_XDECREF(field);
    return is_good;
}

static bool add_json(Encoder *encoder, int name, const Text *text)
{
    if (text->data == NULL)
        return true;
    size_t size = (size_t)text->size;
    char head[4 + 2 * MAX_VARINT] = {0x22};
    size_t at = 1 + put_varint(head + 1, 3 + varint_size(size) + size);
    head[at++] = 0x08;
    head[at++] = (char)name;
    head[at++] = 0x4A;
    at += put_varint(head + at, size);
    return bytes_add(&encoder->scratch, head, at)
        && bytes_add(&encoder->scratch, text->data, size);
}

static bool add_arrows(Encoder *encoder, PyObject *arrows)
{
    for (Py_ssize_t i = 0; i < PyList_Size(arrows); i++) {
        int64_t number = PyLong_AsLongLong(PyList_GetItem(arrows, i));
        if (number == -1 && PyErr_Occurred())
            return false;
        char field[10] = {(char)0xF9, 0x02};
        put_fixed64(field + 2, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
        if (!bytes_add(&encoder->scratch, field, sizeof field))
            return false;
    }
    return !PyErr_Occurred();
}

static bool add_about(Encoder *encoder, const SliceRow *row)
{
    if (!add_field(encoder, NAMES, NAME_OF, row->name)
        || (row->category && !add_field(encoder, CATEGORIES, CATEGORY_OF, row->category))
        || (row->arrows && !add_arrows(encoder, row->arrows))
        || !add_json(encoder, FACTS, &row->facts) || !add_json(encoder, ARGS, &row->args)
        || !add_json(encoder, EXTRA, &row->extra))
        return false;
    if (!row->has_event_id)
        return true;
    uint64_t event_id = (uint64_t)row->event_id;
    char field[5 + MAX_VARINT] = {0x22, (char)(3 + varint_size(event_id)), 0x08, EVENT_ID, 0x20};
    size_t size = 5 + put_varint(field + 5, event_id);
    return bytes_add(&encoder->scratch, field, size);
}

static bool write_slice(Encoder *encoder, Track *track, const SliceRow *row)
{
    size_t lane;
    bool is_good = encoder_place(encoder, track, row, &lane) && end_slices(encoder, track)
        && begin_event(encoder, track, lane, ON_BEGIN) && add_about(encoder, row)
        && add_event(encoder, row->start_ns);
    encoder->slice_count += is_good;
    return is_good;
}

static bool write_instant(Encoder *encoder, Track *track, const SliceRow *row)
{
    return begin_event(encoder, track, 0, ON_INSTANT) && add_about(encoder, row)
        && add_event(encoder, row->start_ns);
}

static bool write_value(Encoder *encoder, PyObject *counter, int64_t ts_ns, double value)
{
    char field[10] = {(char)0xE1, 0x02};
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_fixed64(field + 2, bits);
    encoder->scratch.size = 0;
    return bytes_add_object(&encoder->scratch, counter)
        && bytes_add(&encoder->scratch, field, sizeof field) && add_event(encoder, ts_ns);
}

static PyObject *packet_slices(PyObject *self, PyObject *args)
{
    return encoder_rows((Encoder *)self, args, write_slice);
}

static PyObject *packet_instants(PyObject *self, PyObject *args)
{
    return encoder_rows((Encoder *)self, args, write_instant);
}

static PyObject *packet_values(PyObject *self, PyObject *args)
{
    return encoder_values((Encoder *)self, args, write_value);
}

static PyObject *packet_track(PyObject *self, PyObject *args)
{
    PyObject *track = encoder_track(self, args);
    /* Its first lane is there even if no slice comes. */
    if (track != NULL && track_lane((Track *)track, 0) == NULL)
        Py_CLEAR(track);
    return track;
}

static PyObject *packet_finish(PyObject *self, PyObject *given)
{
    Encoder *encoder = (Encoder *)self;
    if (encoder->is_busy || PyObject_IsInstance(given, encoder->track_type) != 1) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "this is no track of this encoder");
        return NULL;
    }
    encoder->ended.count = 0;
    if (!lanes_close(&((Track *)given)->lanes, &encoder->ended))
        return PyErr_NoMemory();
    return end_slices(encoder, (Track *)given) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *packet_add(PyObject *self, PyObject *packet)
{
    Encoder *encoder = (Encoder *)self;
    return bytes_add_object(&encoder->block.bytes, packet) && block_added(&encoder->block)
        ? Py_NewRef(Py_None) : NULL;
}

PyMethodDef PACKET_METHODS[] = {
    {"track", packet_track, METH_VARARGS, "Return a track."},
    {"slices", packet_slices, METH_VARARGS, "Write slices."},
    {"finish", packet_finish, METH_O, "Write the ends of what is open on a track."},
    {"instants", packet_instants, METH_VARARGS, "Write marks on a track."},
    {"values", packet_values, METH_VARARGS, "Write the values of a counter."},
    {"add", packet_add, METH_O, "Gather a packet."},
    {"flush", encoder_flush, METH_NOARGS, "Hand on what has been gathered."},
    {NULL, NULL, 0, NULL},
};

PyObject *packet_encoder_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
    PyObject *write, *asked[ASKED_COUNT];
    Py_ssize_t block_bytes;
    (void)options;
    if (!PyArg_ParseTuple(args, "OnO!O!OO", &write, &block_bytes, &PyDict_Type, &asked[NAMES],
                          &PyDict_Type, &asked[CATEGORIES], &asked[NAME_OF], &asked[CATEGORY_OF]))
        return NULL;
    return encoder_make(type, write, block_bytes, asked);
}
