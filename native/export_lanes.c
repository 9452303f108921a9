#include "export_lanes.h"

#include <stdlib.h>
#include <string.h>

#define NESTING_LANES 4

void lanes_begin(Lanes *lanes, bool is_flat)
{
    memset(lanes, 0, sizeof *lanes);
    lanes->nesting_count = is_flat ? 0 : NESTING_LANES;
}

void lanes_clear(Lanes *lanes)
{
    for (size_t i = 0; i < lanes->stack_count; i++)
        free(lanes->stacks[i].items);
    free(lanes->stacks);
    free(lanes->busy.items);
    free(lanes->free.items);
    memset(lanes, 0, sizeof *lanes);
}

bool lane_ends_add(LaneEnds *ends, LaneEnd end)
{
    if (ends->count == ends->capacity) {
        size_t capacity = ends->capacity ? 2 * ends->capacity : 8;
        LaneEnd *items = realloc(ends->items, capacity * sizeof *items);
        if (items == NULL)
            return false;
        ends->items = items;
        ends->capacity = capacity;
    }
    ends->items[ends->count++] = end;
    return true;
}

static bool is_before(LaneEnd a, LaneEnd b)
{
    return a.end_ns != b.end_ns ? a.end_ns < b.end_ns : a.lane < b.lane;
}

static bool heap_push(LaneEnds *heap, LaneEnd end)
{
    if (!lane_ends_add(heap, end))
        return false;
    size_t at = heap->count - 1;
    while (at > 0) {
        size_t up = (at - 1) / 2;
        if (!is_before(end, heap->items[up]))
            break;
        heap->items[at] = heap->items[up];
        at = up;
    }
    heap->items[at] = end;
    return true;
}

static LaneEnd heap_pop(LaneEnds *heap)
{
    LaneEnd top = heap->items[0];
    LaneEnd end = heap->items[--heap->count];
    size_t at = 0;
    for (;;) {
        size_t below = 2 * at + 1;
        if (below >= heap->count)
            break;
        if (below + 1 < heap->count && is_before(heap->items[below + 1], heap->items[below]))
            below++;
        if (!is_before(heap->items[below], end))
            break;
        heap->items[at] = heap->items[below];
        at = below;
    }
    if (heap->count > 0)
        heap->items[at] = end;
    return top;
}

/* Return the first flat lane that is free; SIZE_MAX where there is no memory. */
static size_t flat_place(Lanes *lanes, int64_t start_ns, int64_t end_ns)
{
    while (lanes->busy.count > 0 && lanes->busy.items[0].end_ns <= start_ns) {
        LaneEnd over = heap_pop(&lanes->busy);
        if (!heap_push(&lanes->free, (LaneEnd){.end_ns = 0, .lane = over.lane}))
            return SIZE_MAX;
    }
    size_t lane = lanes->free.count > 0 ? heap_pop(&lanes->free).lane : lanes->flat_count++;
    return heap_push(&lanes->busy, (LaneEnd){.end_ns = end_ns, .lane = lane}) ? lane : SIZE_MAX;
}

static bool add_lane(Lanes *lanes)
{
    if (lanes->stack_count == lanes->stack_capacity) {
        size_t capacity = lanes->stack_capacity ? 2 * lanes->stack_capacity : 4;
        LaneEnds *stacks = realloc(lanes->stacks, capacity * sizeof *stacks);
        if (stacks == NULL)
            return false;
        lanes->stacks = stacks;
        lanes->stack_capacity = capacity;
    }
    memset(&lanes->stacks[lanes->stack_count++], 0, sizeof(LaneEnds));
    return true;
}

typedef enum { FITS, CROSSES, NO_MEMORY } Fit;

static Fit fits(Lanes *lanes, size_t lane, int64_t start_ns, int64_t end_ns, LaneEnds *ended)
{
    LaneEnds *stack = &lanes->stacks[lane];
    while (stack->count > 0 && stack->items[stack->count - 1].end_ns <= start_ns)
        if (!lane_ends_add(ended, stack->items[--stack->count]))
            return NO_MEMORY;
    if (stack->count > 0 && stack->items[stack->count - 1].end_ns < end_ns)
        return CROSSES;
    LaneEnd end = {.end_ns = end_ns, .lane = lane};
    return lane_ends_add(stack, end) ? FITS : NO_MEMORY;
}

bool lanes_place(Lanes *lanes, int64_t start_ns, int64_t end_ns, bool is_inner, LaneEnds *ended,
                 size_t *lane)
{
    if (is_inner && lanes->stack_count > 0 && end_ns <= lanes->last_end_ns) {
        Fit fit = fits(lanes, lanes->last, start_ns, end_ns, ended);
        *lane = lanes->last;
        if (fit != CROSSES)
            return fit == FITS;
    }
    for (*lane = 0; *lane < lanes->nesting_count && *lane < lanes->stack_count; ++*lane) {
        Fit fit = fits(lanes, *lane, start_ns, end_ns, ended);
        if (fit != CROSSES)
            return fit == FITS;
    }
    *lane = lanes->stack_count;
    if (*lane >= lanes->nesting_count) {
        size_t flat = flat_place(lanes, start_ns, end_ns);
        if (flat == SIZE_MAX)
            return false;
        *lane = lanes->nesting_count + flat;
    }
    if (*lane == lanes->stack_count && !add_lane(lanes))
        return false;
    lanes->last = *lane;
    lanes->last_end_ns = end_ns;
    /* On a flat lane all is over, which is why it is free, unless a slice begins before the last. */
    Fit fit = fits(lanes, *lane, start_ns, end_ns, ended);
    lanes->is_out_of_order = fit == CROSSES;
    return fit == FITS;
}

bool lanes_close(Lanes *lanes, LaneEnds *ended)
{
    for (size_t lane = 0; lane < lanes->stack_count; lane++) {
        LaneEnds *stack = &lanes->stacks[lane];
        while (stack->count > 0)
            if (!lane_ends_add(ended, stack->items[--stack->count]))
                return false;
    }
    return true;
}
