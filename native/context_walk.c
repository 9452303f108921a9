/* Sweep for the context of launches and ops: the op, node, module, and ranges that enclose them on their
 * thread. Modules, ranges, and other spans are decided by tracekit/analysis/context_walk.py. */
#include "sweep.h"

#include <string.h>

enum { TRACE, PID, TID, EVENT, START, END, BITS };

/* As in context_walk.py. */
enum { OP, MODULE, NODE, HOW, PHASE_MARK, ROW, RANGE, HOOK, PART, CONTEXT_NUMBERS };

#define ROUNDING_NS 1000
#define MARKER_SHIFT 4
#define HAS_SEQUENCE 1
#define IS_WANTED 2
#define IS_NODE 4
#define AGAIN 1
#define IN_GRAD_MODE 2
#define IN_CLOSURE_STEP 4
#define IN_DERIVATIVE 8
#define NUMBERED_IN_NODE 16

/* Flags of a marker, as in context_walk.py. */
#define IS_OP 1
#define IS_NODE_NAME 2
#define IS_BARE_NODE 4 /* a node only in traces without sequence numbers */
#define IS_BACKWARD 8
#define HAS_ROW 16
#define IS_COLLECTIVE 32
#define HAS_CONTEXT 64 /* not part of an asynchronous collective whose range encloses it */

/* Phases in PHASE_MARK, in the order of PHASES in rules.py, from 1. */
enum { PHASE_MASK = 15, BACKWARD = 2, RECOMPUTE = 3, OPTIMIZER = 4 };

#define NONE (-1)

typedef struct {
    int64_t end;
    int64_t numbers[CONTEXT_NUMBERS]; /* or NONE; a row may be negative */
} Context;

typedef struct {
    Buffer open;
    int64_t note_count;    /* number of ops and nodes to report with the next question */
    bool is_numbered; /* the ops of the trace have sequence numbers */
} Walk;

static const Context OUTSIDE = {
    .numbers = {NONE, NONE, NONE, 0, 0, 0, NONE, NONE, NONE},
};

/* Questions. The Python side stores exceptions that are raised in an answer. */
enum { BEGIN_THREAD, ENTER, NOTES_ONLY };

/* Notes follow the numbers of a question: nodes, and ops inside nodes, since the last question. */
enum { INNER_OP, DIRECT_OP, NEW_NODE };
enum { NOTE_COUNT = CONTEXT_NUMBERS + 4, FIRST_NOTE, NOTE_NUMBERS = 5, MAX_NOTES = 1000 };

static bool ask(Sweep *sweep, Walk *walk, int question)
{
    sweep_asks(sweep)->numbers[NOTE_COUNT] = walk->note_count;
    walk->note_count = 0;
    return sweep_asks(sweep)->ask(question) || sweep_fail(sweep, "the walk failed");
}

static bool begin_thread(Sweep *sweep, Walk *walk, int64_t trace_id)
{
    sweep_asks(sweep)->numbers[0] = trace_id;
    if (!ask(sweep, walk, BEGIN_THREAD))
        return false;
    walk->is_numbered = sweep_asks(sweep)->numbers[0] != 0;
    return true;
}

/* Add a node, or an op inside one, to the next question. */
static bool note(Sweep *sweep, Walk *walk, const Context *context, int64_t start, int64_t bits,
                 int64_t what)
{
    if (walk->note_count == MAX_NOTES && !ask(sweep, walk, NOTES_ONLY))
        return false;
    int64_t note_count[NOTE_NUMBERS] = {start, context->end, context->numbers[NODE], bits, what};
    memcpy(sweep_asks(sweep)->numbers + FIRST_NOTE + NOTE_NUMBERS * walk->note_count++, note_count,
           sizeof note_count);
    return true;
}

static int64_t phase_of(const int64_t *numbers)
{
    return numbers[PHASE_MARK] & PHASE_MASK;
}

/* Return whether the innermost phase is an optimizer step without a closure. */
static bool is_in_plain_optimizer(const int64_t *numbers)
{
    return phase_of(numbers) == OPTIMIZER && !(numbers[HOW] & IN_CLOSURE_STEP);
}

static bool enter_op(Sweep *sweep, Walk *walk, Context *context, int64_t start, int64_t event,
                     int64_t bits)
{
    int64_t *numbers = context->numbers, how = numbers[HOW];
    bool is_in_node = numbers[NODE] != NONE;
    if (is_in_node && !(how & AGAIN)
        && !note(sweep, walk, context, start, bits,
                 numbers[OP] == numbers[NODE] ? DIRECT_OP : INNER_OP))
        return false;
    numbers[OP] = event;
    if (!(bits & HAS_SEQUENCE))
        return true;
    numbers[HOW] |= IN_GRAD_MODE;
    /* Optimizers compute without gradients, so this op is forward work of the closure. */
    if (how & IN_CLOSURE_STEP && phase_of(numbers) == OPTIMIZER)
        numbers[PHASE_MARK] = numbers[ROW] = 0;
    /* Grad mode is usually off in backward, so an op with a sequence number is recomputation, except in
     * hooks that run with grad mode on. */
    if (is_in_node && numbers[ROW] <= 0 && !(how & IN_DERIVATIVE))
        numbers[HOW] |= NUMBERED_IN_NODE;
    return true;
}

/* Of nested nodes the outermost counts, unless an inner one has its own sequence number. */
static bool enter_node(Sweep *sweep, Walk *walk, Context *context, int64_t start, int64_t event,
                       int64_t bits, bool has_row)
{
    int64_t *numbers = context->numbers;
    bool is_outermost = numbers[NODE] == NONE, is_new = is_outermost || bits & HAS_SEQUENCE;
    numbers[OP] = event;
    if (is_outermost)
        numbers[MODULE] = numbers[RANGE] = numbers[HOOK] = numbers[PART] = NONE;
    if (is_new) {
        numbers[NODE] = event;
        if (!is_in_plain_optimizer(numbers))
            numbers[ROW] = 0;
    }
    if (phase_of(numbers) != RECOMPUTE && !is_in_plain_optimizer(numbers))
        numbers[PHASE_MARK] = BACKWARD;
    if (has_row) {
        numbers[ROW] = bits >> MARKER_SHIFT;
        numbers[MODULE] = NONE;
    }
    return !is_new || note(sweep, walk, context, start, bits, NEW_NODE);
}

/* Ask Python for the context inside a span. */
static bool enter(Sweep *sweep, Walk *walk, Context *context, int64_t start, int64_t event,
                  int64_t bits)
{
    int64_t *numbers = sweep_asks(sweep)->numbers, span[] = {start, context->end, event, bits};
    memcpy(numbers, context->numbers, sizeof context->numbers);
    memcpy(numbers + CONTEXT_NUMBERS, span, sizeof span);
    if (!ask(sweep, walk, ENTER))
        return false;
    memcpy(context->numbers, numbers, sizeof context->numbers);
    return true;
}

/* Return the context around a span. A span that ends late by a rounding error is shortened. */
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
    Context context = depth > 0 ? spans[depth - 1] : OUTSIDE;
    context.end = end;
    return context;
}

static bool emit_context(Sweep *sweep, const Context *context)
{
    bool is_good = emit_column(sweep, TRACE) && emit_column(sweep, EVENT);
    for (int i = 0; is_good && i < CONTEXT_NUMBERS; i++)
        is_good = emit_number(sweep, i != ROW && context->numbers[i] == NONE ? NOTHING
                                                                             : context->numbers[i]);
    return is_good;
}

static bool read_span(Sweep *sweep, void *state, bool is_new_partition)
{
    Walk *walk = state;
    int64_t start = number_of(sweep, START), event = number_of(sweep, EVENT);
    int64_t bits = number_of(sweep, BITS);
    const SweepAsks *asks = sweep_asks(sweep);
    uint64_t marker = (uint64_t)bits >> MARKER_SHIFT;
    if (asks == NULL || marker >= (uint64_t)asks->kind_count)
        return sweep_fail(sweep, "Invalid Input Error: a span with an unknown marker");
    int flags = asks->flags[marker];
    if (is_new_partition) {
        walk->open.size = 0;
        if (!begin_thread(sweep, walk, number_of(sweep, TRACE)))
            return false;
    }
    Context context = around(&walk->open, start, number_of(sweep, END), flags & IS_BACKWARD);
    if (bits == 0)
        return emit_context(sweep, &context);
    int64_t *row = &context.numbers[ROW];
    if (*row < 0 && flags & HAS_CONTEXT && -(uint64_t)*row < (uint64_t)asks->kind_count
        && asks->flags[-*row] & IS_COLLECTIVE)
        *row = 0;
    bool is_op_by_number = flags & IS_BARE_NODE && walk->is_numbered, is_entered;
    if (bits & IS_NODE || (flags & IS_NODE_NAME && !is_op_by_number))
        is_entered = enter_node(sweep, walk, &context, start, event, bits, flags & HAS_ROW);
    else if (flags & IS_OP || is_op_by_number)
        is_entered = enter_op(sweep, walk, &context, start, event, bits);
    else
        is_entered = enter(sweep, walk, &context, start, event, bits);
    if (!is_entered)
        return false;
    if (bits & (HAS_SEQUENCE | IS_WANTED) && !emit_context(sweep, &context))
        return false;
    return context.end <= start || buffer_add(&walk->open, &context, sizeof context)
        || sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

static bool end_walk(Sweep *sweep, void *state)
{
    Walk *walk = state;
    return walk->note_count == 0 || ask(sweep, walk, NOTES_ONLY);
}

static void free_walk(void *state)
{
    buffer_free(&((Walk *)state)->open);
}

const SweepKind CONTEXTS = {
    .name = "contexts",
    .input_types = "lllllll",
    .output_types = "lllllllllll",
    .names = {"trace_id", "event_id", "op_id", "module_number", "node_id", "how", "phase_mark", "row",
              "range_number", "hook_number", "part_marker_id"},
    .partition_columns = 3,
    .state_bytes = sizeof(Walk),
    .read_row = read_span,
    .finish = end_walk,
    .free = free_walk,
};
