/* Takes the description of events from Python objects, and rows. */
#ifndef TRACEKIT_PYTHON_LAYOUT_H
#define TRACEKIT_PYTHON_LAYOUT_H

#include "python_api.h"

#include "layout.h"

/* Fill a layout from what Columns() was given; false with an exception set where it does not fit
 * the code here. `order` becomes the column of each place in a row. */
bool take_layout(PyObject *columns, PyObject *kinds, PyObject *bounds, Layout *layout, int *order);

/* Add a row of whole numbers, texts and None; false with an exception set where it is none. */
bool take_row(PyObject *row, const Layout *layout, const int *order, Batch *batch);

#endif
