/* How columns leave: through the Arrow C data interface, which DuckDB takes from a PyCapsule without
 * any other library. */
#ifndef TRACEKIT_ARROW_EXPORT_H
#define TRACEKIT_ARROW_EXPORT_H

#include <stdbool.h>

#include "arrow_abi.h"
#include "columns.h"
#include "layout.h"

/* Copy the columns into an Arrow array; false where there is no memory. What waits in a queue is so
 * no larger than it must be, while the columns have room for more than what came. */
bool batch_export(Batch *batch, const Layout *layout, struct ArrowArray *array);

/* Describe the arrays; false where there is no memory. */
bool make_schema(const Layout *layout, struct ArrowSchema *schema);

#endif
