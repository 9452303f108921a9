/* Fuzzes the library in C under sanitizers: random texts are read as events, random rows are swept.
 *
 *     build/fuzz_native SECONDS SEED
 *
 * `make fuzz` compiles and runs it. A sanitizer, or a text that is read differently by AVX2 and
 * without it, ends the program with the number of the case. The same seed has the same cases. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "arrow_export.h"
#include "description.h"
#include "events.h"
#include "passes/sweep.h"

static uint64_t state, case_number;

static uint64_t chance(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void say_case(int signal)
{
    (void)signal;
    fprintf(stderr, "case %llu\n", (unsigned long long)case_number);
    exit(1);
}

const char *__asan_default_options(void)
{
    return "abort_on_error=1";
}

const char *__ubsan_default_options(void)
{
    return "abort_on_error=1";
}

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    say_case(SIGABRT);
}

/* -- events ------------------------------------------------------------------------------------ */

static const char *const PIECES[] = {
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":7,\"tid\":8,\"ts\":10.25,\"dur\":5,"
    "\"args\":{\"External id\":3,\"Input Dims\":[[2,3],[],[[1]]],\"x\":{\"y\":[{\"z\":{}}]}}},",
    "{\"ph\": \"X\", \"name\": \"void k<int, (A)3>(f*[2], {})\", \"ts\": 12.5, \"dur\": 3, "
    "\"args\": {\"stream\": 7, \"device\": 0, \"correlation\": 0}}\n,",
    "{\"ph\":\"i\",\"name\":\"[memory]\",\"ts\":5,\"args\":{\"Addr\":5,\"Bytes\":-8}}",
    "{\"ph\":\"s\",\"id\":9,\"pid\":\"a\",\"ts\":-1.5e3,\"bp\":\"e\"}, ",
    "\"", "\\", "\\\"", "\\u00e9", "\\ud83d\\ude00", "\\ud800", "{", "}", "[", "]", ",", ":", "\n",
    "    ", "null", "true", "0", "-", "1e999", "99999999999999999999", "0x1F", "\x01", "\xc3\xa9",
    "\xff", "\"ph\":\"X\",", "\"args\":{", "\"name\":\"", "},{", "]]]]", "[[[[[[[[",
};

static Description description;

static void describe(void)
{
    static const char *const columns[][4] = {
        {"event_id", "BIGINT", "reader"},     {"view_name", "ENUM('event')", "reader"},
        {"ph", "VARCHAR", "member", "ph"},    {"pid", "BIGINT", "member", "pid"},
        {"tid", "BIGINT", "member", "tid"},   {"pid_text", "VARCHAR", "reader"},
        {"tid_text", "VARCHAR", "reader"},    {"category", "VARCHAR", "member", "cat"},
        {"name", "VARCHAR", "member", "name"}, {"ts_ns", "BIGINT", "member", "ts"},
        {"dur_ns", "BIGINT", "member", "dur"}, {"correlation", "BIGINT", "argument", "correlation"},
        {"stream", "BIGINT", "argument", "stream"}, {"id", "VARCHAR", "member", "id"},
        {"scope", "VARCHAR", "member", "s"},  {"binding", "VARCHAR", "member", "bp"},
        {"args", "JSON", "member", "args"},   {"extra", "JSON", "reader"},
    };
    const char *why = NULL;
    description_begin(&description);
    for (size_t i = 0; why == NULL && i < sizeof columns / sizeof *columns; i++) {
        const char *const *column = columns[i];
        int64_t none = 0;
        bool has_none = strcmp(column[0], "correlation") == 0;
        why = describe_column(&description, column[0], column[1], column[2], has_none ? &none : NULL);
        if (why == NULL && column[3] != NULL)
            why = describe_key(&description, column[3]);
    }
    static const char *const kinds[][3] = {
        {"event", "XBb"}, {"flow", "stf"},  {"memory", "iI", "[memory]"},
        {"instant", "iI"}, {"metadata", "M"}, {"left_out", ""},
    };
    for (size_t i = 0; why == NULL && i < sizeof kinds / sizeof *kinds; i++)
        why = describe_kind(&description, kinds[i][0], kinds[i][1], kinds[i][2]);
    if (why == NULL)
        why = description_end(&description);
    description.layout.min_time_us = -400000000000000;
    description.layout.max_time_us = 4000000000000000;
    description.layout.max_dur_us = 1000000000000;
    require(why == NULL, why);
}

/* Return a text in a buffer of exactly its size, and the size. */
static char *make_text(size_t *size)
{
    Buffer text = {NULL, 0, 0};
    buffer_add(&text, "[", 1);
    for (uint64_t left = chance(12); left > 0; left--) {
        bool is_event = chance(3) > 0;
        const char *piece = PIECES[is_event ? chance(4) : chance(sizeof PIECES / sizeof *PIECES)];
        for (uint64_t again = chance(20) ? 1 : chance(400); again > 0; again--)
            buffer_add(&text, piece, strlen(piece));
        if (chance(3) == 0) { /* within the existing text */
            char *at = text.data + 1 + chance(text.size);
            size_t room = (size_t)(text.data + text.size - at), bytes = chance(9);
            memset(at, (int)chance(256), bytes < room ? bytes : room);
        }
    }
    if (chance(2))
        buffer_add(&text, "]", 1);
    char *exact = malloc(text.size);
    memcpy(exact, text.data, *size = text.size);
    buffer_free(&text);
    return exact;
}

static uint64_t mixed(uint64_t sum, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ ((const uint8_t *)data)[i]) * 0x100000001b3;
    return sum;
}

/* Read a text in blocks as Python does, and return a checksum of the output. */
static uint64_t read_text(const char *whole, size_t size, size_t first_cut, const char *way)
{
    Batch batch;
    Structure structure = {0};
    uint64_t sum = 0;
    int64_t event_id = 0;
    batch_begin(&batch, &description.layout);
    if (!structure_use(way))
        structure_use("plain");
    size_t begin = 0, end = first_cut;
    for (bool goes_on = true; goes_on;) {
        /* A copy without memory after it. The byte before the next event replaces the bracket. */
        char *text = malloc(end - begin);
        memcpy(text, whole + begin, end - begin);
        size_t at = 1;
        Run run;
        do {
            size_t before = batch.row_count;
            run = read_events(text, end - begin, at, event_id, &description.layout, &batch,
                              &structure);
            require(run.used >= at || run.stop != TEXT_ENDS, "reading went back");
            require(run.used <= end - begin && run.behind <= end - begin, "reading went too far");
            event_id += (int64_t)(batch.row_count - before) + (run.stop == ODD_EVENT);
            at = run.stop == ODD_EVENT ? run.behind : run.used;
        } while (run.stop == ODD_EVENT && !run.is_last);
        free(text);
        sum = mixed(sum, &run.stop, sizeof run.stop);
        goes_on = run.stop == TEXT_ENDS && end < size;
        begin += at - 1;
        end = size;
    }
    for (int i = 0; i < batch.column_count; i++) {
        const Column *column = &batch.columns[i];
        size_t width = width_of(column), rows = batch.row_count;
        sum = mixed(sum, column->is_valid, rows);
        sum = mixed(sum, column->data, width ? width * rows : rows ? (size_t)column->ends[rows] : 0);
    }
    if (batch.row_count > 0) {
        struct ArrowArray array;
        require(batch_export(&batch, &description.layout, &array), "there is no memory");
        array.release(&array);
    }
    batch_clear(&batch);
    structure_free(&structure);
    return sum;
}

static void try_events(void)
{
    size_t size;
    char *text = make_text(&size);
    size_t cut = 1 + chance(size);
    require(read_text(text, size, cut, "plain") == read_text(text, size, cut, "avx2"),
            "AVX2 reads something else");
    free(text);
}

/* -- sweeps ------------------------------------------------------------------------------------ */

typedef struct {
    const char *formats;
    int64_t batches, clock;
} Source;

static const char *const TEXTS[] = {"", "0", "compute", "comm", "memcpy", "gemm"};

static void release_column(struct ArrowArray *array)
{
    for (int64_t i = 0; i < array->n_buffers; i++)
        free((void *)array->buffers[i]);
    free(array->buffers);
    array->release = NULL;
}

static void release_batch(struct ArrowArray *array)
{
    for (int64_t i = 0; i < array->n_children; i++) {
        array->children[i]->release(array->children[i]);
        free(array->children[i]);
    }
    free(array->children);
    free(array->buffers);
    array->release = NULL;
}

static int64_t number(Source *source)
{
    static const int64_t odd[] = {INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX, 1LL << 58};
    switch (chance(40)) {
    case 0: return odd[chance(sizeof odd / sizeof *odd)];
    case 1: return (int64_t)chance(UINT64_MAX);
    case 2: return (int64_t)chance(1 << 22); /* flags of a marker */
    default: return chance(2) ? (int64_t)chance(8) : (source->clock += (int64_t)chance(5));
    }
}

static struct ArrowArray *make_column(Source *source, char format, size_t rows)
{
    bool is_text = format == 'u';
    struct ArrowArray *column = calloc(1, sizeof *column);
    uint8_t *valid = chance(2) ? malloc(rows / 8 + 1) : NULL;
    int64_t *numbers = is_text ? NULL : malloc(rows * sizeof *numbers);
    int32_t *ends = is_text ? malloc((rows + 1) * sizeof *ends) : NULL;
    Buffer texts = {NULL, 0, 0};
    for (size_t i = 0; valid != NULL && i <= rows / 8; i++)
        valid[i] = (uint8_t)(chance(256) | chance(256));
    if (is_text)
        ends[0] = 0;
    for (size_t i = 0; i < rows; i++) {
        if (is_text) {
            const char *text = TEXTS[chance(sizeof TEXTS / sizeof *TEXTS)];
            buffer_add(&texts, text, strlen(text));
            ends[i + 1] = (int32_t)texts.size;
        } else {
            numbers[i] = number(source);
        }
    }
    column->length = (int64_t)rows;
    column->null_count = -1;
    column->n_buffers = is_text ? 3 : 2;
    column->buffers = calloc(3, sizeof *column->buffers);
    column->buffers[0] = valid;
    column->buffers[1] = is_text ? (void *)ends : (void *)numbers;
    column->buffers[2] = texts.data;
    column->release = release_column;
    return column;
}

static int source_schema(struct ArrowArrayStream *stream, struct ArrowSchema *schema);
static int source_next(struct ArrowArrayStream *stream, struct ArrowArray *array)
{
    Source *source = stream->private_data;
    memset(array, 0, sizeof *array);
    if (source->batches-- == 0)
        return 0;
    size_t rows = chance(70), columns = strlen(source->formats);
    array->length = (int64_t)rows;
    array->n_buffers = 1;
    array->buffers = calloc(1, sizeof *array->buffers);
    array->n_children = (int64_t)columns;
    array->children = calloc(columns, sizeof *array->children);
    for (size_t i = 0; i < columns; i++)
        array->children[i] = make_column(source, source->formats[i], rows);
    array->release = release_batch;
    return 0;
}

static const char *source_error(struct ArrowArrayStream *stream)
{
    (void)stream;
    return NULL;
}

static void release_source(struct ArrowArrayStream *stream)
{
    stream->release = NULL;
}

static void release_schema(struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++)
        free(schema->children[i]);
    free(schema->children);
    schema->release = NULL;
}

static int source_schema(struct ArrowArrayStream *stream, struct ArrowSchema *schema)
{
    const Source *source = stream->private_data;
    size_t columns = strlen(source->formats);
    *schema = (struct ArrowSchema){
        .format = "+s",
        .n_children = (int64_t)columns,
        .children = calloc(columns, sizeof *schema->children),
        .release = release_schema,
    };
    for (size_t i = 0; i < columns; i++) {
        schema->children[i] = calloc(1, sizeof **schema->children);
        schema->children[i]->format = source->formats[i] == 'u' ? "u" : "l";
    }
    return 0;
}

static void try_sweep(void)
{
    static const SweepKind *const kinds[] = {
        &OWNED_TIME, &IDLE_GAPS, &SELF_TIME, &CONTEXTS, &REPLAY, &GAINS, &MOMENTS, &PATH,
    };
    const SweepKind *kind = kinds[chance(sizeof kinds / sizeof *kinds)];
    Source own = {kind->input_types, (int64_t)chance(5), 0};
    struct ArrowArrayStream source = {
        source_schema, source_next, source_error, release_source, &own,
    };
    char why[256];
    struct ArrowArrayStream *swept = sweep_stream(kind->name, &source, why, sizeof why);
    require(swept != NULL, "a sweep does not take its own columns");
    struct ArrowSchema schema;
    require(swept->get_schema(swept, &schema) == 0, "a sweep has no schema");
    schema.release(&schema);
    for (struct ArrowArray array; swept->get_next(swept, &array) == 0 && array.release != NULL;)
        array.release(&array);
    swept->release(swept);
    free(swept);
}

int main(int count, char **given)
{
    require(count == 3, "give SECONDS and SEED");
    double seconds = atof(given[1]);
    uint64_t seed = strtoull(given[2], NULL, 10);
    time_t begin = time(NULL);
    signal(SIGABRT, say_case);
    describe();
    for (; difftime(time(NULL), begin) < seconds; case_number++) {
        state = (seed + 1) * 0x9E3779B97F4A7C15 ^ (case_number + 1) * 0xD1B54A32D192ED03;
        for (int i = 0; i < 4; i++)
            chance(2);
        if (case_number % 2)
            try_sweep();
        else
            try_events();
    }
    printf("%llu cases\n", (unsigned long long)case_number);
    return 0;
}
