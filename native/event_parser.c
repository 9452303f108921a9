/* Python interface of the event parser: reads events of a Chrome trace into Arrow columns. */
#include <stdatomic.h>
#include <stdlib.h>

#include "arrow_export.h"
#include "description.h"
#include "event_stream.h"
#include "events.h"
#include "exported.h"

#define MAX_TEXT_BYTES ((size_t)1 << 29) /* offsets of texts have 32 bits */

/* Columns of events, one row per event in file order. One thread uses them at a time; calls from another
 * thread return CALL_BUSY. */
typedef struct {
    Description description;
    Batch batch;
    Structure structure;
    atomic_flag is_busy;
} Columns;

/* Return new columns, or NULL if memory runs out. The bounds are the earliest and latest start, and the
 * longest duration, in µs. Describe the columns next, as in description.h, and call columns_begin(). */
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

/* Add a column; see describe_column(). */
EXPORTED const char *columns_column(Columns *columns, const char *name, const char *type,
                                    const char *source, const int64_t *none)
{
    return describe_column(&columns->description, name, type, source, none);
}

/* Add a key to the last column; see describe_key(). */
EXPORTED const char *columns_key(Columns *columns, const char *key)
{
    return describe_key(&columns->description, key);
}

/* Add a kind of events; see describe_kind(). */
EXPORTED const char *columns_kind(Columns *columns, const char *name, const char *phases,
                                  const char *event_name)
{
    return describe_kind(&columns->description, name, phases, event_name);
}

/* End the description. Return NULL, or why it is not complete. */
EXPORTED const char *columns_begin(Columns *columns)
{
    batch_begin(&columns->batch, &columns->description.layout);
    return description_end(&columns->description);
}

/* Free the rows and scratch memory after the last event. */
EXPORTED int columns_clear(Columns *columns)
{
    if (atomic_flag_test_and_set(&columns->is_busy))
        return CALL_BUSY;
    batch_clear(&columns->batch);
    structure_free(&columns->structure);
    atomic_flag_clear(&columns->is_busy);
    return CALL_DONE;
}

/* Free the columns. */
EXPORTED void columns_free(Columns *columns)
{
    batch_clear(&columns->batch);
    structure_free(&columns->structure);
    free(columns);
}

/* Return the number of rows since the last columns_take(). */
EXPORTED int64_t columns_row_count(const Columns *columns)
{
    return (int64_t)columns->batch.row_count;
}

/* Result of columns_read(): `Run` of events.h, and the number of events. */
typedef struct {
    int64_t stop, event_count, used, odd_end, behind, is_last;
} ReadText;

/* Read events of an array from offset `at`, the start of an event with number `first_event_id`. Stop at
 * an odd event, at the end of the array, or after the last event that is followed by another. */
EXPORTED int columns_read(Columns *columns, const char *text, size_t bytes, size_t at,
                          int64_t first_event_id, ReadText *read)
{
    if (atomic_flag_test_and_set(&columns->is_busy))
        return CALL_BUSY;
    Run run = {DAMAGED, at, 0, 0, false};
    size_t row_count = columns->batch.row_count;
    /* Longer text is treated as damaged. */
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

/* Append the row of an event that Python read; see append_row(). Return NULL, or the reason for failure. */
EXPORTED const char *columns_append(Columns *columns, const uint8_t *has_value,
                                    const int64_t *numbers, const char *texts)
{
    if (atomic_flag_test_and_set(&columns->is_busy))
        return "another thread is reading into these columns";
    const char *why = append_row(&columns->description, &columns->batch, has_value, numbers, texts);
    atomic_flag_clear(&columns->is_busy);
    return why;
}

/* Move the rows since the last call into a new array for a capsule, or set it to NULL if there are none. */
EXPORTED int columns_take(Columns *columns, struct ArrowArray **array_out)
{
    *array_out = NULL;
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
        *array_out = is_done ? array : NULL;
    }
    atomic_flag_clear(&columns->is_busy);
    return is_done ? CALL_DONE : CALL_NO_MEMORY;
}

/* Return a stream of arrays from columns_take() for a capsule, or NULL if memory runs out. */
EXPORTED struct ArrowArrayStream *columns_stream(const Columns *columns, NextArray next)
{
    return new_event_stream(&columns->description.layout, next);
}

/* Select the instructions, "avx2" or "plain", for tests; both give the same rows. Return false if this
 * machine does not support them. */
EXPORTED int use_instructions(const char *way)
{
    return structure_use(way);
}
