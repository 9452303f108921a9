/* Sweep that assigns each nanosecond of a device to one event. */
#include "sweep.h"

#include <string.h>

/* Arithmetic modulo 2^64: sums of differences are correct even if one difference overflows. */
static int64_t minus(int64_t one, int64_t other)
{
    return (int64_t)((uint64_t)one - (uint64_t)other);
}

static int64_t plus(int64_t one, int64_t other)
{
    return (int64_t)((uint64_t)one + (uint64_t)other);
}

static int64_t later(int64_t one, int64_t other)
{
    return one > other ? one : other;
}

/* Concurrent time belongs to compute before comm, and to comm before memcpy; within a kind, to the first
 * event in order. The time that an event owns within its kind is known when the event is read. The part that
 * other kinds hide is known only once rows start after the event's end; until then, the event waits. */

enum { COMPUTE, COMM, MEMCPY, KINDS };

enum { KIND = 8, TS = 9, END = 11, WALL = 1 };

/* Union of the intervals read so far, in order of their starts. */
typedef struct {
    int64_t total, until;
} Cover;

static void cover(Cover *covered, int64_t start, int64_t end)
{
    int64_t from = later(start, covered->until);
    if (end <= from)
        return;
    covered->total = plus(covered->total, minus(end, from));
    covered->until = end;
}

/* Return the covered time before `at`, which must not be before the last start. */
static int64_t covered_before(const Cover *covered, int64_t at)
{
    return covered->until > at ? minus(covered->total, minus(covered->until, at))
                               : covered->total;
}

typedef struct {
    int64_t row, start, end, before;
    bool has_begun;
} Waiting;

typedef struct {
    int64_t latest[KINDS];
    Cover hiding[KINDS];
    Buffer waiting[KINDS]; /* segments, which do not overlap, in order */
    size_t first[KINDS];
} OwnedTime;

/* Set the owned time of the waiting rows that end by `until`. Return the first row that is still waiting. */
static int64_t settle(Sweep *sweep, OwnedTime *own, bool is_all, int64_t until)
{
    int64_t waits = INT64_MAX;
    for (int kind = COMM; kind < KINDS; kind++) {
        Waiting *pieces = (Waiting *)own->waiting[kind].data;
        size_t at = 0, count = own->waiting[kind].size / sizeof *pieces;
        const Cover *hiding = &own->hiding[kind];
        for (at = own->first[kind]; at < count; at++) {
            Waiting *piece = &pieces[at];
            if (!piece->has_begun && (is_all || piece->start <= until)) {
                piece->before = covered_before(hiding, piece->start);
                piece->has_begun = true;
            }
            if (!is_all && piece->end > until)
                break;
            int64_t hidden = minus(covered_before(hiding, piece->end), piece->before);
            set_number(sweep, piece->row, WALL, minus(minus(piece->end, piece->start), hidden));
        }
        if (at < count && pieces[at].row < waits)
            waits = pieces[at].row;
        if (at == count || at > 4096) {
            buffer_drop(&own->waiting[kind], at * sizeof *pieces);
            at = 0;
        }
        own->first[kind] = at;
    }
    return waits;
}

static bool read_owned_time(Sweep *sweep, void *state, bool is_new_partition)
{
    OwnedTime *own = state;
    int64_t start = number_of(sweep, TS), end = number_of(sweep, END);
    size_t size;
    const char *name = text_of(sweep, KIND, &size);
    int kind = size == 7 && memcmp(name, "compute", 7) == 0 ? COMPUTE
        : size == 4 && memcmp(name, "comm", 4) == 0         ? COMM
        : size == 6 && memcmp(name, "memcpy", 6) == 0       ? MEMCPY
                                                            : KINDS;
    if (kind == KINDS)
        return sweep_fail(sweep, "unknown kind of work");
    int64_t waits = settle(sweep, own, is_new_partition, start);
    if (is_new_partition)
        for (int i = 0; i < KINDS; i++) {
            own->latest[i] = NOTHING;
            own->hiding[i] = (Cover){.until = NOTHING};
        }
    int64_t from = later(start, own->latest[kind]);
    from = from < end ? from : end;
    own->latest[kind] = later(own->latest[kind], end);
    for (int i = kind + 1; i < KINDS; i++)
        cover(&own->hiding[i], start, end);
    int64_t row = emitted_rows(sweep);
    if (!emit_number(sweep, minus(end, from)) || !emit_number(sweep, minus(end, from)))
        return false;
    Waiting piece = {.row = row, .start = from, .end = end};
    bool must_wait = kind != COMPUTE && from < end;
    hold_rows(sweep, must_wait && row < waits ? row : waits);
    return !must_wait || buffer_add(&own->waiting[kind], &piece, sizeof piece)
        || sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

static bool end_owned_time(Sweep *sweep, void *state)
{
    settle(sweep, state, true, 0);
    return true;
}

static void free_owned_time(void *state)
{
    for (int kind = 0; kind < KINDS; kind++)
        buffer_free(&((OwnedTime *)state)->waiting[kind]);
}

const SweepKind OWNED_TIME = {
    .name = "owned_time",
    .input_types = "lullluuuulllll",
    .output_types = "ll",
    .names = {"trace_id", "device", "event_id", "piece", "stream", "category", "name", "class",
              "kind", "ts_ns", "dur_ns", "end_ns", "correlation", "bytes", "kind_wall_ns",
              "wall_ns"},
    .appends_columns = true,
    .partition_columns = 2,
    .state_bytes = sizeof(OwnedTime),
    .read_row = read_owned_time,
    .finish = end_owned_time,
    .free = free_owned_time,
};
