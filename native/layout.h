/* Description of events by Python: the column of each argument, and the kind of each phase.
 * tracekit/event_description.py defines it. */
#ifndef TRACEKIT_LAYOUT_H
#define TRACEKIT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "columns.h"

#define MAX_KEY_BYTES 48
#define MAX_KEYS 64
#define MAX_KINDS 16

/* Members of an event that the parser has code for. */
enum member { M_PH, M_CAT, M_NAME, M_PID, M_TID, M_TS, M_DUR, M_ID, M_S, M_BP, M_ARGS, MEMBERS };

/* Key of a member, or of an argument with a column. */
typedef struct {
    char text[MAX_KEY_BYTES];
    uint8_t bytes;
    uint8_t target; /* member, or column of the argument */
    int8_t next;    /* next key of this length, or -1 */
} Key;

typedef struct {
    Key keys[MAX_KEYS];
    int count;
    int8_t first[MAX_KEY_BYTES]; /* by length, or -1 */
} KeyTable;

typedef struct {
    char column_names[MAX_COLUMNS][MAX_NAME_BYTES];
    ColumnType types[MAX_COLUMNS];
    int column_count;
    bool has_none[MAX_COLUMNS]; /* whether the number `none` means NULL */
    int64_t none[MAX_COLUMNS];
    KeyTable members;
    KeyTable arguments;
    char member_keys[MEMBERS][MAX_KEY_BYTES];
    char kind_names[MAX_KINDS][MAX_NAME_BYTES];
    int kind_count;
    int8_t kind_of[128];       /* by phase, or -1 */
    int8_t named_kind_of[128]; /* the same for kinds that require an event name */
    char kind_event_name[MAX_KINDS][MAX_NAME_BYTES];
    int event_kind, flow_kind, metadata_kind;
    int64_t min_time_us, max_time_us, max_dur_us;
} Layout;

/* Remove all keys. */
void key_table_clear(KeyTable *table);

/* Add a key for a member or column. Return false if it is empty or too long, or the table is full. */
bool key_table_add(KeyTable *table, const char *text, uint8_t target);

/* Return the member or column of a key, or -1. */
static inline int find_key(const KeyTable *table, const char *text, size_t bytes)
{
    if (bytes >= MAX_KEY_BYTES)
        return -1;
    for (int i = table->first[bytes]; i >= 0; i = table->keys[i].next) {
        const Key *key = &table->keys[i];
        if (key->text[0] == text[0] && memcmp(key->text, text, bytes) == 0)
            return key->target;
    }
    return -1;
}

/* Return the column of this name that the parser has code for, or -1. */
int known_column(const char *name);

/* Return the name of a column that the parser has code for. */
const char *known_name(int column);

/* Return the member that is stored in a column, or MEMBERS if there is none. */
int member_of_column(int column);

/* Initialize a batch without rows. */
void batch_begin(Batch *batch, const Layout *layout);

#endif
