/* Destructors of the Python capsules that own Arrow arrays and streams. */
#include <stddef.h>
#include <stdlib.h>

#include "arrow_abi.h"
#include "exported.h"

/* PyCapsule_GetPointer of the Python that loaded the library. */
typedef void *(*GetPointer)(void *capsule, const char *name);

static GetPointer get_pointer;

/* Names of capsules. They must outlive the capsules. */
EXPORTED const char array_name[] = "arrow_array", stream_name[] = "arrow_array_stream";

/* Set PyCapsule_GetPointer. Call it once, before creating capsules. */
EXPORTED void use_capsules(GetPointer function)
{
    get_pointer = function;
}

/* Destructors of capsules: release and free the array or stream. */
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

/* Move an array out of its capsule. Return CALL_REFUSED if it was moved before. */
EXPORTED int move_array(struct ArrowArray *from, struct ArrowArray *to)
{
    if (from->release == NULL)
        return CALL_REFUSED;
    *to = *from;
    from->release = NULL;
    return CALL_DONE;
}
