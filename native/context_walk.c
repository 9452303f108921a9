/* The sweep over what launches and ops were inside of, as tracekit/analysis/context_walk.py does it
 * where nothing is compiled. Here is what most spans are: launches, and ops that add no more to what
 * is around them than themselves. What any other means is asked there. */
#include "python_api.h"
#include "sweep.h"

#include <string.h>

enum { TRACE, PID, TID, EVENT, START, END, BITS };

/* As in context_walk.py. */
enum { OP, MODULE, NODE, HOW, TOLD, ROW, RANGE, HOOK, PART, CONTEXT_NUMBERS };

#define ROUNDING_NS 1000
#define MARKER_SHIFT 4
#define HAS_SEQUENCE 1
#define IS_WANTED 2
#define IS_NODE 4
#define AGAIN 1
#define IN_GRAD_MODE 2
#define IN_CLOSURE_STEP 4

/* What a marker is, a letter each in the text that the walk has. */
#define PLAIN_OP 'o'
#define BACKWARD 'b'

typedef struct {
    int64_t end;
    int64_t numbers[CONTEXT_NUMBERS]; /* NOTHING for None */
} Context;

typedef struct {
    Buffer open;
} Walk;

static const Context OUTSIDE = {
    .numbers = {NOTHING, NOTHING, NOTHING, 0, 0, 0, NOTHING, NOTHING, NOTHING},
};

/* What was raised is left where it was asked for, to be raised again. */
static bool failed(Sweep *sweep)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value != NULL && PyObject_SetAttrString(sweep_asks(sweep).owner, "error", value) < 0)
        PyErr_Clear();
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return sweep_fail(sweep, "the walk failed");
}

static bool begin_thread(Sweep *sweep, int64_t trace_id)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *done = PyObject_CallMethod(sweep_asks(sweep).owner, "begin_thread", "L", trace_id);
    bool is_good = done != NULL || failed(sweep);
    Py_XDECREF(done);
    PyGILState_Release(state);
    return is_good;
}

/* Ask what the context inside of a span is. */
static bool enter(Sweep *sweep, Context *context, int64_t start, int64_t event, int64_t bits)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *around = PyTuple_New(CONTEXT_NUMBERS), *inside = NULL;
    for (int i = 0; around != NULL && i < CONTEXT_NUMBERS; i++) {
        int64_t number = context->numbers[i];
        PyObject *value = number == NOTHING ? Py_NewRef(Py_None) : PyLong_FromLongLong(number);
        if (value == NULL || PyTuple_SetItem(around, i, value) < 0)
            Py_CLEAR(around);
    }
    if (around != NULL)
        inside = PyObject_CallMethod(sweep_asks(sweep).owner, "enter", "NLLLL", around, start,
                                     context->end, event, bits);
    for (int i = 0; inside != NULL && i < CONTEXT_NUMBERS; i++) {
        PyObject *value = PyTuple_GetItem(inside, i);
        context->numbers[i]
            = value == NULL || value == Py_None ? NOTHING : PyLong_AsLongLong(value);
    }
    bool is_good = (inside != NULL && !PyErr_Occurred()) || failed(sweep);
    Py_XDECREF(inside);
    PyGILState_Release(state);
    return is_good;
}

/* Find what is open around a span; a span that ends late by a rounding error is pulled in. */
static Context around(Buffer *open, int64_t start, int64_t end, bool is_hint)
{
    const Context *spans = (const Context *)open->data;
    size_t depth = open->size / sizeof *spans;
    while (depth > 0 && spans[depth - 1].end <= start)
        depth--;
    for (; depth > 0 && spans[depth - 1].end < end; depth--)
        if (bounded_difference(end, spans[depth - 1].end) <= ROUNDING_NS || is_hint) {
            end = spans[depth - 1].end;
            break;
        }
    open->size = depth * sizeof *spans;
    Context found = depth > 0 ? spans[depth - 1] : OUTSIDE;
    found.end = end;
    return found;
}

static bool give_context(Sweep *sweep, const Context *context)
{
    bool is_good = give_column(sweep, TRACE) && give_column(sweep, EVENT);
    for (int i = 0; is_good && i < CONTEXT_NUMBERS; i++)
        is_good = give_number(sweep, context->numbers[i]);
    return is_good;
}

static bool take_span(Sweep *sweep, void *state, bool is_new_part)
{
    Walk *walk = state;
    int64_t start = number_of(sweep, START), event = number_of(sweep, EVENT);
    int64_t bits = number_of(sweep, BITS);
    PyObject *kinds = sweep_asks(sweep).kinds;
    uint64_t marker = (uint64_t)bits >> MARKER_SHIFT;
    if (kinds == NULL || marker >= (uint64_t)PyBytes_Size(kinds))
        return sweep_fail(sweep, "Invalid Input Error: a span of a marker that is none");
    char kind = PyBytes_AsString(kinds)[marker];
    if (is_new_part) {
        walk->open.size = 0;
        if (!begin_thread(sweep, number_of(sweep, TRACE)))
            return false;
    }
    Context context = around(&walk->open, start, number_of(sweep, END), kind == BACKWARD);
    if (bits == 0)
        return give_context(sweep, &context);
    int64_t *numbers = context.numbers, how = numbers[HOW];
    bool has_sequence = bits & HAS_SEQUENCE;
    bool is_plain = kind == PLAIN_OP && !(bits & IS_NODE) && numbers[ROW] >= 0
        && (numbers[NODE] == NOTHING || (how & AGAIN && !has_sequence))
        && !(has_sequence && how & IN_CLOSURE_STEP);
    if (is_plain) {
        numbers[OP] = event;
        numbers[HOW] = has_sequence ? how | IN_GRAD_MODE : how;
    } else if (!enter(sweep, &context, start, event, bits)) {
        return false;
    }
    if (bits & (HAS_SEQUENCE | IS_WANTED) && !give_context(sweep, &context))
        return false;
    return context.end <= start || buffer_add(&walk->open, &context, sizeof context)
        || sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

static void free_walk(void *state)
{
    buffer_free(&((Walk *)state)->open);
}

const SweepKind CONTEXTS = {
    .name = "contexts",
    .takes = "lllllll",
    .gives = "lllllllllll",
    .names = {"trace_id", "event_id", "op_id", "module_number", "node_id", "how", "told", "row",
              "range_number", "hook_number", "part_marker_id"},
    .part_columns = 3,
    .state_bytes = sizeof(Walk),
    .take = take_span,
    .free = free_walk,
};
