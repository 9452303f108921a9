/* Frees what the Python capsules hold in which Arrow arrays and streams are handed on. */
#include <stddef.h>
#include <stdlib.h>

#include "arrow_abi.h"
#include "exported.h"

/* PyCapsule_GetPointer: which Python has loaded this library is known only when it runs. */
typedef void *(*GetPointer)(void *capsule, const char *name);

static GetPointer get_pointer;

/* Names of capsules, which have to be there as long as the capsules are. */
EXPORTED const char array_name[] = "arrow_array", stream_name[] = "arrow_array_stream";

/* Call this once, before any capsule is made. */
EXPORTED void use_capsules(GetPointer function)
{
    get_pointer = function;
}

/* The destructors of capsules of these names. */
EXPORTED void destroy_array(void *capsule)
{
    struct ArrowArray *array = get_pointer(capsule, array_name);
    if (array == NULL)
        return;
    if (array->release != NULL)
        array->release(array);
    free(array);
}

EXPORTED void destroy_stream(void *capsule)
{
    struct ArrowArrayStream *stream = get_pointer(capsule, stream_name);
    if (stream == NULL)
        return;
    if (stream->release != NULL)
        stream->release(stream);
    free(stream);
}

/* Move an array out of its capsule; CALL_REFUSED where that was done before. */
EXPORTED int move_array(struct ArrowArray *from, struct ArrowArray *to)
{
    if (from->release == NULL)
        return CALL_REFUSED;
    *to = *from;
    from->release = NULL;
    return CALL_DONE;
}
