/* Column buffers for events. */
#ifndef TRACEKIT_COLUMNS_H
#define TRACEKIT_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Columns with code in the parser. Columns of arguments follow; Python describes them by name and key
 * (see layout.h). */
enum column {
    EVENT_ID, KIND, PHASE, PID, TID, PID_TEXT, TID_TEXT, CATEGORY, NAME, TS_NS, DUR_NS, ID, SCOPE,
    BINDING, ARGS, EXTRA, FIRST_ARGUMENT
};

#define MAX_COLUMNS 48
#define MAX_NAME_BYTES 48

/* Type of a column. JSON is text that is marked as JSON in Arrow; a kind is one of a few names. */
typedef enum { INT64_COLUMN, TEXT_COLUMN, JSON_COLUMN, KIND_COLUMN } ColumnType;

/* Values of one column. `data` holds integers and kinds, or the concatenated texts. */
typedef struct {
    uint8_t *data;
    size_t size;
    size_t capacity;
    int32_t *ends;     /* texts only: ends[0] is 0, text i ends at ends[i + 1] */
    uint8_t *is_valid; /* one byte per row here, one bit in Arrow */
    int64_t null_count;
    ColumnType type;
} Column;

typedef struct {
    Column columns[MAX_COLUMNS];
    int column_count;
    size_t row_count;
    size_t row_capacity;
} Batch;

/* Return the size of a value in bytes, 0 for texts. */
size_t width_of(const Column *column);

/* Free all memory and remove all rows. */
void batch_clear(Batch *batch);

/* Remove all rows, but keep the memory. */
void batch_empty(Batch *batch);

/* Reserve one more row in every column. Return false if memory runs out. */
bool batch_reserve_row(Batch *batch);

/* Reserve `bytes` for a text. Return false if memory runs out. */
bool column_reserve(Column *column, size_t bytes);

/* Remove the texts of an incomplete row. */
void batch_undo_row(Batch *batch);

/* Setters for the row after the last complete row. If the event cannot be read, the next event overwrites
 * this row. */

static inline void set_int(Batch *batch, int column, bool is_valid, int64_t value)
{
    Column *c = &batch->columns[column];
    ((int64_t *)c->data)[batch->row_count] = is_valid ? value : 0;
    c->is_valid[batch->row_count] = is_valid;
}

/* End the text that was appended to `data` since the last row. */
static inline void set_text(Batch *batch, int column, bool is_valid)
{
    Column *c = &batch->columns[column];
    c->ends[batch->row_count + 1] = (int32_t)c->size;
    c->is_valid[batch->row_count] = is_valid;
}

/* Append bytes. Most texts are so short that a call to memcpy would take longer than the copy itself. */
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
