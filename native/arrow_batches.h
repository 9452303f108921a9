/* Batches of an Arrow stream that comes in a capsule
 * (https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html). */
#ifndef TRACEKIT_ARROW_BATCHES_H
#define TRACEKIT_ARROW_BATCHES_H

#include "arrow_abi.h"
#include "python_api.h"

/* Return the columns of a batch, which live as long as it; NULL and a TypeError if it is none. */
const struct ArrowArray *batch_array(PyObject *object);
const struct ArrowSchema *batch_schema(PyObject *object);

/* Make the type of streams: Batches(capsule, error), an iterator of batches. `error` is what is
 * raised with the message of a stream that fails. */
PyObject *batches_type(void);

#endif
