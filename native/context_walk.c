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
} Walk;

static const Context OUTSIDE = {
    .numbers = {NONE, NONE, NONE, 0, 0, 0, NONE, NONE, NONE},
};

/* Questions. What is raised in an answer is kept by whoever is asked. */
enum { BEGIN_THREAD, ENTER };

static bool ask(Sweep *sweep, int question)
{
    return sweep_asks(sweep)->ask(question) || sweep_fail(sweep, "the walk failed");
}

static bool begin_thread(Sweep *sweep, int64_t trace_id)
{
    sweep_asks(sweep)->numbers[0] = trace_id;
    return ask(sweep, BEGIN_THREAD);
}

/* Ask what the context inside of a span is. */
static bool enter(Sweep *sweep, Context *context, int64_t start, int64_t event, int64_t bits)
{
    int64_t *numbers = sweep_asks(sweep)->numbers, span[] = {start, context->end, event, bits};
    memcpy(numbers, context->numbers, sizeof context->numbers);
    memcpy(numbers + CONTEXT_NUMBERS, span, sizeof span);
    if (!ask(sweep, ENTER))
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
        if (!begin_thread(sweep, number_of(sweep, TRACE)))
            return false;
    }
    Context context = around(&walk->open, start, number_of(sweep, END), kind == BACKWARD);
    if (bits == 0)
        return give_context(sweep, &context);
    int64_t *numbers = context.numbers, how = numbers[HOW];
    bool has_sequence = bits & HAS_SEQUENCE;
    bool is_plain = kind == PLAIN_OP && !(bits & IS_NODE) && numbers[ROW] >= 0
        && (numbers[NODE] == NONE || (how & AGAIN && !has_sequence))
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
