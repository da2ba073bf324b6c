// SPDX-License-Identifier: Apache-2.0
/* audit.h -- what a captured graph touches: looked through, and guarded.
 *
 * A captured graph is a list of addresses that nobody checks. When an address has been freed, or
 * belongs to another block by now, a replay reads garbage and says nothing. An audit reads the
 * graph back from the driver, and finds every address in it. It says what memory each address is,
 * and names the mistakes:
 *
 *   tarn_graph_audit(graph, NULL, &audit);
 *   if (audit->mistake_count > 0)
 *       tarn_audit_report(audit, TARN_REPORT_TEXT, text, sizeof text, NULL);
 *   tarn_audit_destroy(audit);
 *
 * A guard protects the graph from later frees. It concerns blocks that the graph refers to and does
 * not hold itself. Either they are kept until the graph is gone, or the graph is not replayed any
 * more once one of them was freed.
 *
 * An audit sees:
 * - the addresses that copies, sets, batches and the driver's memory nodes name;
 * - each word of eight bytes of each kernel parameter, structs included, that is an address of
 *   Tarn's, or of memory that the driver knows.
 *
 * An audit does not see:
 * - addresses that a kernel finds in memory or computes;
 * - __device__ variables;
 * - memory that a host function touches beyond its argument.
 *
 * A number that happens to be an address counts as an address. A 32-bit member of a struct,
 * followed by padding with half of an older address, may look like one. Words of structs whose
 * lower half is less than 1 MiB are therefore doubtful, and no mistakes.
 *
 * All functions may be called from any thread, with any context current or none, while any stream
 * is being captured. They never disturb a capture. CUDA demands that a single thread at a time uses
 * a driver's graph: no other call may use or change the graph meanwhile. docs/graphs.md explains
 * each class, with its remedy. */
#ifndef TARN_AUDIT_H
#define TARN_AUDIT_H

#include "tarn/pool.h"
#include "tarn/stats.h"
#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The table of classes: class, number, name, whether it is a mistake, meaning. The own pool is the
 * graph's pool, or the pool in the options of an audit. */
#define TARN_POINTER_TABLE(X)                                                                      \
    X(TARN_POINTER_LIVE, 0, "live", false, "in a live block of the graph's own pool")              \
    X(TARN_POINTER_REUSED, 1, "reused", false,                                                     \
      "in memory of its own pool that was freed and that the graph holds: reused by design")       \
    X(TARN_POINTER_EXTERNAL, 2, "external", false,                                                 \
      "in a live block of another pool: its user keeps it as long as the graph is replayed")       \
    X(TARN_POINTER_NODE, 3, "node", false, "in what an allocation node of the graph gives")        \
    X(TARN_POINTER_FOREIGN, 4, "foreign", false, "in memory of a device that is not Tarn's")       \
    X(TARN_POINTER_PINNED, 5, "pinned", false, "in page-locked memory of the host")                \
    X(TARN_POINTER_ARGUMENT, 6, "argument", false,                                                 \
      "the argument of a host function: whatever it is, it is not the device's")                   \
    X(TARN_POINTER_DOUBTFUL, 7, "doubtful", false,                                                 \
      "perhaps no address, or one of another block: it cannot be told")                            \
    X(TARN_POINTER_KEPT, 8, "kept", false, "in a freed block that the graph's guard keeps")        \
    X(TARN_POINTER_FREED, 9, "freed", true,                                                        \
      "in memory of its own pool that was freed and that nothing keeps for the graph")             \
    X(TARN_POINTER_FREED_EXTERNAL, 10, "freed external", true, "in freed memory of another pool")  \
    X(TARN_POINTER_USED_AGAIN, 11, "used again", true,                                             \
      "in a block that was allocated behind the capture, where another one was")                   \
    X(TARN_POINTER_UNORDERED, 12, "unordered", true,                                               \
      "in a live block of another pool, whose graphs write there without any order with this one") \
    X(TARN_POINTER_BEYOND, 13, "beyond", true, "in a live block, and bytes beyond its end")        \
    X(TARN_POINTER_UNMAPPED, 14, "unmapped", true, "one of Tarn's addresses, without memory")      \
    X(TARN_POINTER_PAGEABLE, 15, "pageable", true,                                                 \
      "in host memory that is not page-locked, or not any more: it must outlive the graph")        \
    X(TARN_POINTER_UNKNOWN, 16, "unknown", true, "in no memory that anyone knows")                 \
    X(TARN_POINTER_OVERWRITES, 17, "overwrites", false,                                            \
      "in a live block of a later graph, in memory that this graph writes, too")                   \
    X(TARN_POINTER_IMPORTED, 18, "imported", false,                                                \
      "in a block of another process, whose share is open here")                                   \
    X(TARN_POINTER_LET_GO, 19, "let go", true,                                                     \
      "in memory of another process, whose share is closed, or was never opened here")

typedef enum tarn_pointer_class {
#define TARN_POINTER_ENUM(name, number, text, mistake, what) name = number,
    TARN_POINTER_TABLE(TARN_POINTER_ENUM)
#undef TARN_POINTER_ENUM
} tarn_pointer_class;

#define TARN_POINTER_CLASSES 20

/* The name of a class, such as "used again", and its meaning; "no class" for any other number.
 * Static strings. */
TARN_API const char *tarn_pointer_class_name(tarn_pointer_class pointer_class);
TARN_API const char *tarn_pointer_class_sentence(tarn_pointer_class pointer_class);

/* Where in a node a pointer was found. */
typedef enum tarn_pointer_place {
    /* In a kernel. index: of the parameter. offset: in the parameter. */
    TARN_PLACE_PARAMETER = 0,
    /* In a kernel whose parameters are known as a packed buffer alone. offset: in the buffer. */
    TARN_PLACE_BUFFER = 1,
    /* In a copy or a set. */
    TARN_PLACE_DESTINATION = 2,
    /* In a copy. */
    TARN_PLACE_SOURCE = 3,
    /* In a host function. */
    TARN_PLACE_ARGUMENT = 4,
    /* In a batch. index: of the operation. */
    TARN_PLACE_OPERATION = 5,
    /* The memory that an allocation node gives. */
    TARN_PLACE_ALLOCATED = 6,
    /* The memory that a free node frees. */
    TARN_PLACE_FREED = 7,
    /* In no node: the word at `at` in the pool's bytes holds the pointer. */
    TARN_PLACE_MEMORY = 8,
} tarn_pointer_place;

#define TARN_NO_NODE UINT32_MAX

typedef struct tarn_pointer {
    tarn_pointer_class pointer_class;
    tarn_pointer_place place;
    /* Index in the audit's nodes; TARN_NO_NODE: found in memory. */
    uint32_t node;
    /* Index of the parameter or operation. */
    uint32_t index;
    /* In bytes, in the parameter or buffer. */
    uint32_t offset;
    /* FOREIGN, PINNED: ordinal of the memory's device; else -1. */
    int device;
    /* The pointer itself. */
    uint64_t address;
    /* Bytes that the node touches from the address on; 0: not known. */
    uint64_t bytes;
    /* Place MEMORY: the address of the word that holds the pointer; else 0. */
    uint64_t at;

    /* The live block that contains the address. IMPORTED: address, bytes and sequence number of the
     * other process's block, as it is here. FOREIGN, PINNED: the beginning and the length of the
     * driver's memory. Otherwise all fields but the pool are 0. That pool owns the memory, and
     * is to be compared alone; NULL: no pool owns it. */
    tarn_block block;
    /* The name of this pool at the time of the audit; NULL: no pool. */
    const char *pool;
} tarn_pointer;

/* Whether all addresses that a node names were found. */
typedef enum tarn_inspection {
    TARN_INSPECTED = 0,
    /* A kernel: the driver does not tell the sizes of its parameters. */
    TARN_INSPECTION_NO_LAYOUT = 1,
    /* A conditional node whose bodies neither the driver nor the options give. */
    TARN_INSPECTION_NO_BODIES = 2,
    /* A node of a type that cannot be read, such as an external semaphore's. */
    TARN_INSPECTION_OPAQUE = 3,
} tarn_inspection;

typedef struct tarn_audit_node {
    tarn_driver_node handle;
    /* The name of a kernel's function; NULL: no kernel, or the driver does not tell the name. */
    const char *kernel;
    /* CUgraphNodeType, cudaGraphNodeType. */
    int type;
    tarn_inspection inspection;
    /* Index of the node whose child graph or body contains this node. TARN_NO_NODE: none, or a body
     * whose node the options do not name. */
    uint32_t parent;
    /* The place among the nodes of its graph, in the order of their creation. */
    uint32_t ordinal;
} tarn_audit_node;

/* The result of an audit, until tarn_audit_destroy. Handles of nodes are good as long as the graph
 * has the nodes. */
typedef struct tarn_audit {
    size_t node_count;
    /* The nodes of the graph, then those of its child graphs and bodies. */
    const tarn_audit_node *nodes;
    size_t kernel_count;
    /* Nodes whose inspection is not TARN_INSPECTED. */
    size_t uninspected_count;

    /* Parameters in the form of a tensor map: 128 bytes at a multiple of 64. On an H200 the first
     * word of a tensor map is the tensor's address, and is named like any other. This is not
     * documented: do not rely on it. */
    size_t tensor_map_count;

    /* All pointers, mistakes included. */
    size_t pointer_count;
    /* The number of each class. */
    size_t counts[TARN_POINTER_CLASSES];
    size_t mistake_count;
    /* In order of node, then of the place in the node; pointers in memory come last. */
    const tarn_pointer *mistakes;
    /* All pointers, in the same order, if list_all is set; else NULL. */
    const tarn_pointer *pointers;
    /* Bytes that the scan looked through. */
    size_t scanned_bytes;

    /* All pointers of the class OVERWRITES, mistakes here or not, in the same order. */
    size_t overwrite_count;
    const tarn_pointer *overwrites;
} tarn_audit;

/* A graph that is the body of a conditional node. The driver does not give the body, but gave it to
 * the maker of the node (phGraph_out). Hand in all bodies of a node, for the driver does not tell
 * their number either. A body whose node lies in another body comes behind that body. */
typedef struct tarn_audit_body {
    /* A conditional node of the graph; NULL: not known. */
    tarn_driver_node node;
    /* The body. */
    tarn_driver_graph graph;
} tarn_audit_body;

/* Make one with TARN_AUDIT_OPTIONS_INIT. */
typedef struct tarn_audit_options {
    /* sizeof(tarn_audit_options), set by the INIT macro. */
    size_t size;

    /* The own pool. tarn_graph_audit: NULL, or the graph's pool. tarn_driver_graph_audit: NULL for
     * the pools in which the graph was captured, if any; no pointer is then unordered. */
    tarn_pool *pool;

    /* tarn_device_mark at the end of the capture: blocks allocated since are used again. 0 for a
     * tarn_graph: the mark of its capture, adoption or update. 0 for another graph: the mark of the
     * first allocation behind the capture's end, outside captures or in the next one, if the
     * capture has allocated from Tarn. Otherwise the mark is not known, and a freed input whose
     * address was used again is no mistake. TARN_NO_MARK: for a graph that was changed by hand
     * since, and names newer blocks. */
    uint64_t mark;

    /* Bodies of conditional nodes. */
    const tarn_audit_body *bodies;
    size_t body_count;
    /* Classes that are no mistakes here: 1u << class for each. Their pointers are counted, and not
     * listed. */
    uint32_t accepted;
    /* List every pointer, not only mistakes. */
    bool list_all;

    /* Look through the bytes of the own pool's live blocks, too, for pointers of Tarn's: words of
     * eight bytes at multiples of eight. The bytes are copied to the host on scan_stream, which the
     * call waits for. Blocks allocated or freed meanwhile may be missed. The copies need
     * page-locked memory. Where it is short, free callbacks (pressure.h) are called, before the
     * graph is read. */
    bool scan;
    tarn_stream scan_stream;

    /* Classes that are mistakes here, besides the classes that always are. None may be accepted,
     * too. */
    uint32_t refused;
} tarn_audit_options;

#define TARN_NO_MARK UINT64_MAX

#define TARN_AUDIT_OPTIONS_INIT TARN_SIZED(tarn_audit_options)

/* Looks through a graph. The graph's executable cannot be read. After a cuGraphExecUpdate of your
 * own, audit the graph that you updated with, by tarn_driver_graph_audit. options: NULL for the
 * values of INIT. *audit: owned by the caller; end it with tarn_audit_destroy.
 *   INVALID_HANDLE    The graph, or the pool of the options.
 *   INVALID_ARGUMENT  audit is NULL.
 *                     An option is out of range, or their size is wrong (tarn/types.h).
 *                     The pool is not the graph's.
 *                     The graph is of another device.
 *   LIMIT             The graph has 2^32 nodes or more.
 *                     With scan: page-locked memory is at its limit.
 *   WRONG_STATE       scan_stream is being captured.
 *                     scan_stream is the legacy default stream, while a blocking stream is being
 *                     captured.
 *   ADDRESS_SPACE     With scan: no range of addresses is left for page-locked memory.
 *   NOT_SUPPORTED     With scan: the driver neither maps nor registers memory of the host.
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_audit(tarn_graph *graph,
                                                      const tarn_audit_options *options,
                                                      tarn_audit **audit);

/* The same for any graph of the driver's, from any framework: a live CUgraph or cudaGraph_t. A
 * graph that is being captured is looked through on the capturing thread, as far as the capture has
 * come.
 *
 * The driver gives handles again. A destroyed graph's memory counts as this graph's in one case:
 * the old graph had this handle, an executable of it lives, Tarn served its capture, and served
 * nothing in this graph's. If the program captured into one graph twice, Tarn knows the second
 * section alone.
 *   INVALID_HANDLE    The device, or the pool of the options.
 *   INVALID_ARGUMENT  driver_graph or audit is NULL.
 *                     An option is out of range, or their size is wrong (tarn/types.h).
 *                     The pool or the graph is of another device. The kernels of a graph tell its
 *                     device, and nothing else does.
 *   LIMIT, WRONG_STATE, ADDRESS_SPACE, NOT_SUPPORTED  As tarn_graph_audit.
 *   DRIVER            The driver refuses the graph, as it may refuse a destroyed graph.
 *   HOST_MEMORY, DEVICE_LOST, POISONED. */
TARN_API TARN_MUST_CHECK tarn_status tarn_driver_graph_audit(tarn_device *device,
                                                             tarn_driver_graph driver_graph,
                                                             const tarn_audit_options *options,
                                                             tarn_audit **audit);
TARN_API void tarn_audit_destroy(tarn_audit *audit); /* NULL is allowed. */

/* Gives a number between past and future allocations. Blocks allocated on the device from now on
 * have this sequence number or a higher one, all others a lower one. Locks each pool of the device
 * once.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  mark is NULL. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_mark(tarn_device *device, uint64_t *mark);

/* Guards the graph: looks through it, with these options (NULL: the values of INIT), and watches
 * blocks from now on. Watched is each live block of its device that the graph refers to and does
 * not hold. guard decides on the frees of these blocks; IGNORE ends the guard. Memory that is not
 * Tarn's, and blocks of other devices, are not watched. A free of a watched block locks its pool.
 * Watched are blocks of other processes, too (share.h). A block is freed when its share is closed,
 * and lost when its producer is gone: then a graph is stale with REFUSE.
 * No other thread may use the graph during the call.
 *
 * The graph becomes stale:
 * - with REFUSE, when a watched block is freed, whatever is allocated there later;
 * - with either kind, if the guard finds memory already freed, used again or unmapped, and not
 *   accepted;
 * - with KEEP, when a restore brings another block back over a kept block.
 *
 * The graph becomes fresh again:
 * - by a guard that finds nothing missing, or by IGNORE;
 * - by tarn_graph_update, which guards the new section likewise, without these options.
 *
 * A kept block counts as pending. It goes when all graphs that keep it are destroyed, updated, or
 * not guarded any more. Its memory is used again after a wait for the device, by a trim for
 * example.
 *
 * A restore may write or free a watched block, or bring another block back over it. It then takes a
 * turn among the replays of the graph's pool. It comes behind replays launched before, and later
 * replays come behind its copies (tarn_checkpoint_restore).
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  The guard is unknown.
 *                     As tarn_graph_audit.
 *   WRONG_STATE       The graph's guard keeps freed blocks, and another guard than IGNORE would not
 *                     keep them any more.
 *   LIMIT, HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER  The guard is as before. */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_guard(tarn_graph *graph, tarn_guard guard,
                                                      const tarn_audit_options *options);

/* Asks whether a replay would be refused. Any thread, but not while another thread guards, updates
 * or destroys the graph.
 *   INVALID_HANDLE
 *   STALE  The sentence names the node, the place of the pointer in the node, and the block. */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_check(tarn_graph *graph);

/* Writes the result of an audit, as tarn_pool_report writes. Text: the mistakes, each with node,
 * kernel, parameter, offset, address and block; the nodes that were not inspected; the counts.
 * JSON: an object with the same, and with all pointers if they were listed.
 *   INVALID_ARGUMENT  audit is NULL.
 *                     buffer is NULL, and capacity is not 0.
 *                     The format is unknown. */
TARN_API TARN_MUST_CHECK tarn_status tarn_audit_report(const tarn_audit *audit,
                                                       tarn_report_format format, char *buffer,
                                                       size_t capacity, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
