/* Sweeps: each reads the sorted rows of an Arrow stream and returns its own rows as another stream. Its
 * memory does not grow with the number of rows already returned. */
#ifndef TRACEKIT_SWEEP_H
#define TRACEKIT_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../arrow_abi.h"

#define MAX_SWEEP_COLUMNS 32

/* NULL in integer columns. */
#define NOTHING INT64_MIN

/* Growing byte buffer. */
typedef struct {
    char *data;
    size_t size, room;
} Buffer;

/* Reserve `size` more bytes. Return false if memory runs out. */
bool buffer_grow(Buffer *buffer, size_t size);

/* Remove the first `size` bytes. */
void buffer_drop(Buffer *buffer, size_t size);

/* Free the memory. */
void buffer_free(Buffer *buffer);

/* Append bytes. Return false if memory runs out. */
static inline bool buffer_add(Buffer *buffer, const void *data, size_t size)
{
    if (buffer->room - buffer->size < size && !buffer_grow(buffer, size))
        return false;
    if (size > 0)
        memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return true;
}

/* Sum and difference, clamped to 64 bits: numbers from SQL can have any value. */
static inline int64_t bounded_sum(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

static inline int64_t bounded_difference(int64_t a, int64_t b)
{
    int64_t difference;
    return __builtin_sub_overflow(a, b, &difference) ? (b < 0 ? INT64_MAX : INT64_MIN) : difference;
}

typedef struct Sweep Sweep;

/* Definition of a sweep. Columns are 64-bit integers ("l") or texts ("u"), as in Arrow formats. */
typedef struct {
    const char *name;
    const char *input_types, *output_types;     /* one letter per column */
    const char *const names[MAX_SWEEP_COLUMNS]; /* of all columns of the result */
    int partition_columns;                      /* number of leading columns that identify a partition */
    bool appends_columns;                       /* appends columns to the input rows, adds no rows */
    size_t state_bytes;
    bool (*read_row)(Sweep *sweep, void *state, bool is_new_partition); /* false on failure */
    /* Optional: called after the last row, and to free the state. */
    bool (*finish)(Sweep *sweep, void *state);
    void (*free)(void *state);
} SweepKind;

extern const SweepKind OWNED_TIME, IDLE_GAPS, SELF_TIME, CONTEXTS, REPLAY, GAINS, MOMENTS,
    RUN_STEPS, PATH;

/* Set the error message of a sweep, and return false. */
bool sweep_fail(Sweep *sweep, const char *why);

/* Return the result stream of the sweep `name` over `source`. The stream takes ownership of `source`, and the
 * caller frees the stream after releasing it. Return NULL on failure, with the reason in `why`, which has `room`
 * bytes. */
struct ArrowArrayStream *sweep_stream(const char *name, struct ArrowArrayStream *source, char *why,
                                      size_t room);

/* Return a value of the current input row: NOTHING or NULL for an SQL NULL. */
int64_t number_of(const Sweep *sweep, int column);
const char *text_of(const Sweep *sweep, int column, size_t *size);

/* Append the value of the next column of the current output row. emit_column() copies the value of a column
 * of the input row. Return false on failure. */
bool emit_number(Sweep *sweep, int64_t number);
bool emit_text(Sweep *sweep, const char *text, size_t size);
bool emit_column(Sweep *sweep, int column);

/* Return the number of output rows so far. */
int64_t emitted_rows(const Sweep *sweep);

/* Hold this output row and later ones, because set_number() may change their values. For sweeps that
 * append columns. */
void hold_rows(Sweep *sweep, int64_t row);
void set_number(Sweep *sweep, int64_t row, int column, int64_t number);

#endif
