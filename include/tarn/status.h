// SPDX-License-Identifier: Apache-2.0
/* status.h -- the answers of Tarn's functions.
 *
 * Every function that can fail returns a tarn_status. Results leave through the last arguments. Any
 * status but TARN_OK means that nothing the caller can name has changed: no handle, live block,
 * byte, route or output argument. Only caches, which are free memory kept for later, may differ.
 *
 * DRIVER: a function that lists this status answers DEVICE_MEMORY instead if the driver itself ran
 * out of memory.
 *
 * FORKED: fork() makes a child of a process that used CUDA. In the child every function with a
 * status answers FORKED and takes no lock, until the child calls exec. Other functions do nothing
 * there; functions that return text return the text. Tarn does not see children of _Fork() or
 * clone().
 *
 * Cancellation: no function is a cancellation point. A thread cancelled by pthread_cancel during a
 * call ends at its next cancellation point after the call. A thread with asynchronous cancellation
 * must not call Tarn.
 *
 * Functions of the program that Tarn calls (callbacks, observers, filters) run with cancellation
 * disabled, and must return. A function that enables cancellation enables it until the function's
 * return: the call goes on with cancellation disabled. If an exception, longjmp or the thread's end
 * leaves such a function, the process ends with a sentence on standard error. After a longjmp the
 * process ends at the thread's next call, on any device, or with the thread. Another thread's call
 * that waits for the function says so on standard error after 5 s.
 *
 * Ends beside calls: no object ends while another call uses the object. tarn_pool_destroy,
 * tarn_checkpoint_destroy and the last tarn_device_close then answer BUSY. A released pool ends
 * behind the call. The same holds inside a callback, for the objects of the call around the
 * callback.
 *
 * The hundreds of a code say how to go on:
 *   1xx  The call was wrong: correct the program.
 *   2xx  No room: free something, raise a limit, or do with less.
 *   3xx  Not here: this machine, driver or process cannot do this.
 *   4xx  Later: the same call may succeed when something else has ended.
 *   5xx  Lost: the named object (a capture, a pool, the device) is good for destruction alone. */
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

/* Hot functions are called without the PLT, which saves a miss of the instruction cache per call.
 * */
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

/* The one table of statuses: name, number, sentence. */
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
      "what is referred to has ended: a graph's memory was freed, a lease is over")                \
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
    X(TARN_ERR_NOT_PERMITTED, 306, "the other process, or the system, does not permit it")         \
    X(TARN_ERR_BUSY, 400, "the object is still in use")                                            \
    X(TARN_ERR_DRIVER, 500, "the CUDA driver refused a call that should have succeeded")           \
    X(TARN_ERR_CORRUPT, 501, "an invariant of the library does not hold")                          \
    X(TARN_ERR_CAPTURE_BROKEN, 502, "the capture failed and can only be aborted")                  \
    X(TARN_ERR_POISONED, 503, "the driver refused to give memory back; the device is poisoned")    \
    X(TARN_ERR_DEVICE_LOST, 504, "the device is lost: it has faulted, or the process ends")        \
    X(TARN_ERR_PEER_LOST, 505, "the connection with the other process is over")

typedef enum tarn_status {
#define TARN_STATUS_ENUM(name, number, sentence) name = number,
    TARN_STATUS_TABLE(TARN_STATUS_ENUM)
#undef TARN_STATUS_ENUM
} tarn_status;

/* The name of a status, such as "TARN_ERR_BUSY"; "unknown status" for any other number. A static
 * string. Any thread. */
TARN_API const char *tarn_status_name(tarn_status status);

/* The sentence of a status, from the table. A static string. Any thread. */
TARN_API const char *tarn_status_sentence(tarn_status status);

/* One sentence about the last failed call of this thread: the request, the failed step, the
 * driver's own error name if the driver failed, and a remedy. Never NULL; empty before the first
 * failure. The library owns the text, until the thread's next failing call. A successful call does
 * not change the text. */
TARN_API const char *tarn_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
