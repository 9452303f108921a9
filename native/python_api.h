/* Python's stable interface, of version 3.11. */
#ifndef TRACEKIT_PYTHON_API_H
#define TRACEKIT_PYTHON_API_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#endif
