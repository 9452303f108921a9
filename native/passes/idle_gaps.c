/* Sweep for idle gaps of devices, split into segments by the context of the host, each with its cause.
 *
 * The rows come in sections: limits, GPU work, steps, waits between threads, launches without work, and
 * host events in time order (spans, waits, and profiler overhead). Gaps come from the work. The sweep
 * emits a gap as soon as the host events pass its launch, and drops events that no later gap needs. Spans
 * of a thread are stored by start, each with its parent, so the spans that are open at a time are the
 * last one that started and its ancestors. */
#include "sweep.h"

#include <stdlib.h>

enum {
    TRACE, SECTION, PID, TID, START, END, EVENT, FLAGS, PHASE, ROW,
    /* Only for work. */
    DEVICE, PIECE, STREAM, CORRELATION, LAUNCH, DELAY, OP, MODULE, STEP, CALL, RETURNED,
};

/* The flags of queries/idle/idle_gap.sql. */
enum { LIMITS, WORK, STEPS, THREAD_WAITS, MISSING_CALLS, HOST };
enum { IS_COMM = 1, IS_COPY_TO_HOST = 2, IS_INFERRED = 4, IS_GRAPH = 8, BY_CPU = 16, BY_CALL = 32,
       LACKS_LAUNCH = 64, IS_COARSE = 128 };
enum { IS_OP = 1, IS_CALL = 2, IS_PYTHON = 4, IS_PROGRAM = 8, IS_STREAM_WAIT = 16, IS_MARKER = 32,
       WAIT_SHIFT = 6 };
enum { NO_WAIT, DATA_LOADING, ALLOCATOR, COMM_WAIT, SYNC, COPY, LOCK, UNRECORDED, WAITS,
       PROFILER = WAITS, OVERHEAD };

/* Flags of a launch call. */
enum { IS_LAUNCH = 1, IS_WAITING = 2, IS_ORDERED = 4 };

#define FOREVER (INT64_MAX / 2)
#define MAX_STORED 65536 /* number of stored spans at which old ones are dropped */
#define AT(list, type, place) ((type *)(list).data + (place))
#define COUNT(list, type) ((list).size / sizeof(type))
#define ADD(walk, list, type) ((type *)add(walk, list, sizeof(type)))

typedef struct { int64_t start, end, before; } Piece; /* before: total length of earlier pieces, ns */

typedef struct {
    int64_t start, end, event;
    int32_t parent, phase, row, flags; /* parent: index of the enclosing span, or -1 */
} Span;

typedef struct { int64_t op, module; int32_t phase, row; } Context;

typedef struct {
    int64_t ts, id, pid, tid, step, last_work;
    Context context; /* of the last work that it launched */
    bool is_inferred;
} Launch;

typedef struct {
    int64_t start, end, previous_event, previous_launch_ns, next_event, next_piece;
    int64_t launch, delay, pid, tid, launch_ns, returned, step, host_ns;
    int64_t needed_from; /* start of the earliest span that this gap or a later one needs */
    Context context;
    int32_t device, previous; /* previous: index in trace->previous, or -1 */
    uint8_t flags, previous_flags;
    bool is_late, is_other_stream, is_stream_idle, is_inside_launch, is_usual_delay;
} Gap;

typedef struct {
    int64_t start, end, step, host_ns;
    Context context;
    bool is_unrecorded, follows_wait; /* follows_wait: only a wait separates it from the previous one */
} Segment;

typedef struct { int64_t at; bool is_of_wait; } Cut;

typedef struct { int64_t start, end, step; } Step;
typedef struct { int64_t pid, waiting, start, end, tid; bool is_backward; } ThreadWait;
typedef struct { int64_t pid, tid, ts; } MissingCall;

typedef struct {
    int64_t pid, tid;
    Buffer spans, waits[WAITS];
    bool must_wait; /* a stream wait was called since the last launch */
} Thread;

typedef struct {
    int64_t pid, until; /* until: end of the last recorded event */
    Buffer phases, silences, allocator;
} Process;

/* Hash map from integers to integers. */
typedef struct {
    int64_t (*entries)[2]; /* key NOTHING if free */
    int64_t of_nothing;
    size_t room, count;
} Map;

typedef struct {
    int64_t id;
    Buffer gaps, previous, steps, thread_waits, missing, threads, processes, profiler;
    Map calls, thread_places;
    size_t next;         /* next gap to emit */
    size_t stored, dropped_at; /* number of stored spans and pieces, and that number at the last drop */
    bool is_complete;
} Trace;

/* The device whose work is being read. */
typedef struct {
    size_t first_gap;
    int64_t until, last_event, last_launch_ns, last_stream;
    int32_t name;
    uint8_t last_flags;
    Buffer launches;
    Map places, stream_ends, call_starts;
    bool is_open;
} Device;

typedef struct {
    int64_t section, longest_delay, short_call, delay_factor, delay_count, unrecorded;
    Buffer traces, texts, text_ends, cuts, silent, segments;
    int32_t text_heads[256];
    Buffer text_links;
    Device device;
    size_t done;  /* number of finished traces */
    size_t place; /* index of the trace of the last row */
    int32_t other, unattributed;
    bool is_full;
    _Alignas(16) char spare[512]; /* written if memory runs out, and never read */
} Walk;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int order(int64_t a, int64_t b) { return a < b ? -1 : a > b; }

static void *add(Walk *walk, Buffer *list, size_t size)
{
    if (list->room - list->size < size && !buffer_grow(list, size)) {
        walk->is_full = true;
        return walk->spare;
    }
    list->size += size;
    return list->data + list->size - size;
}

static void sort(Buffer *list, size_t size, int (*by)(const void *, const void *))
{
    if (list->size > size)
        qsort(list->data, list->size / size, size, by);
}

static int by_number(const void *a, const void *b)
{
    return order(*(const int64_t *)a, *(const int64_t *)b);
}

/* Return the number of rows up to and including a key; the rows are sorted. */
static size_t place_after(const Buffer *list, size_t size, const void *key,
                           int (*by)(const void *, const void *))
{
    size_t low = 0, high = list->size / size;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (by(list->data + middle * size, key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int64_t *add_entry(Walk *walk, Map *map, int64_t key)
{
    if (key == NOTHING)
        return &map->of_nothing;
    if (map->count * 2 >= map->room) {
        Map grown = {.of_nothing = map->of_nothing, .room = map->room ? map->room * 2 : 256};
        grown.entries = malloc(grown.room * sizeof *grown.entries);
        if (grown.entries == NULL) {
            walk->is_full = true;
            return (int64_t *)(void *)walk->spare;
        }
        for (size_t i = 0; i < grown.room; i++)
            grown.entries[i][0] = NOTHING;
        for (size_t i = 0; i < map->room; i++)
            if (map->entries[i][0] != NOTHING)
                *add_entry(walk, &grown, map->entries[i][0]) = map->entries[i][1];
        free(map->entries);
        *map = grown;
    }
    size_t at = (size_t)((uint64_t)key * 0x9E3779B97F4A7C15ULL >> 20) & (map->room - 1);
    while (map->entries[at][0] != key && map->entries[at][0] != NOTHING)
        at = (at + 1) & (map->room - 1);
    if (map->entries[at][0] == NOTHING) {
        map->entries[at][0] = key;
        map->entries[at][1] = NOTHING;
        map->count++;
    }
    return &map->entries[at][1];
}

static int64_t *find_entry(const Map *map, int64_t key)
{
    if (key == NOTHING || map->room == 0)
        return NULL;
    size_t at = (size_t)((uint64_t)key * 0x9E3779B97F4A7C15ULL >> 20) & (map->room - 1);
    while (map->entries[at][0] != key && map->entries[at][0] != NOTHING)
        at = (at + 1) & (map->room - 1);
    return map->entries[at][0] == key ? &map->entries[at][1] : NULL;
}

static void clear_map(Map *map)
{
    free(map->entries);
    *map = (Map){.of_nothing = NOTHING};
}

/* Interned texts, numbered from 0; -1 for NULL. */

static const char *text_at(const Walk *walk, int32_t number, size_t *size)
{
    *size = 0;
    if (number < 0 || (size_t)number >= COUNT(walk->text_ends, int64_t))
        return NULL;
    int64_t start = number > 0 ? *AT(walk->text_ends, int64_t, number - 1) : 0;
    *size = (size_t)(*AT(walk->text_ends, int64_t, number) - start);
    return walk->texts.data + start;
}

static int32_t text_number(Walk *walk, const char *text, size_t size)
{
    if (text == NULL)
        return -1;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (uint8_t)text[i]) * 16777619u;
    int32_t *head = &walk->text_heads[hash & 255];
    for (int32_t i = *head - 1; i >= 0; i = *AT(walk->text_links, int32_t, i) - 1) {
        size_t known_size;
        const char *known = text_at(walk, i, &known_size);
        if (known_size == size && memcmp(known, text, size) == 0)
            return i;
    }
    /* One more byte, so that an empty text has an address. */
    walk->is_full = !buffer_add(&walk->texts, text, size) || !buffer_add(&walk->texts, "", 1)
        || walk->is_full;
    walk->texts.size -= 1;
    *ADD(walk, &walk->text_ends, int64_t) = (int64_t)walk->texts.size;
    *ADD(walk, &walk->text_links, int32_t) = *head;
    *head = (int32_t)COUNT(walk->text_links, int32_t);
    return *head - 1;
}

static int32_t text_in(Walk *walk, const Sweep *sweep, int column)
{
    size_t size;
    const char *text = text_of(sweep, column, &size);
    return text_number(walk, text, size);
}

static int32_t known_text(Walk *walk, const char *text)
{
    return text_number(walk, text, strlen(text));
}

/* Sorted intervals that do not overlap. */

static int by_start(const void *a, const void *b)
{
    return order(*(const int64_t *)a, *(const int64_t *)b);
}

static void cover(Walk *walk, Buffer *pieces, int64_t start, int64_t end)
{
    Piece *last = pieces->size ? AT(*pieces, Piece, COUNT(*pieces, Piece) - 1) : NULL;
    if (last && start <= last->end) {
        last->end = most(last->end, end);
        return;
    }
    int64_t before = last ? last->before + last->end - last->start : 0;
    *ADD(walk, pieces, Piece) = (Piece){start, end, before};
}

/* Return the last piece that starts at or before `at`, or NULL. */
static const Piece *piece_at(const Buffer *pieces, int64_t at)
{
    size_t place = place_after(pieces, sizeof(Piece), &at, by_start);
    return place ? AT(*pieces, Piece, place - 1) : NULL;
}

static int64_t covered_before(const Buffer *pieces, int64_t at)
{
    const Piece *piece = piece_at(pieces, at);
    return piece ? piece->before + least(at, piece->end) - piece->start : 0;
}

static int64_t covered(const Buffer *pieces, int64_t start, int64_t end)
{
    return end > start ? covered_before(pieces, end) - covered_before(pieces, start) : 0;
}

/* Spans of a thread or process */

static void add_span(Walk *walk, Buffer *spans, Span span)
{
    span.parent = (int32_t)COUNT(*spans, Span) - 1;
    while (span.parent >= 0 && AT(*spans, Span, span.parent)->end <= span.start)
        span.parent = AT(*spans, Span, span.parent)->parent;
    *ADD(walk, spans, Span) = span;
}

static int32_t last_begun(const Buffer *spans, int64_t at)
{
    return (int32_t)place_after(spans, sizeof(Span), &at, by_start) - 1;
}

/* Return the innermost span with one of `flags` that is open at `at`, or NULL. */
static const Span *innermost(const Buffer *spans, int64_t at, int flags)
{
    for (int32_t i = last_begun(spans, at); i >= 0; i = AT(*spans, Span, i)->parent) {
        const Span *span = AT(*spans, Span, i);
        if (span->end > at && span->flags & flags)
            return span;
    }
    return NULL;
}

/* Threads, and the processes that launch work */

static int64_t thread_key(int64_t pid, int64_t tid)
{
    return (int64_t)(((uint64_t)pid * 0x9E3779B97F4A7C15ULL ^ (uint64_t)tid) >> 2);
}

static Thread *thread_of(const Trace *trace, int64_t pid, int64_t tid)
{
    if (pid == NOTHING || tid == NOTHING)
        return NULL;
    for (int64_t key = thread_key(pid, tid);; key++) {
        const int64_t *place = find_entry(&trace->thread_places, key);
        if (place == NULL)
            return NULL;
        Thread *thread = AT(trace->threads, Thread, *place);
        if (thread->pid == pid && thread->tid == tid)
            return thread;
    }
}

static Thread *ensure_thread(Walk *walk, Trace *trace, int64_t pid, int64_t tid)
{
    Thread *thread = thread_of(trace, pid, tid);
    if (thread || pid == NOTHING || tid == NOTHING)
        return thread;
    int64_t key = thread_key(pid, tid);
    while (find_entry(&trace->thread_places, key))
        key++;
    int64_t place = (int64_t)COUNT(trace->threads, Thread);
    thread = ADD(walk, &trace->threads, Thread);
    *thread = (Thread){.pid = pid, .tid = tid};
    if (!walk->is_full)
        *add_entry(walk, &trace->thread_places, key) = place;
    return walk->is_full ? NULL : thread;
}

static Process *process_of(const Trace *trace, int64_t pid)
{
    for (size_t i = 0; i < COUNT(trace->processes, Process); i++)
        if (AT(trace->processes, Process, i)->pid == pid)
            return AT(trace->processes, Process, i);
    return NULL;
}

/* GPU work, and the gaps between it */

static int by_launch(const void *a, const void *b)
{
    const Launch *x = a, *y = b;
    int ordered = order(x->ts, y->ts);
    return ordered ? ordered : order(x->id, y->id);
}

/* On a CPU, each piece of an op is launched when it starts. */
static int64_t call_of(const Gap *gap) { return gap->flags & BY_CPU ? gap->end : gap->launch_ns; }

static int64_t host_end(const Gap *gap) { return gap->start + gap->host_ns; }

/* Return the longest usual launch delay, ns: a multiple of the median delay on an idle device. */
static int64_t usual_delay(Walk *walk, const Trace *trace, size_t first_gap)
{
    Buffer delays = {0};
    for (size_t i = first_gap; i < COUNT(trace->gaps, Gap); i++) {
        const Gap *gap = AT(trace->gaps, Gap, i);
        if (call_of(gap) != NOTHING && call_of(gap) >= gap->start)
            *ADD(walk, &delays, int64_t) = gap->end - call_of(gap);
    }
    size_t count = COUNT(delays, int64_t);
    int64_t limit = walk->longest_delay;
    if (count > 0 && (int64_t)count >= walk->delay_count) {
        sort(&delays, sizeof(int64_t), by_number);
        double low = (double)*AT(delays, int64_t, (count - 1) / 2);
        double high = (double)*AT(delays, int64_t, count / 2);
        double delay = (double)walk->delay_factor * (low + high) / 2;
        if (delay < (double)limit)
            limit = (int64_t)(delay + 0.5);
    }
    buffer_free(&delays);
    return limit;
}

static void end_device(Walk *walk, Trace *trace)
{
    Device *device = &walk->device;
    if (!device->is_open)
        return;
    int64_t usual = usual_delay(walk, trace, device->first_gap);
    sort(&device->launches, sizeof(Launch), by_launch);
    for (size_t i = device->first_gap; i < COUNT(trace->gaps, Gap); i++) {
        Gap *gap = AT(trace->gaps, Gap, i);
        gap->is_usual_delay = gap->end - gap->start <= usual;
        if (!gap->is_late || gap->launch == NOTHING || gap->launch_ns == NOTHING)
            continue;
        Launch key = {.ts = gap->launch_ns, .id = gap->launch};
        size_t place = place_after(&device->launches, sizeof(Launch), &key, by_launch);
        if (place >= 2 && !walk->is_full) {
            gap->previous = (int32_t)COUNT(trace->previous, Launch);
            *ADD(walk, &trace->previous, Launch) = *AT(device->launches, Launch, place - 2);
        }
    }
    buffer_free(&device->launches);
    clear_map(&device->places);
    clear_map(&device->stream_ends);
    clear_map(&device->call_starts);
    device->is_open = false;
}

static bool has_borders(const Gap *gap)
{
    return gap->previous >= 0 && gap->launch_ns > gap->start;
}

/* Devices are numbered in input order. */
static int by_gap(const void *a, const void *b)
{
    const Gap *x = a, *y = b;
    int ordered = order(x->start, y->start);
    return ordered ? ordered : order(x->device, y->device);
}

static void need_process(Walk *walk, Trace *trace, int64_t pid)
{
    if (process_of(trace, pid) == NULL)
        *ADD(walk, &trace->processes, Process) = (Process){.pid = pid, .until = -FOREVER};
}

/* Sort the gaps by time, and compute which host events each one needs. */
static void end_work(Walk *walk, Trace *trace)
{
    end_device(walk, trace);
    if (trace->is_complete || walk->is_full)
        return;
    trace->is_complete = true;
    sort(&trace->gaps, sizeof(Gap), by_gap);
    int64_t needed_from = FOREVER;
    for (size_t i = COUNT(trace->gaps, Gap); i > 0; i--) {
        Gap *gap = AT(trace->gaps, Gap, i - 1);
        if (gap->is_late) {
            needed_from = least(needed_from, gap->start);
            need_process(walk, trace, gap->pid);
        }
        if (gap->is_late && has_borders(gap)) {
            const Launch *previous = AT(trace->previous, Launch, gap->previous);
            needed_from = least(needed_from, previous->ts);
            need_process(walk, trace, previous->pid);
        }
        gap->needed_from = needed_from;
    }
}

static void begin_device(Walk *walk, const Trace *trace, int32_t name)
{
    walk->device = (Device){
        .first_gap = COUNT(trace->gaps, Gap),
        .until = NOTHING,
        .name = name,
        .places.of_nothing = NOTHING,
        .stream_ends.of_nothing = NOTHING,
        .call_starts.of_nothing = NOTHING,
        .is_open = true,
    };
}

static void read_work(Walk *walk, const Sweep *sweep, Trace *trace)
{
    Device *device = &walk->device;
    int32_t name = text_in(walk, sweep, DEVICE);
    if (!device->is_open || device->name != name) {
        end_device(walk, trace);
        begin_device(walk, trace, name);
    }
    int64_t start = number_of(sweep, START), end = number_of(sweep, END);
    int64_t stream = number_of(sweep, STREAM), correlation = number_of(sweep, CORRELATION);
    int64_t launch = number_of(sweep, LAUNCH), launch_ns = number_of(sweep, CALL);
    uint8_t flags = (uint8_t)number_of(sweep, FLAGS);
    Context context = {number_of(sweep, OP), number_of(sweep, MODULE),
                       text_in(walk, sweep, PHASE), text_in(walk, sweep, ROW)};
    int64_t none = NOTHING, *stream_end = add_entry(walk, &device->stream_ends, stream);
    int64_t *first = correlation > 0 ? add_entry(walk, &device->call_starts, correlation) : &none;
    if (device->until != NOTHING && start > device->until) {
        Gap gap = {
            .start = device->until,
            .end = start,
            .previous_event = device->last_event,
            .previous_launch_ns = device->last_launch_ns,
            .next_event = number_of(sweep, EVENT),
            .next_piece = number_of(sweep, PIECE),
            .launch = launch,
            .delay = number_of(sweep, DELAY),
            .pid = number_of(sweep, PID),
            .tid = number_of(sweep, TID),
            .launch_ns = launch_ns,
            .returned = flags & BY_CPU ? start : number_of(sweep, RETURNED),
            .step = number_of(sweep, STEP),
            .host_ns = NOTHING,
            .flags = flags,
            .previous_flags = device->last_flags,
            .context = context,
            .device = name,
            .previous = -1,
            .is_other_stream = stream != NOTHING && device->last_stream != NOTHING
                && stream != device->last_stream,
            .is_stream_idle = *stream_end < device->until,
            .is_inside_launch = *first != NOTHING && *first < device->until,
        };
        if (gap.returned != NOTHING)
            gap.host_ns = most(least(gap.returned, gap.end) - gap.start, 0);
        gap.is_late = gap.host_ns > 0 && gap.host_ns >= gap.end - gap.start - gap.host_ns;
        *ADD(walk, &trace->gaps, Gap) = gap;
    }
    *stream_end = most(*stream_end, end);
    if (*first == NOTHING)
        *first = start;
    if (end > device->until) {
        device->until = end;
        device->last_event = number_of(sweep, EVENT);
        device->last_launch_ns = launch_ns;
        device->last_stream = stream;
        device->last_flags = flags;
    }
    if (launch == NOTHING || launch_ns == NOTHING)
        return;
    *add_entry(walk, &trace->calls, launch) = IS_LAUNCH;
    int64_t *place = add_entry(walk, &device->places, launch);
    if (*place == NOTHING) {
        *place = (int64_t)COUNT(device->launches, Launch);
        *ADD(walk, &device->launches, Launch) = (Launch){
            launch_ns, launch, number_of(sweep, PID), number_of(sweep, TID), NOTHING, NOTHING,
            context, false};
    }
    Launch *put = AT(device->launches, Launch, *place);
    if (!walk->is_full && start > put->last_work) {
        put->last_work = start;
        put->step = number_of(sweep, STEP);
        put->context = context;
        put->is_inferred = (flags & IS_INFERRED) != 0;
    }
}

/* The host */

/* Store a long interval without recorded events that ends at `start`. */
static void silent_until(Walk *walk, Process *process, int64_t start, int64_t end)
{
    if (bounded_difference(start, process->until) >= walk->unrecorded)
        *ADD(walk, &process->silences, Piece) = (Piece){process->until, start, 0};
    process->until = most(process->until, end);
}

static void read_host(Walk *walk, const Sweep *sweep, Trace *trace)
{
    int64_t pid = number_of(sweep, PID), event = number_of(sweep, EVENT);
    int64_t start = number_of(sweep, START), end = number_of(sweep, END);
    int flags = (int)(number_of(sweep, FLAGS) & 1023), wait = flags >> WAIT_SHIFT;
    bool is_needed = trace->next < COUNT(trace->gaps, Gap)
        && AT(trace->gaps, Gap, trace->next)->needed_from <= end;
    if (wait >= PROFILER) {
        for (size_t i = 0; i < COUNT(trace->processes, Process); i++)
            silent_until(walk, AT(trace->processes, Process, i), start, end);
        if (wait == PROFILER && is_needed)
            cover(walk, &trace->profiler, start, end);
        return;
    }
    Process *process = process_of(trace, pid);
    Thread *thread = ensure_thread(walk, trace, pid, number_of(sweep, TID));
    if (process && (flags & (IS_OP | IS_CALL | IS_PYTHON) || wait))
        silent_until(walk, process, start, end);
    if (flags & (IS_OP | IS_CALL) || wait == SYNC || wait == COPY) {
        int64_t *call = find_entry(&trace->calls, event);
        if (call && wait)
            *call |= IS_WAITING;
        if (call && !wait && thread && thread->must_wait) {
            *call |= IS_ORDERED;
            thread->must_wait = false;
        }
    }
    if (flags & IS_STREAM_WAIT && thread)
        thread->must_wait = true;
    if (!is_needed || process == NULL)
        return;
    trace->stored++;
    if (wait && thread)
        cover(walk, &thread->waits[wait], start, end);
    if (wait == ALLOCATOR)
        cover(walk, &process->allocator, start, end);
    if (!(flags & (IS_OP | IS_PROGRAM | IS_MARKER)))
        return;
    Span span = {start, end, event, -1, text_in(walk, sweep, PHASE), text_in(walk, sweep, ROW),
                 flags};
    if (thread)
        add_span(walk, &thread->spans, span);
    if (flags & IS_MARKER && span.phase >= 0 && end > start)
        add_span(walk, &process->phases, span);
}

/* Drop the pieces before the last one that starts by `before`. The sum in its member `before` still includes them. */
static void drop_pieces(Buffer *pieces, int64_t before)
{
    size_t first = place_after(pieces, sizeof(Piece), &before, by_start);
    if (first > 1)
        buffer_drop(pieces, (first - 1) * sizeof(Piece));
}

/* Drop spans that end before a time. The children of a dropped span become children of its parent. */
static void drop_spans(Walk *walk, Buffer *spans, int64_t before)
{
    int32_t left_count = 0, count = (int32_t)COUNT(*spans, Span);
    walk->cuts.size = 0;
    for (int32_t i = 0; i < count; i++) {
        Span span = *AT(*spans, Span, i);
        int32_t parent = span.parent < 0 ? -1 : *AT(walk->cuts, int32_t, span.parent);
        bool is_dropped = span.end < before;
        *ADD(walk, &walk->cuts, int32_t) = is_dropped ? parent : left_count;
        if (walk->is_full)
            return;
        span.parent = parent;
        if (!is_dropped)
            *AT(*spans, Span, left_count++) = span;
    }
    spans->size = (size_t)left_count * sizeof(Span);
}

static void drop_host(Walk *walk, Trace *trace)
{
    if (trace->stored < trace->dropped_at + MAX_STORED || trace->next == COUNT(trace->gaps, Gap))
        return;
    int64_t before = AT(trace->gaps, Gap, trace->next)->needed_from;
    trace->dropped_at = trace->stored;
    for (size_t i = 0; i < COUNT(trace->threads, Thread); i++) {
        Thread *thread = AT(trace->threads, Thread, i);
        drop_spans(walk, &thread->spans, before);
        for (int kind = 0; kind < WAITS; kind++)
            drop_pieces(&thread->waits[kind], before);
    }
    for (size_t i = 0; i < COUNT(trace->processes, Process); i++) {
        Process *process = AT(trace->processes, Process, i);
        drop_spans(walk, &process->phases, before);
        drop_pieces(&process->silences, before);
        drop_pieces(&process->allocator, before);
    }
    drop_pieces(&trace->profiler, before);
}

/* Segments */

static void cut(Walk *walk, const Gap *gap, int64_t at, bool is_of_wait)
{
    if (gap->start <= at && at < host_end(gap))
        *ADD(walk, &walk->cuts, Cut) = (Cut){at, is_of_wait};
}

static int by_cut(const void *a, const void *b)
{
    const Cut *x = a, *y = b;
    int ordered = order(x->at, y->at);
    return ordered ? ordered : y->is_of_wait - x->is_of_wait;
}

/* Cut at the start and end of each long wait. */
static void cut_at_waits(Walk *walk, const Gap *gap, const Buffer *pieces, int64_t start,
                         int64_t end)
{
    const Piece *first = piece_at(pieces, start);
    size_t i = first ? (size_t)(first - AT(*pieces, Piece, 0)) : 0;
    for (; i < COUNT(*pieces, Piece) && AT(*pieces, Piece, i)->start < end; i++) {
        int64_t from = most(AT(*pieces, Piece, i)->start, start);
        int64_t to = least(AT(*pieces, Piece, i)->end, end);
        if (to - from >= walk->longest_delay) {
            cut(walk, gap, from, true);
            cut(walk, gap, to, true);
        }
    }
}

static void cut_at_waits_of(Walk *walk, const Gap *gap, const Thread *thread, int64_t start,
                            int64_t end)
{
    for (int kind = NO_WAIT + 1; thread && kind < WAITS; kind++)
        cut_at_waits(walk, gap, &thread->waits[kind], start, end);
}

static int by_thread_wait(const void *a, const void *b)
{
    const ThreadWait *x = a, *y = b;
    int ordered = order(x->pid, y->pid);
    if (ordered == 0)
        ordered = order(x->waiting, y->waiting);
    return ordered ? ordered : order(x->start, y->start);
}

/* Return the index of the last wait of the launching thread for another thread that starts at or before `at`,
 * or else of the next one. */
static size_t thread_wait_at(const Trace *trace, const Gap *gap, int64_t at)
{
    ThreadWait key = {.pid = gap->pid, .waiting = gap->tid, .start = at};
    size_t place
        = place_after(&trace->thread_waits, sizeof(ThreadWait), &key, by_thread_wait);
    if (place == 0)
        return 0;
    const ThreadWait *wait = AT(trace->thread_waits, ThreadWait, place - 1);
    return wait->pid == gap->pid && wait->waiting == gap->tid ? place - 1 : place;
}

static const ThreadWait *thread_wait(const Trace *trace, const Gap *gap, size_t place)
{
    if (place >= COUNT(trace->thread_waits, ThreadWait))
        return NULL;
    const ThreadWait *wait = AT(trace->thread_waits, ThreadWait, place);
    return wait->pid == gap->pid && wait->waiting == gap->tid ? wait : NULL;
}

/* Time when the host leaves the context of the previous launch, and the end of the time between contexts. */
typedef struct {
    const Launch *previous;
    int64_t left, between_end; /* or NOTHING */
    bool is_crossing, has_between;
} Borders;

static Borders borders_of(const Trace *trace, const Gap *gap, bool is_long)
{
    Borders borders = {.left = NOTHING, .between_end = NOTHING};
    /* A launch call that ran when the gap began was already in the next context. */
    if (!has_borders(gap))
        return borders;
    const Launch *previous = AT(trace->previous, Launch, gap->previous);
    bool is_uncertain = is_long && (previous->is_inferred || gap->flags & IS_INFERRED);
    borders.is_crossing
        = previous->context.phase != gap->context.phase || previous->step != gap->step;
    if (!borders.is_crossing && !is_uncertain && previous->context.module == gap->context.module
        && previous->context.row == gap->context.row)
        return borders;
    int64_t left = 0, entered = call_of(gap);
    const Thread *thread = thread_of(trace, previous->pid, previous->tid);
    int32_t i = thread ? last_begun(&thread->spans, previous->ts) : -1;
    for (; i >= 0; i = AT(thread->spans, Span, i)->parent) {
        const Span *span = AT(thread->spans, Span, i);
        if (span->flags & IS_MARKER && span->end > span->start && span->end >= previous->ts
            && span->end <= call_of(gap))
            left = most(left, span->end);
    }
    thread = thread_of(trace, gap->pid, gap->tid);
    i = thread ? last_begun(&thread->spans, call_of(gap)) : -1;
    for (; i >= 0; i = AT(thread->spans, Span, i)->parent) {
        const Span *span = AT(thread->spans, Span, i);
        if (span->flags & IS_MARKER && span->end > span->start && span->end >= call_of(gap)
            && span->start >= previous->ts)
            entered = span->start;
    }
    borders.previous = previous;
    borders.left = most(left, gap->start);
    borders.between_end = least(most(entered, borders.left), host_end(gap));
    borders.has_between
        = (borders.is_crossing || is_uncertain) && borders.left < borders.between_end;
    return borders;
}

/* Cut a gap with a late launch where the host changes its context or starts a step, and at the starts and ends
 * of long waits and long times without events. */
static void cut_gap(Walk *walk, const Trace *trace, const Gap *gap)
{
    const int64_t end = host_end(gap);
    bool is_long = gap->host_ns >= walk->unrecorded;
    Borders borders = borders_of(trace, gap, is_long);
    const Process *process = process_of(trace, gap->pid);
    walk->cuts.size = walk->silent.size = 0;
    cut(walk, gap, gap->start, false);
    if (borders.left != NOTHING)
        cut(walk, gap, borders.left, false);
    if (borders.has_between) {
        const Buffer *phases = &process->phases;
        int32_t begun = last_begun(phases, borders.left);
        cut(walk, gap, borders.between_end, false);
        for (int32_t i = begun; i >= 0; i = AT(*phases, Span, i)->parent) {
            int64_t at = AT(*phases, Span, i)->end;
            if (borders.left < at && at < borders.between_end)
                cut(walk, gap, at, false);
        }
        for (size_t i = (size_t)(begun + 1); i < COUNT(*phases, Span); i++) {
            const Span *span = AT(*phases, Span, i);
            if (span->start >= borders.between_end)
                break;
            cut(walk, gap, span->start, false);
            if (span->end < borders.between_end)
                cut(walk, gap, span->end, false);
        }
    }
    if (is_long) {
        const Piece *first = piece_at(&process->silences, gap->start);
        size_t i = first ? (size_t)(first - AT(process->silences, Piece, 0)) : 0;
        const size_t count = COUNT(process->silences, Piece);
        /* The last interval without events has not ended. */
        for (; i <= count; i++) {
            Piece last = {process->until, FOREVER, 0};
            const Piece *silence = i < count ? AT(process->silences, Piece, i) : &last;
            int64_t from = most(silence->start, gap->start), to = least(silence->end, end);
            if (to - from < walk->unrecorded)
                continue;
            *ADD(walk, &walk->silent, Piece) = (Piece){from, to, 0};
            cut(walk, gap, from, false);
            cut(walk, gap, to, false);
        }
    }
    const Thread *own = thread_of(trace, gap->pid, gap->tid);
    cut_at_waits_of(walk, gap, own, gap->start, end);
    cut_at_waits(walk, gap, &trace->profiler, gap->start, end);
    size_t place = thread_wait_at(trace, gap, gap->start);
    for (const ThreadWait *wait = thread_wait(trace, gap, place); wait && wait->start < end;
         wait = thread_wait(trace, gap, ++place)) {
        int64_t from = most(wait->start, gap->start), to = least(wait->end, end);
        if (to - from < walk->longest_delay)
            continue;
        cut(walk, gap, from, true);
        cut(walk, gap, to, true);
        cut_at_waits_of(walk, gap, thread_of(trace, wait->pid, wait->tid), from, to);
    }
    size_t step = place_after(&trace->steps, sizeof(Step), &gap->start, by_start);
    const size_t steps = COUNT(trace->steps, Step);
    for (size_t i = step; i < steps && AT(trace->steps, Step, i)->start < end; i++)
        cut(walk, gap, AT(trace->steps, Step, i)->start, false);
    sort(&walk->cuts, sizeof(Cut), by_cut);
    const size_t count = COUNT(walk->cuts, Cut);
    for (size_t i = 0; i < count; i++) {
        int64_t at = AT(walk->cuts, Cut, i)->at;
        int64_t to = i + 1 < count ? AT(walk->cuts, Cut, i + 1)->at : gap->end;
        if (to == at)
            continue;
        Segment segment = {at, to, NOTHING, least(end, to) - at, gap->context, false,
                           AT(walk->cuts, Cut, i)->is_of_wait};
        const Piece *silence = piece_at(&walk->silent, at);
        segment.is_unrecorded = silence && at < silence->end;
        bool is_between = borders.has_between && at < borders.between_end;
        const Span *open
            = is_between && at >= borders.left ? innermost(&process->phases, at, IS_MARKER) : NULL;
        Context no_context = {NOTHING, NOTHING, walk->other, walk->unattributed};
        if (borders.left != NOTHING && at < borders.left) {
            segment.context = borders.previous->context;
        } else if (open) {
            segment.context = no_context;
            segment.context.phase = open->phase;
            if (open->row >= 0)
                segment.context.row = open->row;
        } else if (is_between
                   && (segment.is_unrecorded
                       || (borders.is_crossing
                           && borders.between_end - borders.left >= walk->unrecorded))) {
            segment.context = no_context;
        }
        while (step < steps && AT(trace->steps, Step, step)->start <= at)
            step++;
        if (step > 0 && at < AT(trace->steps, Step, step - 1)->end)
            segment.step = AT(trace->steps, Step, step - 1)->step;
        *ADD(walk, &walk->segments, Segment) = segment;
    }
}

/* Causes */

typedef struct {
    const char *cause, *reason;
} Verdict;

/* Facts that decide the cause of a segment. Durations are in ns and cover only its host part. */
typedef struct {
    int64_t host, profiler, data_loading, allocator, comm_wait, sync, lock, unrecorded;
    bool is_inside_graph, is_coarse, lacks_launch, lacks_work, is_late, is_short, follows_comm, is_ordered;
    bool follows_stream, is_usual_delay, is_unrecorded, is_waiting_call, is_running_call;
} Facts;

/* The rules in queries/idle/idle_gap.sql, in order; the first match decides. */
static Verdict decide(const Facts *f)
{
    if (f->is_inside_graph)
        return (Verdict){f->is_short ? "graph_gap" : "not_recorded", "inside one graph replay"};
    if (f->is_coarse)
        return (Verdict){"unknown", "host clock too coarse"};
    if (f->lacks_launch)
        return (Verdict){"unknown", "launch not recorded"};
    if (f->lacks_work)
        return (Verdict){"not_recorded", "work in between is missing"};
    if (!f->is_late) {
        if (f->follows_comm)
            return (Verdict){"comm_wait", "after communication"};
        if (f->is_ordered)
            return (Verdict){"dependency", "stream wait"};
        if (f->follows_stream)
            return (Verdict){"dependency", "after another stream"};
        if (f->is_usual_delay)
            return (Verdict){"launch_latency", "usual delay"};
        return (Verdict){"unknown", "unusual delay"};
    }
    if (f->is_unrecorded)
        return (Verdict){"unknown", "nothing recorded"};
    if (f->profiler > f->host - f->profiler)
        return (Verdict){"profiler", "host waited"};
    if (f->data_loading > f->host - f->data_loading)
        return (Verdict){"data_loading", "host waited"};
    if (f->allocator > f->host - f->allocator)
        return (Verdict){"allocator", "host waited"};
    if (f->comm_wait > f->host - f->comm_wait)
        return (Verdict){"comm_wait", "host waited"};
    if (f->sync > f->host - f->sync)
        return (Verdict){"host_sync", "host waited"};
    if (f->unrecorded > f->host - f->unrecorded)
        return (Verdict){"not_recorded", "host waited"};
    if (f->lock > f->host - f->lock)
        return (Verdict){"unknown", "waited for some thread"};
    if (f->is_waiting_call)
        return (Verdict){"host_sync", "launch call waited"};
    if (f->is_running_call)
        return (Verdict){"launch_latency", "launch call was running"};
    return (Verdict){"host_bound", "host was at work"};
}

static int by_missing(const void *a, const void *b)
{
    const MissingCall *x = a, *y = b;
    int ordered = order(x->pid, y->pid);
    if (ordered == 0)
        ordered = order(x->tid, y->tid);
    return ordered ? ordered : order(x->ts, y->ts);
}

/* Return whether the thread, in or before the first half of the gap, launched work that is not in the
 * trace. */
static bool lacks_work(const Trace *trace, const Gap *gap)
{
    if (gap->previous_launch_ns == NOTHING || call_of(gap) == NOTHING)
        return false;
    MissingCall key = {gap->pid, gap->tid, gap->previous_launch_ns};
    size_t place = place_after(&trace->missing, sizeof key, &key, by_missing);
    if (place == COUNT(trace->missing, MissingCall))
        return false;
    const MissingCall *call = AT(trace->missing, MissingCall, place);
    return call->pid == gap->pid && call->tid == gap->tid && call->ts < call_of(gap)
        && call->ts - gap->start <= gap->end - call->ts;
}

/* Return how much earlier, in ns, the launch would have come without the wait that ran at `since` (the start
 * of the gap, or of the wait for this thread), within a segment. */
static int64_t inherited(const Walk *walk, const Buffer *waits, int64_t since,
                         const Segment *segment, int64_t end)
{
    const Piece *wait = piece_at(waits, since);
    if (wait == NULL || wait->end <= since)
        return 0;
    int64_t until = wait->end + least(since - wait->start, walk->longest_delay);
    return most(least(until, end) - most(wait->end, segment->start), 0);
}

/* Return the facts of a segment, and set `busy` to the thread that worked in it. */
static Facts facts_of(const Walk *walk, const Trace *trace, const Gap *gap,
                      const Segment *segment, const Thread **busy)
{
    const int64_t length = gap->end - gap->start;
    const int64_t *known = find_entry(&trace->calls, gap->launch);
    const int64_t call = known ? *known : 0;
    Facts facts = {
        .host = segment->host_ns,
        .is_inside_graph
        = gap->is_inside_launch && (gap->flags & IS_GRAPH || gap->launch == NOTHING),
        .is_coarse = (gap->flags & IS_COARSE) != 0,
        .lacks_launch = (gap->flags & LACKS_LAUNCH) != 0,
        .is_late = gap->is_late,
        .is_short = length <= walk->longest_delay,
        .is_ordered = (call & IS_ORDERED) != 0,
        .is_usual_delay = gap->is_usual_delay,
        .is_unrecorded = segment->is_unrecorded,
        .is_waiting_call = call & IS_WAITING && call_of(gap) <= gap->start,
        .is_running_call = segment->host_ns < walk->short_call && call_of(gap) <= gap->start,
    };
    facts.lacks_work = lacks_work(trace, gap);
    facts.follows_comm
        = gap->previous_flags & IS_COMM && gap->is_other_stream && facts.is_short;
    facts.follows_stream = gap->is_other_stream && gap->is_stream_idle && facts.is_short
        && (gap->returned == NOTHING || gap->returned < gap->start);
    *busy = NULL;
    if (!gap->is_late || segment->is_unrecorded)
        return facts;
    int64_t start = segment->start, end = segment->start + segment->host_ns, since = gap->start;
    *busy = thread_of(trace, gap->pid, gap->tid);
    const ThreadWait *wait
        = thread_wait(trace, gap, thread_wait_at(trace, gap, start + segment->host_ns / 2));
    if (wait && wait->start <= start + segment->host_ns / 2
        && most(least(end, wait->end) - most(start, wait->start), 0) * 2 > segment->host_ns
        && thread_of(trace, wait->pid, wait->tid)) {
        *busy = thread_of(trace, wait->pid, wait->tid);
        start = most(start, wait->start);
        end = least(end, wait->end);
        since = most(since, wait->start);
    }
    facts.profiler = covered(&trace->profiler, start, end);
    if (*busy) {
        const Buffer *waits = (*busy)->waits;
        facts.data_loading = covered(&waits[DATA_LOADING], start, end);
        facts.allocator = covered(&waits[ALLOCATOR], start, end);
        facts.comm_wait = covered(&waits[COMM_WAIT], start, end);
        facts.lock = covered(&waits[LOCK], start, end);
        facts.unrecorded = covered(&waits[UNRECORDED], start, end);
        facts.sync = covered(&waits[SYNC], start, end) + covered(&waits[COPY], start, end)
            + inherited(walk, &waits[SYNC], since, segment, end);
        if (gap->previous_flags & IS_COPY_TO_HOST)
            facts.sync += inherited(walk, &waits[COPY], since, segment, end);
    }
    /* All threads of the process share the driver's lock. */
    if (gap->flags & BY_CALL)
        facts.allocator += covered(&process_of(trace, gap->pid)->allocator,
                                   most(call_of(gap), segment->start),
                                   segment->start + segment->host_ns);
    return facts;
}

static bool emit_word(Sweep *sweep, const char *word) { return emit_text(sweep, word, strlen(word)); }

static bool emit_numbered_text(Sweep *sweep, const Walk *walk, int32_t number)
{
    size_t size;
    const char *text = text_at(walk, number, &size);
    return emit_text(sweep, text, size);
}

static bool emit_segment(Sweep *sweep, const Walk *walk, const Trace *trace, const Gap *gap,
                         const Segment *segment, Verdict verdict, const Thread *busy)
{
    const Thread *own = thread_of(trace, gap->pid, gap->tid);
    int64_t busy_at = NOTHING, busy_tid = NOTHING, function = NOTHING, busy_op = NOTHING;
    int64_t op = segment->is_unrecorded ? NOTHING : segment->context.op;
    if (gap->is_late && !segment->is_unrecorded) {
        busy_at = segment->start + segment->host_ns / 2;
        busy_tid = busy ? busy->tid : gap->tid;
        const Span *span = busy ? innermost(&busy->spans, busy_at, IS_OP) : NULL;
        busy_op = span ? span->event : NOTHING;
        span = own ? innermost(&own->spans, busy_at, IS_PROGRAM) : NULL;
        function = span ? span->event : NOTHING;
        if (busy_op != NOTHING || strcmp(verdict.cause, "data_loading") == 0)
            op = busy_op;
    }
    return emit_number(sweep, trace->id)
        && emit_number(sweep, gap - AT(trace->gaps, Gap, 0) + 1)
        && emit_numbered_text(sweep, walk, gap->device) && emit_number(sweep, segment->start)
        && emit_number(sweep, segment->end) && emit_number(sweep, segment->end - segment->start)
        && emit_word(sweep, verdict.cause) && emit_word(sweep, verdict.reason)
        && emit_number(sweep, gap->previous_event) && emit_number(sweep, gap->next_event)
        && emit_number(sweep, gap->next_piece) && emit_number(sweep, gap->launch)
        && emit_number(sweep, gap->delay) && emit_number(sweep, gap->pid)
        && emit_number(sweep, gap->tid) && emit_number(sweep, segment->host_ns)
        && emit_number(sweep, busy_at) && emit_number(sweep, busy_tid)
        && emit_number(sweep, busy_op) && emit_number(sweep, op)
        && emit_number(sweep, segment->step)
        && emit_numbered_text(sweep, walk, segment->context.phase)
        && emit_number(sweep, segment->context.module)
        && emit_numbered_text(sweep, walk, segment->context.row) && emit_number(sweep, function);
}

/* Emit the segments of a gap. Segments with the same cause that only a wait separates are joined. */
static bool emit_gap(Sweep *sweep, Walk *walk, const Trace *trace, const Gap *gap)
{
    walk->segments.size = 0;
    if (gap->is_late)
        cut_gap(walk, trace, gap);
    else
        *ADD(walk, &walk->segments, Segment)
            = (Segment){gap->start, gap->end, gap->step, gap->host_ns, gap->context, false, false};
    const size_t count = COUNT(walk->segments, Segment);
    Segment pending = {0};
    Verdict pending_verdict = {NULL, NULL};
    const Thread *pending_busy = NULL;
    for (size_t i = 0; i < count && !walk->is_full; i++) {
        const Segment *segment = AT(walk->segments, Segment, i);
        const Thread *busy;
        Facts facts = facts_of(walk, trace, gap, segment, &busy);
        Verdict verdict = decide(&facts);
        bool is_one = pending_verdict.cause && strcmp(verdict.cause, pending_verdict.cause) == 0
            && strcmp(verdict.reason, pending_verdict.reason) == 0 && busy == pending_busy
            && segment->follows_wait;
        if (is_one) {
            pending.end = segment->end;
            pending.host_ns += segment->host_ns;
            continue;
        }
        if (pending_verdict.cause
            && !emit_segment(sweep, walk, trace, gap, &pending, pending_verdict, pending_busy))
            return false;
        pending = *segment;
        pending_verdict = verdict;
        pending_busy = busy;
    }
    return walk->is_full || pending_verdict.cause == NULL
        || emit_segment(sweep, walk, trace, gap, &pending, pending_verdict, pending_busy);
}

/* Traces */

static void free_trace(Trace *trace)
{
    for (size_t i = 0; i < COUNT(trace->threads, Thread); i++) {
        Thread *thread = AT(trace->threads, Thread, i);
        buffer_free(&thread->spans);
        for (int kind = 0; kind < WAITS; kind++)
            buffer_free(&thread->waits[kind]);
    }
    for (size_t i = 0; i < COUNT(trace->processes, Process); i++) {
        Process *process = AT(trace->processes, Process, i);
        buffer_free(&process->phases);
        buffer_free(&process->silences);
        buffer_free(&process->allocator);
    }
    Buffer *lists[] = {&trace->gaps, &trace->previous, &trace->steps, &trace->thread_waits,
                       &trace->missing, &trace->threads, &trace->processes, &trace->profiler};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        buffer_free(lists[i]);
    clear_map(&trace->calls);
    clear_map(&trace->thread_places);
}

/* Emit the gaps whose host events have been read, and drop events that later gaps do not need. */
static bool emit_gaps(Sweep *sweep, Walk *walk, Trace *trace, int64_t before)
{
    for (; trace->next < COUNT(trace->gaps, Gap) && !walk->is_full; trace->next++) {
        const Gap *gap = AT(trace->gaps, Gap, trace->next);
        int64_t read = most(call_of(gap), gap->is_late ? host_end(gap) : gap->start);
        if (read >= before)
            break;
        if (!emit_gap(sweep, walk, trace, gap))
            return false;
    }
    drop_host(walk, trace);
    return true;
}

/* Emit the remaining gaps of earlier traces, and free these traces. */
static bool finish_traces(Sweep *sweep, Walk *walk, size_t before)
{
    for (; walk->done < before; walk->done++) {
        Trace *trace = AT(walk->traces, Trace, walk->done);
        end_work(walk, trace);
        if (!emit_gaps(sweep, walk, trace, INT64_MAX))
            return false;
        free_trace(trace);
    }
    return !walk->is_full || sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

/* Return the trace of a row, or NULL if it has no work. */
static Trace *trace_of(Walk *walk, int64_t id, int64_t section)
{
    size_t count = COUNT(walk->traces, Trace);
    if (section == WORK) {
        Trace *last = count ? AT(walk->traces, Trace, count - 1) : NULL;
        if (last && last->id == id)
            return last;
        if (last)
            end_work(walk, last);
        walk->place = count;
        last = ADD(walk, &walk->traces, Trace);
        *last = (Trace){
            .id = id, .calls.of_nothing = NOTHING, .thread_places.of_nothing = NOTHING};
        return last;
    }
    if (count > 0)
        end_work(walk, AT(walk->traces, Trace, count - 1));
    if (section != walk->section)
        walk->place = 0;
    while (walk->place < count && AT(walk->traces, Trace, walk->place)->id < id)
        walk->place++;
    if (walk->place == count || AT(walk->traces, Trace, walk->place)->id != id)
        return NULL;
    return AT(walk->traces, Trace, walk->place);
}

static bool read_row(Sweep *sweep, void *state, bool is_new_partition)
{
    Walk *walk = state;
    int64_t section = number_of(sweep, SECTION);
    (void)is_new_partition;
    if (section < walk->section)
        return sweep_fail(sweep, "the rows are out of order");
    if (section == LIMITS) {
        walk->longest_delay = number_of(sweep, START);
        walk->short_call = number_of(sweep, END);
        walk->delay_factor = number_of(sweep, EVENT);
        walk->delay_count = number_of(sweep, PID);
        walk->unrecorded = number_of(sweep, TID);
        walk->other = known_text(walk, "other");
        walk->unattributed = known_text(walk, "(unattributed)");
        return true;
    }
    Trace *trace = trace_of(walk, number_of(sweep, TRACE), section);
    walk->section = section;
    if (trace == NULL)
        return true;
    int64_t pid = number_of(sweep, PID), tid = number_of(sweep, TID);
    int64_t start = number_of(sweep, START), end = number_of(sweep, END);
    int64_t event = number_of(sweep, EVENT), flags = number_of(sweep, FLAGS);
    switch (section) {
    case WORK:
        read_work(walk, sweep, trace);
        break;
    case STEPS:
        *ADD(walk, &trace->steps, Step) = (Step){start, end, event};
        break;
    case THREAD_WAITS:
        *ADD(walk, &trace->thread_waits, ThreadWait)
            = (ThreadWait){pid, tid, start, end, event, flags == 1};
        break;
    case MISSING_CALLS:
        *ADD(walk, &trace->missing, MissingCall) = (MissingCall){pid, tid, start};
        break;
    default:
        if (!finish_traces(sweep, walk, walk->place) || !emit_gaps(sweep, walk, trace, start))
            return false;
        read_host(walk, sweep, trace);
    }
    return !walk->is_full || sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

static bool end_walk(Sweep *sweep, void *state)
{
    Walk *walk = state;
    return finish_traces(sweep, walk, COUNT(walk->traces, Trace));
}

static void free_walk(void *state)
{
    Walk *walk = state;
    for (size_t i = walk->done; i < COUNT(walk->traces, Trace); i++)
        free_trace(AT(walk->traces, Trace, i));
    buffer_free(&walk->device.launches);
    clear_map(&walk->device.places);
    clear_map(&walk->device.stream_ends);
    clear_map(&walk->device.call_starts);
    Buffer *lists[] = {&walk->traces, &walk->texts, &walk->text_ends, &walk->text_links,
                       &walk->cuts, &walk->silent, &walk->segments};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        buffer_free(lists[i]);
}

const SweepKind IDLE_GAPS = {
    .name = "idle_gaps",
    .input_types = "llllllll" "uuu" "llllllllll",
    .output_types = "llulll" "uu" "llllllllllll" "lulul",
    .names = {"trace_id", "gap_id", "device", "start_ns", "end_ns", "idle_ns", "cause", "reason",
              "previous_event_id", "next_event_id", "next_piece", "launch_id", "launch_delay_ns",
              "pid", "tid", "host_ns", "busy_at_ns", "busy_tid", "busy_op_id", "op_id", "step",
              "phase", "module_id", "row_name", "python_event_id"},
    .partition_columns = 1,
    .state_bytes = sizeof(Walk),
    .read_row = read_row,
    .finish = end_walk,
    .free = free_walk,
};
