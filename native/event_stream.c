#include "event_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arrow_export.h"

typedef struct {
    Layout layout;
    NextArray next;
    bool has_failed;
} StreamData;

static int stream_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *schema)
{
    StreamData *data = stream->private_data;
    return make_schema(&data->layout, schema) ? 0 : ENOMEM;
}

static int stream_get_next(struct ArrowArrayStream *stream, struct ArrowArray *array)
{
    StreamData *data = stream->private_data;
    memset(array, 0, sizeof *array);
    data->has_failed = !data->next(array);
    return data->has_failed ? EIO : 0;
}

static const char *stream_get_last_error(struct ArrowArrayStream *stream)
{
    return ((StreamData *)stream->private_data)->has_failed ? "no next array" : NULL;
}

static void stream_release(struct ArrowArrayStream *stream)
{
    free(stream->private_data);
    stream->release = NULL;
}

struct ArrowArrayStream *new_event_stream(const Layout *layout, NextArray next)
{
    struct ArrowArrayStream *stream = malloc(sizeof *stream);
    StreamData *data = malloc(sizeof *data);
    if (stream == NULL || data == NULL) {
        free(stream);
        free(data);
        return NULL;
    }
    *data = (StreamData){.layout = *layout, .next = next};
    *stream = (struct ArrowArrayStream){
        .get_schema = stream_get_schema,
        .get_next = stream_get_next,
        .get_last_error = stream_get_last_error,
        .release = stream_release,
        .private_data = data,
    };
    return stream;
}
