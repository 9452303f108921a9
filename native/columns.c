#include "columns.h"

#include <stdlib.h>

#define MIN_TEXT_BYTES 4096

size_t width_of(const Column *column)
{
    switch (column->type) {
    case INT64_COLUMN: return sizeof(int64_t);
    case KIND_COLUMN: return 1;
    default: return 0;
    }
}

void batch_clear(Batch *batch)
{
    for (int i = 0; i < batch->column_count; i++) {
        Column *column = &batch->columns[i];
        free(column->data);
        free(column->ends);
        free(column->is_valid);
        *column = (Column){.type = column->type};
    }
    batch->row_count = batch->row_capacity = 0;
}

void batch_empty(Batch *batch)
{
    for (int i = 0; i < batch->column_count; i++)
        batch->columns[i].size = 0;
    batch->row_count = 0;
}

static bool grow(void **memory, size_t bytes)
{
    void *grown = realloc(*memory, bytes);
    if (grown == NULL)
        return false;
    *memory = grown;
    return true;
}

bool batch_reserve_row(Batch *batch)
{
    if (batch->row_count < batch->row_capacity)
        return true;
    size_t rows = batch->row_capacity ? 2 * batch->row_capacity : 4096;
    for (int i = 0; i < batch->column_count; i++) {
        Column *column = &batch->columns[i];
        size_t width = width_of(column);
        if (!grow((void **)&column->is_valid, rows))
            return false;
        if (width && !grow((void **)&column->data, rows * width))
            return false;
        if (!width) {
            bool is_first = column->ends == NULL;
            if (!grow((void **)&column->ends, (rows + 1) * sizeof(int32_t)))
                return false;
            if (is_first)
                column->ends[0] = 0;
        }
    }
    batch->row_capacity = rows;
    return true;
}

bool column_reserve(Column *column, size_t bytes)
{
    if (column->data != NULL && column->capacity - column->size >= bytes)
        return true;
    size_t capacity = column->size + bytes;
    if (capacity < 2 * column->capacity)
        capacity = 2 * column->capacity;
    if (capacity < MIN_TEXT_BYTES)
        capacity = MIN_TEXT_BYTES;
    if (!grow((void **)&column->data, capacity))
        return false;
    column->capacity = capacity;
    return true;
}

void batch_undo_row(Batch *batch)
{
    for (int i = 0; i < batch->column_count; i++) {
        Column *column = &batch->columns[i];
        if (column->ends != NULL)
            column->size = (size_t)column->ends[batch->row_count];
    }
}
