#include "slice_row.h"

#include <string.h>

enum { START, DUR, NAME, CATEGORY, EVENT_ID, ARGS, EXTRA, FACTS, ARROWS, IS_INNER, COLUMNS };

/* Numbers of so many digits may be beyond 64 bits: tracekit/export/long_numbers.py says why. */
#define LONG_DIGITS 19

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Whether so many digits follow one another: of each such stretch one digit is looked at. */
static bool has_long_number(const char *data, Py_ssize_t size)
{
    for (Py_ssize_t end = LONG_DIGITS - 1; end < size; end += LONG_DIGITS) {
        if (!is_digit(data[end]))
            continue;
        Py_ssize_t first = end, last = end;
        while (first > 0 && is_digit(data[first - 1]))
            first--;
        while (last + 1 < size && is_digit(data[last + 1]))
            last++;
        if (last - first + 1 >= LONG_DIGITS)
            return true;
        end = last;
    }
    return false;
}

/* Make a JSON text of JSON that has long numbers. */
static bool quote_long_numbers(Text *text)
{
    static const char hex[] = "0123456789abcdef";
    if (text->data == NULL || !has_long_number(text->data, text->size))
        return true;
    Bytes quoted = {0};
    bool is_good = bytes_add(&quoted, "\"", 1);
    for (Py_ssize_t i = 0; is_good && i < text->size; i++) {
        char c = text->data[i];
        char escape[] = {'\\', 'u', '0', '0', hex[c >> 4 & 1], hex[c & 15]};
        const char *found = c < ' ' && c >= 0 ? strchr("\bb\ff\nn\rr\tt", c) : NULL;
        if (c == '"' || c == '\\')
            is_good = bytes_add(&quoted, "\\", 1) && bytes_add(&quoted, &c, 1);
        else if (c >= ' ' || c < 0)
            is_good = bytes_add(&quoted, &c, 1);
        else if (c != '\0' && found != NULL)
            is_good = bytes_add(&quoted, "\\", 1) && bytes_add(&quoted, found + 1, 1);
        else
            is_good = bytes_add(&quoted, escape, sizeof escape);
    }
    is_good = is_good && bytes_add(&quoted, "\"", 1);
    PyObject *owner
        = is_good ? PyBytes_FromStringAndSize(quoted.data, (Py_ssize_t)quoted.size) : NULL;
    bytes_free(&quoted);
    if (owner == NULL)
        return false;
    Py_XDECREF(text->owner);
    text->owner = owner;
    return PyBytes_AsStringAndSize(owner, (char **)&text->data, &text->size) == 0;
}

void slice_row_clear(SliceRow *row)
{
    Py_CLEAR(row->name);
    Py_CLEAR(row->category);
    Py_CLEAR(row->arrows);
    Py_CLEAR(row->args.owner);
    Py_CLEAR(row->extra.owner);
    Py_CLEAR(row->facts.owner);
}

/* Finish a row of which all has been read that could be; on failure, an exception is set. */
static bool is_taken(SliceRow *row, bool is_good)
{
    if (is_good && quote_long_numbers(&row->args) && quote_long_numbers(&row->extra))
        return true;
    slice_row_clear(row);
    return false;
}

/* Tuples */

static bool take_text(PyObject *object, Text *to)
{
    if (object == Py_None)
        return true;
    to->data = PyUnicode_AsUTF8AndSize(object, &to->size);
    if (to->data != NULL)
        return true;
    /* A lone surrogate, which no UTF-8 has, becomes a question mark. */
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        return false;
    PyErr_Clear();
    to->owner = PyUnicode_AsEncodedString(object, "utf-8", "replace");
    return to->owner != NULL
        && PyBytes_AsStringAndSize(to->owner, (char **)&to->data, &to->size) == 0;
}

static bool take_number(PyObject *object, int64_t *to)
{
    *to = PyLong_AsLongLong(object);
    return *to != -1 || PyErr_Occurred() == NULL;
}

static PyObject *unless_none(PyObject *object)
{
    return object == Py_None ? NULL : Py_NewRef(object);
}

bool slice_row_of_tuple(PyObject *row, Py_ssize_t skip, SliceRow *to)
{
    memset(to, 0, sizeof *to);
    Py_ssize_t count = PyTuple_Size(row);
    if (count < 0)
        return false;
    if (count < skip + 3 || count > skip + COLUMNS) {
        PyErr_SetString(PyExc_ValueError, "a row has 3 to 10 columns of a slice");
        return false;
    }
    PyObject *columns[COLUMNS];
    for (Py_ssize_t i = 0; i < COLUMNS; i++)
        columns[i] = skip + i < count ? PyTuple_GetItem(row, skip + i) : Py_None;
    if (!take_number(columns[START], &to->start_ns) || !take_number(columns[DUR], &to->dur_ns))
        return false;
    to->has_event_id = columns[EVENT_ID] != Py_None;
    if (to->has_event_id && !take_number(columns[EVENT_ID], &to->event_id))
        return false;
    to->name = Py_NewRef(columns[NAME]);
    to->category = unless_none(columns[CATEGORY]);
    to->arrows = unless_none(columns[ARROWS]);
    to->is_inner = columns[IS_INNER] == Py_True;
    return is_taken(to, take_text(columns[ARGS], &to->args) && take_text(columns[EXTRA], &to->extra)
                            && take_text(columns[FACTS], &to->facts));
}

bool value_of_tuple(PyObject *row, Py_ssize_t skip, int64_t *ts_ns, double *value)
{
    PyObject *at = PyTuple_GetItem(row, skip);
    PyObject *number = at == NULL ? NULL : PyTuple_GetItem(row, skip + 1);
    if (number == NULL)
        return false;
    *value = PyFloat_AsDouble(number);
    return !PyErr_Occurred() && take_number(at, ts_ns);
}

/* Runs */

static bool text_of_runs(const Runs *runs, Py_ssize_t column, Text *to)
{
    return !runs_is_there(runs, column) || runs_bytes(runs, column, &to->data, &to->size);
}

bool slice_row_of_runs(Runs *runs, Py_ssize_t skip, SliceRow *to)
{
    memset(to, 0, sizeof *to);
    for (Py_ssize_t at = START; at <= NAME; at++)
        if (!runs_is_there(runs, skip + at)) {
            PyErr_SetString(PyExc_ValueError, "a slice lacks its start, its duration or its name");
            return false;
        }
    to->has_event_id = runs_is_there(runs, skip + EVENT_ID);
    bool has_category = runs_is_there(runs, skip + CATEGORY);
    bool has_arrows = runs_is_there(runs, skip + ARROWS);
    return is_taken(
        to,
        runs_number(runs, skip + START, &to->start_ns) && runs_number(runs, skip + DUR, &to->dur_ns)
            && (!to->has_event_id || runs_number(runs, skip + EVENT_ID, &to->event_id))
            && (to->name = runs_text(runs, skip + NAME)) != NULL
            && (!has_category || (to->category = runs_text(runs, skip + CATEGORY)) != NULL)
            && (!has_arrows || (to->arrows = runs_numbers(runs, skip + ARROWS)) != NULL)
            && (!runs_is_there(runs, skip + IS_INNER)
                || runs_flag(runs, skip + IS_INNER, &to->is_inner))
            && text_of_runs(runs, skip + ARGS, &to->args)
            && text_of_runs(runs, skip + EXTRA, &to->extra)
            && text_of_runs(runs, skip + FACTS, &to->facts));
}

bool value_of_runs(Runs *runs, Py_ssize_t skip, int64_t *ts_ns, double *value)
{
    if (runs_is_there(runs, skip) && runs_is_there(runs, skip + 1))
        return runs_number(runs, skip, ts_ns) && runs_double(runs, skip + 1, value);
    PyErr_SetString(PyExc_ValueError, "a value lacks its time or its number");
    return false;
}
