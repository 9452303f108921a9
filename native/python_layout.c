#include "python_layout.h"

#include <string.h>

static bool refuse(const char *what, const char *name)
{
    PyErr_Format(PyExc_ValueError, "%s: %s", what, name);
    return false;
}

/* Copy a short text; false with an exception set where it is none. */
static bool take_name(PyObject *object, char *to, size_t size)
{
    Py_ssize_t bytes;
    const char *text = PyUnicode_AsUTF8AndSize(object, &bytes);
    if (text == NULL)
        return false;
    if ((size_t)bytes >= size || strlen(text) != (size_t)bytes)
        return refuse("this name is too long", text);
    memcpy(to, text, (size_t)bytes + 1);
    return true;
}

static bool take_type(const char *type, ColumnType *to)
{
    if (strcmp(type, "BIGINT") == 0)
        *to = INT64_COLUMN;
    else if (strcmp(type, "VARCHAR") == 0)
        *to = TEXT_COLUMN;
    else if (strcmp(type, "JSON") == 0)
        *to = JSON_COLUMN;
    else if (strncmp(type, "ENUM(", 5) == 0)
        *to = KIND_COLUMN;
    else
        return refuse("columns of this type are not read", type);
    return true;
}

/* Return the type that the code takes a column for that it knows by name. */
static ColumnType known_type(int column)
{
    switch (column) {
    case EVENT_ID: case PID: case TID: case TS_NS: case DUR_NS: return INT64_COLUMN;
    case ARGS: case EXTRA: return JSON_COLUMN;
    case KIND: return KIND_COLUMN;
    default: return TEXT_COLUMN;
    }
}

static bool take_keys(PyObject *keys, int column, Layout *layout)
{
    int member = member_of_column(column);
    KeyTable *table = member < MEMBERS ? &layout->members : &layout->arguments;
    int target = member < MEMBERS ? member : column;
    Py_ssize_t count = PyTuple_Size(keys);
    for (Py_ssize_t i = 0; i < count; i++) {
        char key[MAX_KEY_BYTES];
        if (!take_name(PyTuple_GetItem(keys, i), key, sizeof key))
            return false;
        if (!key_table_add(table, key, (uint8_t)target))
            return refuse("there is no room for this key", key);
        if (member < MEMBERS && i == 0)
            memcpy(layout->member_keys[member], key, sizeof key);
    }
    if (count < 0 || (count == 0 && (member < MEMBERS || column >= FIRST_ARGUMENT)))
        return PyErr_Occurred() ? false : refuse("no key", layout->column_names[column]);
    return true;
}

static bool take_column(PyObject *described, Layout *layout, bool *is_there, int *column)
{
    const char *name, *type, *source;
    PyObject *keys, *none;
    if (!PyTuple_Check(described)) {
        PyErr_SetString(PyExc_TypeError, "a column is described by a tuple");
        return false;
    }
    if (!PyArg_ParseTuple(described, "sssO!O", &name, &type, &source, &PyTuple_Type, &keys, &none))
        return false;
    *column = known_column(name);
    if (*column < 0) {
        if (strcmp(source, "argument") != 0)
            return refuse("a column that the parser has no code for", name);
        if (layout->column_count == MAX_COLUMNS)
            return refuse("one column too many", name);
        *column = layout->column_count++;
    }
    if (strlen(name) >= MAX_NAME_BYTES || is_there[*column])
        return refuse("a name that is too long or there twice", name);
    is_there[*column] = true;
    memcpy(layout->column_names[*column], name, strlen(name) + 1);
    if (!take_type(type, &layout->types[*column]))
        return false;
    ColumnType expected = *column < FIRST_ARGUMENT ? known_type(*column) : INT64_COLUMN;
    if (layout->types[*column] != expected)
        return refuse("a column of another type than the parser takes it for", name);
    layout->has_none[*column] = none != Py_None;
    layout->none[*column] = none != Py_None ? PyLong_AsLongLong(none) : 0;
    return !PyErr_Occurred() && take_keys(keys, *column, layout);
}

static bool take_kind(PyObject *described, int kind, Layout *layout)
{
    const char *name, *phases, *event_name;
    if (!PyTuple_Check(described)) {
        PyErr_SetString(PyExc_TypeError, "a kind is described by a tuple");
        return false;
    }
    if (!PyArg_ParseTuple(described, "ssz", &name, &phases, &event_name))
        return false;
    if (strlen(name) >= MAX_NAME_BYTES ||
        (event_name != NULL && strlen(event_name) >= MAX_NAME_BYTES))
        return refuse("this name is too long", name);
    memcpy(layout->kind_names[kind], name, strlen(name) + 1);
    if (event_name != NULL)
        memcpy(layout->kind_event_name[kind], event_name, strlen(event_name) + 1);
    for (const char *phase = phases; *phase != 0; phase++) {
        if (*phase < 0)
            return refuse("a phase is a letter", phases);
        (event_name != NULL ? layout->named_kind_of : layout->kind_of)[(int)*phase] = (int8_t)kind;
    }
    if (strcmp(name, "event") == 0)
        layout->event_kind = kind;
    else if (strcmp(name, "flow") == 0)
        layout->flow_kind = kind;
    else if (strcmp(name, "metadata") == 0)
        layout->metadata_kind = kind;
    return true;
}

bool take_layout(PyObject *columns, PyObject *kinds, PyObject *bounds, Layout *layout, int *order)
{
    memset(layout, 0, sizeof *layout);
    layout->column_count = FIRST_ARGUMENT;
    key_table_clear(&layout->members);
    key_table_clear(&layout->arguments);
    memset(layout->kind_of, -1, sizeof layout->kind_of);
    memset(layout->named_kind_of, -1, sizeof layout->named_kind_of);
    layout->event_kind = layout->flow_kind = layout->metadata_kind = -1;
    bool is_there[MAX_COLUMNS] = {false};
    Py_ssize_t count = PyTuple_Size(columns);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (i >= MAX_COLUMNS)
            return refuse("too many columns", "");
        if (!take_column(PyTuple_GetItem(columns, i), layout, is_there, &order[i]))
            return false;
    }
    for (int i = 0; i < FIRST_ARGUMENT; i++)
        if (!is_there[i])
            return refuse("a column that the parser knows is not described", known_name(i));
    layout->kind_count = (int)PyTuple_Size(kinds);
    if (layout->kind_count > MAX_KINDS)
        return refuse("too many kinds", "");
    for (int i = 0; i < layout->kind_count; i++)
        if (!take_kind(PyTuple_GetItem(kinds, i), i, layout))
            return false;
    if (layout->event_kind < 0 || layout->flow_kind < 0 || layout->metadata_kind < 0)
        return refuse("a kind that the parser knows is not described", "event, flow or metadata");
    long long min_time_us, max_time_us, max_dur_us;
    if (!PyArg_ParseTuple(bounds, "LLL", &min_time_us, &max_time_us, &max_dur_us))
        return false;
    layout->min_time_us = min_time_us;
    layout->max_time_us = max_time_us;
    layout->max_dur_us = max_dur_us;
    return true;
}

static bool take_text(PyObject *value, Batch *batch, int column)
{
    Column *to = &batch->columns[column];
    Py_ssize_t bytes;
    const char *text = PyUnicode_AsUTF8AndSize(value, &bytes);
    if (text == NULL)
        return false;
    if (to->size + (size_t)bytes > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "these texts are too long together");
        return false;
    }
    if (!column_reserve(to, (size_t)bytes)) {
        PyErr_NoMemory();
        return false;
    }
    put(to, text, (size_t)bytes);
    set_text(batch, column, true);
    return true;
}

static bool take_value(PyObject *value, const Layout *layout, Batch *batch, int column)
{
    bool is_null = value == Py_None;
    switch (layout->types[column]) {
    case INT64_COLUMN: {
        long long number = is_null ? 0 : PyLong_AsLongLong(value);
        set_int(batch, column, !is_null, number);
        return !PyErr_Occurred();
    }
    case KIND_COLUMN: {
        const char *name = is_null ? "" : PyUnicode_AsUTF8AndSize(value, NULL);
        for (int kind = 0; name != NULL && kind < layout->kind_count; kind++)
            if (strcmp(name, layout->kind_names[kind]) == 0) {
                batch->columns[column].data[batch->row_count] = (uint8_t)kind;
                batch->columns[column].is_valid[batch->row_count] = true;
                return true;
            }
        return name != NULL && refuse("no such kind", name);
    }
    default:
        if (!is_null)
            return take_text(value, batch, column);
        set_text(batch, column, false);
        return true;
    }
}

bool take_row(PyObject *row, const Layout *layout, const int *order, Batch *batch)
{
    if (!PyTuple_Check(row)) {
        PyErr_SetString(PyExc_TypeError, "a row is a tuple");
        return false;
    }
    Py_ssize_t count = PyTuple_Size(row);
    if (count != layout->column_count) {
        PyErr_Format(PyExc_ValueError, "a row has %d values", layout->column_count);
        return false;
    }
    if (!batch_reserve_row(batch)) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!take_value(PyTuple_GetItem(row, i), layout, batch, order[i])) {
            batch_undo_row(batch);
            return false;
        }
    batch->row_count++;
    return true;
}
