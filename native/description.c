#include "description.h"

#include <string.h>

static const char TOO_LONG[] = "a name that is too long", NO_ROOM[] = "out of memory";

/* Copy a name. Return false if it is too long. */
static bool copy_name(const char *text, char *to, size_t size)
{
    size_t bytes = strlen(text);
    if (bytes >= size)
        return false;
    memcpy(to, text, bytes + 1);
    return true;
}

static bool parse_type(const char *type, ColumnType *to)
{
    if (strcmp(type, "BIGINT") == 0)
        *to = INT64_COLUMN;
    else if (strcmp(type, "VARCHAR") == 0)
        *to = TEXT_COLUMN;
    else if (strcmp(type, "JSON") == 0)
        *to = JSON_COLUMN;
    else if (strncmp(type, "ENUM(", 5) == 0)
        *to = KIND_COLUMN;
    else
        return false;
    return true;
}

/* Return the type of a column that the parser has code for. */
static ColumnType known_type(int column)
{
    switch (column) {
    case EVENT_ID: case PID: case TID: case TS_NS: case DUR_NS: return INT64_COLUMN;
    case ARGS: case EXTRA: return JSON_COLUMN;
    case KIND: return KIND_COLUMN;
    default: return TEXT_COLUMN;
    }
}

void description_begin(Description *description)
{
    Layout *layout = &description->layout;
    memset(description, 0, sizeof *description);
    layout->column_count = FIRST_ARGUMENT;
    key_table_clear(&layout->members);
    key_table_clear(&layout->arguments);
    memset(layout->kind_of, -1, sizeof layout->kind_of);
    memset(layout->named_kind_of, -1, sizeof layout->named_kind_of);
    layout->event_kind = layout->flow_kind = layout->metadata_kind = -1;
}

const char *describe_column(Description *description, const char *name, const char *type,
                            const char *source, const int64_t *none)
{
    Layout *layout = &description->layout;
    int column = known_column(name);
    if (column < 0) {
        if (strcmp(source, "argument") != 0)
            return "a column that the parser has no code for";
        if (layout->column_count == MAX_COLUMNS)
            return "one column too many";
        column = layout->column_count++;
    }
    if (description->has_value[column])
        return "a duplicate column";
    if (!copy_name(name, layout->column_names[column], MAX_NAME_BYTES))
        return TOO_LONG;
    ColumnType expected = column < FIRST_ARGUMENT ? known_type(column) : INT64_COLUMN;
    if (!parse_type(type, &layout->types[column]) || layout->types[column] != expected)
        return "a column of a type that the parser does not expect";
    layout->has_none[column] = none != NULL;
    layout->none[column] = none != NULL ? *none : 0;
    description->has_value[column] = true;
    description->order[description->count++] = column;
    return NULL;
}

const char *describe_key(Description *description, const char *key)
{
    Layout *layout = &description->layout;
    if (description->count == 0)
        return "a key without a column";
    int column = description->order[description->count - 1], member = member_of_column(column);
    bool is_member = member < MEMBERS;
    KeyTable *table = is_member ? &layout->members : &layout->arguments;
    if (!key_table_add(table, key, (uint8_t)(is_member ? member : column)))
        return "one key too many, or a key that is too long";
    if (is_member && layout->member_keys[member][0] == 0)
        memcpy(layout->member_keys[member], key, strlen(key) + 1);
    return NULL;
}

const char *describe_kind(Description *description, const char *name, const char *phases,
                          const char *event_name)
{
    Layout *layout = &description->layout;
    if (layout->kind_count == MAX_KINDS)
        return "one kind too many";
    int kind = layout->kind_count++;
    if (!copy_name(name, layout->kind_names[kind], MAX_NAME_BYTES))
        return TOO_LONG;
    if (event_name != NULL && !copy_name(event_name, layout->kind_event_name[kind], MAX_NAME_BYTES))
        return TOO_LONG;
    for (const char *phase = phases; *phase != 0; phase++) {
        if ((unsigned char)*phase >= 128)
            return "a phase that is not a letter";
        (event_name != NULL ? layout->named_kind_of : layout->kind_of)[(int)*phase] = (int8_t)kind;
    }
    if (strcmp(name, "event") == 0)
        layout->event_kind = kind;
    else if (strcmp(name, "flow") == 0)
        layout->flow_kind = kind;
    else if (strcmp(name, "metadata") == 0)
        layout->metadata_kind = kind;
    return NULL;
}

static bool has_key(const KeyTable *table, int target)
{
    for (int i = 0; i < table->count; i++)
        if (table->keys[i].target == target)
            return true;
    return false;
}

const char *description_end(const Description *description)
{
    const Layout *layout = &description->layout;
    if (description->count < layout->column_count)
        return "a column that the parser knows is missing";
    for (int member = 0; member < MEMBERS; member++)
        if (!has_key(&layout->members, member))
            return "a member without a key";
    for (int column = FIRST_ARGUMENT; column < layout->column_count; column++)
        if (!has_key(&layout->arguments, column))
            return "an argument without a key";
    if (layout->event_kind < 0 || layout->flow_kind < 0 || layout->metadata_kind < 0)
        return "kind event, flow, or metadata is missing";
    return NULL;
}

static const char *append_text(Batch *batch, int column, const char *text, size_t bytes)
{
    Column *to = &batch->columns[column];
    if (bytes > INT32_MAX || to->size + bytes > INT32_MAX)
        return "these texts are too long together";
    if (!column_reserve(to, bytes))
        return NO_ROOM;
    put(to, text, bytes);
    set_text(batch, column, true);
    return NULL;
}

static const char *append_kind(const Layout *layout, Batch *batch, int column, const char *name,
                             size_t bytes)
{
    for (int kind = 0; kind < layout->kind_count; kind++)
        if (strlen(layout->kind_names[kind]) == bytes
            && memcmp(layout->kind_names[kind], name, bytes) == 0) {
            batch->columns[column].data[batch->row_count] = (uint8_t)kind;
            batch->columns[column].is_valid[batch->row_count] = true;
            return NULL;
        }
    return "an unknown kind";
}

const char *append_row(const Description *description, Batch *batch, const uint8_t *has_value,
                       const int64_t *numbers, const char *texts)
{
    const Layout *layout = &description->layout;
    if (!batch_reserve_row(batch))
        return NO_ROOM;
    for (int i = 0; i < description->count; i++) {
        int column = description->order[i];
        ColumnType type = layout->types[column];
        const char *why = NULL;
        if (type == INT64_COLUMN) {
            set_int(batch, column, has_value[i], numbers[i]);
            continue;
        }
        size_t bytes = has_value[i] ? (size_t)numbers[i] : 0;
        if (type == KIND_COLUMN)
            why = append_kind(layout, batch, column, texts, bytes);
        else if (has_value[i])
            why = append_text(batch, column, texts, bytes);
        else
            set_text(batch, column, false);
        if (why != NULL) {
            batch_undo_row(batch);
            return why;
        }
        texts += bytes;
    }
    batch->row_count++;
    return NULL;
}
