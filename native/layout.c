#include "layout.h"

#include <string.h>

static const char *const KNOWN[FIRST_ARGUMENT] = {
    [EVENT_ID] = "event_id", [KIND] = "view_name",    [PHASE] = "ph",
    [PID] = "pid",           [TID] = "tid",           [PID_TEXT] = "pid_text",
    [TID_TEXT] = "tid_text", [CATEGORY] = "category", [NAME] = "name",
    [TS_NS] = "ts_ns",       [DUR_NS] = "dur_ns",     [ID] = "id",
    [SCOPE] = "scope",       [BINDING] = "binding",   [ARGS] = "args",
    [EXTRA] = "extra"};

static const int COLUMN_OF[MEMBERS] = {
    [M_PH] = PHASE, [M_CAT] = CATEGORY, [M_NAME] = NAME, [M_PID] = PID,   [M_TID] = TID,
    [M_TS] = TS_NS, [M_DUR] = DUR_NS,   [M_ID] = ID,     [M_S] = SCOPE,   [M_BP] = BINDING,
    [M_ARGS] = ARGS};

void key_table_clear(KeyTable *table)
{
    table->count = 0;
    memset(table->first, -1, sizeof table->first);
}

bool key_table_add(KeyTable *table, const char *text, uint8_t target)
{
    size_t bytes = strlen(text);
    if (table->count == MAX_KEYS || bytes == 0 || bytes >= MAX_KEY_BYTES)
        return false;
    Key *key = &table->keys[table->count];
    memcpy(key->text, text, bytes + 1);
    key->bytes = (uint8_t)bytes;
    key->target = target;
    key->next = table->first[bytes];
    table->first[bytes] = (int8_t)table->count++;
    return true;
}

int known_column(const char *name)
{
    for (int i = 0; i < FIRST_ARGUMENT; i++)
        if (strcmp(KNOWN[i], name) == 0)
            return i;
    return -1;
}

const char *known_name(int column)
{
    return KNOWN[column];
}

int member_of_column(int column)
{
    int member = 0;
    while (member < MEMBERS && COLUMN_OF[member] != column)
        member++;
    return member;
}

void batch_begin(Batch *batch, const Layout *layout)
{
    memset(batch, 0, sizeof *batch);
    batch->column_count = layout->column_count;
    for (int i = 0; i < layout->column_count; i++)
        batch->columns[i].type = layout->types[i];
}
