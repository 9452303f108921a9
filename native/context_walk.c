/* The context of launches and ops: what encloses them on their thread. Launches, ops, and autograd nodes
 * are handled here; for modules, ranges, and other spans, tracekit/analysis/context_walk.py is asked. */
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
#define IN_DERIVATIVE 8
#define NUMBERED_IN_NODE 16

/* What a marker is, a byte of flags each, as in context_walk.py. */
#define IS_OP 1
#define IS_NODE_NAME 2
#define IS_BARE_NODE 4 /* a node only in traces without sequence numbers */
#define IS_BACKWARD 8
#define HAS_ROW 16
#define IS_COLLECTIVE 32
#define HAS_CONTEXT 64 /* is no part of an asynchronous collective whose range encloses it */

/* Phases of what is in TOLD, as PHASES in rules.py, from 1. */
enum { PHASE_MASK = 15, BACKWARD = 2, RECOMPUTE = 3, OPTIMIZER = 4 };

#define NONE (-1)

typedef struct {
    int64_t end;
    int64_t numbers[CONTEXT_NUMBERS]; /* NONE for none; a row may be less than 0 */
} Context;

typedef struct {
    Buffer open;
    int64_t noted;    /* number of ops and nodes to report with the next question */
    bool is_numbered; /* the ops of the trace have sequence numbers */
} Walk;

static const Context OUTSIDE = {
    .numbers = {NONE, NONE, NONE, 0, 0, 0, NONE, NONE, NONE},
};

/* Questions. The Python side stores exceptions that are raised in an answer. */
enum { BEGIN_THREAD, ENTER, NOTHING_ELSE };

/* After the numbers of a question come the nodes, and the ops inside nodes, since the last one. */
enum { INNER_OP, DIRECT_OP, NEW_NODE };
enum { NOTED_COUNT = CONTEXT_NUMBERS + 4, FIRST_NOTED, NOTED_NUMBERS = 5, MOST_NOTED = 1000 };

static bool ask(Sweep *sweep, Walk *walk, int question)
{
    sweep_asks(sweep)->numbers[NOTED_COUNT] = walk->noted;
    walk->noted = 0;
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
    if (walk->noted == MOST_NOTED && !ask(sweep, walk, NOTHING_ELSE))
        return false;
    int64_t noted[NOTED_NUMBERS] = {start, context->end, context->numbers[NODE], bits, what};
    memcpy(sweep_asks(sweep)->numbers + FIRST_NOTED + NOTED_NUMBERS * walk->noted++, noted,
           sizeof noted);
    return true;
}

static int64_t phase_of(const int64_t *numbers)
{
    return numbers[TOLD] & PHASE_MASK;
}

/* Whether the innermost phase is that of an optimizer's step without a closure. */
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
    /* An optimizer computes without gradients; what its closure does is forward. */
    if (how & IN_CLOSURE_STEP && phase_of(numbers) == OPTIMIZER)
        numbers[TOLD] = numbers[ROW] = 0;
    /* Grad mode is usually off in backward, so an op with a number is recomputation, except for the
     * work of hooks that run with grad mode on. */
    if (is_in_node && numbers[ROW] <= 0 && !(how & IN_DERIVATIVE))
        numbers[HOW] |= NUMBERED_IN_NODE;
    return true;
}

/* The outermost node of a nest counts, unless an inner one has a number of its own. */
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
        numbers[TOLD] = BACKWARD;
    if (has_row) {
        numbers[ROW] = bits >> MARKER_SHIFT;
        numbers[MODULE] = NONE;
    }
    return !is_new || note(sweep, walk, context, start, bits, NEW_NODE);
}

/* Ask what the context inside of a span is. */
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
        is_good = give_number(sweep, i != ROW && context->numbers[i] == NONE ? NOTHING
                                                                             : context->numbers[i]);
    return is_good;
}

static bool take_span(Sweep *sweep, void *state, bool is_new_part)
{
    Walk *walk = state;
    int64_t start = number_of(sweep, START), event = number_of(sweep, EVENT);
    int64_t bits = number_of(sweep, BITS);
    const SweepAsks *asks = sweep_asks(sweep);
    uint64_t marker = (uint64_t)bits >> MARKER_SHIFT;
    if (asks == NULL || marker >= (uint64_t)asks->kind_count)
        return sweep_fail(sweep, "Invalid Input Error: a span of a marker that is none");
    int flags = asks->flags[marker];
    if (is_new_part) {
        walk->open.size = 0;
        if (!begin_thread(sweep, walk, number_of(sweep, TRACE)))
            return false;
    }
    Context context = around(&walk->open, start, number_of(sweep, END), flags & IS_BACKWARD);
    if (bits == 0)
        return give_context(sweep, &context);
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
    if (bits & (HAS_SEQUENCE | IS_WANTED) && !give_context(sweep, &context))
        return false;
    return context.end <= start || buffer_add(&walk->open, &context, sizeof context)
        || sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

static bool end_walk(Sweep *sweep, void *state)
{
    Walk *walk = state;
    return walk->noted == 0 || ask(sweep, walk, NOTHING_ELSE);
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
    .end = end_walk,
    .free = free_walk,
};
