#include "events.h"

#include <string.h>

#include "text/walker.h"
#include "text/written_numbers.h"

#define MAX_EXTRA_MEMBERS 16 /* of one event */

/* -- one event --------------------------------------------------------------------------------- */

typedef struct {
    Token members[MEMBERS];
    Token extra_keys[MAX_EXTRA_MEMBERS];
    int extra_count;
    bool has_args;
    uint64_t seen_links /* one bit per column */;
} Event;

static bool is_key(const Token *key, const char *name, size_t bytes)
{
    return (size_t)(key->end - key->start) == bytes && memcmp(key->start, name, bytes) == 0;
}

/* Copy the arguments without white space, and read those with columns. */
static Outcome read_args(Walker *w, const Layout *layout, Batch *batch, Event *event)
{
    Copy copy = {&batch->columns[ARGS], w->end, w->end, w->end};
    Outcome outcome;
    if (next_byte(w) != '{')
        return ODD;
    copy_byte(w, &copy);
    if (!has_place(w))
        return MORE;
    bool is_closed = next_byte(w) == '}';
    if (is_closed)
        copy_byte(w, &copy);
    while (!is_closed) {
        Token key, value;
        if ((outcome = walk_key(w, &key)) != FINE)
            return outcome;
        if (key.has_escape)
            return ODD;
        copy_key(w, &copy, &key);
        int link = find_key(&layout->arguments, key.start, (size_t)(key.end - key.start));
        if (link < 0) {
            outcome = copy_value(w, &copy, 1);
        } else if (event->seen_links & 1ull << link || next_byte(w) == '{' ||
                   next_byte(w) == '[') {
            outcome = ODD;
        } else {
            event->seen_links |= 1ull << link;
            outcome = walk_scalar(w, &value);
            int64_t number = 0;
            bool is_null = outcome == FINE && value.type == NULL_TOKEN;
            if (outcome == FINE && !is_null)
                outcome = to_integer(&value, &number);
            if (outcome == FINE) {
                copy_token(&copy, &value);
                bool is_none = layout->has_none[link] && number == layout->none[link];
                set_int(batch, link, !is_null && !is_none, number);
            }
        }
        if (outcome != FINE)
            return outcome;
        if ((outcome = copy_separator(w, &copy, '}', &is_closed)) != FINE)
            return outcome;
    }
    copy_piece(&copy);
    return FINE;
}

/* Copy a member without a column into column EXTRA. */
static Outcome read_extra(Walker *w, Batch *batch, Event *event, const Token *key)
{
    Column *out = &batch->columns[EXTRA];
    if (event->extra_count == MAX_EXTRA_MEMBERS)
        return ODD;
    for (int i = 0; i < event->extra_count; i++)
        if (is_key(key, event->extra_keys[i].start,
                   (size_t)(event->extra_keys[i].end - event->extra_keys[i].start)))
            return ODD;
    event->extra_keys[event->extra_count++] = *key;
    /* The text, and room for the separators of put_members(). */
    if (!column_reserve(out, (size_t)(w->end - key->start) + COPY_SLACK_BYTES + 64))
        return NO_MEMORY;
    put(out, event->extra_count == 1 ? "{" : ",", 1);
    Copy copy = {out, w->end, w->end, w->end};
    copy_key(w, &copy, key);
    Outcome outcome = copy_value(w, &copy, 1);
    copy_piece(&copy);
    return outcome;
}

/* Append to EXTRA, as strings, the members that cannot be stored in their own columns. */
static Outcome put_members(const Layout *layout, Batch *batch, Event *event, const int *members,
                           int count)
{
    Column *out = &batch->columns[EXTRA];
    for (int i = 0; i < count; i++) {
        Token *token = &event->members[members[i]];
        if (token->type == ABSENT || token->type == NULL_TOKEN)
            continue;
        const char *name = layout->member_keys[members[i]];
        if (!column_reserve(out, strlen(name) + (size_t)(token->end - token->start) + 16))
            return NO_MEMORY;
        put(out, event->extra_count++ == 0 ? "{\"" : ",\"", 2);
        put(out, name, strlen(name));
        put(out, "\":\"", 3);
        put_string(out, token, false);
        put(out, "\"", 1);
    }
    return FINE;
}

/* Append a text with resolved escapes, which is never longer. Return false if memory runs out. */
static bool put_text(Column *column, const Token *token)
{
    if (!column_reserve(column, (size_t)(token->end - token->start)))
        return false;
    put_string(column, token, true);
    return true;
}

/* Set a process or thread id: a number, or a text that starts with a letter. */
static Outcome set_thread(Batch *batch, const Token *token, int number_column, int text_column,
                          bool *is_text)
{
    int64_t number = 0;
    bool is_present = token->type != ABSENT && token->type != NULL_TOKEN;
    *is_text = token->type == STRING &&
               (token->end == token->start || (*token->start >= 'a' && *token->start <= 'z') ||
                (*token->start >= 'A' && *token->start <= 'Z'));
    if (is_present && !*is_text && to_integer(token, &number) != FINE)
        return ODD;
    if (*is_text && !put_text(&batch->columns[text_column], token))
        return NO_MEMORY;
    set_text(batch, text_column, *is_text);
    set_int(batch, number_column, is_present && !*is_text, number);
    return FINE;
}

/* Set a text column from a string or an integer. */
static Outcome set_string(Batch *batch, int column, const Token *token)
{
    bool is_present = token->type != ABSENT && token->type != NULL_TOKEN;
    if (is_present && token->type != STRING && token->type != INTEGER)
        return ODD;
    if (is_present && !put_text(&batch->columns[column], token))
        return NO_MEMORY;
    set_text(batch, column, is_present);
    return FINE;
}

/* Return the kind of an event, or -1 if it is odd. */
static int kind_of(const Layout *layout, const Event *event)
{
    const Token *phase = &event->members[M_PH], *name = &event->members[M_NAME];
    if (phase->type != STRING || phase->end - phase->start != 1 || *phase->start < 0)
        return -1;
    int named = layout->named_kind_of[(int)*phase->start];
    if (named >= 0 && name->type == STRING) {
        /* A name with escapes may be the required name in another spelling. */
        if (name->has_escape)
            return -1;
        const char *required = layout->kind_event_name[named];
        if (is_key(name, required, strlen(required)))
            return named;
    }
    return layout->kind_of[(int)*phase->start];
}

/* Set the columns of an event from its members. */
static Outcome set_columns(const Layout *layout, Batch *batch, Event *event, int64_t event_id)
{
    Token *members = event->members;
    int kind = kind_of(layout, event);
    if (kind < 0)
        return ODD;
    bool is_span = kind == layout->event_kind;
    int64_t ts_ns = 0, dur_ns = 0;
    bool has_ts = members[M_TS].type != ABSENT, has_dur = members[M_DUR].type != ABSENT;
    /* A begin event has no duration of its own; its end event determines the duration. */
    bool is_complete = *members[M_PH].start == 'X';
    if ((!has_ts && kind != layout->metadata_kind) || (is_span && has_dur != is_complete))
        return ODD;
    if (has_ts && (to_ns(&members[M_TS], layout->max_time_us, &ts_ns) != FINE ||
                   ts_ns < layout->min_time_us * NS_PER_US ||
                   ts_ns > layout->max_time_us * NS_PER_US))
        return ODD;
    /* A value rounded to the bound may have been beyond it. */
    if (has_dur && (to_ns(&members[M_DUR], layout->max_time_us, &dur_ns) != FINE ||
                    *members[M_DUR].start == '-' || dur_ns >= layout->max_dur_us * NS_PER_US))
        return ODD;

    static const struct {
        int member, column;
    } texts[] = {{M_PH, PHASE}, {M_CAT, CATEGORY}, {M_NAME, NAME},
                 {M_ID, ID},    {M_S, SCOPE},      {M_BP, BINDING}};
    bool is_pid_text, is_tid_text;
    Outcome outcome = set_thread(batch, &members[M_PID], PID, PID_TEXT, &is_pid_text);
    if (outcome == FINE)
        outcome = set_thread(batch, &members[M_TID], TID, TID_TEXT, &is_tid_text);
    for (size_t i = 0; outcome == FINE && i < sizeof texts / sizeof *texts; i++)
        outcome = set_string(batch, texts[i].column, &members[texts[i].member]);
    if (outcome != FINE)
        return outcome;
    if (is_span)
        batch->columns[NAME].is_valid[batch->row_count] = true;

    /* Members without a column in tables of this kind. */
    int64_t number;
    if (is_pid_text || is_tid_text)
        outcome = put_members(layout, batch, event, (const int[]){M_PID, M_TID}, 2);
    else if (is_span)
        outcome = put_members(layout, batch, event, (const int[]){M_ID, M_S, M_BP}, 3);
    else if (kind == layout->flow_kind && members[M_ID].type != ABSENT &&
             members[M_ID].type != NULL_TOKEN && to_integer(&members[M_ID], &number) != FINE)
        return ODD;
    if (outcome != FINE)
        return outcome;
    if (event->extra_count > 0) {
        if (!column_reserve(&batch->columns[EXTRA], 1))
            return NO_MEMORY;
        put(&batch->columns[EXTRA], "}", 1);
    }
    set_text(batch, EXTRA, event->extra_count > 0);
    set_text(batch, ARGS, event->has_args);
    set_int(batch, EVENT_ID, true, event_id);
    set_int(batch, TS_NS, has_ts, ts_ns);
    set_int(batch, DUR_NS, has_dur, dur_ns);
    batch->columns[KIND].data[batch->row_count] = (uint8_t)kind;
    batch->columns[KIND].is_valid[batch->row_count] = true;
    return FINE;
}

/* Read the event at the next offset into the row after the last complete row. */
static Outcome read_event(Walker *w, const Layout *layout, Batch *batch, int64_t event_id)
{
    Event event;
    Outcome outcome;
    for (int i = 0; i < MEMBERS; i++)
        event.members[i].type = ABSENT;
    event.extra_count = 0;
    event.has_args = false;
    event.seen_links = 0;
    if (!batch_reserve_row(batch))
        return NO_MEMORY;
    for (int column = FIRST_ARGUMENT; column < batch->column_count; column++)
        set_int(batch, column, false, 0);
    if ((outcome = walk_byte(w, '{')) != FINE)
        return outcome;
    if (!has_place(w))
        return MORE;
    bool is_closed = next_byte(w) == '}';
    w->at += is_closed;
    while (!is_closed) {
        Token key;
        if ((outcome = walk_key(w, &key)) != FINE)
            return outcome;
        if (key.has_escape)
            return ODD;
        int member = find_key(&layout->members, key.start, (size_t)(key.end - key.start));
        if (member >= 0 && member != M_ARGS) {
            Token *token = &event.members[member];
            if (token->type != ABSENT || next_byte(w) == '{' || next_byte(w) == '[')
                return ODD;
            outcome = walk_scalar(w, token);
        } else if (member < 0) {
            outcome = read_extra(w, batch, &event, &key);
        } else if (event.has_args) {
            outcome = ODD;
        } else {
            event.has_args = true;
            outcome = read_args(w, layout, batch, &event);
        }
        if (outcome != FINE)
            return outcome;
        if ((outcome = walk_separator(w, '}', &is_closed)) != FINE)
            return outcome;
    }
    return set_columns(layout, batch, &event, event_id);
}

/* -- a run of events --------------------------------------------------------------------------- */

/* Find the end of an odd event, and check whether it is well-formed. */
static Run read_odd(const char *text, size_t bytes, size_t at)
{
    Run run = {DAMAGED, at, 0, 0, false};
    Reader r = {text + at, text + bytes};
    Outcome outcome = *r.at == '{' ? skip_value(&r, 0) : ODD;
    if (outcome == FINE) {
        run.odd_end = (size_t)(r.at - text);
        outcome = read_separator(&r, ']', &run.is_last);
        run.behind = (size_t)(r.at - text);
        if (outcome == FINE && (run.is_last || *r.at == '{'))
            run.stop = ODD_EVENT;
    }
    if (outcome == MORE)
        run.stop = TEXT_ENDS;
    return run;
}

Run read_events(const char *text, size_t bytes, size_t at, int64_t first_event_id,
                const Layout *layout, Batch *batch, Structure *structure)
{
    Run run = {TEXT_ENDS, at, 0, 0, false};
    Reader r = {text + at, text + bytes};
    /* All arguments together are no longer than the text. */
    if (!column_reserve(&batch->columns[ARGS], bytes - at + COPY_SLACK_BYTES)) {
        run.stop = OUT_OF_MEMORY;
        return run;
    }
    if (!skip_space(&r))
        return run;
    if (*r.at == ']') {
        run.stop = ARRAY_ENDS;
        run.used = (size_t)(r.at + 1 - text);
        return run;
    }
    run.used = (size_t)(r.at - text);
    structure_begin(structure, text, bytes, run.used);
    Walker w = {text, text + bytes, NULL, NULL};
    for (int64_t event_id = first_event_id;;) {
        const uint32_t *begin = w.at;
        bool is_closed = false;
        Outcome outcome = has_place(&w) ? read_event(&w, layout, batch, event_id) : MORE;
        if (outcome == FINE)
            outcome = walk_separator(&w, ']', &is_closed);
        if (outcome == FINE && !is_closed && next_byte(&w) != '{')
            outcome = ODD;
        if (outcome == FINE) {
            batch->row_count++;
            event_id++;
            run.used = is_closed ? (size_t)w.at[-1] + 1 : *w.at;
            if (is_closed) {
                run.stop = ARRAY_ENDS;
                return run;
            }
            continue;
        }
        batch_undo_row(batch);
        if (outcome == MORE && structure_more(structure, run.used, (size_t)(w.last - begin))) {
            w.at = structure->at;
            w.last = w.at + structure->count;
            continue;
        }
        if (outcome == NO_MEMORY)
            run.stop = OUT_OF_MEMORY;
        else
            run = read_odd(text, bytes, run.used);
        if (outcome == MORE && run.stop == TEXT_ENDS && event_id == first_event_id)
            run.used = at;
        return run;
    }
}
