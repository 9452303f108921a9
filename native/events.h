/* Reads events, one row of the columns each.
 *
 * This is the fast way for usual events only. Whatever is out of the ordinary (malformed JSON, a
 * member twice, a number in a form that is seldom seen, a phase that is not read) is ODD, and the
 * caller reads that block of text the thorough way, in Python and SQL. So what is accepted here is
 * read exactly as there, and no judgement of what is wrong is made twice.
 */
#ifndef TRACEKIT_EVENTS_H
#define TRACEKIT_EVENTS_H

#include "columns.h"
#include "json_text.h"

/* As in normalize.py; a test compares them. */
#define MAX_TIME_US 4000000000000000LL
#define MIN_TIME_US (-400000000000000LL)
#define MAX_DUR_US 1000000000000LL
#define NS_PER_US 1000

#define MAX_EXTRA_MEMBERS 16 /* of one event */

/* -- values ------------------------------------------------------------------------------------ */

/* Read an integer of up to 18 digits, also where it is given as a string; there also hexadecimal,
 * as AMD's traces have it. */
static Outcome to_integer(const Token *token, int64_t *value)
{
    if ((token->type != INTEGER && token->type != STRING) || token->has_escape)
        return ODD;
    const char *p = token->start;
    if (token->end - p > 2 && p[0] == '0' && p[1] == 'x') {
        *value = 0;
        if (token->end - p > 2 + 15)
            return ODD;
        for (p += 2; p < token->end; p++) {
            if (hex_value(*p) < 0)
                return ODD;
            *value = *value << 4 | hex_value(*p);
        }
        return FINE;
    }
    bool is_negative = p < token->end && *p == '-';
    p += is_negative;
    if (p == token->end || token->end - p > 18 || (*p == '0' && token->end - p > 1))
        return ODD;
    int64_t number = 0;
    for (; p < token->end; p++) {
        if (!is_digit(*p))
            return ODD;
        number = 10 * number + (*p - '0');
    }
    *value = is_negative ? -number : number;
    return FINE;
}

/* Read decimal microseconds as integer nanoseconds, also where they are given as a string. */
static Outcome to_ns(const Token *token, int64_t *ns)
{
    if ((token->type != INTEGER && token->type != NUMBER && token->type != STRING) ||
        token->has_escape)
        return ODD;
    const char *p = token->start;
    bool is_negative = p < token->end && *p == '-';
    p += is_negative;
    const char *whole = p;
    int64_t number = 0;
    for (; p < token->end && is_digit(*p); p++) {
        if (p - whole == 16)
            return ODD;
        number = 10 * number + (*p - '0');
    }
    if (p == whole || number > MAX_TIME_US)
        return ODD;
    number *= NS_PER_US;
    if (p < token->end) {
        if (*p++ != '.' || p == token->end)
            return ODD;
        int64_t unit = NS_PER_US / 10;
        for (; p < token->end && unit > 0; p++, unit /= 10) {
            if (!is_digit(*p))
                return ODD;
            number += unit * (*p - '0');
        }
        if (p < token->end) {
            /* Below a nanosecond: to the nearer one; what is as near to both is not decided here. */
            int first = *p - '0';
            bool is_more = false;
            for (const char *rest = p; rest < token->end; rest++) {
                if (!is_digit(*rest))
                    return ODD;
                is_more |= rest > p && *rest != '0';
            }
            if (first == 5 && !is_more)
                return ODD;
            number += first >= 5;
        }
    }
    *ns = is_negative ? -number : number;
    return FINE;
}

/* -- one event --------------------------------------------------------------------------------- */

enum member { M_PH, M_CAT, M_NAME, M_PID, M_TID, M_TS, M_DUR, M_ID, M_S, M_BP, MEMBERS };

typedef struct {
    Token members[MEMBERS];
    Token extra_keys[MAX_EXTRA_MEMBERS];
    int extra_count;
    bool has_args;
    uint32_t seen_links;
} Event;

static bool is_key(const Token *key, const char *name, size_t bytes)
{
    return (size_t)(key->end - key->start) == bytes && memcmp(key->start, name, bytes) == 0;
}

#define IS_KEY(key, name) is_key(key, name, sizeof(name) - 1)

static int member_of(const Token *key)
{
    switch (key->end - key->start) {
    case 1: return *key->start == 's' ? M_S : MEMBERS;
    case 2:
        return IS_KEY(key, "ph")   ? M_PH
               : IS_KEY(key, "ts") ? M_TS
               : IS_KEY(key, "id") ? M_ID
               : IS_KEY(key, "bp") ? M_BP
                                   : MEMBERS;
    case 3:
        return IS_KEY(key, "cat")   ? M_CAT
               : IS_KEY(key, "pid") ? M_PID
               : IS_KEY(key, "tid") ? M_TID
               : IS_KEY(key, "dur") ? M_DUR
                                    : MEMBERS;
    case 4: return IS_KEY(key, "name") ? M_NAME : MEMBERS;
    default: return MEMBERS;
    }
}

/* The column of an argument that has one, else COLUMN_COUNT. */
static int link_of(const Token *key)
{
    switch (key->end - key->start) {
    case 6:
        return IS_KEY(key, "stream") ? STREAM : IS_KEY(key, "device") ? DEVICE : COLUMN_COUNT;
    case 9: return IS_KEY(key, "Python id") ? PYTHON_ID : COLUMN_COUNT;
    case 11:
        return IS_KEY(key, "External id") || IS_KEY(key, "external id") ? EXTERNAL_ID
               : IS_KEY(key, "correlation")                             ? CORRELATION
                                                                        : COLUMN_COUNT;
    case 13: return IS_KEY(key, "Fwd thread id") ? FORWARD_THREAD : COLUMN_COUNT;
    case 15: return IS_KEY(key, "Sequence number") ? SEQUENCE_NUMBER : COLUMN_COUNT;
    case 16:
        return IS_KEY(key, "Python parent id")   ? PYTHON_PARENT_ID
               : IS_KEY(key, "Python module id") ? PYTHON_MODULE_ID
                                                 : COLUMN_COUNT;
    default: return COLUMN_COUNT;
    }
}

/* Read the arguments: copied without white space, and those that have columns into these. */
static Outcome read_args(Reader *r, Batch *batch, Event *event)
{
    Column *out = &batch->columns[ARGS];
    Outcome outcome;
    if (*r->at != '{')
        return ODD;
    r->at++;
    put(out, "{", 1);
    if (!skip_space(r))
        return MORE;
    bool is_closed = *r->at == '}';
    r->at += is_closed;
    while (!is_closed) {
        Token key, value;
        if ((outcome = read_key(r, &key)) != FINE)
            return outcome;
        if (key.has_escape)
            return ODD;
        put_token(out, &key);
        put(out, ":", 1);
        int link = link_of(&key);
        if (link == COLUMN_COUNT) {
            outcome = copy_value(r, out, 1);
        } else if (event->seen_links & 1u << link || *r->at == '{' || *r->at == '[') {
            outcome = ODD;
        } else {
            event->seen_links |= 1u << link;
            outcome = read_scalar(r, &value);
            int64_t number = 0;
            bool is_null = outcome == FINE && value.type == NULL_TOKEN;
            if (outcome == FINE && !is_null)
                outcome = to_integer(&value, &number);
            if (outcome == FINE) {
                put_token(out, &value);
                /* No link is called 0. */
                set_int(batch, link, !is_null && !(link == CORRELATION && number == 0), number);
            }
        }
        if (outcome != FINE)
            return outcome;
        if ((outcome = read_separator(r, '}', &is_closed)) != FINE)
            return outcome;
        if (!is_closed)
            put(out, ",", 1);
    }
    put(out, "}", 1);
    return FINE;
}

/* Read a member that has no column: it goes to column EXTRA. */
static Outcome read_extra(Reader *r, Batch *batch, Event *event, const Token *key)
{
    Column *out = &batch->columns[EXTRA];
    if (event->extra_count == MAX_EXTRA_MEMBERS)
        return ODD;
    for (int i = 0; i < event->extra_count; i++)
        if (is_key(key, event->extra_keys[i].start,
                   (size_t)(event->extra_keys[i].end - event->extra_keys[i].start)))
            return ODD;
    event->extra_keys[event->extra_count++] = *key;
    /* The text, and its share of what is put in between; see put_members. */
    if (!column_reserve(out, (size_t)(r->end - key->start) + 64))
        return NO_MEMORY;
    put(out, event->extra_count == 1 ? "{" : ",", 1);
    put_token(out, key);
    put(out, ":", 1);
    return copy_value(r, out, 1);
}

/* Put members that have no place in a column into EXTRA too, their values as strings. */
static Outcome put_members(Batch *batch, Event *event, const int *members, int count)
{
    static const char *const names[MEMBERS] = {[M_PID] = "pid", [M_TID] = "tid", [M_ID] = "id",
                                               [M_S] = "s", [M_BP] = "bp"};
    Column *out = &batch->columns[EXTRA];
    for (int i = 0; i < count; i++) {
        Token *token = &event->members[members[i]];
        if (token->type == ABSENT || token->type == NULL_TOKEN)
            continue;
        const char *name = names[members[i]];
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

/* Put a text, its escapes resolved, which only makes it shorter; false where there is no memory. */
static bool put_text(Column *column, const Token *token)
{
    if (!column_reserve(column, (size_t)(token->end - token->start)))
        return false;
    put_string(column, token, true);
    return true;
}

/* Set a process or thread id: a number, or a text that is surely none. */
static Outcome set_thread(Batch *batch, const Token *token, int number_column, int text_column,
                          bool *is_text)
{
    int64_t number = 0;
    bool is_given = token->type != ABSENT && token->type != NULL_TOKEN;
    *is_text = token->type == STRING &&
               (token->end == token->start || (*token->start >= 'a' && *token->start <= 'z') ||
                (*token->start >= 'A' && *token->start <= 'Z'));
    if (is_given && !*is_text && to_integer(token, &number) != FINE)
        return ODD;
    if (*is_text && !put_text(&batch->columns[text_column], token))
        return NO_MEMORY;
    set_text(batch, text_column, *is_text);
    set_int(batch, number_column, is_given && !*is_text, number);
    return FINE;
}

/* Set a column of text from a string or an integer. */
static Outcome set_string(Batch *batch, int column, const Token *token)
{
    bool is_given = token->type != ABSENT && token->type != NULL_TOKEN;
    if (is_given && token->type != STRING && token->type != INTEGER)
        return ODD;
    if (is_given && !put_text(&batch->columns[column], token))
        return NO_MEMORY;
    set_text(batch, column, is_given);
    return FINE;
}

static int kind_of(const Event *event)
{
    const Token *phase = &event->members[M_PH], *name = &event->members[M_NAME];
    if (phase->type != STRING || phase->end - phase->start != 1)
        return KINDS;
    switch (*phase->start) {
    case 'X': case 'B': case 'b': return KIND_EVENT;
    case 'E': case 'e': return KIND_SPAN_END;
    case 's': case 't': case 'f': return KIND_FLOW;
    case 'i': case 'I': case 'R': case 'n':
        /* In another spelling it would be a memory event too, which is then not told here. */
        if (name->has_escape)
            return KINDS;
        return name->type == STRING && IS_KEY(name, "[memory]") ? KIND_MEMORY : KIND_INSTANT;
    case 'C': return KIND_COUNTER;
    case 'M': return KIND_METADATA;
    default: return KINDS;
    }
}

/* Set the columns of an event whose members and arguments have been read. */
static Outcome set_columns(Batch *batch, Event *event, int64_t event_id)
{
    Token *members = event->members;
    int kind = kind_of(event);
    if (kind == KINDS)
        return ODD;
    int64_t ts_ns = 0, dur_ns = 0;
    bool has_ts = members[M_TS].type != ABSENT, has_dur = members[M_DUR].type != ABSENT;
    /* A begin gets its duration from its end, so one of its own is not right. */
    bool is_complete = *members[M_PH].start == 'X';
    if ((!has_ts && kind != KIND_METADATA) || (kind == KIND_EVENT && has_dur != is_complete))
        return ODD;
    if (has_ts && (to_ns(&members[M_TS], &ts_ns) != FINE || ts_ns < MIN_TIME_US * NS_PER_US ||
                   ts_ns > MAX_TIME_US * NS_PER_US))
        return ODD;
    /* What was rounded to a bound may have been beyond it. */
    if (has_dur && (to_ns(&members[M_DUR], &dur_ns) != FINE || *members[M_DUR].start == '-' ||
                    dur_ns >= MAX_DUR_US * NS_PER_US))
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
    if (kind == KIND_EVENT)
        batch->columns[NAME].is_valid[batch->row_count] = true;

    /* What columns of the event's own kind do not show. */
    int64_t number;
    if (is_pid_text || is_tid_text)
        outcome = put_members(batch, event, (const int[]){M_PID, M_TID}, 2);
    else if (kind == KIND_EVENT)
        outcome = put_members(batch, event, (const int[]){M_ID, M_S, M_BP}, 3);
    else if (kind == KIND_FLOW && members[M_ID].type != ABSENT &&
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

/* Read one event into the row behind the last one. */
static Outcome read_event(Reader *r, Batch *batch, int64_t event_id)
{
    Event event;
    Outcome outcome;
    memset(&event.members, 0, sizeof event.members);
    event.extra_count = 0;
    event.has_args = false;
    event.seen_links = 0;
    if (*r->at != '{')
        return ODD;
    if (!batch_reserve_row(batch))
        return NO_MEMORY;
    for (int link = EXTERNAL_ID; link <= FORWARD_THREAD; link++)
        set_int(batch, link, false, 0);
    r->at++;
    if (!skip_space(r))
        return MORE;
    bool is_closed = *r->at == '}';
    r->at += is_closed;
    while (!is_closed) {
        Token key;
        if ((outcome = read_key(r, &key)) != FINE)
            return outcome;
        if (key.has_escape)
            return ODD;
        int member = member_of(&key);
        if (member < MEMBERS) {
            Token *token = &event.members[member];
            if (token->type != ABSENT || *r->at == '{' || *r->at == '[')
                return ODD;
            outcome = read_scalar(r, token);
        } else if (!IS_KEY(&key, "args")) {
            outcome = read_extra(r, batch, &event, &key);
        } else if (event.has_args) {
            outcome = ODD;
        } else {
            event.has_args = true;
            outcome = read_args(r, batch, &event);
        }
        if (outcome != FINE)
            return outcome;
        if ((outcome = read_separator(r, '}', &is_closed)) != FINE)
            return outcome;
    }
    return set_columns(batch, &event, event_id);
}

/* -- a run of events --------------------------------------------------------------------------- */

typedef struct {
    Outcome outcome; /* FINE, ODD or NO_MEMORY */
    size_t used;     /* bytes up to the next event, or behind the bracket that closes the array */
    bool is_ended;   /* that was the bracket */
} Run;

/* Read events up to the end of the array, or the last one that is surely followed by another. */
static Run read_events(const char *text, size_t bytes, int64_t first_event_id, Batch *batch)
{
    Run run = {FINE, 1, false};
    Reader r = {text + 1, text + bytes};
    /* All arguments together are no longer than what they are read from. */
    if (!column_reserve(&batch->columns[ARGS], bytes)) {
        run.outcome = NO_MEMORY;
        return run;
    }
    if (!skip_space(&r))
        return run;
    for (;;) {
        Outcome outcome = read_event(&r, batch, first_event_id + (int64_t)batch->row_count);
        bool is_closed = false;
        if (outcome == FINE)
            outcome = read_separator(&r, ']', &is_closed);
        if (outcome == FINE && !is_closed && *r.at != '{')
            outcome = ODD;
        if (outcome != FINE) {
            if (outcome == MORE)
                batch_undo_row(batch);
            else
                run.outcome = outcome;
            return run;
        }
        batch->row_count++;
        run.used = (size_t)(r.at - text);
        if (is_closed) {
            run.is_ended = true;
            return run;
        }
    }
}

#endif
