/* What Python calls through ctypes: plain C, so that one library serves all versions of Python.
 * tracekit/native.py declares these functions once more. */
#ifndef TRACEKIT_EXPORTED_H
#define TRACEKIT_EXPORTED_H

#define EXPORTED __attribute__((visibility("default")))

/* Raise it, here and in tracekit/native.py, with every change of what the two exchange: a library that
 * is older than the Python code would give wrong figures. */
#define NATIVE_VERSION 1

/* What a call returns. */
typedef enum {
    CALL_DONE,
    CALL_BUSY,   /* another thread works on the same object */
    CALL_NO_MEMORY,
    CALL_REFUSED, /* an argument is not what it must be */
} CallStatus;

#endif
