#include "arrow_export.h"

#include <stdlib.h>
#include <string.h>

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
    struct ArrowArray *children[MAX_COLUMNS];
    struct ArrowArray child[MAX_COLUMNS];
} StructData;

static void release_struct(struct ArrowArray *array)
{
    StructData *data = array->private_data;
    for (int i = 0; i < MAX_COLUMNS; i++)
        if (data->child[i].release != NULL)
            data->child[i].release(&data->child[i]);
    free(data);
    array->release = NULL;
}

/* Pack one byte per row into one bit per row, in place. Return the number of NULLs. */
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

/* Export the names of the kinds as a dictionary. */
static bool make_kind_dictionary(const Layout *layout, struct ArrowArray *array)
{
    LeafData *data = new_leaf(array, layout->kind_count, 3);
    if (data == NULL)
        return false;
    int32_t *ends = data->owned[1] = calloc((size_t)layout->kind_count + 1, sizeof(int32_t));
    char *text = data->owned[2] = calloc((size_t)layout->kind_count, MAX_NAME_BYTES);
    data->buffers[1] = ends;
    data->buffers[2] = text;
    if (ends == NULL || text == NULL) {
        array->release(array);
        return false;
    }
    for (int i = 0; i < layout->kind_count; i++) {
        size_t bytes = strlen(layout->kind_names[i]);
        memcpy(text + ends[i], layout->kind_names[i], bytes);
        ends[i + 1] = ends[i] + (int32_t)bytes;
    }
    return true;
}

/* Return a copy of `bytes` bytes, without spare capacity, or NULL if memory runs out. */
static void *copy_of(const void *memory, size_t bytes)
{
    void *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy != NULL && bytes > 0)
        memcpy(copy, memory, bytes);
    return copy;
}

/* Copy a column into a leaf array. Return false if memory runs out. */
static bool column_export(Column *column, size_t rows, struct ArrowArray *array, LeafData *leaf)
{
    size_t width = width_of(column);
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

bool batch_export(Batch *batch, const Layout *layout, struct ArrowArray *array)
{
    StructData *all = calloc(1, sizeof *all);
    if (all == NULL)
        return false;
    memset(array, 0, sizeof *array);
    array->length = (int64_t)batch->row_count;
    array->n_buffers = 1;
    array->n_children = batch->column_count;
    array->buffers = all->buffers;
    array->children = all->children;
    array->private_data = all;
    array->release = release_struct;
    for (int i = 0; i < batch->column_count; i++) {
        Column *column = &batch->columns[i];
        all->children[i] = &all->child[i];
        LeafData *leaf = new_leaf(&all->child[i], array->length, width_of(column) == 0 ? 3 : 2);
        if (leaf == NULL || !column_export(column, batch->row_count, &all->child[i], leaf)) {
            array->release(array);
            return false;
        }
        if (column->type == KIND_COLUMN) {
            if (!make_kind_dictionary(layout, &leaf->dictionary)) {
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
    struct ArrowSchema *children[MAX_COLUMNS];
    struct ArrowSchema child[MAX_COLUMNS];
} SchemaData;

/* Schema of one column, which may be moved out of its parent and outlive it. */
typedef struct {
    struct ArrowSchema kind_names;
    char json_metadata[64];
    char name[MAX_NAME_BYTES];
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
    for (int i = 0; i < MAX_COLUMNS; i++)
        if (data->child[i].release != NULL)
            data->child[i].release(&data->child[i]);
    free(data);
    schema->release = NULL;
}

/* Write one key and value as Arrow metadata. Lengths are native int32. */
static void write_metadata(char *to, const char *key, const char *value)
{
    int32_t sizes[3] = {1, (int32_t)strlen(key), (int32_t)strlen(value)};
    memcpy(to, &sizes[0], 4);
    memcpy(to + 4, &sizes[1], 4);
    memcpy(to + 8, key, (size_t)sizes[1]);
    memcpy(to + 8 + sizes[1], &sizes[2], 4);
    memcpy(to + 12 + sizes[1], value, (size_t)sizes[2]);
}

bool make_schema(const Layout *layout, struct ArrowSchema *schema)
{
    SchemaData *data = calloc(1, sizeof *data);
    if (data == NULL)
        return false;
    memset(schema, 0, sizeof *schema);
    schema->format = "+s";
    schema->name = "";
    schema->n_children = layout->column_count;
    schema->children = data->children;
    schema->private_data = data;
    schema->release = release_schema;
    for (int i = 0; i < layout->column_count; i++) {
        struct ArrowSchema *child = data->children[i] = &data->child[i];
        ColumnType type = layout->types[i];
        ChildData *own = child->private_data = calloc(1, sizeof *own);
        if (own == NULL) {
            schema->release(schema);
            return false;
        }
        child->format = type == INT64_COLUMN ? "l" : type == KIND_COLUMN ? "c" : "u";
        memcpy(own->name, layout->column_names[i], MAX_NAME_BYTES);
        child->name = own->name;
        child->flags = ARROW_FLAG_NULLABLE;
        child->release = release_child;
        if (type == JSON_COLUMN) {
            write_metadata(own->json_metadata, "ARROW:extension:name", "arrow.json");
            child->metadata = own->json_metadata;
        } else if (type == KIND_COLUMN) {
            own->kind_names.format = "u";
            own->kind_names.name = "";
            own->kind_names.release = release_nothing;
            child->dictionary = &own->kind_names;
        }
    }
    return true;
}
