/* Rows of batches, in runs whose first columns are equal: what itertools.groupby() is for rows that
 * are tuples, without an object for each value. */
#ifndef TRACEKIT_ARROW_RUNS_H
#define TRACEKIT_ARROW_RUNS_H

#include "arrow_abi.h"
#include "export_block.h"

#define MAX_RUN_COLUMNS 20
#define KNOWN_TEXTS 1024

typedef struct {
    const struct ArrowArray *array;
    const char *format;
    int64_t offset;
} RunColumn;

typedef struct {
    PyObject_HEAD
    PyObject *batches; /* iterator of batches */
    PyObject *batch;   /* the one that is read, or NULL */
    int64_t row, next, row_count;
    RunColumn columns[MAX_RUN_COLUMNS];
    Py_ssize_t column_count, key_count;
    Bytes key, next_key; /* of the run, and of a row */
    bool has_run;
    PyObject *texts[KNOWN_TEXTS];
} Runs;

/* Return the runs that an object is, NULL if it is none. */
Runs *runs_of(PyObject *object);

/* Go to the next row of the run: 1, or 0 at its end, or -1 with an exception. */
int runs_step(Runs *runs);

/* Read a column of the row. What is NULL, or behind the last column, is not there. */
bool runs_is_there(const Runs *runs, Py_ssize_t column);
bool runs_number(const Runs *runs, Py_ssize_t column, int64_t *to);
bool runs_double(const Runs *runs, Py_ssize_t column, double *to);
bool runs_flag(const Runs *runs, Py_ssize_t column, bool *to);
bool runs_bytes(const Runs *runs, Py_ssize_t column, const char **data, Py_ssize_t *size);

/* Return a text as a new reference; one that comes often is made once. */
PyObject *runs_text(Runs *runs, Py_ssize_t column);

/* Return a list of numbers as a new reference. */
PyObject *runs_numbers(const Runs *runs, Py_ssize_t column);

/* Make the type of runs: Runs(batches), and next(key_count), which goes to the next run and returns
 * its first columns, or None. */
PyObject *runs_type(void);

#endif
