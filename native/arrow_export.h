/* Exports columns through the Arrow C data interface. DuckDB reads the arrays from a PyCapsule without any
 * other library. */
#ifndef TRACEKIT_ARROW_EXPORT_H
#define TRACEKIT_ARROW_EXPORT_H

#include <stdbool.h>

#include "arrow_abi.h"
#include "columns.h"
#include "layout.h"

/* Copy the rows of a batch into `array`, which the caller releases. The copy has no spare capacity, because
 * many arrays may wait in a queue. Return false if memory runs out. */
bool batch_export(Batch *batch, const Layout *layout, struct ArrowArray *array);

/* Write the Arrow schema of such arrays. Return false if memory runs out. */
bool make_schema(const Layout *layout, struct ArrowSchema *schema);

#endif
