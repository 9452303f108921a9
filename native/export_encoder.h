/* What the encoders of exports have in common: an object that writes the slices of tracks. */
#ifndef TRACEKIT_EXPORT_ENCODER_H
#define TRACEKIT_EXPORT_ENCODER_H

#include "export_block.h"
#include "export_lanes.h"
#include "slice_row.h"

/* A track: its lanes, and of each what the encoder needs of it. */
typedef struct {
    PyObject_HEAD
    Lanes lanes;
    PyObject *new_lane; /* returns what is needed of a lane that is new */
    PyObject *of_lanes; /* list */
} Track;

#define ASKED_COUNT 4

typedef struct {
    PyObject_HEAD
    Block block;
    PyObject *asked[ASKED_COUNT]; /* dictionaries, and what is asked for that they do not hold */
    PyObject *track_type;
    Bytes scratch;
    LaneEnds ended;
    int64_t origin_ns;
    long long slice_count;
    bool is_busy;
} Encoder;

/* What an encoder does with each row. */
typedef bool (*WriteRow)(Encoder *encoder, Track *track, const SliceRow *row);

/* Call `write_row` for each row of the arguments (track, rows, skip); return how many they were. */
PyObject *encoder_rows(Encoder *encoder, PyObject *args, WriteRow write_row);

/* What an encoder does with each value of a counter. */
typedef bool (*WriteValue)(Encoder *encoder, PyObject *counter, int64_t ts_ns, double value);

/* Call `write_value` for each value of the arguments (counter, rows, skip). */
PyObject *encoder_values(Encoder *encoder, PyObject *args, WriteValue write_value);

/* Return what a dictionary holds of a text, else what `ask` returns of it: bytes, a new reference. */
PyObject *known_or_asked(PyObject *known, PyObject *ask, PyObject *text);

/* Return what is needed of a lane, borrowed; one that is new is asked for. */
PyObject *track_lane(Track *track, size_t lane);

/* Find the lane of a slice, and set encoder->ended to what is over when it begins. */
bool encoder_place(Encoder *encoder, Track *track, const SliceRow *row, size_t *lane);

/* Make a type of encoders; its name is "tracekit.export._encoders." and that of the type. */
PyObject *encoder_type(const char *name, PyMethodDef *methods, newfunc make);

/* Make the type of tracks. */
PyObject *track_type(void);

/* encoder.track(new_lane, is_flat), without any lane yet */
PyObject *encoder_track(PyObject *self, PyObject *args);
/* encoder.flush() */
PyObject *encoder_flush(PyObject *self, PyObject *unused);

/* Return a new encoder; `asked` are new references that it takes, also where it fails. */
PyObject *encoder_make(PyTypeObject *type, PyObject *write, Py_ssize_t block_bytes,
                       PyObject *const asked[ASKED_COUNT]);

extern PyMethodDef PACKET_METHODS[];
PyObject *packet_encoder_new(PyTypeObject *type, PyObject *args, PyObject *options);

#endif
