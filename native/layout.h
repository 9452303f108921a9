/* What the readers are told from outside: which argument has which column, which phase is of which
 * kind. tracekit/event_description.py is where that is written down. */
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

/* The members of an event that the code knows, by the column they go to. */
enum member { M_PH, M_CAT, M_NAME, M_PID, M_TID, M_TS, M_DUR, M_ID, M_S, M_BP, M_ARGS, MEMBERS };

/* A member, or an argument that has a column. */
typedef struct {
    char text[MAX_KEY_BYTES];
    uint8_t bytes;
    uint8_t target; /* the member, or the column of the argument */
    int8_t next;    /* the next key of this length, -1 for none */
} Key;

typedef struct {
    Key keys[MAX_KEYS];
    int count;
    int8_t first[MAX_KEY_BYTES]; /* by length, -1 for none */
} KeyTable;

typedef struct {
    char column_names[MAX_COLUMNS][MAX_NAME_BYTES];
    ColumnType types[MAX_COLUMNS];
    int column_count;
    bool has_none[MAX_COLUMNS]; /* a number of an argument says that there is none: */
    int64_t none[MAX_COLUMNS];
    KeyTable members;
    KeyTable arguments;
    char member_keys[MEMBERS][MAX_KEY_BYTES];
    char kind_names[MAX_KINDS][MAX_NAME_BYTES];
    int kind_count;
    int8_t kind_of[128];       /* by phase, -1 for none */
    int8_t named_kind_of[128]; /* where the event has the name: */
    char kind_event_name[MAX_KINDS][MAX_NAME_BYTES];
    int event_kind, flow_kind, metadata_kind;
    int64_t min_time_us, max_time_us, max_dur_us;
} Layout;

void key_table_clear(KeyTable *table);

/* Add a key; false where it is too long or there are too many. */
bool key_table_add(KeyTable *table, const char *text, uint8_t target);

/* Return what a key stands for, -1 for nothing. */
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

/* Return the column that the code knows by this name, -1 for none. */
int known_column(const char *name);

/* Return the name of a column that the code knows. */
const char *known_name(int column);

/* Return the member that goes to a column, MEMBERS for none. */
int member_of_column(int column);

/* Make a batch without rows. */
void batch_begin(Batch *batch, const Layout *layout);

#endif
