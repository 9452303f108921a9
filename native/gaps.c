/* The sweep over when a device has no work. The work that ended last before a gap is the first of
 * those that ended at that moment. */
#include "sweep.h"

#include <stdlib.h>

enum {
    TRACE,
    DEVICE,
    EVENT,
    PIECE,
    STREAM,
    KIND,
    CLASS,
    CORRELATION,
    TS,
    END,
};

/* Times by number. */
typedef struct {
    int64_t (*places)[2]; /* number and time; NOTHING for a place that is free */
    int64_t of_none;      /* the time of NOTHING */
    size_t room, count;
} Times;

static int64_t *place_of(Times *times, int64_t number)
{
    if (number == NOTHING)
        return &times->of_none;
    size_t at = (size_t)((uint64_t)number * 0x9E3779B97F4A7C15ULL >> 20) & (times->room - 1);
    while (times->places[at][0] != number && times->places[at][1] != NOTHING)
        at = (at + 1) & (times->room - 1);
    times->places[at][0] = number;
    return &times->places[at][1];
}

/* Return where the time of a number stands, which is NOTHING before it is set; NULL for no room. */
static int64_t *time_of(Times *times, int64_t number)
{
    if (times->count * 2 >= times->room) {
        Times grown = {.of_none = times->of_none, .room = times->room ? times->room * 2 : 1024};
        grown.places = malloc(grown.room * sizeof *grown.places);
        if (grown.places == NULL)
            return NULL;
        for (size_t i = 0; i < grown.room; i++)
            grown.places[i][1] = NOTHING;
        for (size_t i = 0; i < times->room; i++)
            if (times->places[i][1] != NOTHING)
                *place_of(&grown, times->places[i][0]) = times->places[i][1];
        grown.count = times->count;
        free(times->places);
        *times = grown;
    }
    int64_t *time = place_of(times, number);
    times->count += *time == NOTHING;
    return time;
}

static void clear(Times *times)
{
    free(times->places);
    *times = (Times){.of_none = NOTHING};
}

typedef struct {
    int64_t until, event, stream; /* of what ended last */
    Buffer kind, class;
    Times stream_ends, call_starts; /* the latest end by stream, the first start by correlation */
} Gaps;

static bool keep_text(const Sweep *sweep, int column, Buffer *to)
{
    size_t size;
    const char *text = text_of(sweep, column, &size);
    to->size = 0;
    /* With a byte behind it, so that an empty text lies somewhere too. */
    return buffer_add(to, text, size) && buffer_add(to, "", 1);
}

static bool take_gap(Sweep *sweep, void *state, bool is_new_part)
{
    Gaps *gaps = state;
    int64_t start = number_of(sweep, TS), end = number_of(sweep, END);
    int64_t stream = number_of(sweep, STREAM), call = number_of(sweep, CORRELATION);
    if (is_new_part) {
        clear(&gaps->stream_ends);
        clear(&gaps->call_starts);
        gaps->until = NOTHING;
    }
    int64_t none = NOTHING, *stream_end = time_of(&gaps->stream_ends, stream);
    int64_t *call_start = call > 0 ? time_of(&gaps->call_starts, call) : &none;
    if (stream_end == NULL || call_start == NULL)
        return sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
    if (gaps->until != NOTHING && start > gaps->until) {
        bool is_other = stream != NOTHING && gaps->stream != NOTHING && stream != gaps->stream;
        bool is_good = give_column(sweep, TRACE) && give_column(sweep, DEVICE)
            && give_number(sweep, gaps->until) && give_number(sweep, start)
            && give_number(sweep, gaps->event)
            && give_text(sweep, gaps->kind.data, gaps->kind.size - 1)
            && give_text(sweep, gaps->class.data, gaps->class.size - 1)
            && give_column(sweep, EVENT) && give_column(sweep, PIECE)
            && give_number(sweep, is_other) && give_number(sweep, *stream_end < gaps->until)
            && give_number(sweep, *call_start != NOTHING && *call_start < gaps->until);
        if (!is_good)
            return false;
    }
    if (end > *stream_end)
        *stream_end = end;
    if (*call_start == NOTHING)
        *call_start = start;
    if (end > gaps->until) {
        gaps->until = end;
        gaps->event = number_of(sweep, EVENT);
        gaps->stream = stream;
        if (!keep_text(sweep, KIND, &gaps->kind) || !keep_text(sweep, CLASS, &gaps->class))
            return sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
    }
    return true;
}

static void free_gaps(void *state)
{
    Gaps *gaps = state;
    clear(&gaps->stream_ends);
    clear(&gaps->call_starts);
    buffer_free(&gaps->kind);
    buffer_free(&gaps->class);
}

const SweepKind GAPS = {
    .name = "gaps",
    .takes = "lullluulll",
    .gives = "lullluulllll",
    .names = {"trace_id", "device", "start_ns", "end_ns", "previous_event_id", "previous_kind",
              "previous_class", "next_event_id", "next_piece", "is_other_stream",
              "is_stream_idle", "is_inside_launch"},
    .part_columns = 2,
    .state_bytes = sizeof(Gaps),
    .take = take_gap,
    .free = free_gaps,
};
