/* Slices that overlap, on lanes on which none crosses another: as tracekit/export/lanes.py does it,
 * which says why. */
#ifndef TRACEKIT_EXPORT_LANES_H
#define TRACEKIT_EXPORT_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int64_t end_ns;
    size_t lane;
} LaneEnd;

/* Grows as it needs to. */
typedef struct {
    LaneEnd *items;
    size_t count, capacity;
} LaneEnds;

typedef struct {
    size_t nesting_count;
    LaneEnds *stacks; /* of each lane, what is open on it, the innermost last */
    size_t stack_count, stack_capacity;
    LaneEnds busy; /* heap of flat lanes in use, the first to end on top */
    LaneEnds free; /* heap of flat lanes not in use, the lowest on top */
    size_t flat_count;
    size_t last; /* lane of the last slice that was not inside of another on purpose */
    int64_t last_end_ns;
    bool is_out_of_order; /* a slice began before the one before it */
} Lanes;

void lanes_begin(Lanes *lanes, bool is_flat);
void lanes_clear(Lanes *lanes);

/* Add an item at the end; false where there is no memory. */
bool lane_ends_add(LaneEnds *ends, LaneEnd end);

/* Find the lane of the next slice, and add to `ended` what is over when it begins.
 * False where there is no memory, or `is_out_of_order`. */
bool lanes_place(Lanes *lanes, int64_t start_ns, int64_t end_ns, bool is_inner, LaneEnds *ended,
                 size_t *lane);

/* Add all that is open to `ended`, and close it. */
bool lanes_close(Lanes *lanes, LaneEnds *ended);

#endif
