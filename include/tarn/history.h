// SPDX-License-Identifier: Apache-2.0
/* history.h -- a program's words in the history of a device.
 *
 * A device keeps a history, unless its option history_bytes is TARN_NO_HISTORY (device.h).
 * docs/history.md describes the history, and how tools read it, also when the process has been
 * killed.
 *
 * All texts are UTF-8 of at most 1,000 bytes, and end with a zero byte. A history keeps each text
 * once. Texts take at most half of the room for stacks and texts. A text without room is counted,
 * and read as an empty text.
 *
 * All functions may be called from any thread, while any stream is being captured, and from within
 * callbacks of tarn/pressure.h. */
#ifndef TARN_HISTORY_H
#define TARN_HISTORY_H

#include <stdbool.h>

#include "tarn/device.h"
#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Labels: texts for allocations, such as the name of a layer or of a request. Each allocation gets
 * the label of its thread, on any device, and keeps the label. PyTorch calls this user metadata. A
 * thread has a label of its own, none at first, and up to 256 labels that were pushed. The label
 * pushed last counts, also where it is empty. A thread's labels end with the thread.
 *
 * Allocations of a thread with a label take as long as allocations with stacks, without the frames
 * (tarn_history_stacks). Other threads pay nothing. tarn_malloc_labeled (memory.h) gives a label to
 * its allocation alone. */

/* Changes the label that counts: the one pushed last, or else the thread's own. text: copied; NULL
 * or empty: no label.
 *   INVALID_ARGUMENT  The text has more than 1,000 bytes, or is not UTF-8.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_label_set(const char *text);

/* Pushes a label, for the allocations up to the thread's next pop. text: as above.
 *   INVALID_ARGUMENT  The text has more than 1,000 bytes, or is not UTF-8.
 *   LIMIT             The thread has pushed 256 labels.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_label_push(const char *text);

/* Ends the label pushed last: the one before counts again.
 *   WRONG_STATE  The thread has pushed none that is left. */
TARN_API TARN_MUST_CHECK tarn_status tarn_label_pop(void);

/* Writes the label that counts, ended by a zero byte: as much of it as capacity bytes hold. buffer
 * may be NULL where capacity is 0. *length, which may be NULL: how many bytes the whole label has,
 * without the zero; 0: the thread has no label.
 *   INVALID_ARGUMENT  buffer is NULL and capacity is not 0. */
TARN_API TARN_MUST_CHECK tarn_status tarn_label_get(char *buffer, size_t capacity, size_t *length);

/* Adds an annotation to a live block: a text after the fact. The history's log has each annotation
 * with its time. The table of live blocks has a block's first and its newest, until the block is
 * freed. NULL is allowed, as the address of 0 bytes.
 *   NOT_OURS, INNER_ADDRESS  The address is not a block's first.
 *   DOUBLE_FREE              The block is not live.
 *   INVALID_ARGUMENT         The text is NULL or empty, has more than 1,000 bytes, or is not UTF-8.
 *   NOT_SUPPORTED            The block's device keeps no history.
 *   LIMIT                    The history has no room for another text. */
TARN_API TARN_MUST_CHECK tarn_status tarn_block_annotate(void *address, const char *text);

/* Ranges of the program's time, such as a profiler's: a name, the moments of begin and end, and
 * their threads. A device has them in a log of their own, at most a sixteenth of the history, or
 * four pages. They overwrite each other, and never the blocks' events. PyTorch calls them external
 * annotations. Ranges may overlap, and another thread may end a range. */

/* Begins a range. *range: for its end; 0 where the device keeps no history, and nothing is noted.
 *   INVALID_HANDLE    The device.
 *   INVALID_ARGUMENT  name or range is NULL.
 *                     The name has more than 1,000 bytes, or is not UTF-8. */
TARN_API TARN_MUST_CHECK tarn_status tarn_range_begin(tarn_device *device, const char *name,
                                                      uint64_t *range);

/* Ends a range of the device. A second end is noted, too. range 0: nothing is noted.
 *   INVALID_HANDLE    The device.
 *   INVALID_ARGUMENT  The device has begun no such range. */
TARN_API TARN_MUST_CHECK tarn_status tarn_range_end(tarn_device *device, uint64_t range);

/* A number for the frame of an interpreter, such as Python's: of the code and the line that the
 * calling thread is in; 0: in none. The frame stands in front of the stacks of allocations. Called
 * for each allocation with a stack (tarn_history_stacks), on its thread, without Tarn's locks. */
typedef uint64_t (*tarn_frame_token)(void *user);

/* Writes the name of a number, such as "train.py:12 step", ended by a zero byte: at most capacity
 * bytes with it. Called when the number is seen first, in some thread or in several. The history
 * keeps the name, and readers of the file find it there. Bytes that are no UTF-8 become '?'. Both
 * functions may call Tarn, and must return, and leave in no other way (status.h). */
typedef void (*tarn_frame_name)(uint64_t token, char *name, size_t capacity, void *user);

/* Sets the functions of the device, in the place of those before. token NULL: none from now on.
 * name NULL: names are the numbers. When the call returns, no thread is in the functions before.
 *   INVALID_HANDLE  The device.
 *   WRONG_STATE     The thread is in such a function.
 *   NOT_SUPPORTED   The device keeps no history.
 *   BUSY            Another thread is in this call.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_set_interpreter(tarn_device *device,
                                                                 tarn_frame_token token,
                                                                 tarn_frame_name name, void *user);

/* Kinds of what a history records. */
typedef enum tarn_history_kind {
    /* allocations and frees; the table of live blocks is kept in any case */
    TARN_HISTORY_BLOCKS = 1 << 0,
    /* addresses reserved, memory created, mapped, moved and given back */
    TARN_HISTORY_MEMORY = 1 << 1,
    /* pools, arenas and routes */
    TARN_HISTORY_POOLS = 1 << 2,
    /* captures, graphs, replays, holds and checkpoints */
    TARN_HISTORY_GRAPHS = 1 << 3,
    /* uses on streams, streams retired, fences */
    TARN_HISTORY_STREAMS = 1 << 4,
    /* rungs of the ladder, memory that was lacking, trims */
    TARN_HISTORY_PRESSURE = 1 << 5,
    TARN_HISTORY_SNAPSHOTS = 1 << 6,
    TARN_HISTORY_ANNOTATIONS = 1 << 7,
    TARN_HISTORY_RANGES = 1 << 8,
    /* memory of and for other processes: shares, leases, mappings; processes that are lost */
    TARN_HISTORY_SHARES = 1 << 9,
    TARN_HISTORY_ALL = (1 << 10) - 1,
} tarn_history_kind;

/* The kinds and stacks that a history records. Make one with TARN_HISTORY_SETTINGS_INIT, which
 * records all kinds, without stacks. A device begins with all kinds, and with the stacks of its
 * options. PyTorch's context "never" is NO_STACKS, "state" is stacks for live blocks alone, "alloc"
 * is stacks. Frees have no stacks. */
typedef struct tarn_history_settings {
    /* sizeof(tarn_history_settings), set by the INIT macro */
    size_t size;
    /* Stacks of allocations; which of them have one is up to the device's options. A device that
     * was opened without stacks has less room for them. */
    tarn_history_stacks stacks;
    /* The table of live blocks has their stacks, and the log has none: its events are smaller. */
    bool live_stacks_alone;
    /* kinds that are not recorded: values of tarn_history_kind, added up */
    uint64_t skipped;
} tarn_history_settings;

#define TARN_HISTORY_SETTINGS_INIT TARN_SIZED(tarn_history_settings)

/* Changes what is recorded, and clears nothing. Where allocations and frees are no longer recorded,
 * each pool is locked in turn. Calls under way may still be recorded as before.
 *   INVALID_HANDLE    The device.
 *   INVALID_ARGUMENT  settings is NULL, or its size is wrong (tarn/types.h).
 *                     skipped has other bits than those of kinds.
 *                     stacks is not one of tarn_history_stacks.
 *   NOT_SUPPORTED     The device keeps no history. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_set_history(tarn_device *device,
                                                             const tarn_history_settings *settings);

/* Begins the log and the ranges anew: events up to now are gone, and not counted as lost. Live
 * blocks stay in their table, and so do stacks and texts. Each pool is locked in turn. The new log
 * may have events of other threads from meanwhile.
 *   INVALID_HANDLE  The device.
 *   NOT_SUPPORTED   The device keeps no history. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_clear_history(tarn_device *device);

/* A device's history at one moment. Make one with TARN_HISTORY_INFO_INIT. */
typedef struct tarn_history_info {
    /* sizeof(tarn_history_info), set by the INIT macro */
    size_t size;
    /* false: the device keeps no history, and all other fields are 0 */
    bool is_kept;
    /* of which allocations stacks are taken: of all, or of one in so many bytes */
    tarn_history_stacks stacks;
    /* 1: of all; 0: of none */
    size_t sample_bytes;
    /* of the file; empty: the history is in the process's own memory, and ends with the process */
    char path[304];

    /* Memory, in bytes. */

    /* of the log, of ranges, of stacks and texts, and of the list of loaded files */
    size_t log_bytes;
    size_t range_bytes;
    size_t stack_bytes;
    size_t module_bytes;
    /* of the tables of live blocks: grows with the most blocks that were live */
    size_t table_bytes;

    /* The log is pages of 4 KiB, some 250 events each. */

    uint64_t pages;
    /* all in all, each as often as it was begun */
    uint64_t pages_begun;
    /* of them, those that had earlier events */
    uint64_t pages_overwritten;
    /* events without a page: the log has fewer pages than the program has streams and threads */
    uint64_t events_lost;

    /* stacks and texts, each counted once */
    uint64_t stack_count;
    size_t stack_bytes_used;
    /* times that a stack or a text found no room */
    uint64_t stacks_lost;

    /* what is recorded now: see tarn_history_settings */
    uint64_t skipped;
    bool live_stacks_alone;

    /* ranges that were begun, and pages of ranges that were overwritten */
    uint64_t ranges_begun;
    uint64_t range_pages_overwritten;
} tarn_history_info;

#define TARN_HISTORY_INFO_INIT TARN_SIZED(tarn_history_info)

/* Describes the device's history. Takes no lock of a pool or of the device.
 *   INVALID_HANDLE    The device.
 *   INVALID_ARGUMENT  info is NULL, or its size is wrong (tarn/types.h). */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_history_info(tarn_device *device,
                                                              tarn_history_info *info);

#ifdef __cplusplus
}
#endif
#endif
