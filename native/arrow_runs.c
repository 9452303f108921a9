#include "arrow_runs.h"

#include "arrow_batches.h"

#include <string.h>

/* Columns */

static int64_t place_of(const RunColumn *column, int64_t row)
{
    return column->offset + row;
}

bool runs_is_there(const Runs *runs, Py_ssize_t at)
{
    if (at >= runs->column_count)
        return false;
    const RunColumn *column = &runs->columns[at];
    if (column->format[0] == 'n')
        return false;
    const uint8_t *valid = column->array->buffers[0];
    int64_t place = place_of(column, runs->row);
    return valid == NULL || valid[place >> 3] >> (place & 7) & 1;
}

static bool is_of(const RunColumn *column, const char *format)
{
    if (strcmp(column->format, format) == 0)
        return true;
    PyErr_Format(PyExc_TypeError, "a column has the format %s and not %s", column->format, format);
    return false;
}

bool runs_number(const Runs *runs, Py_ssize_t at, int64_t *to)
{
    const RunColumn *column = &runs->columns[at];
    int64_t place = place_of(column, runs->row);
    if (column->format[0] == 'i' && column->format[1] == '\0') {
        *to = ((const int32_t *)column->array->buffers[1])[place];
        return true;
    }
    if (!is_of(column, "l"))
        return false;
    *to = ((const int64_t *)column->array->buffers[1])[place];
    return true;
}

bool runs_double(const Runs *runs, Py_ssize_t at, double *to)
{
    const RunColumn *column = &runs->columns[at];
    if (!is_of(column, "g"))
        return false;
    *to = ((const double *)column->array->buffers[1])[place_of(column, runs->row)];
    return true;
}

bool runs_flag(const Runs *runs, Py_ssize_t at, bool *to)
{
    const RunColumn *column = &runs->columns[at];
    if (!is_of(column, "b"))
        return false;
    int64_t place = place_of(column, runs->row);
    *to = ((const uint8_t *)column->array->buffers[1])[place >> 3] >> (place & 7) & 1;
    return true;
}

bool runs_bytes(const Runs *runs, Py_ssize_t at, const char **data, Py_ssize_t *size)
{
    const RunColumn *column = &runs->columns[at];
    int64_t place = place_of(column, runs->row), from, to;
    if (column->format[0] == 'U' && column->format[1] == '\0') {
        const int64_t *ends = column->array->buffers[1];
        from = ends[place], to = ends[place + 1];
    } else if (is_of(column, "u")) {
        const int32_t *ends = column->array->buffers[1];
        from = ends[place], to = ends[place + 1];
    } else {
        return false;
    }
    /* There may be no buffer where all texts are empty. */
    const char *texts = column->array->buffers[2];
    *data = texts == NULL ? "" : texts + from;
    *size = (Py_ssize_t)(to - from);
    return true;
}

static size_t hash_of(const char *data, size_t size)
{
    uint64_t hash = size;
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
        hash ^= hash >> 29;
    }
    for (; size > 0; data++, size--)
        hash = (hash ^ (unsigned char)*data) * 0x9E3779B97F4A7C15ULL;
    return (size_t)(hash >> 40);
}

PyObject *runs_text(Runs *runs, Py_ssize_t at)
{
    const char *data;
    Py_ssize_t size;
    if (!runs_bytes(runs, at, &data, &size))
        return NULL;
    PyObject **known = &runs->texts[hash_of(data, (size_t)size) % KNOWN_TEXTS];
    if (*known != NULL) {
        Py_ssize_t known_size;
        const char *known_data = PyUnicode_AsUTF8AndSize(*known, &known_size);
        if (known_data == NULL)
            return NULL;
        if (known_size == size && memcmp(known_data, data, (size_t)size) == 0)
            return Py_NewRef(*known);
    }
    PyObject *text = PyUnicode_DecodeUTF8(data, size, NULL);
    if (text == NULL)
        return NULL;
    Py_XDECREF(*known);
    *known = Py_NewRef(text);
    return text;
}

PyObject *runs_numbers(const Runs *runs, Py_ssize_t at)
{
    const RunColumn *column = &runs->columns[at];
    const struct ArrowArray *of_numbers
        = column->array->n_children == 1 ? column->array->children[0] : NULL;
    if (!is_of(column, "+l"))
        return NULL;
    int64_t place = place_of(column, runs->row);
    const int32_t *ends = column->array->buffers[1];
    PyObject *list = PyList_New(ends[place + 1] - ends[place]);
    for (int32_t i = ends[place]; list != NULL && i < ends[place + 1]; i++) {
        const int64_t *numbers = of_numbers->buffers[1];
        PyObject *number = PyLong_FromLongLong(numbers[of_numbers->offset + i]);
        if (number == NULL || PyList_SetItem(list, i - ends[place], number) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *value_of(Runs *runs, Py_ssize_t at)
{
    int64_t number;
    bool flag;
    if (!runs_is_there(runs, at))
        return Py_NewRef(Py_None);
    switch (runs->columns[at].format[0]) {
    case 'b':
        return runs_flag(runs, at, &flag) ? PyBool_FromLong(flag) : NULL;
    case 'u':
    case 'U':
        return runs_text(runs, at);
    default:
        return runs_number(runs, at, &number) ? PyLong_FromLongLong(number) : NULL;
    }
}

/* Put the key of the row into `to`, so that equal keys have equal bytes. */
static bool key_of(Runs *runs, Bytes *to)
{
    to->size = 0;
    for (Py_ssize_t at = 0; at < runs->key_count; at++) {
        const char *data = "";
        Py_ssize_t size = 0;
        int64_t number = 0;
        bool flag = false, is_there = runs_is_there(runs, at);
        if (is_there) {
            char format = runs->columns[at].format[0];
            bool is_good = format == 'u' || format == 'U' ? runs_bytes(runs, at, &data, &size)
                : format == 'b'                           ? runs_flag(runs, at, &flag)
                                                          : runs_number(runs, at, &number);
            if (!is_good)
                return false;
            number += flag + size;
        }
        if (!bytes_add(to, is_there ? "+" : "-", 1)
            || !bytes_add(to, (const char *)&number, sizeof number)
            || !bytes_add(to, data, (size_t)size))
            return false;
    }
    return true;
}

/* Runs */

/* Take the next batch that has rows: 1, or 0 at the end, or -1 with an exception. */
static int next_batch(Runs *runs)
{
    for (;;) {
        Py_CLEAR(runs->batch);
        runs->next = runs->row_count = 0;
        runs->batch = PyIter_Next(runs->batches);
        if (runs->batch == NULL)
            return PyErr_Occurred() ? -1 : 0;
        const struct ArrowArray *array = batch_array(runs->batch);
        const struct ArrowSchema *schema = array == NULL ? NULL : batch_schema(runs->batch);
        if (schema == NULL)
            return -1;
        if (array->n_children > MAX_RUN_COLUMNS) {
            PyErr_SetString(PyExc_ValueError, "a row has too many columns");
            return -1;
        }
        runs->column_count = (Py_ssize_t)array->n_children;
        for (int64_t i = 0; i < array->n_children; i++)
            runs->columns[i] = (RunColumn){
                .array = array->children[i],
                .format = schema->children[i]->format,
                .offset = array->offset + array->children[i]->offset,
            };
        runs->row_count = array->length;
        if (array->length > 0)
            return 1;
    }
}

/* Go to the next row, whatever its run is. */
static int next_row(Runs *runs)
{
    int status = runs->next < runs->row_count ? 1 : next_batch(runs);
    runs->row = runs->next;
    return status;
}

int runs_step(Runs *runs)
{
    if (!runs->has_run)
        return 0;
    int status = next_row(runs);
    if (status != 1)
        return status;
    if (!key_of(runs, &runs->next_key))
        return -1;
    if (runs->key.size != runs->next_key.size
        || memcmp(runs->key.data, runs->next_key.data, runs->key.size) != 0)
        return 0;
    runs->next++;
    return 1;
}

static PyObject *runs_next_run(PyObject *self, PyObject *args)
{
    Runs *runs = (Runs *)self;
    Py_ssize_t key_count;
    if (!PyArg_ParseTuple(args, "n", &key_count))
        return NULL;
    int status;
    while ((status = runs_step(runs)) == 1)
        ;
    runs->has_run = false;
    if (status == 0)
        status = next_row(runs);
    if (status != 1)
        return status == 0 ? Py_NewRef(Py_None) : NULL;
    if (key_count < 1 || key_count > runs->column_count) {
        PyErr_SetString(PyExc_ValueError, "a row has no so many columns");
        return NULL;
    }
    runs->key_count = key_count;
    PyObject *key = key_of(runs, &runs->key) ? PyTuple_New(key_count) : NULL;
    for (Py_ssize_t at = 0; key != NULL && at < key_count; at++) {
        PyObject *value = value_of(runs, at);
        if (value == NULL || PyTuple_SetItem(key, at, value) < 0)
            Py_CLEAR(key);
    }
    runs->has_run = key != NULL;
    return key;
}

static PyObject *runs_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
    PyObject *batches;
    (void)options;
    if (!PyArg_ParseTuple(args, "O", &batches))
        return NULL;
    PyObject *iterator = PyObject_GetIter(batches);
    if (iterator == NULL)
        return NULL;
    Runs *runs = (Runs *)PyType_GenericAlloc(type, 0);
    if (runs == NULL)
        Py_DECREF(iterator);
    else
        runs->batches = iterator;
    return (PyObject *)runs;
}

static int runs_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Runs *)self)->batches);
    return 0;
}

static void runs_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Runs *runs = (Runs *)self;
    PyObject_GC_UnTrack(self);
    Py_CLEAR(runs->batch);
    Py_CLEAR(runs->batches);
    for (size_t i = 0; i < KNOWN_TEXTS; i++)
        Py_CLEAR(runs->texts[i]);
    bytes_free(&runs->key);
    bytes_free(&runs->next_key);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

Runs *runs_of(PyObject *object)
{
    return PyType_GetSlot(Py_TYPE(object), Py_tp_dealloc) == (void *)runs_dealloc ? (Runs *)object
                                                                                  : NULL;
}

PyObject *runs_type(void)
{
    static PyMethodDef methods[] = {
        {"next", runs_next_run, METH_VARARGS, "Go to the next run; return its first columns."},
        {NULL, NULL, 0, NULL},
    };
    static PyType_Slot slots[] = {
        {Py_tp_new, runs_new},
        {Py_tp_methods, methods},
        {Py_tp_traverse, runs_traverse},
        {Py_tp_dealloc, runs_dealloc},
        {0, NULL},
    };
    static PyType_Spec spec = {
        .name = "tracekit.export._encoders.Runs",
        .basicsize = sizeof(Runs),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    return PyType_FromSpec(&spec);
}
