#include "sweep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../exported.h"

#define MAX_WAITING_BATCHES 8

/* Buffers */

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
    Buffer valid, values; /* validity, one byte per row; numbers, or concatenated texts */
    Buffer ends;          /* texts only: int32 */
} OutputColumn;

struct Sweep {
    const SweepKind *kind;
    void *state;
    struct ArrowArrayStream source;
    struct ArrowArray batch;
    int64_t row;     /* in the batch */
    Buffer partition;         /* of the previous row */
    Buffer current_partition; /* of the current row */
    bool has_partition, has_ended;
    bool is_narrow[MAX_SWEEP_COLUMNS]; /* the column has 32 bits */
    OutputColumn columns[MAX_SWEEP_COLUMNS];
    int column_count, next_column;
    int64_t row_count, exported_rows, held_row;
    struct ArrowArray waiting[MAX_WAITING_BATCHES]; /* input batches to which columns are appended */
    int waiting_count;
    char error[256];
};

bool sweep_fail(Sweep *sweep, const char *why)
{
    snprintf(sweep->error, sizeof sweep->error, "%s", why);
    return false;
}

static bool no_memory(Sweep *sweep)
{
    return sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

/* Input rows */

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
    /* If all texts are empty, there may be no buffer. */
    return *size == 0 ? "" : (const char *)array->buffers[2] + ends[place];
}

/* Return 1 if the row starts a partition, 0 if not, or -1 if memory runs out. */
static int starts_partition(Sweep *sweep)
{
    sweep->current_partition.size = 0;
    for (int i = 0; i < sweep->kind->partition_columns; i++) {
        size_t size = 0;
        const char *text = NULL;
        if (sweep->kind->input_types[i] == 'u')
            text = text_of(sweep, i, &size);
        int64_t number = sweep->kind->input_types[i] == 'l' ? number_of(sweep, i)
            : text == NULL                            ? NOTHING
                                                      : (int64_t)size;
        if (!buffer_add(&sweep->current_partition, &number, sizeof number)
            || !buffer_add(&sweep->current_partition, text, size))
            return -1;
    }
    size_t size = sweep->current_partition.size;
    bool is_new = !sweep->has_partition || sweep->partition.size != size
        || (size > 0 && memcmp(sweep->partition.data, sweep->current_partition.data, size) != 0);
    Buffer before = sweep->partition;
    sweep->partition = sweep->current_partition;
    sweep->current_partition = before;
    sweep->has_partition = true;
    return is_new;
}

/* Output rows */

static inline bool emit_value(Sweep *sweep, const void *data, size_t size, bool is_not_null)
{
    OutputColumn *output = &sweep->columns[sweep->next_column];
    uint8_t valid = is_not_null;
    bool is_text = sweep->kind->output_types[sweep->next_column] == 'u';
    if (!buffer_add(&output->valid, &valid, 1) || !buffer_add(&output->values, data, size))
        return no_memory(sweep);
    int32_t end = (int32_t)output->values.size;
    if (output->values.size > INT32_MAX)
        return sweep_fail(sweep, "too many rows are pending");
    if (is_text && !buffer_add(&output->ends, &end, sizeof end))
        return no_memory(sweep);
    sweep->next_column++;
    if (sweep->next_column == sweep->column_count) {
        sweep->next_column = 0;
        sweep->row_count++;
    }
    return true;
}

bool emit_number(Sweep *sweep, int64_t number)
{
    return emit_value(sweep, &number, sizeof number, number != NOTHING);
}

bool emit_text(Sweep *sweep, const char *text, size_t size)
{
    return emit_value(sweep, text, size, text != NULL);
}

bool emit_column(Sweep *sweep, int column)
{
    size_t size;
    if (sweep->kind->input_types[column] == 'l') {
        int64_t place, number = number_of(sweep, column);
        return emit_value(sweep, &number, sizeof number, column_at(sweep, column, &place) != NULL);
    }
    const char *text = text_of(sweep, column, &size);
    return emit_text(sweep, text, size);
}

int64_t emitted_rows(const Sweep *sweep)
{
    return sweep->row_count;
}

void hold_rows(Sweep *sweep, int64_t row)
{
    sweep->held_row = row;
}

void set_number(Sweep *sweep, int64_t row, int column, int64_t number)
{
    ((int64_t *)sweep->columns[column].values.data)[row - sweep->exported_rows] = number;
}

/* Output arrays */

typedef struct {
    struct ArrowArray child[MAX_SWEEP_COLUMNS], *children[MAX_SWEEP_COLUMNS];
    struct ArrowArray batch; /* its columns come first; empty unless columns are appended */
    const void *buffers[MAX_SWEEP_COLUMNS][3];
    const void *none[1];
} Exported;

static void release_child(struct ArrowArray *array)
{
    array->release = NULL;
}

static void release_array(struct ArrowArray *array)
{
    Exported *exported = array->private_data;
    for (int i = 0; i < MAX_SWEEP_COLUMNS; i++)
        for (int j = 0; j < 3; j++)
            free((void *)exported->buffers[i][j]);
    if (exported->batch.release != NULL)
        exported->batch.release(&exported->batch);
    free(exported);
    array->release = NULL;
}

/* Move the first rows of a column into Arrow buffers. */
static bool move_values(OutputColumn *output, bool is_text, size_t rows, const void **to)
{
    uint8_t *bits = calloc(rows / 8 + 1, 1);
    int32_t *ends = is_text ? calloc(rows + 1, sizeof *ends) : NULL;
    size_t bytes = rows * sizeof(int64_t);
    to[0] = bits;
    to[1] = ends;
    if (bits == NULL || (is_text && ends == NULL))
        return false;
    for (size_t i = 0; i < rows; i++)
        bits[i / 8] |= (uint8_t)(output->valid.data[i] << (i % 8));
    if (is_text) {
        memcpy(ends + 1, output->ends.data, rows * sizeof *ends);
        bytes = (size_t)ends[rows];
        buffer_drop(&output->ends, rows * sizeof *ends);
        for (size_t i = 0; i < output->ends.size / sizeof *ends; i++)
            ((int32_t *)output->ends.data)[i] -= ends[rows];
    }
    char *values = malloc(bytes + 1);
    to[is_text ? 2 : 1] = values;
    if (values == NULL)
        return false;
    if (bytes > 0)
        memcpy(values, output->values.data, bytes);
    buffer_drop(&output->values, bytes);
    buffer_drop(&output->valid, rows);
    return true;
}

/* Export the first rows, after the columns of an input batch if the sweep appends columns. */
static bool export_rows(Sweep *sweep, int64_t rows, struct ArrowArray *array)
{
    Exported *exported = calloc(1, sizeof *exported);
    if (exported == NULL)
        return no_memory(sweep);
    int first = 0;
    if (sweep->kind->appends_columns) {
        exported->batch = sweep->waiting[0];
        memmove(sweep->waiting, sweep->waiting + 1, sizeof sweep->waiting - sizeof *array);
        sweep->waiting_count--;
        for (; first < exported->batch.n_children; first++)
            exported->children[first] = exported->batch.children[first];
    }
    *array = (struct ArrowArray){
        .length = rows,
        .n_buffers = 1,
        .n_children = first + sweep->column_count,
        .buffers = exported->none,
        .children = exported->children,
        .release = release_array,
        .private_data = exported,
    };
    for (int i = 0; i < sweep->column_count; i++) {
        bool is_text = sweep->kind->output_types[i] == 'u';
        exported->children[first + i] = &exported->child[i];
        exported->child[i] = (struct ArrowArray){
            .length = rows,
            .null_count = -1,
            .n_buffers = is_text ? 3 : 2,
            .buffers = exported->buffers[i],
            .release = release_child,
        };
        if (!move_values(&sweep->columns[i], is_text, (size_t)rows, exported->buffers[i])) {
            release_array(array);
            return no_memory(sweep);
        }
    }
    sweep->exported_rows += rows;
    return true;
}

/* The stream */

/* Read the next batch. Return 1, 0 at the end, or -1 on failure. */
static int next_batch(Sweep *sweep)
{
    struct ArrowArrayStream *source = &sweep->source;
    if (sweep->batch.release != NULL)
        sweep->batch.release(&sweep->batch);
    if (source->get_next(source, &sweep->batch) == 0)
        return sweep->batch.release != NULL;
    const char *message = source->get_last_error(source);
    sweep->batch.release = NULL;
    sweep_fail(sweep, message == NULL ? "the rows cannot be read" : message);
    return -1;
}

static bool read_batch(Sweep *sweep)
{
    for (sweep->row = 0; sweep->row < sweep->batch.length; sweep->row++) {
        int is_new = starts_partition(sweep);
        if (is_new < 0)
            return no_memory(sweep);
        if (!sweep->kind->read_row(sweep, sweep->state, is_new == 1))
            return false;
    }
    if (!sweep->kind->appends_columns || sweep->held_row > sweep->row_count)
        sweep->held_row = sweep->row_count;
    if (!sweep->kind->appends_columns || sweep->batch.length == 0)
        return true;
    if (sweep->waiting_count == MAX_WAITING_BATCHES)
        return sweep_fail(sweep, "too many rows are pending");
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
        int64_t ready = (sweep->has_ended ? sweep->row_count : sweep->held_row) - sweep->exported_rows;
        if (sweep->kind->appends_columns && sweep->waiting_count > 0)
            ready = ready >= sweep->waiting[0].length ? sweep->waiting[0].length : 0;
        if (ready > 0)
            return export_rows(sweep, ready, array) ? 0 : ENOMEM;
        if (sweep->has_ended)
            return 0;
        int status = next_batch(sweep);
        if (status < 0 || (status == 1 && !read_batch(sweep)))
            return EIO;
        sweep->has_ended = status == 0;
        if (sweep->has_ended && sweep->kind->finish != NULL
            && !sweep->kind->finish(sweep, sweep->state))
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
    int copied = kind->appends_columns ? (int)strlen(kind->input_types) : 0;
    *schema = (struct ArrowSchema){
        .format = "+s",
        .name = "",
        .n_children = copied + sweep->column_count,
        .children = own->children,
        .release = release_schema,
        .private_data = own,
    };
    for (int i = 0; i < schema->n_children; i++) {
        char format = i < copied ? kind->input_types[i] : kind->output_types[i - copied];
        own->children[i] = &own->child[i];
        own->child[i] = (struct ArrowSchema){
            .format = format == 'u' ? "u" : i < copied && sweep->is_narrow[i] ? "i" : "l",
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
    buffer_free(&sweep->partition);
    buffer_free(&sweep->current_partition);
    if (sweep->kind->free != NULL)
        sweep->kind->free(sweep->state);
    free(sweep->state);
    free(sweep);
    stream->release = NULL;
}

/* Python interface */

/* Return whether the source has the columns of a sweep. Set `is_narrow` for columns with 32 bits. */
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
                                               char *why, size_t room)
{
    static const SweepKind *const kinds[] = {
        &OWNED_TIME, &IDLE_GAPS, &SELF_TIME, &CONTEXTS, &REPLAY, &GAINS, &MOMENTS, &RUN_STEPS, &PATH,
    };
    const SweepKind *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            kind = kinds[i];
    bool is_narrow[MAX_SWEEP_COLUMNS];
    const char *wrong = kind == NULL ? "unknown sweep:"
        : source->release == NULL    ? "no input for"
        : !has_columns(source, kind->input_types, is_narrow)
        ? "wrong column types for"
        : NULL;
    struct ArrowArrayStream *stream = wrong ? NULL : calloc(1, sizeof *stream);
    Sweep *sweep = wrong ? NULL : calloc(1, sizeof *sweep);
    void *state = wrong ? NULL : calloc(1, kind->state_bytes);
    if (stream == NULL || sweep == NULL || state == NULL) {
        free(stream);
        free(sweep);
        free(state);
        snprintf(why, room, "%s %s", wrong ? wrong : "out of memory for", name);
        return NULL;
    }
    sweep->kind = kind;
    sweep->state = state;
    memcpy(sweep->is_narrow, is_narrow, sizeof is_narrow);
    sweep->column_count = (int)strlen(kind->output_types);
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
