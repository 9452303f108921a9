/* The sweep over what launches and ops were inside of. Here is what most spans are: launches, and ops
 * that add no more to what is around them than themselves. What any other means is asked in
 * tracekit/analysis/context_walk.py. */
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

/* What a marker is, a letter each in the text that the walk has. */
#define PLAIN_OP 'o'
#define BACKWARD 'b'

#define NONE (-1)

typedef struct {
    int64_t end;
    int64_t numbers[CONTEXT_NUMBERS]; /* NONE for none; a row may be less than 0 */
} Context;

typedef struct {
    Buffer open;
    int64_t noted; /* ops that have not been told yet */
} Walk;

static const Context OUTSIDE = {
    .numbers = {NONE, NONE, NONE, 0, 0, 0, NONE, NONE, NONE},
};

/* Questions. What is raised in an answer is kept by whoever is asked. */
enum { BEGIN_THREAD, ENTER, NOTHING_ELSE };

/* Behind the numbers of a question are those of ops that ran inside of nodes before it. */
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
    return ask(sweep, walk, BEGIN_THREAD);
}

/* Note an op inside of a node, to be told with the next question. */
static bool note_op(Sweep *sweep, Walk *walk, const Context *context, int64_t start, int64_t bits)
{
    if (walk->noted == MOST_NOTED && !ask(sweep, walk, NOTHING_ELSE))
        return false;
    const int64_t *numbers = context->numbers;
    int64_t op[NOTED_NUMBERS] = {start, context->end, numbers[NODE], bits,
                                 numbers[OP] == numbers[NODE]};
    memcpy(sweep_asks(sweep)->numbers + FIRST_NOTED + NOTED_NUMBERS * walk->noted++, op, sizeof op);
    return true;
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
    char kind = asks->kinds[marker];
    if (is_new_part) {
        walk->open.size = 0;
        if (!begin_thread(sweep, walk, number_of(sweep, TRACE)))
            return false;
    }
    Context context = around(&walk->open, start, number_of(sweep, END), kind == BACKWARD);
    if (bits == 0)
        return give_context(sweep, &context);
    int64_t *numbers = context.numbers, how = numbers[HOW];
    bool has_sequence = bits & HAS_SEQUENCE;
    bool is_plain = kind == PLAIN_OP && !(bits & IS_NODE) && numbers[ROW] >= 0
        && !(has_sequence && how & IN_CLOSURE_STEP);
    if (is_plain) {
        bool is_in_node = numbers[NODE] != NONE;
        if (is_in_node && !(how & AGAIN) && !note_op(sweep, walk, &context, start, bits))
            return false;
        numbers[OP] = event;
        if (has_sequence)
            numbers[HOW] |= IN_GRAD_MODE;
        if (has_sequence && is_in_node && numbers[ROW] == 0 && !(how & IN_DERIVATIVE))
            numbers[HOW] |= NUMBERED_IN_NODE;
    } else if (!enter(sweep, walk, &context, start, event, bits)) {
        return false;
    }
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
