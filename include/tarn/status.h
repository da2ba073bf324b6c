// SPDX-License-Identifier: Apache-2.0
/* status.h -- what a Tarn call answers.
 *
 * Every function that can fail returns a tarn_status; results leave through the last arguments.
 * Any status but TARN_OK means that nothing the caller can name has changed: no handle, live block,
 * byte, route or output argument. Only caches, free memory kept for later, may differ.
 *
 * Where a function lists DRIVER, it answers DEVICE_MEMORY instead when the driver's own answer was
 * that it is out of memory.
 *
 * In a child of fork() of a process that used CUDA every function with a status answers FORKED, and takes no lock, until
 * the child calls exec; every other function does nothing there, and those that return text return it. It is known
 * of a child made by fork(), not of one made by _Fork() or clone().
 *
 * No function is a cancellation point: a thread that is cancelled (pthread_cancel) during a call ends behind it, at its
 * next cancellation point. A thread that can be cancelled asynchronously may not call Tarn. Functions of the program's that
 * Tarn calls, callbacks, observers and filters, run with cancellation disabled, and return: one that is left by an
 * exception, by longjmp, or with its thread, ends the process with a sentence on standard error; after a longjmp at
 * the thread's next call, or its end.
 *
 * An object that a call is under way with, on any thread, is not ended meanwhile: tarn_pool_destroy,
 * tarn_checkpoint_destroy and the last tarn_device_close answer BUSY, and a pool that is released goes when the call has
 * ended. So it is within a callback, for what the call around it uses.
 *
 * The hundreds of a code say what to do next:
 *   1xx  the call was wrong: mend the program
 *   2xx  no room: free something, raise a limit, or do with less
 *   3xx  not here: this machine, driver or process cannot do it
 *   4xx  later: the same call may succeed when something else has ended
 *   5xx  lost: the object named (a capture, a pool, the device) is good for destruction alone */
#ifndef TARN_STATUS_H
#define TARN_STATUS_H

#if defined(__GNUC__)
#define TARN_API __attribute__((visibility("default")))
#define TARN_MUST_CHECK __attribute__((warn_unused_result))
#else
#define TARN_API
#define TARN_MUST_CHECK
#endif

/* Drops the status of a call on purpose, without a warning of any compiler. */
#define TARN_IGNORE(call) ((void)!(call))

/* What is called for every block and every replay is called through its address, not by way of the procedure linkage
 * table: an entry there would be one more line of code to fetch when the driver's work has just replaced them all. */
#ifdef __has_attribute
#if __has_attribute(noplt)
#define TARN_API_HOT TARN_API __attribute__((noplt))
#endif
#endif
#ifndef TARN_API_HOT
#define TARN_API_HOT TARN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Name, number, sentence. The one table of statuses. */
#define TARN_STATUS_TABLE(X)                                                                       \
    X(TARN_OK, 0, "success")                                                                       \
    X(TARN_ERR_INVALID_ARGUMENT, 100, "an argument is out of its range")                           \
    X(TARN_ERR_INVALID_HANDLE, 101, "a handle is null, of another kind, or already destroyed")     \
    X(TARN_ERR_WRONG_STATE, 102, "the call does not fit the state of its object")                  \
    X(TARN_ERR_NOT_OURS, 103, "the address was not handed out by Tarn")                            \
    X(TARN_ERR_INNER_ADDRESS, 104, "the address lies inside a block, not at its start")            \
    X(TARN_ERR_DOUBLE_FREE, 105, "the block at this address is not live: it was freed before")     \
    X(TARN_ERR_UNROUTED, 106, "an allocation on a capturing stream has no route to a pool")        \
    X(TARN_ERR_WRONG_THREAD, 107, "only the thread that began it may end it")                      \
    X(TARN_ERR_STALE, 108,                                                                         \
      "the graph refers to memory that was freed: it is not replayed any more")                    \
    X(TARN_ERR_DEVICE_MEMORY, 200, "the device has no memory left for the request")                \
    X(TARN_ERR_HOST_MEMORY, 201, "the host has no memory left for the request")                    \
    X(TARN_ERR_ADDRESS_SPACE, 202, "no range of device addresses is left for the request")         \
    X(TARN_ERR_LIMIT, 203, "the request exceeds a limit that was set")                             \
    X(TARN_ERR_NO_DRIVER, 300, "no CUDA driver could be loaded")                                   \
    X(TARN_ERR_NO_DEVICE, 301, "the driver has no such device")                                    \
    X(TARN_ERR_DRIVER_TOO_OLD, 302, "the CUDA driver lacks a function that Tarn needs")            \
    X(TARN_ERR_NOT_SUPPORTED, 303, "the device, driver or library cannot do this")                 \
    X(TARN_ERR_FORKED, 304, "the process is a fork of one that used CUDA")                         \
    X(TARN_ERR_CANNOT_UPDATE, 305, "the executable graph cannot take the other graph's form")      \
    X(TARN_ERR_BUSY, 400, "the object is still in use")                                            \
    X(TARN_ERR_DRIVER, 500, "the CUDA driver refused a call that should have succeeded")           \
    X(TARN_ERR_CORRUPT, 501, "an invariant of the library does not hold")                          \
    X(TARN_ERR_CAPTURE_BROKEN, 502, "the capture failed and can only be aborted")                  \
    X(TARN_ERR_POISONED, 503, "the driver refused to give memory back; the device is poisoned")    \
    X(TARN_ERR_DEVICE_LOST, 504, "the device is lost: it has faulted, or the process ends")

typedef enum tarn_status {
#define TARN_STATUS_ENUM(name, number, sentence) name = number,
    TARN_STATUS_TABLE(TARN_STATUS_ENUM)
#undef TARN_STATUS_ENUM
} tarn_status;

/* The name of a status, such as "TARN_ERR_BUSY"; "unknown status" for any other number.
 * A static string. Any thread. */
TARN_API const char *tarn_status_name(tarn_status status);

/* Its sentence, from the table above. A static string. Any thread. */
TARN_API const char *tarn_status_sentence(tarn_status status);

/* One sentence about the last call on this thread that did not return TARN_OK: what was asked, what
 * failed, the driver's own error name where it was the driver, and what to do. Never NULL; empty
 * before the first failure. Valid until the next failing call on this thread; the library owns it.
 * After a call that succeeded its text means nothing. */
TARN_API const char *tarn_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
