#include "sweep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exported.h"

#define MOST_BATCHES_WAITING 8

/* Bytes */

bool buffer_grow(Buffer *buffer, size_t size)
{
    size_t room = buffer->room ? buffer->room : 256;
    while (room - buffer->size < size)
        room *= 2;
    char *grown = realloc(buffer->data, room);
    if (grown == NULL)
        return false;
    buffer->data = grown;
    buffer->room = room;
    return true;
}

void buffer_drop(Buffer *buffer, size_t size)
{
    buffer->size -= size;
    if (buffer->size > 0)
        memmove(buffer->data, buffer->data + size, buffer->size);
}

void buffer_free(Buffer *buffer)
{
    free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}

/* The sweep */

typedef struct {
    Buffer valid, values; /* a byte a row; numbers or text */
    Buffer ends;          /* of texts: int32 */
} Given;

struct Sweep {
    const SweepKind *kind;
    void *state;
    struct ArrowArrayStream source;
    struct ArrowArray batch;
    int64_t row;     /* in the batch */
    Buffer part;     /* of the row before */
    Buffer part_now; /* of this row */
    bool has_part, has_ended;
    bool is_narrow[MAX_SWEEP_COLUMNS]; /* numbers of 32 bits */
    Given columns[MAX_SWEEP_COLUMNS];
    int column_count, next_column;
    int64_t row_count, handed_on, held_from;
    struct ArrowArray waiting[MOST_BATCHES_WAITING]; /* to be widened */
    int waiting_count;
    const SweepAsks *asks;
    char error[256];
};

const SweepAsks *sweep_asks(const Sweep *sweep)
{
    return sweep->asks;
}

bool sweep_fail(Sweep *sweep, const char *why)
{
    snprintf(sweep->error, sizeof sweep->error, "%s", why);
    return false;
}

static bool no_memory(Sweep *sweep)
{
    return sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

/* Rows that are taken */

static const struct ArrowArray *column_at(const Sweep *sweep, int column, int64_t *place)
{
    const struct ArrowArray *array = sweep->batch.children[column];
    const uint8_t *valid = array->buffers[0];
    *place = sweep->batch.offset + array->offset + sweep->row;
    return valid == NULL || valid[*place >> 3] >> (*place & 7) & 1 ? array : NULL;
}

int64_t number_of(const Sweep *sweep, int column)
{
    int64_t place;
    const struct ArrowArray *array = column_at(sweep, column, &place);
    if (array == NULL)
        return NOTHING;
    return sweep->is_narrow[column] ? ((const int32_t *)array->buffers[1])[place]
                                    : ((const int64_t *)array->buffers[1])[place];
}

const char *text_of(const Sweep *sweep, int column, size_t *size)
{
    int64_t place;
    const struct ArrowArray *array = column_at(sweep, column, &place);
    *size = 0;
    if (array == NULL)
        return NULL;
    const int32_t *ends = array->buffers[1];
    *size = (size_t)(ends[place + 1] - ends[place]);
    /* There may be no buffer where all texts are empty. */
    return *size == 0 ? "" : (const char *)array->buffers[2] + ends[place];
}

/* Whether the row is of another part than the one before: 1, 0, or -1 where there is no memory. */
static int begins_part(Sweep *sweep)
{
    sweep->part_now.size = 0;
    for (int i = 0; i < sweep->kind->part_columns; i++) {
        size_t size = 0;
        const char *text = NULL;
        if (sweep->kind->takes[i] == 'u')
            text = text_of(sweep, i, &size);
        int64_t number = sweep->kind->takes[i] == 'l' ? number_of(sweep, i)
            : text == NULL                            ? NOTHING
                                                      : (int64_t)size;
        if (!buffer_add(&sweep->part_now, &number, sizeof number)
            || !buffer_add(&sweep->part_now, text, size))
            return -1;
    }
    size_t size = sweep->part_now.size;
    bool is_new = !sweep->has_part || sweep->part.size != size
        || (size > 0 && memcmp(sweep->part.data, sweep->part_now.data, size) != 0);
    Buffer before = sweep->part;
    sweep->part = sweep->part_now;
    sweep->part_now = before;
    sweep->has_part = true;
    return is_new;
}

/* Rows that are given */

static inline bool give(Sweep *sweep, const void *data, size_t size, bool is_there)
{
    Given *given = &sweep->columns[sweep->next_column];
    uint8_t valid = is_there;
    bool is_text = sweep->kind->gives[sweep->next_column] == 'u';
    if (!buffer_add(&given->valid, &valid, 1) || !buffer_add(&given->values, data, size))
        return no_memory(sweep);
    int32_t end = (int32_t)given->values.size;
    if (given->values.size > INT32_MAX)
        return sweep_fail(sweep, "too much is held back");
    if (is_text && !buffer_add(&given->ends, &end, sizeof end))
        return no_memory(sweep);
    sweep->next_column++;
    if (sweep->next_column == sweep->column_count) {
        sweep->next_column = 0;
        sweep->row_count++;
    }
    return true;
}

bool give_number(Sweep *sweep, int64_t number)
{
    return give(sweep, &number, sizeof number, number != NOTHING);
}

bool give_text(Sweep *sweep, const char *text, size_t size)
{
    return give(sweep, text, size, text != NULL);
}

bool give_column(Sweep *sweep, int column)
{
    size_t size;
    if (sweep->kind->takes[column] == 'l') {
        int64_t place, number = number_of(sweep, column);
        return give(sweep, &number, sizeof number, column_at(sweep, column, &place) != NULL);
    }
    const char *text = text_of(sweep, column, &size);
    return give_text(sweep, text, size);
}

int64_t given_rows(const Sweep *sweep)
{
    return sweep->row_count;
}

void hold_back(Sweep *sweep, int64_t row)
{
    sweep->held_from = row;
}

void change_number(Sweep *sweep, int64_t row, int column, int64_t number)
{
    ((int64_t *)sweep->columns[column].values.data)[row - sweep->handed_on] = number;
}

/* Arrays that are handed on */

typedef struct {
    struct ArrowArray child[MAX_SWEEP_COLUMNS], *children[MAX_SWEEP_COLUMNS];
    struct ArrowArray batch; /* whose columns come first, or nothing */
    const void *buffers[MAX_SWEEP_COLUMNS][3];
    const void *none[1];
} Handed;

static void release_child(struct ArrowArray *array)
{
    array->release = NULL;
}

static void release_array(struct ArrowArray *array)
{
    Handed *handed = array->private_data;
    for (int i = 0; i < MAX_SWEEP_COLUMNS; i++)
        for (int j = 0; j < 3; j++)
            free((void *)handed->buffers[i][j]);
    if (handed->batch.release != NULL)
        handed->batch.release(&handed->batch);
    free(handed);
    array->release = NULL;
}

/* Move the first rows of a column into buffers. */
static bool move_rows(Given *given, bool is_text, size_t rows, const void **to)
{
    uint8_t *bits = calloc(rows / 8 + 1, 1);
    int32_t *ends = is_text ? calloc(rows + 1, sizeof *ends) : NULL;
    size_t bytes = rows * sizeof(int64_t);
    to[0] = bits;
    to[1] = ends;
    if (bits == NULL || (is_text && ends == NULL))
        return false;
    for (size_t i = 0; i < rows; i++)
        bits[i / 8] |= (uint8_t)(given->valid.data[i] << (i % 8));
    if (is_text) {
        memcpy(ends + 1, given->ends.data, rows * sizeof *ends);
        bytes = (size_t)ends[rows];
        buffer_drop(&given->ends, rows * sizeof *ends);
        for (size_t i = 0; i < given->ends.size / sizeof *ends; i++)
            ((int32_t *)given->ends.data)[i] -= ends[rows];
    }
    char *values = malloc(bytes + 1);
    to[is_text ? 2 : 1] = values;
    if (values == NULL)
        return false;
    if (bytes > 0)
        memcpy(values, given->values.data, bytes);
    buffer_drop(&given->values, bytes);
    buffer_drop(&given->valid, rows);
    return true;
}

/* Hand on the first rows, where there are some: behind the columns of a batch, if the sweep widens. */
static bool hand_on(Sweep *sweep, int64_t rows, struct ArrowArray *array)
{
    Handed *handed = calloc(1, sizeof *handed);
    if (handed == NULL)
        return no_memory(sweep);
    int first = 0;
    if (sweep->kind->widens) {
        handed->batch = sweep->waiting[0];
        memmove(sweep->waiting, sweep->waiting + 1, sizeof sweep->waiting - sizeof *array);
        sweep->waiting_count--;
        for (; first < handed->batch.n_children; first++)
            handed->children[first] = handed->batch.children[first];
    }
    *array = (struct ArrowArray){
        .length = rows,
        .n_buffers = 1,
        .n_children = first + sweep->column_count,
        .buffers = handed->none,
        .children = handed->children,
        .release = release_array,
        .private_data = handed,
    };
    for (int i = 0; i < sweep->column_count; i++) {
        bool is_text = sweep->kind->gives[i] == 'u';
        handed->children[first + i] = &handed->child[i];
        handed->child[i] = (struct ArrowArray){
            .length = rows,
            .null_count = -1,
            .n_buffers = is_text ? 3 : 2,
            .buffers = handed->buffers[i],
            .release = release_child,
        };
        if (!move_rows(&sweep->columns[i], is_text, (size_t)rows, handed->buffers[i])) {
            release_array(array);
            return no_memory(sweep);
        }
    }
    sweep->handed_on += rows;
    return true;
}

/* The stream */

/* Take the next batch: 1, 0 at the end, -1 where there is none. */
static int next_batch(Sweep *sweep)
{
    struct ArrowArrayStream *source = &sweep->source;
    if (sweep->batch.release != NULL)
        sweep->batch.release(&sweep->batch);
    if (source->get_next(source, &sweep->batch) == 0)
        return sweep->batch.release != NULL;
    const char *said = source->get_last_error(source);
    sweep->batch.release = NULL;
    sweep_fail(sweep, said == NULL ? "the rows cannot be read" : said);
    return -1;
}

static bool take_batch(Sweep *sweep)
{
    for (sweep->row = 0; sweep->row < sweep->batch.length; sweep->row++) {
        int is_new = begins_part(sweep);
        if (is_new < 0)
            return no_memory(sweep);
        if (!sweep->kind->take(sweep, sweep->state, is_new == 1))
            return false;
    }
    if (!sweep->kind->widens || sweep->held_from > sweep->row_count)
        sweep->held_from = sweep->row_count;
    if (!sweep->kind->widens || sweep->batch.length == 0)
        return true;
    if (sweep->waiting_count == MOST_BATCHES_WAITING)
        return sweep_fail(sweep, "too much is held back");
    if (sweep->batch.offset != 0)
        return sweep_fail(sweep, "a batch begins within its columns");
    sweep->waiting[sweep->waiting_count++] = sweep->batch;
    sweep->batch.release = NULL;
    return true;
}

static int stream_get_next(struct ArrowArrayStream *stream, struct ArrowArray *array)
{
    Sweep *sweep = stream->private_data;
    memset(array, 0, sizeof *array);
    for (;;) {
        int64_t ready = (sweep->has_ended ? sweep->row_count : sweep->held_from) - sweep->handed_on;
        if (sweep->kind->widens && sweep->waiting_count > 0)
            ready = ready >= sweep->waiting[0].length ? sweep->waiting[0].length : 0;
        if (ready > 0)
            return hand_on(sweep, ready, array) ? 0 : ENOMEM;
        if (sweep->has_ended)
            return 0;
        int status = next_batch(sweep);
        if (status < 0 || (status == 1 && !take_batch(sweep)))
            return EIO;
        sweep->has_ended = status == 0;
        if (sweep->has_ended && sweep->kind->end != NULL
            && !sweep->kind->end(sweep, sweep->state))
            return EIO;
    }
}

static void release_schema(struct ArrowSchema *schema)
{
    free(schema->private_data);
    schema->release = NULL;
}

static void release_nothing(struct ArrowSchema *schema)
{
    schema->release = NULL;
}

static int stream_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *schema)
{
    const Sweep *sweep = stream->private_data;
    const SweepKind *kind = sweep->kind;
    struct {
        struct ArrowSchema child[MAX_SWEEP_COLUMNS], *children[MAX_SWEEP_COLUMNS];
    } *own = calloc(1, sizeof *own);
    if (own == NULL)
        return ENOMEM;
    int kept = kind->widens ? (int)strlen(kind->takes) : 0;
    *schema = (struct ArrowSchema){
        .format = "+s",
        .name = "",
        .n_children = kept + sweep->column_count,
        .children = own->children,
        .release = release_schema,
        .private_data = own,
    };
    for (int i = 0; i < schema->n_children; i++) {
        char format = i < kept ? kind->takes[i] : kind->gives[i - kept];
        own->children[i] = &own->child[i];
        own->child[i] = (struct ArrowSchema){
            .format = format == 'u' ? "u" : i < kept && sweep->is_narrow[i] ? "i" : "l",
            .name = kind->names[i],
            .flags = ARROW_FLAG_NULLABLE,
            .release = release_nothing,
        };
    }
    return 0;
}

static const char *stream_get_last_error(struct ArrowArrayStream *stream)
{
    return ((Sweep *)stream->private_data)->error;
}

static void stream_release(struct ArrowArrayStream *stream)
{
    Sweep *sweep = stream->private_data;
    if (sweep->batch.release != NULL)
        sweep->batch.release(&sweep->batch);
    if (sweep->source.release != NULL)
        sweep->source.release(&sweep->source);
    for (int i = 0; i < sweep->waiting_count; i++)
        sweep->waiting[i].release(&sweep->waiting[i]);
    for (int i = 0; i < sweep->column_count; i++) {
        buffer_free(&sweep->columns[i].valid);
        buffer_free(&sweep->columns[i].values);
        buffer_free(&sweep->columns[i].ends);
    }
    buffer_free(&sweep->part);
    buffer_free(&sweep->part_now);
    if (sweep->kind->free != NULL)
        sweep->kind->free(sweep->state);
    free(sweep->state);
    free(sweep);
    stream->release = NULL;
}

/* The function that Python calls */

/* Look whether the columns are those that a sweep takes. */
static bool has_columns(struct ArrowArrayStream *source, const char *formats, bool *is_narrow)
{
    struct ArrowSchema schema;
    if (source->get_schema(source, &schema) != 0)
        return false;
    bool is_good = schema.n_children == (int64_t)strlen(formats);
    for (int64_t i = 0; is_good && i < schema.n_children; i++) {
        is_narrow[i] = schema.children[i]->format[0] == 'i';
        char format = is_narrow[i] ? 'l' : schema.children[i]->format[0];
        is_good = format == formats[i] && schema.children[i]->format[1] == '\0'
            && schema.children[i]->dictionary == NULL;
    }
    schema.release(&schema);
    return is_good;
}

EXPORTED const int native_version = NATIVE_VERSION;

EXPORTED struct ArrowArrayStream *sweep_stream(const char *name, struct ArrowArrayStream *source,
                                               const SweepAsks *asks, char *why, size_t room)
{
    static const SweepKind *const kinds[] = {
        &OWNED_TIME, &IDLE_GAPS, &SELF_TIME, &CONTEXTS, &REPLAY, &GAINS, &MOMENTS, &RUN_STEPS, &PATH,
    };
    const SweepKind *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            kind = kinds[i];
    bool is_narrow[MAX_SWEEP_COLUMNS];
    const char *wrong = kind == NULL ? "no such sweep:"
        : source->release == NULL    ? "nothing to read for"
        : !has_columns(source, kind->takes, is_narrow)
        ? "the columns must be of other types for"
        : NULL;
    struct ArrowArrayStream *stream = wrong ? NULL : calloc(1, sizeof *stream);
    Sweep *sweep = wrong ? NULL : calloc(1, sizeof *sweep);
    void *state = wrong ? NULL : calloc(1, kind->state_bytes);
    if (stream == NULL || sweep == NULL || state == NULL) {
        free(stream);
        free(sweep);
        free(state);
        snprintf(why, room, "%s %s", wrong ? wrong : "there is no memory for", name);
        return NULL;
    }
    sweep->kind = kind;
    sweep->state = state;
    memcpy(sweep->is_narrow, is_narrow, sizeof is_narrow);
    sweep->column_count = (int)strlen(kind->gives);
    sweep->asks = asks;
    sweep->source = *source;
    source->release = NULL;
    *stream = (struct ArrowArrayStream){
        .get_schema = stream_get_schema,
        .get_next = stream_get_next,
        .get_last_error = stream_get_last_error,
        .release = stream_release,
        .private_data = sweep,
    };
    return stream;
}
