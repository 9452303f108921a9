/* The rows that exports are made of: tuples of Python, or rows of runs. */
#ifndef TRACEKIT_SLICE_ROW_H
#define TRACEKIT_SLICE_ROW_H

#include "arrow_runs.h"

/* A text of a row: its bytes, and what keeps them. */
typedef struct {
    const char *data;
    Py_ssize_t size;
    PyObject *owner;
} Text;

/* A row as tracekit/export/scene.py has it; NULL stands for None. */
typedef struct {
    int64_t start_ns, dur_ns, event_id;
    bool has_event_id, is_inner;
    PyObject *name, *category, *arrows;
    Text args, extra, facts;
} SliceRow;

/* Take what lies behind `skip` columns of a row, or of the row that `runs` are at. */
bool slice_row_of_tuple(PyObject *row, Py_ssize_t skip, SliceRow *to);
bool slice_row_of_runs(Runs *runs, Py_ssize_t skip, SliceRow *to);
void slice_row_clear(SliceRow *row);

/* Take the time and the number of a value of a counter likewise. */
bool value_of_tuple(PyObject *row, Py_ssize_t skip, int64_t *ts_ns, double *value);
bool value_of_runs(Runs *runs, Py_ssize_t skip, int64_t *ts_ns, double *value);

#endif
