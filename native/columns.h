/* The columns of events, and how they leave: through the Arrow C data interface
 * (https://arrow.apache.org/docs/format/CDataInterface.html), which DuckDB takes from a PyCapsule
 * without any other library.
 */
#ifndef TRACEKIT_COLUMNS_H
#define TRACEKIT_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* -- the Arrow C data interface ---------------------------------------------------------------- */

#define ARROW_FLAG_NULLABLE 2

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#define MIN_TEXT_BYTES 4096

/* -- columns ----------------------------------------------------------------------------------- */

enum column {
    EVENT_ID, PHASE, PID, TID, PID_TEXT, TID_TEXT, CATEGORY, NAME, TS_NS, DUR_NS,
    EXTERNAL_ID, CORRELATION, STREAM, DEVICE, PYTHON_ID, PYTHON_PARENT_ID, PYTHON_MODULE_ID,
    SEQUENCE_NUMBER, FORWARD_THREAD, ID, SCOPE, BINDING, ARGS, EXTRA, KIND, COLUMN_COUNT
};

/* Format: l is int64, u is text with int32 offsets, j is u marked as JSON, k is the kind. */
static const struct {
    const char *name;
    char format;
} COLUMNS[COLUMN_COUNT] = {
    [EVENT_ID] = {"event_id", 'l'},
    [PHASE] = {"phase", 'u'},
    [PID] = {"pid", 'l'},
    [TID] = {"tid", 'l'},
    [PID_TEXT] = {"pid_text", 'u'},
    [TID_TEXT] = {"tid_text", 'u'},
    [CATEGORY] = {"category", 'u'},
    [NAME] = {"name", 'u'},
    [TS_NS] = {"ts_ns", 'l'},
    [DUR_NS] = {"dur_ns", 'l'},
    [EXTERNAL_ID] = {"external_id", 'l'},
    [CORRELATION] = {"correlation", 'l'},
    [STREAM] = {"stream", 'l'},
    [DEVICE] = {"device", 'l'},
    [PYTHON_ID] = {"python_id", 'l'},
    [PYTHON_PARENT_ID] = {"python_parent_id", 'l'},
    [PYTHON_MODULE_ID] = {"python_module_id", 'l'},
    [SEQUENCE_NUMBER] = {"sequence_number", 'l'},
    [FORWARD_THREAD] = {"forward_thread", 'l'},
    [ID] = {"id", 'u'},
    [SCOPE] = {"scope", 'u'},
    [BINDING] = {"binding", 'u'},
    [ARGS] = {"args", 'j'},
    [EXTRA] = {"extra", 'j'},
    [KIND] = {"kind", 'k'},
};

enum kind {
    KIND_EVENT, KIND_FLOW, KIND_INSTANT, KIND_COUNTER, KIND_MEMORY, KIND_METADATA, KIND_SPAN_END,
    KINDS
};

static const char *const KIND_NAMES[KINDS] = {"event",  "flow",     "instant", "counter",
                                              "memory", "metadata", "span_end"};

/* The rows so far of one column. Integers and kinds lie in data; texts too, end to end. */
typedef struct {
    uint8_t *data;
    size_t size;
    size_t capacity;
    int32_t *ends;     /* of texts: ends[0] is 0, ends[i + 1] where text i ends */
    uint8_t *is_valid; /* one byte a row while it grows, one bit in Arrow */
    int64_t null_count;
} Column;

typedef struct {
    Column columns[COLUMN_COUNT];
    size_t row_count;
    size_t row_capacity;
} Batch;

static void batch_free(Batch *batch)
{
    for (int i = 0; i < COLUMN_COUNT; i++) {
        free(batch->columns[i].data);
        free(batch->columns[i].ends);
        free(batch->columns[i].is_valid);
    }
    memset(batch, 0, sizeof *batch);
}

static size_t width_of(int column)
{
    switch (COLUMNS[column].format) {
    case 'l': return sizeof(int64_t);
    case 'k': return 1;
    default: return 0;
    }
}

static bool grow(void **memory, size_t bytes)
{
    void *grown = realloc(*memory, bytes);
    if (grown == NULL)
        return false;
    *memory = grown;
    return true;
}

/* Make room for one more row in every column. */
static bool batch_reserve_row(Batch *batch)
{
    if (batch->row_count < batch->row_capacity)
        return true;
    size_t rows = batch->row_capacity ? 2 * batch->row_capacity : 4096;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        Column *column = &batch->columns[i];
        size_t width = width_of(i);
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

static bool column_reserve(Column *column, size_t bytes)
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

/* Row setters: they write behind the last whole row, which a later row writes over if the event
 * turns out not to be readable. */

static void set_int(Batch *batch, int column, bool is_valid, int64_t value)
{
    Column *c = &batch->columns[column];
    ((int64_t *)c->data)[batch->row_count] = is_valid ? value : 0;
    c->is_valid[batch->row_count] = is_valid;
}

/* The text is what has been written to data since the last row. */
static void set_text(Batch *batch, int column, bool is_valid)
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

/* Forget what a row that was not finished has written. */
static void batch_undo_row(Batch *batch)
{
    for (int i = 0; i < COLUMN_COUNT; i++) {
        Column *column = &batch->columns[i];
        if (column->ends != NULL)
            column->size = (size_t)column->ends[batch->row_count];
    }
}

/* -- Arrow arrays of a batch ------------------------------------------------------------------- */

typedef struct {
    const void *buffers[3];
    struct ArrowArray dictionary;
    void *owned[3];
} LeafData;

static void release_leaf(struct ArrowArray *array)
{
    LeafData *data = array->private_data;
    if (array->dictionary != NULL && array->dictionary->release != NULL)
        array->dictionary->release(array->dictionary);
    for (int i = 0; i < 3; i++)
        free(data->owned[i]);
    free(data);
    array->release = NULL;
}

typedef struct {
    const void *buffers[1];
    struct ArrowArray *children[COLUMN_COUNT];
    struct ArrowArray child[COLUMN_COUNT];
} StructData;

static void release_struct(struct ArrowArray *array)
{
    StructData *data = array->private_data;
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (data->child[i].release != NULL)
            data->child[i].release(&data->child[i]);
    free(data);
    array->release = NULL;
}

/* Turn a byte a row into a bit a row, in place. */
static int64_t pack_bits(uint8_t *bytes, size_t rows)
{
    int64_t null_count = 0;
    for (size_t i = 0; i < rows; i += 8) {
        uint8_t bits = 0;
        for (size_t j = 0; j < 8 && i + j < rows; j++) {
            bits |= (uint8_t)(bytes[i + j] << j);
            null_count += !bytes[i + j];
        }
        bytes[i / 8] = bits;
    }
    return null_count;
}

static LeafData *new_leaf(struct ArrowArray *array, int64_t rows, int64_t buffer_count)
{
    LeafData *data = calloc(1, sizeof *data);
    if (data == NULL)
        return NULL;
    memset(array, 0, sizeof *array);
    array->length = rows;
    array->n_buffers = buffer_count;
    array->buffers = data->buffers;
    array->private_data = data;
    array->release = release_leaf;
    return data;
}

/* The names of the kinds, as a dictionary of texts. */
static bool make_kind_dictionary(struct ArrowArray *array)
{
    LeafData *data = new_leaf(array, KINDS, 3);
    if (data == NULL)
        return false;
    int32_t *ends = data->owned[1] = calloc(KINDS + 1, sizeof(int32_t));
    char *text = data->owned[2] = calloc(KINDS, 16);
    data->buffers[1] = ends;
    data->buffers[2] = text;
    if (ends == NULL || text == NULL) {
        array->release(array);
        return false;
    }
    for (int i = 0; i < KINDS; i++) {
        size_t bytes = strlen(KIND_NAMES[i]);
        memcpy(text + ends[i], KIND_NAMES[i], bytes);
        ends[i + 1] = ends[i] + (int32_t)bytes;
    }
    return true;
}

/* Return a copy, which is no larger than it must be. */
static void *copy_of(const void *memory, size_t bytes)
{
    void *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy != NULL && bytes > 0)
        memcpy(copy, memory, bytes);
    return copy;
}

/* Copy a column into a leaf; false where there is no memory. */
static bool column_export(Column *column, int number, size_t rows, struct ArrowArray *array,
                          LeafData *leaf)
{
    size_t width = width_of(number);
    array->null_count = pack_bits(column->is_valid, rows);
    leaf->owned[0] = copy_of(column->is_valid, (rows + 7) / 8);
    if (width > 0) {
        leaf->owned[1] = copy_of(column->data, rows * width);
    } else {
        leaf->owned[1] = copy_of(column->ends, (rows + 1) * sizeof(int32_t));
        leaf->owned[2] = copy_of(column->data, column->size);
    }
    for (int i = 0; i < array->n_buffers; i++) {
        leaf->buffers[i] = leaf->owned[i];
        if (leaf->owned[i] == NULL)
            return false;
    }
    return true;
}

/* Copy the columns into an Arrow array; false where there is no memory. What waits in a queue is so
 * no larger than it must be, while the columns have room for more than what came. */
static bool batch_export(Batch *batch, struct ArrowArray *array)
{
    StructData *all = calloc(1, sizeof *all);
    if (all == NULL)
        return false;
    memset(array, 0, sizeof *array);
    array->length = (int64_t)batch->row_count;
    array->n_buffers = 1;
    array->n_children = COLUMN_COUNT;
    array->buffers = all->buffers;
    array->children = all->children;
    array->private_data = all;
    array->release = release_struct;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        Column *column = &batch->columns[i];
        all->children[i] = &all->child[i];
        LeafData *leaf = new_leaf(&all->child[i], array->length, width_of(i) == 0 ? 3 : 2);
        if (leaf == NULL || !column_export(column, i, batch->row_count, &all->child[i], leaf)) {
            array->release(array);
            return false;
        }
        if (COLUMNS[i].format == 'k') {
            if (!make_kind_dictionary(&leaf->dictionary)) {
                array->release(array);
                return false;
            }
            all->child[i].dictionary = &leaf->dictionary;
        }
    }
    return true;
}

/* -- schema ------------------------------------------------------------------------------------ */

typedef struct {
    struct ArrowSchema *children[COLUMN_COUNT];
    struct ArrowSchema child[COLUMN_COUNT];
} SchemaData;

/* Of one column, which may be moved out of its schema and outlive it. */
typedef struct {
    struct ArrowSchema kind_names;
    char json_metadata[64];
} ChildData;

static void release_nothing(struct ArrowSchema *schema)
{
    schema->release = NULL;
}

static void release_child(struct ArrowSchema *schema)
{
    free(schema->private_data);
    schema->release = NULL;
}

static void release_schema(struct ArrowSchema *schema)
{
    SchemaData *data = schema->private_data;
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (data->child[i].release != NULL)
            data->child[i].release(&data->child[i]);
    free(data);
    schema->release = NULL;
}

/* Write the pair of a key and a value as Arrow's metadata: lengths are native int32. */
static void write_metadata(char *to, const char *key, const char *value)
{
    int32_t sizes[3] = {1, (int32_t)strlen(key), (int32_t)strlen(value)};
    memcpy(to, &sizes[0], 4);
    memcpy(to + 4, &sizes[1], 4);
    memcpy(to + 8, key, (size_t)sizes[1]);
    memcpy(to + 8 + sizes[1], &sizes[2], 4);
    memcpy(to + 12 + sizes[1], value, (size_t)sizes[2]);
}

static bool make_schema(struct ArrowSchema *schema)
{
    SchemaData *data = calloc(1, sizeof *data);
    if (data == NULL)
        return false;
    memset(schema, 0, sizeof *schema);
    schema->format = "+s";
    schema->name = "";
    schema->n_children = COLUMN_COUNT;
    schema->children = data->children;
    schema->private_data = data;
    schema->release = release_schema;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        struct ArrowSchema *child = data->children[i] = &data->child[i];
        char format = COLUMNS[i].format;
        ChildData *own = child->private_data = calloc(1, sizeof *own);
        if (own == NULL) {
            schema->release(schema);
            return false;
        }
        child->format = format == 'l' ? "l" : format == 'k' ? "c" : "u";
        child->name = COLUMNS[i].name;
        child->flags = ARROW_FLAG_NULLABLE;
        child->release = release_child;
        if (format == 'j') {
            write_metadata(own->json_metadata, "ARROW:extension:name", "arrow.json");
            child->metadata = own->json_metadata;
        } else if (format == 'k') {
            own->kind_names.format = "u";
            own->kind_names.name = "";
            own->kind_names.release = release_nothing;
            child->dictionary = &own->kind_names;
        }
    }
    return true;
}

#endif
