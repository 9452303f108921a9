/* Exports columns through the Arrow C data interface. DuckDB reads it from a PyCapsule without another
 * library. */
#ifndef TRACEKIT_ARROW_EXPORT_H
#define TRACEKIT_ARROW_EXPORT_H

#include <stdbool.h>

#include "arrow_abi.h"
#include "columns.h"
#include "layout.h"

/* Copy the rows of a batch into `array`, which the caller releases. The copy is as small as possible,
 * because arrays wait in a queue. Return false if memory runs out. */
bool batch_export(Batch *batch, const Layout *layout, struct ArrowArray *array);

/* Write the Arrow schema of such arrays. Return false if memory runs out. */
bool make_schema(const Layout *layout, struct ArrowSchema *schema);

#endif
