/* The columns that events are read into. */
#ifndef TRACEKIT_COLUMNS_H
#define TRACEKIT_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The columns that the code here knows by name. Those of arguments follow them: they are described
 * from outside, each by name and key (see layout.h). */
enum column {
    EVENT_ID, KIND, PHASE, PID, TID, PID_TEXT, TID_TEXT, CATEGORY, NAME, TS_NS, DUR_NS, ID, SCOPE,
    BINDING, ARGS, EXTRA, FIRST_ARGUMENT
};

#define MAX_COLUMNS 48
#define MAX_NAME_BYTES 48

/* What a column holds; JSON is text that is marked as such, a kind one of a few names. */
typedef enum { INT64_COLUMN, TEXT_COLUMN, JSON_COLUMN, KIND_COLUMN } ColumnType;

/* The rows so far of one column. Integers and kinds lie in data; texts too, end to end. */
typedef struct {
    uint8_t *data;
    size_t size;
    size_t capacity;
    int32_t *ends;     /* of texts: ends[0] is 0, ends[i + 1] where text i ends */
    uint8_t *is_valid; /* one byte a row while it grows, one bit in Arrow */
    int64_t null_count;
    ColumnType type;
} Column;

typedef struct {
    Column columns[MAX_COLUMNS];
    int column_count;
    size_t row_count;
    size_t row_capacity;
} Batch;

/* Return how many bytes a value takes; 0 for texts. */
size_t width_of(const Column *column);

/* Free all memory; the batch is then one without rows. */
void batch_clear(Batch *batch);

/* Forget all rows, and keep the memory for those to come. */
void batch_empty(Batch *batch);

/* Make room for one more row in every column; false where there is no memory. */
bool batch_reserve_row(Batch *batch);

/* Make room for a text; false where there is no memory. */
bool column_reserve(Column *column, size_t bytes);

/* Forget what a row that was not finished has written. */
void batch_undo_row(Batch *batch);

/* Row setters: they write behind the last whole row, which a later row writes over if the event
 * turns out not to be readable. */

static inline void set_int(Batch *batch, int column, bool is_valid, int64_t value)
{
    Column *c = &batch->columns[column];
    ((int64_t *)c->data)[batch->row_count] = is_valid ? value : 0;
    c->is_valid[batch->row_count] = is_valid;
}

/* The text is what has been written to data since the last row. */
static inline void set_text(Batch *batch, int column, bool is_valid)
{
    Column *c = &batch->columns[column];
    c->ends[batch->row_count + 1] = (int32_t)c->size;
    c->is_valid[batch->row_count] = is_valid;
}

/* Most texts are short: a call of memcpy would take longer than copying them. */
static inline void put(Column *column, const char *text, size_t bytes)
{
    uint8_t *to = column->data + column->size;
    column->size += bytes;
    if (bytes > 16) {
        memcpy(to, text, bytes);
    } else if (bytes >= 8) {
        uint64_t first, last;
        memcpy(&first, text, 8);
        memcpy(&last, text + bytes - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + bytes - 8, &last, 8);
    } else if (bytes >= 4) {
        uint32_t first, last;
        memcpy(&first, text, 4);
        memcpy(&last, text + bytes - 4, 4);
        memcpy(to, &first, 4);
        memcpy(to + bytes - 4, &last, 4);
    } else {
        for (size_t i = 0; i < bytes; i++)
            to[i] = (uint8_t)text[i];
    }
}

#endif
