/* A sweep takes the rows of an Arrow stream in their order, one by one, and gives rows of its own as
 * another Arrow stream. What it holds does not grow with what it has handed on. */
#ifndef TRACEKIT_SWEEP_H
#define TRACEKIT_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "arrow_abi.h"

#define MAX_SWEEP_COLUMNS 32

/* No time of an event, and no id. */
#define NOTHING INT64_MIN

/* Bytes that grow. */
typedef struct {
    char *data;
    size_t size, room;
} Buffer;

bool buffer_grow(Buffer *buffer, size_t size);
void buffer_drop(Buffer *buffer, size_t size); /* the first ones */
void buffer_free(Buffer *buffer);

static inline bool buffer_add(Buffer *buffer, const void *data, size_t size)
{
    if (buffer->room - buffer->size < size && !buffer_grow(buffer, size))
        return false;
    if (size > 0)
        memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return true;
}

/* Sums and differences of numbers that SQL hands over, which may be any: at the bounds they stay. */
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

/* Columns are numbers of 64 bits ("l") or texts ("u"), as Arrow writes their types. */
typedef struct {
    const char *name;
    const char *takes, *gives;                  /* a letter for each column */
    const char *const names[MAX_SWEEP_COLUMNS]; /* of the columns that come out */
    int part_columns;                           /* so many columns say which part a row is of */
    bool widens; /* gives a row for each one, behind the columns that it has */
    size_t state_bytes;
    bool (*take)(Sweep *sweep, void *state, bool is_new_part); /* false where it gives up */
    /* Where there is something to do: after the last row, and when all is over. */
    bool (*end)(Sweep *sweep, void *state);
    void (*free)(void *state);
} SweepKind;

extern const SweepKind OWNED_TIME, IDLE_GAPS, SELF_TIME, CONTEXTS, REPLAY, GAINS, MOMENTS,
    RUN_STEPS, PATH;

/* Say why a sweep gives up, and return false. */
bool sweep_fail(Sweep *sweep, const char *why);

/* Whom a sweep asks about rows that it does not know itself. */
typedef struct {
    int (*ask)(int question);   /* 0 where there is no answer; called from any thread */
    int64_t *numbers;           /* of the question, then of the answer */
    const unsigned char *flags; /* of each kind of row, as the sweep defines them */
    int64_t kind_count;
} SweepAsks;

/* Return the stream that a sweep makes of another, which it takes over; its owner frees it once it is
 * released. NULL where it does not, with the reason in `why`. `asks` is NULL, or lives as long as the
 * stream is read. */
struct ArrowArrayStream *sweep_stream(const char *name, struct ArrowArrayStream *source,
                                      const SweepAsks *asks, char *why, size_t room);

/* NULL where nobody was given to be asked. */
const SweepAsks *sweep_asks(const Sweep *sweep);

/* Read a column of the row that is taken: NOTHING for a number, NULL for a text that is not there. */
int64_t number_of(const Sweep *sweep, int column);
const char *text_of(const Sweep *sweep, int column, size_t *size);

/* Write a row: a value for each column in turn. */
bool give_number(Sweep *sweep, int64_t number);
bool give_text(Sweep *sweep, const char *text, size_t size);
bool give_column(Sweep *sweep, int column); /* of the row that is taken */

/* How many rows were given. */
int64_t given_rows(const Sweep *sweep);

/* Keep this row and those behind it: their numbers may change. For a sweep that widens. */
void hold_back(Sweep *sweep, int64_t row);
void change_number(Sweep *sweep, int64_t row, int column, int64_t number);

#endif
