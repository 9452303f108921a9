/* The functions by which Python has the events of a Chrome trace read into Arrow columns. */
#include <stdatomic.h>
#include <stdlib.h>

#include "arrow_export.h"
#include "description.h"
#include "event_stream.h"
#include "events.h"
#include "exported.h"

#define MAX_TEXT_BYTES ((size_t)1 << 29) /* offsets of texts are 32 bits wide */

/* Events as columns, a row each, in the order in which they come. One thread at a time works on them:
 * another one is told that they are busy. */
typedef struct {
    Description description;
    Batch batch;
    Structure structure;
    atomic_flag is_busy;
} Columns;

/* Make columns; bounds are the earliest and latest start, and the longest duration. NULL where there
 * is no memory. The calls of description.h follow, and end with columns_begin(). */
EXPORTED Columns *columns_new(int64_t min_time_us, int64_t max_time_us, int64_t max_dur_us)
{
    Columns *columns = calloc(1, sizeof *columns);
    if (columns == NULL)
        return NULL;
    Layout *layout = &columns->description.layout;
    description_begin(&columns->description);
    layout->min_time_us = min_time_us;
    layout->max_time_us = max_time_us;
    layout->max_dur_us = max_dur_us;
    atomic_flag_clear(&columns->is_busy);
    return columns;
}

EXPORTED const char *columns_column(Columns *columns, const char *name, const char *type,
                                    const char *source, const int64_t *none)
{
    return describe_column(&columns->description, name, type, source, none);
}

EXPORTED const char *columns_key(Columns *columns, const char *key)
{
    return describe_key(&columns->description, key);
}

EXPORTED const char *columns_kind(Columns *columns, const char *name, const char *phases,
                                  const char *event_name)
{
    return describe_kind(&columns->description, name, phases, event_name);
}

EXPORTED const char *columns_begin(Columns *columns)
{
    batch_begin(&columns->batch, &columns->description.layout);
    return description_end(&columns->description);
}

/* Free all memory but that of the description: nothing more is read. */
EXPORTED int columns_clear(Columns *columns)
{
    if (atomic_flag_test_and_set(&columns->is_busy))
        return CALL_BUSY;
    batch_clear(&columns->batch);
    structure_free(&columns->structure);
    atomic_flag_clear(&columns->is_busy);
    return CALL_DONE;
}

EXPORTED void columns_free(Columns *columns)
{
    batch_clear(&columns->batch);
    structure_free(&columns->structure);
    free(columns);
}

EXPORTED int64_t columns_row_count(const Columns *columns)
{
    return (int64_t)columns->batch.row_count;
}

/* How far a text was read, as in events.h. */
typedef struct {
    int64_t stop, event_count, used, odd_end, behind, is_last;
} ReadText;

/* Read the events of an array of events from `at` on, where one begins: up to one that is not read
 * here, the end of the array, or the last one that is surely followed by another. */
EXPORTED int columns_read(Columns *columns, const char *text, size_t bytes, size_t at,
                          int64_t first_event_id, ReadText *read)
{
    if (atomic_flag_test_and_set(&columns->is_busy))
        return CALL_BUSY;
    Run run = {DAMAGED, at, 0, 0, false};
    size_t row_count = columns->batch.row_count;
    /* What is longer is left to whoever reads damaged text. */
    if (bytes < MAX_TEXT_BYTES && columns->batch.columns[ARGS].size < MAX_TEXT_BYTES)
        run = read_events(text, bytes, at, first_event_id, &columns->description.layout,
                          &columns->batch, &columns->structure);
    *read = (ReadText){
        .stop = run.stop,
        .event_count = (int64_t)(columns->batch.row_count - row_count),
        .used = (int64_t)run.used,
        .odd_end = (int64_t)run.odd_end,
        .behind = (int64_t)run.behind,
        .is_last = run.is_last,
    };
    atomic_flag_clear(&columns->is_busy);
    return run.stop == OUT_OF_MEMORY ? CALL_NO_MEMORY : CALL_DONE;
}

/* Add the row of an event that was read elsewhere; return NULL, or why not. */
EXPORTED const char *columns_append(Columns *columns, const uint8_t *is_there,
                                    const int64_t *numbers, const char *texts)
{
    if (atomic_flag_test_and_set(&columns->is_busy))
        return "another thread is reading into these columns";
    const char *why = append_row(&columns->description, &columns->batch, is_there, numbers, texts);
    atomic_flag_clear(&columns->is_busy);
    return why;
}

/* Move the rows since the last time into an array, for a capsule; NULL for no rows. */
EXPORTED int columns_take(Columns *columns, struct ArrowArray **taken)
{
    *taken = NULL;
    if (atomic_flag_test_and_set(&columns->is_busy))
        return CALL_BUSY;
    bool is_done = true;
    if (columns->batch.row_count > 0) {
        struct ArrowArray *array = malloc(sizeof *array);
        is_done = array != NULL
            && batch_export(&columns->batch, &columns->description.layout, array);
        batch_empty(&columns->batch);
        if (!is_done)
            free(array);
        *taken = is_done ? array : NULL;
    }
    atomic_flag_clear(&columns->is_busy);
    return is_done ? CALL_DONE : CALL_NO_MEMORY;
}

/* Make a stream of what columns_take() gave, for a capsule; NULL where there is no memory. */
EXPORTED struct ArrowArrayStream *columns_stream(const Columns *columns, NextArray next)
{
    return new_event_stream(&columns->description.layout, next);
}

/* Have all texts looked at in the way of this name from now on, "avx2" or "plain", for tests: the
 * rows are the same. False where this machine does not have it. */
EXPORTED int use_instructions(const char *way)
{
    return structure_use(way);
}
