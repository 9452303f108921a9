/* Sweep that assigns the time of each thread to the innermost open span. */
#include "sweep.h"

#define MAX_OPEN 10000

enum { TRACE, PID, TID, EVENT, TS, END, IS_WORK, IS_COLLECTIVE };

typedef struct {
    int64_t event, end, piece;
    bool is_work;
} Span;

typedef struct {
    int64_t trace, tid;
    int64_t collective_end; /* in this partition; later spans get the time after it */
    int64_t starts_at;      /* start of the spans in `starting`, the longest first */
    Span starting[MAX_OPEN];
    int64_t now;
    int64_t ends[MAX_OPEN]; /* of open spans, the latest first */
    Span owner[MAX_OPEN];   /* the span that reached each depth last */
    int starting_count, depth;
} SelfTime;

/* Advance to `at`; the time before it belongs to the owner. */
static bool go_to(Sweep *sweep, SelfTime *self, int64_t at)
{
    Span *owner = &self->owner[self->depth - 1];
    bool is_good = true;
    if (at > self->now && owner->is_work)
        is_good = emit_number(sweep, self->trace) && emit_number(sweep, owner->event)
            && emit_number(sweep, owner->piece++) && emit_number(sweep, self->tid)
            && emit_number(sweep, self->now) && emit_number(sweep, bounded_difference(at, self->now));
    self->now = at;
    return is_good;
}

/* End the spans that end by `until`. */
static bool end_spans(Sweep *sweep, SelfTime *self, int64_t until)
{
    while (self->depth > 0 && self->ends[self->depth - 1] <= until) {
        if (!go_to(sweep, self, self->ends[self->depth - 1]))
            return false;
        self->depth--;
    }
    return true;
}

static bool start_spans(Sweep *sweep, SelfTime *self)
{
    if (self->starting_count == 0)
        return true;
    if (!end_spans(sweep, self, self->starts_at))
        return false;
    if (self->depth > 0 && !go_to(sweep, self, self->starts_at))
        return false;
    self->now = self->starts_at;
    if (self->depth + self->starting_count > MAX_OPEN)
        return sweep_fail(sweep, "too many spans are open");
    for (int i = 0; i < self->starting_count; i++) {
        int at = self->depth;
        for (; at > 0 && self->ends[at - 1] < self->starting[i].end; at--)
            self->ends[at] = self->ends[at - 1];
        self->ends[at] = self->starting[i].end;
        self->owner[self->depth++] = self->starting[i];
    }
    self->starting_count = 0;
    return true;
}

static bool end_self_time(Sweep *sweep, void *state)
{
    return start_spans(sweep, state) && end_spans(sweep, state, INT64_MAX);
}

static bool read_self_time(Sweep *sweep, void *state, bool is_new_partition)
{
    SelfTime *self = state;
    int64_t from = number_of(sweep, TS), end = number_of(sweep, END);
    if (is_new_partition) {
        if (!end_self_time(sweep, self))
            return false;
        self->trace = number_of(sweep, TRACE);
        self->tid = number_of(sweep, TID);
        self->collective_end = NOTHING;
    }
    if (self->collective_end > from)
        from = self->collective_end;
    if (number_of(sweep, IS_COLLECTIVE) && end > self->collective_end)
        self->collective_end = end;
    if (from >= end)
        return true;
    if (self->starting_count > 0 && from > self->starts_at && !start_spans(sweep, self))
        return false;
    if (self->starting_count == MAX_OPEN)
        return sweep_fail(sweep, "too many spans are open");
    self->starts_at = from;
    int at = self->starting_count++;
    for (; at > 0 && self->starting[at - 1].end < end; at--)
        self->starting[at] = self->starting[at - 1];
    self->starting[at] = (Span){number_of(sweep, EVENT), end, 0, number_of(sweep, IS_WORK) != 0};
    return true;
}

const SweepKind SELF_TIME = {
    .name = "self_time",
    .input_types = "llllllll",
    .output_types = "llllll",
    .names = {"trace_id", "event_id", "piece", "tid", "ts_ns", "dur_ns"},
    .partition_columns = 3,
    .state_bytes = sizeof(SelfTime),
    .read_row = read_self_time,
    .finish = end_self_time,
};
