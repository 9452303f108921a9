/* Functions that Python calls through ctypes. They need no Python header, so one library works for all
 * versions of Python. tracekit/native.py declares them again. */
#ifndef TRACEKIT_EXPORTED_H
#define TRACEKIT_EXPORTED_H

#define EXPORTED __attribute__((visibility("default")))

/* Increment it here and in tracekit/native.py whenever the interface changes. An older library would
 * return wrong figures. */
#define NATIVE_VERSION 4

/* Return value of a call. */
typedef enum {
    CALL_DONE,
    CALL_BUSY,   /* another thread uses the same object */
    CALL_NO_MEMORY,
    CALL_REFUSED, /* an argument is not valid */
} CallStatus;

#endif
